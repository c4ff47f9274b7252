"""Opening lakes: what is refused, what readers are shown, what fsck finds."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from oracles.lake_script import HISTORY, WINDOW_NS, Acknowledged, Import, make, open_lane, run, stage
from oracles.memory_disk import CrashError, MemoryDisk
from oracles.object_store import ObjectStore

from schemas.commits import CheckpointRef, CommitBody, Counters, PartitionRange, Standing
from schemas.errors import ConfigError, LakeError
from schemas.windows import Window
from stitch.lake import chain, layout
from stitch.lake import lane as lane_module
from stitch.lake.chain import Chained, CommitTakenError, read_chain, read_record, read_tail
from stitch.lake.fsck import check
from stitch.lake.lane import Lane
from stitch.lake.layout import ensure_lake, read_info
from stitch.lake.manifest import open_manifest
from stitch.lake.store import LocalStore, Store
from stitch.lake.sums import SUMS, sums_name, write_sums
from stitch.lake.upkeep.hidden import UPKEEP_LANE


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    store = LocalStore.at(tmp_path)
    run(store, Acknowledged())
    return store


def test_the_manifest_lists_windows_and_files(store: LocalStore, tmp_path: Path) -> None:
    manifest = open_manifest(store)
    windows = manifest.windows()
    assert [(w.window.start_ns // WINDOW_NS, w.flows, w.files, w.sealed) for w in windows] == [
        (0, 3, 4, True),
        (1, 1, 2, True),
        (2, 1, 2, True),
    ]
    assert sum(w.size for w in windows) == sum(
        path.stat().st_size for table in ("flows", "structures") for path in tmp_path.glob(f"{table}/*/*")
    )
    assert manifest.pending == 0
    first, absent = Window(0, WINDOW_NS), Window(7 * WINDOW_NS, WINDOW_NS)
    found = manifest.by_window([first, absent])
    assert [entry.rows for entry in found[first] if entry.table == "flows"] == [2, 1]
    assert {entry.table for entry in found[first]} == {"flows", "structures"}
    assert found[absent] == []
    assert [entry.rows for entry in manifest.files("flows")] == [2, 1, 1, 1]
    assert [entry.rows for entry in manifest.files("dead_letters")] == [1]
    on_disk = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.glob("flows/*/*"))
    assert [entry.name for entry in manifest.files("flows")] == on_disk


def test_windows_of_other_commits_differ_whatever_else_is_the_same(store: LocalStore) -> None:
    """The number of the upkeep lane is large: floats, which count sums elsewhere, do not hold both."""
    manifest = open_manifest(store)
    listing, found = manifest.listing, []
    for lane, seq in ((1, 5), (1, 6), (2, 5), (UPKEEP_LANE, 5), (UPKEEP_LANE, 6)):
        for name, value in (("lane", lane), ("seq", seq)):
            at = listing.schema.get_field_index(name)
            column = pa.array([value] * listing.num_rows, listing.schema.field(at).type)
            listing = listing.set_column(at, listing.schema.field(at), column)
        found.append(replace(manifest, listing=listing).windows())
    assert len({windows[0] for windows in found}) == 5
    assert len({replace(windows[0], commits=0) for windows in found}) == 1


def test_a_commit_counts_once_all_its_files_are_visible() -> None:
    disk = MemoryDisk()
    store = LocalStore(disk)
    run(store, Acknowledged(), HISTORY[:1])
    seen = open_manifest(store).listing
    lane = open_lane(store)
    renames = 0
    real = disk.rename

    def rename(source: str, target: str) -> None:
        nonlocal renames
        renames += 1
        if renames == 2:
            raise CrashError
        real(source, target)

    disk.rename = rename  # type: ignore[method-assign]
    with pytest.raises(CrashError):
        make(lane, HISTORY[1])
    disk.rename = real  # type: ignore[method-assign]
    manifest = open_manifest(store)
    assert manifest.listing.equals(seen)
    assert manifest.pending == 1
    open_lane(store)  # finishes it
    assert open_manifest(store).pending == 0
    assert open_manifest(store).listing.num_rows > seen.num_rows


def test_a_file_of_the_last_commit_that_is_lost_is_not_taken_for_one_to_come(
    store: LocalStore, tmp_path: Path
) -> None:
    (tmp_path / read_record(store, 0, 2).record.publish[0].final).unlink()
    with pytest.raises(LakeError, match=r"last commit is missing\. Run `flowdiff fsck L`"):
        open_manifest(store, "L")


def test_a_file_of_another_size_is_not_given_to_readers(store: LocalStore, tmp_path: Path) -> None:
    manifest = open_manifest(store, "L")
    file = manifest.files("flows")[0]
    with (tmp_path / file.name).open("ab") as stream:
        stream.write(b"x")
    with pytest.raises(LakeError, match=rf"'L/{file.name}' cannot be read\. Run `flowdiff fsck L`"):
        manifest.files("flows")
    assert manifest.files("structures")


def test_why_a_file_cannot_be_read_is_told(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(self: LocalStore, name: str) -> int:
        raise PermissionError(13, "Permission denied", name)

    manifest = open_manifest(store, "L")
    monkeypatch.setattr(LocalStore, "size", refuses)
    with pytest.raises(LakeError, match=r"'L/flows/.* cannot be read: permission denied\."):
        manifest.files("flows")


def test_files_near_some_windows_are_found_without_looking_at_others(tmp_path: Path) -> None:
    store = LocalStore.at(tmp_path)
    minutes = [0, 5, 10, 60, 100]
    run(store, Acknowledged(), (Import("all", {f"r{minute}": minute for minute in minutes}),))
    manifest = open_manifest(store)

    def near(*minutes: int, reach_ns: int = 1) -> list[int]:
        starts = np.array([minute * 60 * 10**9 for minute in minutes])
        files = manifest.files_near(starts, reach_ns)
        return [file.window.start_ns // (60 * 10**9) for file in files if file.window]

    assert near(5) == [0, 5, 10]
    assert near(60) == [60]
    assert near(20, reach_ns=6 * 60 * 10**9) == [10]
    assert near(0, 100) == [0, 5, 100]
    assert near(200) == near() == []
    ends = [
        end if start != 600 * 10**9 or table != "flows" else 66 * 60 * 10**9
        for table, start, end in zip(
            *(manifest.listing[name].to_pylist() for name in ("table", "window_ns", "last_ns")), strict=True
        )
    ]
    place = manifest.listing.schema.get_field_index("last_ns")
    last = pa.array(ends, pa.int64())
    manifest = replace(manifest, listing=manifest.listing.set_column(place, "last_ns", last))
    assert near(60) == [10, 60]
    assert near(70) == []


def test_a_missing_lake_and_a_foreign_folder_are_refused(tmp_path: Path) -> None:
    disk = LocalStore.at(tmp_path)
    with pytest.raises(LakeError, match="no lake at '/some/where'"):
        open_manifest(disk, "/some/where")
    (tmp_path / "flows").mkdir()
    with pytest.raises(LakeError, match="yet the folder holds 'flows'"):
        ensure_lake(disk, None, WINDOW_NS, "test")


def test_another_layout_or_window_length_is_refused(store: LocalStore, tmp_path: Path) -> None:
    lake = store
    with pytest.raises(LakeError, match="windows of 300 s, not 60 s"):
        ensure_lake(lake, 60 * 10**9, WINDOW_NS, "test")
    assert ensure_lake(lake, None, 60 * 10**9, "test").window_length_ns == WINDOW_NS
    path = tmp_path / "flowdiff.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "layout_version": 99}))
    with pytest.raises(LakeError, match="layout version 99"):
        read_info(lake)
    path.write_text("{")
    with pytest.raises(LakeError, match="not what flowdiff writes"):
        read_info(lake)


@pytest.mark.parametrize("harm", ["remove", "edit", "reorder", "rehash"])
def test_a_broken_chain_is_refused(store: LocalStore, tmp_path: Path, harm: str) -> None:
    folder = tmp_path / "control/commits/lane=0"
    first, second = sorted(folder.iterdir())
    if harm == "remove":
        first.unlink()
    elif harm == "edit":
        first.write_text(first.read_text().replace("monday", "sunday"))
    elif harm == "rehash":  # a record that is whole in itself
        body = first.read_bytes()[len(b'{"sha256": "') + 64 + len(b'", "record": ') : -2]
        body = body.replace(b"monday", b"sunday")
        told = hashlib.sha256(body).hexdigest().encode()
        first.write_bytes(b'{"sha256": "' + told + b'", "record": ' + body + b"}\n")
        assert read_record(store, 0, 1).record.inputs[0].name == "sunday"
    else:
        content = first.read_bytes()
        first.write_bytes(second.read_bytes())
        second.write_bytes(content)
    with pytest.raises(LakeError, match="commit chain is broken"):
        open_manifest(store)
    assert [finding.invariant for finding in check(store)] == ["I6"]


def test_a_commit_that_got_lost_stops_the_next_import_and_not_its_data(
    store: LocalStore, tmp_path: Path
) -> None:
    (tmp_path / "control/commits/lane=0/000000000002.json").unlink()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.parquet")}
    with pytest.raises(LakeError, match=r"-000000000002-00000\.parquet' belongs to a commit that the chain"):
        open_lane(store)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.parquet")} == before
    assert {finding.invariant for finding in check(store)} == {"I2"}


def test_the_whole_chain_or_the_lake_file_lost_is_not_a_new_lake(store: LocalStore, tmp_path: Path) -> None:
    (tmp_path / "flowdiff.json").rename(tmp_path / "elsewhere")
    with pytest.raises(LakeError, match=r"no flowdiff\.json, yet the folder holds 'dead_letters'"):
        open_lane(store)
    (tmp_path / "elsewhere").rename(tmp_path / "flowdiff.json")
    shutil.rmtree(tmp_path / "control")
    with pytest.raises(LakeError, match="belongs to a commit that the chain does not have"):
        open_lane(LocalStore.at(tmp_path))


def test_a_lake_file_that_disagrees_with_the_commits_is_refused(store: LocalStore, tmp_path: Path) -> None:
    path = tmp_path / "flowdiff.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "window_length_ns": 60 * 10**9}))
    info = read_info(store)
    assert info is not None
    with pytest.raises(LakeError, match=r"flowdiff\.json gives a window length of 60 s, .* lane 0 300 s"):
        Lane(store, info, owner="test", created_by="test")
    with pytest.raises(LakeError, match=r"flowdiff\.json gives a window length of 60 s, .* lane 0 300 s"):
        open_manifest(store)
    assert "layout" in {finding.invariant for finding in check(store)}


def test_a_target_with_other_content_is_neither_overwritten_nor_taken_for_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore.at(tmp_path)
    run(store, Acknowledged(), HISTORY[:1])
    lane = open_lane(store)
    target = tmp_path / "flows/window=19700101T0010Z/0-000000000002-00000.parquet"
    put = store.put_if_absent

    def put_beside_it(name: str, data: bytes, stage: str) -> None:
        put(name, data, stage)
        target.parent.mkdir()
        target.write_bytes(b"not ours")

    monkeypatch.setattr(store, "put_if_absent", put_beside_it)
    with pytest.raises(LakeError, match="is there already, with other content than was committed"):
        make(lane, HISTORY[1])
    assert target.read_bytes() == b"not ours"
    with pytest.raises(LakeError, match="with other content"):
        open_lane(store)


def test_a_lake_of_another_layout_is_refused(tmp_path: Path) -> None:
    (tmp_path / "flowdiff.json").write_text('{"layout_version": 1, "window_length_ns": 1, "created_by": "x"}')
    with pytest.raises(LakeError, match=r"The lake 'L' has layout version 1; this flowdiff reads \d+\."):
        open_manifest(LocalStore.at(tmp_path), "L")


STEPS = tuple(Import(f"step-{n}", {f"r{n}": n}) for n in range(7))


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain, "CHECKPOINT_EVERY", 2)


@pytest.mark.usefixtures("often")
def test_a_checkpoint_spares_readers_the_past(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore.at(tmp_path)
    run(store, Acknowledged(), STEPS)
    assert [link.record.checkpoint is not None for link in read_chain(store, 0)] == [
        False, False, True, False, True, False, True,
    ]  # fmt: skip
    with_checkpoint = open_manifest(store)
    assert [link.record.seq for link in read_tail(store, 0).records] == [7]
    shutil.rmtree(tmp_path / "control/checkpoints")
    assert [f.invariant for f in check(store)] == ["I6"] * 2
    without = open_manifest(store)
    assert [link.record.seq for link in read_tail(store, 0).records] == [1, 2, 3, 4, 5, 6, 7]
    assert without.listing.equals(with_checkpoint.listing)
    assert open_lane(store).known_inputs() == {step.file.sha256: step.file for step in STEPS}


@pytest.mark.usefixtures("often")
def test_names_and_hashes_are_read_of_the_files_that_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A year has 300,000 files: who compares a day asks for the rest of a few of them."""
    monkeypatch.setattr(chain, "_ROW_GROUP", 4)
    store = LocalStore.at(tmp_path)
    run(store, Acknowledged(), STEPS)
    expected = chain.files_table(link.record for link in read_chain(store, 0))
    listed = open_manifest(store).listed
    assert [type(part) for part in listed.parts] == [pa.Buffer, pa.Table]
    assert "name" not in listed.table.schema.names
    assert listed.whole(listed.table).equals(expected)
    rng = random.Random(3)
    for _ in range(20):
        rows = rng.sample(range(expected.num_rows), rng.randrange(expected.num_rows))
        some = pa.array(sorted(rows), pa.int64())
        assert listed.whole(listed.table.take(some)).equals(expected.take(some))


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("part", ["files", "inputs"])
def test_a_damaged_checkpoint_is_made_do_without(tmp_path: Path, part: str) -> None:
    store = LocalStore.at(tmp_path)
    run(store, Acknowledged(), STEPS)
    expected = open_manifest(store).listing
    *_, last = sorted(tmp_path.glob(f"control/checkpoints/lane=0/*-{part}-*"))
    data = bytearray(last.read_bytes())
    data[len(data) // 2] ^= 1
    last.write_bytes(data)
    assert open_manifest(store).listing.equals(expected)
    assert set(open_lane(store).known_inputs()) == {step.file.sha256 for step in STEPS}


@pytest.mark.usefixtures("often")
def test_few_checkpoints_are_kept(tmp_path: Path) -> None:
    store = LocalStore.at(tmp_path)
    run(store, Acknowledged(), tuple(Import(f"s{n}", {f"r{n}": n}) for n in range(15)))
    assert len(store.names("control/checkpoints/lane=0")) == 2 * chain.KEPT
    assert check(store) == []


@pytest.mark.usefixtures("often")
def test_what_a_writer_remembers_of_its_files_is_what_it_wrote(tmp_path: Path) -> None:
    store = LocalStore.at(tmp_path)
    run(store, Acknowledged(), STEPS[:1])
    lane = open_lane(store)
    for step in STEPS[1:]:
        make(lane, step)
    remembered = lane._tail.published
    assert remembered == read_tail(store, 0).published


def test_a_checkpoint_is_read_without_what_else_a_live_process_never_loads(tmp_path: Path) -> None:
    """It reads its own for the first time after 128 commits: 3 MB more would look like a leak."""
    store = LocalStore.at(tmp_path)
    run(store, Acknowledged(), STEPS[:1])
    code = """
import sys
from pathlib import Path
from oracles.lake_script import make, open_lane, Import
from stitch.lake import chain
from stitch.lake.store import LocalStore
chain.CHECKPOINT_EVERY = 1
lane = open_lane(LocalStore.at(Path(sys.argv[1])))
for number in range(3):
    make(lane, Import(f"later-{number}", {f"later-{number}": number}))
assert lane._tail.checkpoint.through == 3, lane._tail.checkpoint
assert lane.known_inputs()
assert "pyarrow.dataset" not in sys.modules
"""
    subprocess.run(
        [sys.executable, "-c", code, tmp_path],
        check=True,
        env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
    )


def test_a_checkpoint_is_made_sooner_where_records_are_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A live lane's record names every segment it needs, 25 KB of 120: a reader would parse 64 of them."""
    store = LocalStore.at(tmp_path)
    run(store, Acknowledged(), STEPS[:1])
    one = store.size("control/commits/lane=0/000000000001.json")
    assert one is not None
    monkeypatch.setattr(chain, "BEHIND_BYTES", 2 * (chain.RECORD_BYTES + one))
    run(store, Acknowledged(), STEPS)
    made = [link.record.seq for link in read_chain(store, 0) if link.record.checkpoint is not None]
    assert made == [3, 5, 7]
    assert len(read_tail(store, 0).records) == 1
    assert check(store) == []


def test_records_behind_a_large_checkpoint_may_be_longer(tmp_path: Path) -> None:
    store = LocalStore.at(tmp_path)
    run(store, Acknowledged(), STEPS)
    tail = read_tail(store, 0)
    behind = chain.BEHIND_BYTES // len(tail.records) - chain.RECORD_BYTES
    long = [replace(link, size=behind + 1) for link in tail.records]
    assert chain.is_due(store, replace(tail, records=(*long,)))
    n_bytes = 2 * chain.BEHIND_SHARE * chain.BEHIND_BYTES
    published = {"files": b"", "inputs": b""}
    for part in published:
        tables = published | {part: bytes(n_bytes)}
        store.put(f"x/{part}", tables["inputs"])
        checkpoint = CheckpointRef(
            through=1, files="-", files_sha256="0" * 64, inputs=f"x/{part}", inputs_sha256="0" * 64
        )
        behind_it = replace(
            tail, records=(*long,), checkpoint=checkpoint, published=pa.py_buffer(tables["files"])
        )
        assert not chain.is_due(store, behind_it), part


@pytest.mark.parametrize("probed", [1, 2, 3, 64])
def test_the_last_record_is_found_without_listing_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, probed: int
) -> None:
    monkeypatch.setattr(chain, "_PROBED", probed)
    store = LocalStore.at(tmp_path)
    run(store, Acknowledged(), STEPS)
    monkeypatch.setattr(store, "names", None)
    assert [chain.last_number(store, 0, above) for above in range(1, 8)] == [7] * 7


