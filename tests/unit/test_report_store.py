"""A report in a lake is whole and durable, or not there; what is broken is replaced."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from oracles.kept_reports import kept, kept_in
from oracles.memory_disk import CrashError, MemoryDisk
from oracles.object_store import ObjectStore
from oracles.shop import shop_outcome

from analyze.report.gate import Outcome
from analyze.report.page import render_html
from schemas.errors import LakeError
from stitch.lake.store import LocalStore

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
        folder = kept(tmp_path, outcome, page)
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
    folder = kept(tmp_path, outcome, page)
    whole = contents(folder)
    assert tuple(sorted(whole)) == FILES
    damage(folder / name)
    assert kept(tmp_path, outcome, page) == folder
    assert contents(folder) == whole
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_after_a_power_cut_all_files_may_be_empty(tmp_path: Path, outcome: Outcome, page: str):
    """What a disk leaves behind that forgets what it was told to keep."""
    folder = kept(tmp_path, outcome, page)
    whole = contents(folder)
    for path in folder.iterdir():
        emptied(path)
    kept(tmp_path, outcome, page)
    assert contents(folder) == whole
    assert pq.read_table(folder / "mutations.parquet").equals(outcome.tables["mutations"])


def report_of(disk: MemoryDisk) -> dict[str, bytes]:
    """Files of the report, by name."""
    return {name.rpartition("/")[2]: data for name, data in disk.files() if name.startswith("reports/")}


def after_a_crash(lose: Callable[[MemoryDisk], None], at: int, outcome: Outcome, page: str) -> MemoryDisk:
    """A disk that stopped at an operation, as it is after the next start."""
    disk = MemoryDisk(crash_at=at)
    with suppress(CrashError):
        kept_in(LocalStore(disk), outcome, page)
    lose(disk)
    return disk


@pytest.mark.parametrize("lose", [MemoryDisk.kill, MemoryDisk.lose_power])
def test_a_crash_at_any_step_leaves_the_report_or_none(
    lose: Callable[[MemoryDisk], None], outcome: Outcome, page: str
) -> None:
    disk = MemoryDisk()
    kept_in(LocalStore(disk), outcome, page)
    whole, steps = report_of(disk), disk.steps
    assert tuple(sorted(whole)) == FILES
    seen = 0
    for at in range(1, steps + 1):
        disk = after_a_crash(lose, at, outcome, page)
        left = report_of(disk)
        assert left == whole or "report.json" not in left
        seen += "report.json" in left
        kept_in(LocalStore(disk), outcome, page)
        assert report_of(disk) == whole
    assert 0 < seen < steps


@pytest.mark.parametrize("lose", [MemoryDisk.kill, MemoryDisk.lose_power])
def test_a_crash_while_a_broken_report_is_mended_leaves_files_as_they_were_or_whole(
    lose: Callable[[MemoryDisk], None], outcome: Outcome, page: str
) -> None:
    disk = MemoryDisk()
    kept_in(LocalStore(disk), outcome, page)
    whole, at = report_of(disk), 1
    while True:
        disk = MemoryDisk()
        other = replace(outcome, report=outcome.report.model_copy(update={"trace_url": "other"}))
        kept_in(LocalStore(disk), other, "another page")
        before, disk.crash_at = report_of(disk), disk.steps + at
        with suppress(CrashError):
            kept_in(LocalStore(disk), outcome, page)
            break
        lose(disk)
        assert all(data in (whole[name], before[name]) for name, data in report_of(disk).items())
        kept_in(LocalStore(disk), outcome, page)
        assert report_of(disk) == whole
        at += 1
    assert at > len(FILES)


@pytest.mark.parametrize("operation", ["link", "remove"])
def test_another_process_may_keep_the_same_report_meanwhile(
    operation: str, outcome: Outcome, page: str
) -> None:
    disk = MemoryDisk()
    disk.turns[operation] = lambda: kept_in(LocalStore(disk), outcome, page)
    kept_in(LocalStore(disk), outcome, page)
    assert not disk.turns
    assert tuple(sorted(report_of(disk))) == FILES


def test_nothing_of_it_is_left_on_the_stage(tmp_path: Path, outcome: Outcome, page: str) -> None:
    kept(tmp_path, outcome, page)
    assert [*(tmp_path / "stage").iterdir()] == []


# -- in a bucket ---------------------------------------------------------------------------------------


def test_a_report_in_a_bucket_has_the_files_of_one_on_disk(
    tmp_path: Path, outcome: Outcome, page: str
) -> None:
    store = ObjectStore()
    where = kept_in(store, outcome, page)
    folder = kept(tmp_path, outcome, page)
    assert where == f"lake/reports/{folder.name}/report.html"
    assert {name.rpartition("/")[2]: data for name, data in store.objects.items()} == contents(folder)


@pytest.mark.parametrize("name", FILES)
def test_what_is_broken_in_a_bucket_is_replaced_and_the_rest_kept(
    name: str, outcome: Outcome, page: str
) -> None:
    store = ObjectStore()
    kept_in(store, outcome, page)
    whole = dict(store.objects)
    (broken,) = (stored for stored in whole if stored.endswith(f"/{name}"))
    store.objects[broken] = whole[broken][:-3]
    steps = store.steps
    kept_in(store, outcome, page)
    assert store.objects == whole
    assert store.steps == steps + len(FILES) + 1


def test_report_json_comes_last_so_that_half_a_report_is_none(outcome: Outcome, page: str) -> None:
    for at in range(1, len(FILES) + 1):
        store = ObjectStore(crash_at=at)
        with pytest.raises(CrashError):
            kept_in(store, outcome, page)
        assert len(store.objects) == at - 1
        assert not any(name.endswith("report.json") for name in store.objects)


def test_a_bucket_that_refuses_is_told(outcome: Outcome, page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object) -> None:
        raise PermissionError(13, "access is denied (403 AccessDenied)")

    monkeypatch.setattr(ObjectStore, "put_if_absent", refuses)
    with pytest.raises(LakeError, match=r"access is denied \(403 AccessDenied\)\. .*--no-save"):
        kept_in(ObjectStore(), outcome, page)
