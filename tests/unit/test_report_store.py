"""A report in a lake is whole and durable, or not there; what is broken is replaced."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from oracles.memory_disk import CrashError
from oracles.object_store import ObjectStore
from oracles.shop import shop_outcome

from analyze.report.gate import Outcome
from analyze.report.page import render_html
from analyze.report.store import put_report, write_report
from schemas.errors import LakeError

FILES = (
    "SHA256SUMS",
    "categories.parquet",
    "edges.parquet",
    "mutations.parquet",
    "precursors.parquet",
    "report.html",
    "report.json",
    "requests.parquet",
)


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    return shop_outcome()


@pytest.fixture(scope="module")
def page(outcome: Outcome) -> str:
    return render_html(outcome.report, outcome.views)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_only_the_owner_reads_it(tmp_path: Path, outcome: Outcome, page: str):
    previous = os.umask(0)
    try:
        folder = write_report(tmp_path, outcome, page)
    finally:
        os.umask(previous)
    assert {path.stat().st_mode & 0o777 for path in (folder, folder.parent)} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def zeroed(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def halved(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def removed(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("damage", [emptied, zeroed, halved, removed])
@pytest.mark.parametrize("name", FILES)
def test_a_broken_file_is_replaced(
    tmp_path: Path, outcome: Outcome, page: str, name: str, damage: Callable[[Path], None]
):
    folder = write_report(tmp_path, outcome, page)
    whole = contents(folder)
    assert tuple(sorted(whole)) == FILES
    damage(folder / name)
    assert write_report(tmp_path, outcome, page) == folder
    assert contents(folder) == whole
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_after_a_power_cut_all_files_may_be_empty(tmp_path: Path, outcome: Outcome, page: str):
    """What an earlier flowdiff left behind: the folder was renamed before its files were on the disk."""
    folder = write_report(tmp_path, outcome, page)
    whole = contents(folder)
    for path in folder.iterdir():
        emptied(path)
    write_report(tmp_path, outcome, page)
    assert contents(folder) == whole
    assert pq.read_table(folder / "mutations.parquet").equals(outcome.tables["mutations"])


class PowerCut(BaseException):
    """Nothing runs after it."""


class Machine:
    """Counts what makes things durable or visible, and loses the power at one of these operations."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cut_at: int) -> None:
        self.log: list[tuple[str, str]] = []
        self.synced: set[str] = set()
        self._cut_at = cut_at
        self._fsync, self._rename, self._rmtree = os.fsync, os.rename, shutil.rmtree
        self.dead = False
        monkeypatch.setattr(os, "fsync", self.fsync)
        monkeypatch.setattr(os, "rename", self.rename)
        monkeypatch.setattr(shutil, "rmtree", self.rmtree)

    def _count(self, what: str, path: str) -> None:
        self.log.append((what, path))
        if len(self.log) == self._cut_at:
            self.dead = True
            raise PowerCut

    def fsync(self, descriptor: int) -> None:
        path = str(Path(f"/proc/self/fd/{descriptor}").readlink())
        self._count("sync", path)
        self._fsync(descriptor)
        self.synced.add(f"{os.fstat(descriptor).st_ino}")

    def rename(self, source: Path, target: Path) -> None:
        self._count("rename", str(target))
        self._rename(source, target)

    def rmtree(self, path: Path, **options: bool) -> None:
        if not self.dead:
            self._rmtree(path, **options)

    def lose_what_was_not_synced(self, root: Path) -> None:
        for path in root.rglob("*"):
            if path.is_file() and f"{path.stat().st_ino}" not in self.synced:
                path.write_bytes(b"")


OPERATIONS = 1 + len(FILES) + 1 + 1 + 1
"""Sync of the lake (its new folder), of each file, of the folder; rename; sync of the reports' folder."""


@pytest.mark.parametrize("cut_at", range(1, OPERATIONS + 1))
def test_power_lost_at_any_step_leaves_the_report_or_none(
    tmp_path: Path, outcome: Outcome, page: str, cut_at: int
):
    with pytest.MonkeyPatch.context() as patched:
        machine = Machine(patched, cut_at)
        with pytest.raises(PowerCut):
            write_report(tmp_path, outcome, page)
    machine.lose_what_was_not_synced(tmp_path)
    folder = tmp_path / "reports" / outcome.report.id
    assert folder.exists() == (cut_at == OPERATIONS)
    known = contents(folder) if folder.exists() else None
    assert known is None or all(known.values())
    assert write_report(tmp_path, outcome, page) == folder
    assert known is None or contents(folder) == known
    assert tuple(sorted(contents(folder))) == FILES


