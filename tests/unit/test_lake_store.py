"""The store on this machine: that it syncs, what it syncs, and in which order."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from oracles.lake_script import HISTORY, make, open_lane
from oracles.memory_disk import MemoryDisk

from stitch.lake import store as store_module
from stitch.lake.layout import LakeInfo, ensure_lake
from stitch.lake.store import LocalStore, Move, UncertainError


def test_a_commit_really_syncs_files_and_folders_in_the_order_of_the_protocol(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a real disk, by the calls of the system: a sync that is left out shows here."""
    done: list[tuple[str, str]] = []
    fsync, link, rename = os.fsync, os.link, Path.rename

    def name_of(path: str | Path) -> str:
        return Path(path).relative_to(tmp_path).as_posix()

    def synced(descriptor: int) -> None:
        done.append(("sync", name_of(Path(f"/proc/self/fd/{descriptor}").readlink())))
        fsync(descriptor)

    def linked(source: Path, target: Path) -> None:
        done.append(("link", name_of(target)))
        link(source, target)

    def renamed(self: Path, target: Path) -> Path:
        done.append(("rename", name_of(target)))
        return rename(self, target)

    lane = open_lane(LocalStore.at(tmp_path))
    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "link", linked)
    monkeypatch.setattr(Path, "rename", renamed)
    record = make(lane, HISTORY[0])

    def place(what: str, name: str) -> int:
        return max(place for place, step in enumerate(done) if step == (what, name))

    commit = place("link", "control/commits/lane=0/000000000001.json")
    stage = record.publish[0].stage.rpartition("/")[0]
    draft = place("sync", f"{stage}/drafts/000000000001.json-0")
    assert len(record.publish) == 5
    for item in record.publish:
        assert place("sync", item.stage) < done.index(("sync", stage)) < draft < commit
        folder = item.final.rpartition("/")[0]
        synced_commit = place("sync", "control/commits/lane=0")
        assert commit < synced_commit < place("rename", item.final) < place("sync", folder)
        assert place("sync", folder) < place("sync", stage)
        assert ("sync", folder.partition("/")[0]) in done[
            : place("rename", item.final)
        ] or folder == "dead_letters"


def test_each_folder_is_synced_once(tmp_path: Path) -> None:
    disk = MemoryDisk()
    store = LocalStore(disk)
    moves = [Move(f"stage/{n}", f"flows/window={n // 3}/{n}") for n in range(30)]
    for move in moves:
        store.put(move.stage, b"x")
    store.persist([move.stage for move in moves])
    disk.log.clear()
    store.publish(moves)
    syncs = [step for step in disk.log if step.startswith("sync_folder")]
    assert len(syncs) == len(set(syncs)) == 10 + 3  # windows; the root, `flows` and the stage
    assert sum(step.startswith("make_folder") for step in disk.log) == 11


def test_few_folders_are_remembered_and_one_that_was_forgotten_is_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(store_module, "MAX_KNOWN_FOLDERS", 8)
    disk = MemoryDisk()
    store = LocalStore(disk)
    for n in range(40):
        store.put(f"stage/{n}/a", b"x")
        store.persist([f"stage/{n}/a"])
        store.publish([Move(f"stage/{n}/a", f"flows/window={n}/a")])
        store.remove(f"stage/{n}")
        assert max(len(store._made), len(store._settled)) <= 8
    store.put("stage/0/a", b"x")
    store.publish([Move("stage/0/a", "flows/window=0/b")])
    disk.lose_power()
    assert store.names("flows/window=0") == ["a", "b"]
    assert len(store.names("flows")) == 40


@pytest.mark.parametrize(("operation", "error"), [("create", OSError), ("link", UncertainError)])
def test_whether_a_file_may_be_there_after_a_failure_is_told(operation: str, error: type[OSError]) -> None:
    disk = MemoryDisk(error=lambda: OSError(5, "Input/output error"))
    store = LocalStore(disk)
    store.put_if_absent("a", b"1", "stage")
    disk.crash_at = disk.steps + 1 + [step.split()[0] for step in disk.log[-4:]].index(operation)
    with pytest.raises(error) as raised:
        store.put_if_absent("b", b"1", "stage")
    assert isinstance(raised.value, UncertainError) == (error is UncertainError)
    with pytest.raises(FileExistsError):
        store.put_if_absent("a", b"2", "stage")
    assert store.read("a").to_pybytes() == b"1"


def test_names_behind_a_name() -> None:
    store = LocalStore(MemoryDisk())
    for name in ("f/a", "f/b", "f/c"):
        store.put(name, b"123")
    assert store.names("f", after="a") == ["b", "c"]
    assert store.read_end("f/a", 2).to_pybytes() == b"23"
    assert store.read_end("f/a", 9).to_pybytes() == b"123"


def test_processes_that_make_a_lake_at_once_all_have_it(tmp_path: Path) -> None:
    """Each has a draft of its own, and who comes second takes the lake that is there."""
    with ThreadPoolExecutor(8) as pool:
        for round_ in range(40):
            start = Barrier(8)

            def begin(lake: Path = tmp_path / str(round_), start: Barrier = start) -> LakeInfo:
                lake.mkdir(exist_ok=True)
                store = LocalStore.at(lake)
                start.wait()
                return ensure_lake(store, None, 300 * 10**9, "test")

            begun = [pool.submit(begin) for _ in range(8)]
            assert {one.result().window_length_ns for one in begun} == {300 * 10**9}