@pytest.mark.usefixtures("often")
def test_a_record_that_is_missing_among_others_is_noticed(tmp_path: Path) -> None:
    store = LocalStore.at(tmp_path)
    run(store, Acknowledged(), STEPS)
    (tmp_path / f"control/commits/lane=0/{5:012d}.json").unlink()
    with pytest.raises(LakeError, match=r"000000000006\.json': number 5 is missing"):
        chain.last_number(store, 0, above=4)


def test_what_is_committed_while_the_last_record_is_looked_for_is_no_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore.at(tmp_path)
    run(store, Acknowledged(), STEPS[:2])
    lane, more = open_lane(store), iter(STEPS[2:])
    size = store.size

    def sizes(names: list[str]) -> list[int | None]:
        found = []
        for name in names:
            found.append(size(name))
            if step := next(more, None):
                monkeypatch.undo()
                make(lane, step)
                monkeypatch.setattr(store, "sizes", sizes)
        return found

    monkeypatch.setattr(store, "sizes", sizes)
    assert chain.last_number(store, 0, above=1) >= 2


def test_opening_a_lane_looks_into_the_last_windows_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A year has 100,000 folders of windows; `flowdiff fsck` looks into all."""
    store = LocalStore.at(tmp_path)
    step_min = WINDOW_NS // 60_000_000_000
    run(store, Acknowledged(), tuple(Import(f"s{n}", {f"r{n}": n * step_min}) for n in range(6)))
    monkeypatch.setattr(layout, "LOOKED_AT", 2)
    asked: list[str] = []
    names = store.names
    monkeypatch.setattr(store, "names", lambda folder, after="": asked.append(folder) or names(folder, after))
    open_lane(store)
    windows = names("flows")
    assert len(windows) == 6
    assert [folder for folder in asked if folder.startswith("flows/")] == [f"flows/{w}" for w in windows[-2:]]
    (tmp_path / f"control/commits/lane=0/{6:012d}.json").unlink()
    with pytest.raises(LakeError, match="belongs to a commit that the chain does not have"):
        open_lane(store)


def test_as_many_windows_are_looked_into_for_a_stretch_as_are_promised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore.at(tmp_path)
    step_min = WINDOW_NS // 60_000_000_000
    run(store, Acknowledged(), tuple(Import(f"s{n}", {f"r{n}": n * step_min}) for n in range(6)))
    manifest, starts = open_manifest(store), open_manifest(store).starts_ns()
    end = int(starts[-1]) + WINDOW_NS
    windows = [f"flows/{name}" for name in store.names("flows")]
    for looked_at in range(1, 8):
        monkeypatch.setattr(layout, "LOOKED_AT", looked_at)
        assert manifest._last_folders(int(starts[0]), end)[-6:] == windows[-looked_at:]


def test_a_commit_lost_in_an_old_window_is_noticed_before_its_number_is_given_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "LOOKED_AT", 1)
    store = LocalStore.at(tmp_path)
    run(store, Acknowledged(), (Import("new", {"new": 60}), Import("old", {"old": 0})))
    (tmp_path / f"control/commits/lane=0/{2:012d}.json").unlink()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.parquet")}
    lane = open_lane(store)
    with pytest.raises(LakeError, match=r"-000000000002-00000\.parquet' belongs to a commit that the chain"):
        make(lane, Import("other", {"other": 0}))
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.parquet")} == before
    assert [link.record.seq for link in read_chain(store, 0)] == [1]


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("lost", [5, 6, 7])
def test_a_commit_lost_behind_a_checkpoint_is_noticed(tmp_path: Path, lost: int) -> None:
    store = LocalStore.at(tmp_path)
    run(store, Acknowledged(), STEPS)
    (tmp_path / f"control/commits/lane=0/{lost:012d}.json").unlink()
    with pytest.raises(LakeError):
        open_lane(store)


def test_windows_are_sealed_once_every_live_lane_has_published_them(tmp_path: Path) -> None:
    store = LocalStore.at(tmp_path)
    run(store, Acknowledged(), HISTORY)
    info = read_info(store)
    assert info is not None

    def at(lane: Lane, end: int, sealed_to_ns: int | None) -> None:
        start = 0 if end == 5 else 5
        positions = (PartitionRange(topic="spans", partition=lane.lane, start=start, end=end),)
        standing = Standing(positions=positions, sealed_to_ns=sealed_to_ns)
        with lane.stage() as staging:
            lane.commit(staging, CommitBody(kind="live", standing=standing))

    def sealed() -> list[bool]:
        return [entry.sealed for entry in open_manifest(store).windows()]

    one, two = (Lane(store, info, owner="test", created_by="test", lane=number) for number in (1, 2))
    at(one, 5, 2 * WINDOW_NS)
    assert sealed() == [True, True, False]
    at(two, 5, None)
    assert sealed() == [False, False, False]
    at(two, 9, WINDOW_NS)
    assert sealed() == [True, False, False]
    assert check(store) == []
    at(one, 7, 9 * WINDOW_NS)
    assert sealed() == [True, False, False]
    at(two, 9, 9 * WINDOW_NS)  # takes offsets 5 to 9 a second time
    assert [f.invariant for f in check(store)] == ["I6"]
    assert sealed() == [True, True, True]


def test_a_takeover_leaves_a_live_lane_where_it_was(tmp_path: Path) -> None:
    store = LocalStore.at(tmp_path)
    lane = open_lane(store)
    positions = (PartitionRange(topic="spans", partition=0, start=3, end=5),)
    with lane.stage() as staging:
        lane.commit(staging, CommitBody(kind="live", standing=Standing(positions=positions, sealed_to_ns=7)))
    (tmp_path / "stage/lane=0/000000000002").mkdir(parents=True)  # of a writer that died
    assert open_lane(store).seq == 3
    takeover = read_record(store, 0, 2).record
    assert takeover.kind == "takeover"
    assert [(p.start, p.end) for p in takeover.standing.positions] == [(5, 5)]
    assert takeover.standing.sealed_to_ns == 7
    assert check(store) == []


def test_a_commit_that_fails_leaves_nothing_on_the_stage(tmp_path: Path) -> None:
    store = LocalStore.at(tmp_path)
    lane = open_lane(store)

    def fails() -> None:
        with lane.stage() as staging:
            stage(staging, HISTORY[0])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert list((tmp_path / "stage").rglob("*.parquet")) == []
    make(lane, HISTORY[0])
    assert [link.record.kind for link in read_chain(store, 0)] == ["import"]


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("on_disk", [True, False])
@pytest.mark.parametrize("before", [0, 2])
def test_a_writer_that_gives_up_leaves_the_files_of_another_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int, *, on_disk: bool
) -> None:
    """Both want the same number, with a checkpoint (`before` 2) or without."""
    store: Store = LocalStore.at(tmp_path) if on_disk else ObjectStore()
    run(store, Acknowledged(), STEPS[:before])
    first, second = open_lane(store, "first"), open_lane(store, "second")
    put_record = lane_module.put_record

    def fails() -> None:
        with second.stage() as staging:
            stage(staging, STEPS[before])
            raise ZeroDivisionError

    def gives_up(*given: Any) -> Chained:
        monkeypatch.setattr(lane_module, "put_record", put_record)
        with pytest.raises(ZeroDivisionError):
            fails()
        return put_record(*given)

    monkeypatch.setattr(lane_module, "put_record", gives_up)
    make(first, STEPS[before])
    with pytest.raises(CommitTakenError):
        make(second, STEPS[before + 1])
    assert check(store) == []
    assert open_lane(store).seq == before + 2
    assert [link.record.kind for link in read_chain(store, 0)] == ["import"] * (before + 1)
    assert store.names("stage/lane=0") == []


class RepeatsPuts(ObjectStore):
    """A client that repeats a put by itself, as the answer to the first was lost."""

    def put_if_absent(self, name: str, data: bytes, stage: str) -> None:
        super().put_if_absent(name, data, stage)
        if name.startswith("control/commits"):
            super().put_if_absent(name, data, stage)


def test_a_commit_whose_answer_was_lost_is_known_for_ours() -> None:
    store = RepeatsPuts()
    lane = open_lane(store)
    make(lane, HISTORY[0])
    assert lane.seq == 2
    assert check(store) == []


def test_a_record_that_is_missing_is_told(store: LocalStore) -> None:
    with pytest.raises(LakeError, match=r"000000000009\.json': it is missing"):
        read_record(store, 0, 9)


def test_fsck_finds_every_kind_of_harm(store: LocalStore, tmp_path: Path) -> None:
    assert check(store) == []
    flows = sorted(tmp_path.glob("flows/*/*.parquet"))
    stray = flows[0].with_name("stray.parquet")
    stray.write_bytes(flows[0].read_bytes())
    assert [f.invariant for f in check(store)] == ["I2"]
    stray.unlink()
    content = flows[0].read_bytes()
    flows[0].write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert [f.invariant for f in check(store)] == ["I2"]
    flows[0].unlink()
    assert [f.invariant for f in check(store)] == ["I3"]


def test_fsck_finds_broken_reports(store: LocalStore, tmp_path: Path) -> None:
    report = tmp_path / "reports" / "abc"
    report.mkdir(parents=True)
    files = {"findings.parquet": b"rows", "report.json": b"{}", "report.html": b"<html>"}
    for name, data in {**files, sums_name(write_sums(files)): write_sums(files)}.items():
        (report / name).write_bytes(data)
    (tmp_path / "reports/.staged-x").mkdir()
    (tmp_path / "reports/unfinished").mkdir()
    (tmp_path / "reports/unfinished/findings.parquet").write_bytes(b"ro")
    assert check(store) == []
    (report / "findings.parquet").unlink()
    (report / "report.json").write_text('{"a":')
    (report / "other").write_bytes(b"")
    (tmp_path / "reports/old").mkdir()
    (tmp_path / "reports/old/report.json").write_text("{}")
    (tmp_path / "reports/old" / SUMS).write_bytes(write_sums({"report.json": b"{}", "report.html": b""}))
    assert [f.detail for f in check(store)] == [
        "'reports/abc/findings.parquet' cannot be read: no such file or directory",
        "'reports/abc/other' is not what was written: repeat the comparison",
        "'reports/abc/report.json' is not what was written: repeat the comparison",
        "'reports/old/report.html' cannot be read: no such file or directory",
    ]


def test_a_report_that_is_replaced_while_fsck_reads_it_is_no_finding(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = tmp_path / "reports" / "abc"
    report.mkdir(parents=True)
    for name in ("report.json", "report.html"):
        (report / name).write_bytes(b"{}")
    read = LocalStore.read

    def replaced(self: LocalStore, name: str) -> pa.Buffer:
        if name.endswith("report.html"):
            (report / "report.json").unlink()
        return read(self, name)

    assert len(check(store)) == 2
    monkeypatch.setattr(LocalStore, "read", replaced)
    assert check(store) == []


def test_fsck_finds_a_request_that_is_there_twice(tmp_path: Path) -> None:
    store = LocalStore.at(tmp_path)
    for name in ("one", "two"):
        make(open_lane(store), replace(HISTORY[0], name=name))
    assert [f.invariant for f in check(store)] == ["I5"] * 3


def test_a_ledger_that_does_not_balance_is_not_committed(tmp_path: Path) -> None:
    store = LocalStore.at(tmp_path)
    lane = open_lane(store)
    body = CommitBody(kind="import", counters=Counters(events_read=4, events_published=3))
    with lane.stage() as staging:
        stage(staging, HISTORY[0])
        with pytest.raises(LakeError, match="does not balance"):
            lane.commit(staging, body)
    assert open_manifest(store).listing.num_rows == 0


@pytest.mark.parametrize("length_ns", [30 * 10**9, 90 * 10**9, 7 * 60 * 10**9, 2 * 86_400 * 10**9, 0, -1])
def test_windows_that_have_no_name_of_their_own_are_refused(tmp_path: Path, length_ns: int) -> None:
    """Two windows of one minute would share a folder, whoever sets the length: Python, too."""
    with pytest.raises(ConfigError, match="does not divide a day into whole minutes"):
        ensure_lake(LocalStore.at(tmp_path), length_ns, WINDOW_NS, "test")
    assert not list(tmp_path.iterdir())
