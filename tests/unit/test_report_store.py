"""A report in a lake is whole and durable, or not there; what is broken is replaced."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from oracles.kept_reports import kept, kept_in
from oracles.memory_disk import CrashError, MemoryDisk
from oracles.object_store import ObjectStore
from oracles.shop import shop_outcome

from analyze.report import store as report_store
from analyze.report.gate import Outcome
from analyze.report.page import render_html
from schemas.errors import LakeError
from stitch.lake.fsck import check
from stitch.lake.layout import ensure_lake
from stitch.lake.store import LocalStore

FILES = (
    "SHA256SUMS-*.txt",
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


@pytest.fixture(autouse=True, scope="module")
def _files_are_encoded_once() -> Iterator[None]:
    """Reports here differ in their trace URL and page only, and are kept hundreds of times."""
    made: dict[tuple[str, str], dict[str, bytes]] = {}
    encode = report_store._files

    def files(outcome: Outcome, page: str) -> dict[str, bytes]:
        key = outcome.report.trace_url, page
        if key not in made:
            made[key] = encode(outcome, page)
        return made[key]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(report_store, "_files", files)
        yield


def named(names: Iterable[str]) -> tuple[str, ...]:
    """Names of files, that of the sums without its content."""
    return tuple(sorted("SHA256SUMS-*.txt" if name.startswith("SHA256SUMS-") else name for name in names))


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
    assert named(whole) == FILES
    (path,) = folder.glob(name)
    damage(path)
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
    assert named(whole) == FILES
    seen = 0
    for at in range(1, steps + 1):
        disk = after_a_crash(lose, at, outcome, page)
        left = report_of(disk)
        assert left == whole or "report.json" not in left
        seen += "report.json" in left
        kept_in(LocalStore(disk), outcome, page)
        assert report_of(disk) == whole
    assert 0 < seen < steps


def linked(outcome: Outcome) -> tuple[Outcome, str]:
    """The same report with another page."""
    other = replace(outcome, report=outcome.report.model_copy(update={"trace_url": "https://other"}))
    return other, "another page"


def lake_on(disk: MemoryDisk) -> LocalStore:
    ensure_lake(store := LocalStore(disk), 60 * 10**9, 60 * 10**9, "test")
    return store


@pytest.mark.parametrize("lose", [MemoryDisk.kill, MemoryDisk.lose_power])
def test_a_crash_at_any_step_while_it_is_replaced_leaves_one_of_the_two_or_none(
    lose: Callable[[MemoryDisk], None], outcome: Outcome, page: str
) -> None:
    disk = MemoryDisk()
    kept_in(LocalStore(disk), outcome, page)
    whole, at, seen = report_of(disk), 1, 0
    while True:
        store = lake_on(disk := MemoryDisk())
        kept_in(store, *linked(outcome))
        before, disk.crash_at = report_of(disk), disk.steps + at
        both = {**before, **whole}  # sums of the other stay
        with suppress(CrashError):
            kept_in(store, outcome, page)
            break
        lose(disk)
        left = report_of(disk)
        if "report.json" in left:
            assert {name: left[name] for name in before} == before or left == both
        seen += "report.json" in left
        assert check(LocalStore(disk)) == []
        kept_in(LocalStore(disk), outcome, page)
        assert report_of(disk) in (both, whole)
        at += 1
    assert 0 < seen < at - 1
    assert report_of(disk) == both


@pytest.mark.parametrize("dies", [False, True])
def test_two_writers_with_different_pages_leave_nothing_to_find(
    dies: bool, outcome: Outcome, page: str
) -> None:
    """The other has its turn at any step of the one, which may die at any step after."""
    kept_in(lake_on(disk := MemoryDisk()), outcome, page)
    steps = disk.steps
    lake_on(disk := MemoryDisk())
    begin = disk.steps
    for turn in range(begin + 1, steps + 1):
        for more in range(1, 30, 7) if dies else (0,):
            store = lake_on(disk := MemoryDisk())
            others: list[int] = []

            def acts(disk: MemoryDisk = disk, others: list[int] = others, more: int = more) -> None:
                kept_in(LocalStore(disk), *linked(outcome))
                others.append(disk.steps)
                disk.crash_at = disk.steps + more if dies else 0

            disk.at_step(turn, acts)
            with suppress(CrashError):
                kept_in(store, outcome, page)
            assert others
            assert "report.json" in report_of(disk) or dies
            disk.kill()
            assert check(LocalStore(disk)) == []


@pytest.mark.parametrize("operation", ["link", "remove"])
def test_another_process_may_keep_the_same_report_meanwhile(
    operation: str, outcome: Outcome, page: str
) -> None:
    disk = MemoryDisk()
    disk.turns[operation] = lambda: kept_in(LocalStore(disk), outcome, page)
    kept_in(LocalStore(disk), outcome, page)
    assert not disk.turns
    assert named(report_of(disk)) == FILES


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
    (broken,) = (stored for stored in whole if fnmatch(stored, f"*/{name}"))
    store.objects[broken] = whole[broken][:-3]
    steps = store.steps
    kept_in(store, outcome, page)
    assert store.objects == whole
    # The JSON is removed and put; what is broken is refused, then replaced.
    assert store.steps == steps + (2 if name == "report.json" else 4)
    steps = store.steps
    kept_in(store, outcome, page)
    assert store.steps == steps


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
