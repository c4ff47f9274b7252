"""Upkeep under a crash at every operation: readers see the lake before it or after it, nothing between."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from oracles.every_death import Judged, deaths, deaths_in_bucket
from oracles.lake_script import WINDOW_NS, Acknowledged, Content, Import, content, open_lane, run
from oracles.memory_disk import ENDINGS, MemoryDisk
from oracles.object_store import ObjectStore

from schemas.commits import CommitBody, PartitionRange, Standing
from schemas.errors import LakeError
from stitch.lake.fsck import check
from stitch.lake.lane import Lane
from stitch.lake.layout import data_files, read_info
from stitch.lake.manifest import open_manifest
from stitch.lake.store import LocalStore, Store
from stitch.lake.upkeep import retention
from stitch.lake.upkeep.retention import Retired, retire
from stitch.lake.upkeep.upkeep_lane import UpkeepRun

pytestmark = pytest.mark.usefixtures("encoded_once")

HOUR_NS = 3600 * 10**9
NOW_NS = 10**18
KEEP_NS = NOW_NS - 2 * WINDOW_NS
"""The first two windows go."""

HISTORY = (
    Import("monday", {"a": 1, "b": 2, "c": 7}, garbage=1),
    Import("tuesday", {"d": 2, "e": 12}),
    Import("wednesday", {"f": 3, "g": 8}),
)


def retain(store: Store, hours: int = 0, grace_ns: int = HOUR_NS, *, dry_run: bool = False) -> Retired:
    upkeep = UpkeepRun(store, "L", NOW_NS + hours * HOUR_NS, grace_ns, "test", "test")
    return retire(upkeep, keep_ns=KEEP_NS + hours * HOUR_NS, dry_run=dry_run)


def retained(store: Store) -> None:
    """Retired, and swept by a later run."""
    retain(store)
    retain(store, hours=2)


def made(disk: MemoryDisk) -> LocalStore:
    """A lake at rest, all of it durable."""
    store = LocalStore(disk)
    run(store, Acknowledged(), HISTORY)
    open_lane(store)
    disk.steps = 0
    return store


def before_and_after() -> tuple[Content, Content]:
    store = made(MemoryDisk())
    before = content(store)
    retained(store)
    return before, content(store)


BEFORE, AFTER = before_and_after()


def windows_of(rows: Content) -> set[str]:
    return {window for _, window, _ in rows if window}


def test_retention_takes_whole_windows_and_nothing_else() -> None:
    assert len(windows_of(BEFORE)) == 3
    assert windows_of(AFTER) == {"19700101T0010Z"}
    assert {key: n for key, n in BEFORE.items() if key[1] == "19700101T0010Z"} == dict(AFTER)
    assert {table for table, window, _ in BEFORE - AFTER if not window} == {"dead_letters"}


def test_files_stay_for_the_grace_and_then_go() -> None:
    store = made(MemoryDisk())
    reader = open_manifest(store)
    files = reader.files("flows")
    assert retain(store, dry_run=True).windows == tuple(reader.windows()[:2])
    assert content(store) == BEFORE
    done = retain(store)
    assert [entry.window.start_ns for entry in done.windows] == [0, WINDOW_NS]
    assert done.to_ns == 2 * WINDOW_NS
    assert done.removed == 0
    assert content(store) == AFTER
    assert check(store) == []
    assert [reader.read(file) for file in files]  # of a reader that had begun
    assert retain(store).windows == ()
    # A folder of flows and structures each, and the dead letters.
    assert retain(store, hours=2, dry_run=True).removed == 5
    assert retain(store, hours=2).removed == 5
    assert {name.split("/")[1] for name in data_files(store) if "window=" in name} == {
        "window=19700101T0010Z"
    }
    assert content(store) == AFTER
    assert check(store) == []
    open_lane(store)  # its last commit has files that were swept
    assert retain(store, hours=3).removed == 4, "opening the lane made folders again"
    assert retain(store, hours=3).removed == 0


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_crash_at_any_operation_of_retention(ending: str) -> None:
    disk, judged = MemoryDisk(), Judged()
    made(disk)
    for left, _ in deaths(disk, lambda watched: retained(LocalStore(watched)), None):
        ENDINGS[ending](left)
        if judged.is_new(left):
            judge(LocalStore(left))
            left.lose_power()
            assert content(LocalStore(left)) == AFTER
            assert check(LocalStore(left)) == []
    assert len(judged) > 5


def test_a_crash_at_any_request_of_retention_in_a_bucket() -> None:
    """Whether or not the last one was carried out."""
    store = ObjectStore()
    run(store, Acknowledged(), HISTORY)
    for left, _ in deaths_in_bucket(store, retained, None):
        judge(left)


def judge(store: Store) -> None:
    """After a crash: the lake of before or that of after; every lane opens; a second run completes it."""
    assert content(store) in (BEFORE, AFTER)
    assert check(store) == []
    open_lane(store)
    retain(store)
    assert content(store) == AFTER
    retain(store, hours=3)
    assert content(store) == AFTER
    assert check(store) == []
    open_lane(store)


def test_a_sweep_before_the_commit_is_caught() -> None:
    lane = retention.UpkeepLane

    class Eager(lane):
        def commit(self, *told: object, **said: object) -> object:
            for folder in ("flows/window=19700101T0000Z", "structures/window=19700101T0000Z"):
                self._store.remove(folder)
            return super().commit(*told, **said)  # type: ignore[arg-type]

    with patch.object(retention, "UpkeepLane", Eager), pytest.raises((AssertionError, LakeError)):
        test_a_crash_at_any_operation_of_retention("kill")


def test_a_checkpoint_forgets_what_was_retired(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stitch.lake.chain.CHECKPOINT_EVERY", 2)
    store = made(MemoryDisk())
    retained(store)
    more = tuple(Import(f"more-{n}", {f"m{n}": 20 + n}) for n in range(3))
    run(store, Acknowledged(), more)
    from stitch.lake.chain import Listing, read_tail

    starts = Listing([read_tail(store, 0).published]).table["window_ns"].drop_null().to_pylist()
    assert starts
    assert min(starts) >= 2 * WINDOW_NS
    assert check(store) == []
    assert not AFTER - content(store)


def test_windows_that_live_ingestion_has_not_sealed_stay() -> None:
    store = made(MemoryDisk())
    info = read_info(store)
    assert info is not None
    live = Lane(store, info, owner="test", created_by="test", lane=1)

    def seal(start: int, end: int, sealed_to_ns: int) -> None:
        positions = (PartitionRange(topic="spans", partition=0, start=start, end=end),)
        with live.stage() as staging:
            standing = Standing(positions=positions, sealed_to_ns=sealed_to_ns)
            live.commit(staging, CommitBody(kind="live", standing=standing))

    seal(0, 5, WINDOW_NS)
    done = retain(store)
    assert (len(done.windows), done.held_back, done.to_ns) == (1, 1, WINDOW_NS)
    seal(5, 9, 9 * WINDOW_NS)
    assert len(retain(store).windows) == 1
    assert content(store) == AFTER
    assert open_manifest(store).sealed_to_ns == 9 * WINDOW_NS
    assert check(store) == []


def letters(store: Store) -> list[str]:
    return [file.name for file in open_manifest(store).files("dead_letters")]


def test_dead_letters_go_by_when_they_were_written_and_no_young_one_with_them() -> None:
    disk = MemoryDisk()
    store = LocalStore(disk)
    garbage = [Import(f"day-{n}", {f"x{n}": n}, garbage=n + 1) for n in range(4)]
    for day, step in enumerate(garbage):
        disk.now_ns = NOW_NS - (4 - day) * 24 * HOUR_NS
        run(store, Acknowledged(), (step,))
    # Written long ago by the clock of a restored backup; what came before it is younger, so it stays.
    disk._seen[letters(store)[3]].written_ns = 0

    def retained_letters(now_ns: int = NOW_NS, keep_late_ns: int | None = None) -> Retired:
        upkeep = UpkeepRun(store, "L", now_ns, HOUR_NS, "test", "test")
        return retire(upkeep, keep_ns=2 * NOW_NS, keep_late_ns=keep_late_ns)

    assert retained_letters().sides == ()
    assert len(letters(store)) == 4
    reader = open_manifest(store)
    done = retained_letters(keep_late_ns=60 * HOUR_NS)
    assert [(side.table, side.files, side.rows) for side in done.sides] == [("dead_letters", 2, 3)]
    assert done.windows == ()
    assert len(letters(store)) == 2
    assert [reader.read(file) for file in reader.files("dead_letters")]  # of a reader that had begun
    assert retained_letters(keep_late_ns=60 * HOUR_NS).sides == ()
    assert retained_letters(now_ns=NOW_NS + 2 * HOUR_NS).removed == 2
    assert len(store.names("dead_letters")) == 2
    assert check(store) == []
    retained_letters(keep_late_ns=0)
    assert letters(store) == []
    assert retained_letters(now_ns=NOW_NS + 2 * HOUR_NS).removed == 2
    open_lane(store)  # its last commit brought one of them
    assert check(store) == []


def test_reports_stay_unless_their_age_is_given() -> None:
    store = made(disk := MemoryDisk())
    for name, age_h in (("old", 50), ("new", 1)):
        disk.now_ns = NOW_NS - age_h * HOUR_NS
        for file in ("report.json", "report.html"):
            store.put(f"reports/{name}/{file}", b"{}")
    assert retain(store).reports == ()
    upkeep = UpkeepRun(store, "L", NOW_NS, 0, "test", "test")
    for dry_run, left in ((True, ["new", "old"]), (False, ["new"])):
        done = retire(upkeep, keep_ns=2 * NOW_NS, keep_reports_ns=24 * HOUR_NS, dry_run=dry_run)
        assert done.reports == ("reports/old",)
        assert store.names("reports") == left


def test_drafts_of_writers_that_died_go_past_the_grace() -> None:
    store = made(disk := MemoryDisk())
    kept = store.names("stage")
    for age_h, digit in ((3, "1"), (1, "2")):
        disk.now_ns = NOW_NS - age_h * HOUR_NS
        for what in ("report", "reports", "stats", "watch"):
            store.put(f"stage/{what}-{digit * 16}/drafts/a", b"half")
    store.put("stage/mine-1/drafts/a", b"of somebody else")
    left = sorted(
        [*kept, "mine-1", *(f"{what}-{'2' * 16}" for what in ("report", "reports", "stats", "watch"))]
    )
    for dry_run in (True, False):
        before = store.names("stage")
        upkeep = UpkeepRun(store, "L", NOW_NS, 2 * HOUR_NS, "test", "test")
        retire(upkeep, keep_ns=2 * NOW_NS, dry_run=dry_run)
        assert store.names("stage") == (before if dry_run else left)
