"""Upkeep under a crash at every operation: readers see the lake before it or after it, nothing between."""

from __future__ import annotations

import random
from collections.abc import Callable
from unittest.mock import patch

import pytest
from oracles.lake_script import WINDOW_NS, Acknowledged, Content, Import, content, open_lane, run
from oracles.memory_disk import CrashError, MemoryDisk
from oracles.object_store import ObjectStore

from schemas.commits import CommitBody, PartitionRange, Standing
from schemas.errors import LakeError
from stitch.lake import retiring
from stitch.lake.fsck import check
from stitch.lake.lane import Lane
from stitch.lake.layout import data_files, read_info
from stitch.lake.manifest import open_manifest
from stitch.lake.retiring import Retired, retire
from stitch.lake.store import LocalStore, Store

HOUR_NS = 3600 * 10**9
NOW_NS = 10**18
KEEP_NS = NOW_NS - 2 * WINDOW_NS
"""The first two windows go."""

HISTORY = (
    Import("monday", {"a": 1, "b": 2, "c": 7}, garbage=1),
    Import("tuesday", {"d": 2, "e": 12}),
    Import("wednesday", {"f": 3, "g": 8}),
)
ENDINGS: dict[str, Callable[[MemoryDisk], None]] = {
    "kill": MemoryDisk.kill,
    "power": MemoryDisk.lose_power,
    "some": lambda disk: disk.lose_some(random.Random(disk.steps)),
}


def retain(store: Store, hours: int = 0, grace_ns: int = HOUR_NS, *, dry_run: bool = False) -> Retired:
    return retire(
        store,
        "L",
        keep_ns=KEEP_NS + hours * HOUR_NS,
        grace_ns=grace_ns,
        now_ns=NOW_NS + hours * HOUR_NS,
        owner="test",
        created_by="test",
        dry_run=dry_run,
    )


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


def before_and_after() -> tuple[Content, Content, int]:
    disk = MemoryDisk()
    store = made(disk)
    before = content(store)
    retained(store)
    return before, content(store), disk.steps


BEFORE, AFTER, STEPS = before_and_after()


def windows_of(rows: Content) -> set[str]:
    return {window for _, window, _ in rows if window}


def test_retention_takes_whole_windows_and_nothing_else() -> None:
    assert len(windows_of(BEFORE)) == 3
    assert windows_of(AFTER) == {"19700101T0010Z"}
    assert {key: n for key, n in BEFORE.items() if key[1] in {"", "19700101T0010Z"}} == dict(AFTER)


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
    assert retain(store, hours=2, dry_run=True).removed == 4  # a folder of flows and structures each
    assert retain(store, hours=2).removed == 4
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
    for at in range(1, STEPS + 1):
        disk = MemoryDisk()
        store = made(disk)
        disk.crash_at = at
        with pytest.raises(CrashError):
            retained(store)
        ENDINGS[ending](disk)
        judge(LocalStore(disk))
        disk.lose_power()
        assert content(LocalStore(disk)) == AFTER
        assert check(LocalStore(disk)) == []


@pytest.mark.parametrize("times_out", [False, True])
def test_a_crash_at_any_request_of_retention_in_a_bucket(times_out: bool) -> None:
    whole = ObjectStore()
    run(whole, Acknowledged(), HISTORY)
    made_of, whole.steps = dict(whole.objects), 0
    retained(whole)
    for at in range(1, whole.steps + 1):
        store = ObjectStore(objects=dict(made_of), crash_at=at, times_out=times_out)
        with pytest.raises(CrashError):
            retained(store)
        store.restart()
        judge(store)


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
    lane = retiring.UpkeepLane

    class Eager(lane):
        def retire(self, retirement: object, grace_ns: int) -> object:
            for folder in ("flows/window=19700101T0000Z", "structures/window=19700101T0000Z"):
                self._store.remove(folder)
            return super().retire(retirement, grace_ns)  # type: ignore[arg-type]

    with patch.object(retiring, "UpkeepLane", Eager), pytest.raises((AssertionError, LakeError)):
        test_a_crash_at_any_operation_of_retention("kill")


def test_a_checkpoint_forgets_what_was_retired(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stitch.lake.checkpoint.CHECKPOINT_EVERY", 2)
    store = made(MemoryDisk())
    retained(store)
    more = tuple(Import(f"more-{n}", {f"m{n}": 20 + n}) for n in range(3))
    run(store, Acknowledged(), more)
    from stitch.lake.checkpoint import read_tail

    starts = read_tail(store, 0).published["window_ns"].drop_null().to_pylist()
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