@pytest.mark.parametrize("cut_at", range(1, OPERATIONS + 1))
def test_power_lost_while_a_broken_report_is_replaced(
    tmp_path: Path, outcome: Outcome, page: str, cut_at: int
):
    folder = write_report(tmp_path, outcome, page)
    whole = contents(folder)
    emptied(folder / "report.json")
    broken = contents(folder)
    with pytest.MonkeyPatch.context() as patched:
        Machine(patched, cut_at)
        with pytest.raises(PowerCut):
            write_report(tmp_path, outcome, page)
    assert (contents(folder) if folder.exists() else None) in (broken, None, whole)
    write_report(tmp_path, outcome, page)
    assert contents(folder) == whole


def test_everything_is_synced_before_it_is_seen_and_its_name_after(
    tmp_path: Path, outcome: Outcome, page: str
):
    with pytest.MonkeyPatch.context() as patched:
        machine = Machine(patched, 0)
        folder = write_report(tmp_path, outcome, page)
    assert len(machine.log) == OPERATIONS
    *before, seen, last = machine.log
    assert seen == ("rename", str(folder))
    assert last == ("sync", str(folder.parent))
    assert before[0] == ("sync", str(tmp_path))
    assert {Path(path).name for what, path in before[1:] if what == "sync"} == {*FILES, folder.name}


def test_another_process_may_finish_first(tmp_path: Path, outcome: Outcome, page: str):
    real, raced = os.rename, []

    def slow_rename(source: Path, target: Path) -> None:
        if not raced:
            raced.append(target)
            write_report(tmp_path, outcome, page)
        real(source, target)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "rename", slow_rename)
        folder = write_report(tmp_path, outcome, page)
    assert len(raced) == 1
    assert tuple(sorted(contents(folder))) == FILES
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


# -- in a bucket ---------------------------------------------------------------------------------------


def test_a_report_in_a_bucket_has_the_files_of_one_on_disk(
    tmp_path: Path, outcome: Outcome, page: str
) -> None:
    store = ObjectStore()
    where = put_report(store, outcome, page, "s3://lakes/shop")
    folder = write_report(tmp_path, outcome, page)
    assert where == f"s3://lakes/shop/reports/{folder.name}/report.html"
    assert {name.rpartition("/")[2]: data for name, data in store.objects.items()} == contents(folder)


@pytest.mark.parametrize("name", FILES)
def test_what_is_broken_in_a_bucket_is_replaced_and_the_rest_kept(
    name: str, outcome: Outcome, page: str
) -> None:
    store = ObjectStore()
    put_report(store, outcome, page, "s3://lakes/shop")
    whole = dict(store.objects)
    (broken,) = (stored for stored in whole if stored.endswith(f"/{name}"))
    store.objects[broken] = whole[broken][:-3]
    steps = store.steps
    put_report(store, outcome, page, "s3://lakes/shop")
    assert store.objects == whole
    assert store.steps == steps + len(FILES) + 1


def test_report_json_comes_last_so_that_half_a_report_is_none(outcome: Outcome, page: str) -> None:
    for at in range(1, len(FILES) + 1):
        store = ObjectStore(crash_at=at)
        with pytest.raises(CrashError):
            put_report(store, outcome, page, "s3://lakes/shop")
        assert len(store.objects) == at - 1
        assert not any(name.endswith("report.json") for name in store.objects)


def test_a_bucket_that_refuses_is_told(outcome: Outcome, page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object) -> None:
        raise PermissionError(13, "access is denied (403 AccessDenied)")

    monkeypatch.setattr(ObjectStore, "put_if_absent", refuses)
    with pytest.raises(LakeError, match=r"access is denied \(403 AccessDenied\)\. Use --no-save"):
        put_report(ObjectStore(), outcome, page, "s3://lakes/shop")
