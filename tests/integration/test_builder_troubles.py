"""A builder with a trouble of its own leaves building to another process; upkeep goes on beside builders; a
log ages across takeovers; records without a request id cost a step what came.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from integration.test_build_windows import START, S, child, trace
from oracles.in_place import InPlace
from oracles.logged_lake import LIVE, BuiltLake, LoggingLane, made_lake
from oracles.memory_disk import MemoryDisk
from oracles.span_events import batch
from oracles.traffic import native_lines

from flowdiff.live.run_metrics import _builder
from ingest.formats import codec_for
from schemas.config import DecodeConfig
from schemas.events import concat_events
from stitch.drivers.build.build_settings import BuildSettings
from stitch.drivers.build.builder import Builder
from stitch.drivers.live.build_work import BuildWork
from stitch.drivers.live.election import LockElection
from stitch.drivers.live.steady_clock import Moment
from stitch.drivers.live.watch import LiveStatus
from stitch.drivers.repair.repairing import repair
from stitch.lake import event_log
from stitch.lake.chain import CommitTakenError, read_tail
from stitch.lake.lane import Lane
from stitch.lake.layout import read_info, segment_folder, stage_lane_folder
from stitch.lake.manifest import open_manifest
from stitch.lake.store import LocalStore
from stitch.lake.upkeep.hidden import UPKEEP_LANE
from stitch.lake.upkeep.retention import retire
from stitch.lake.upkeep.upkeep_lane import UpkeepLane, UpkeepRun
from stitch.scratch import Scratch


class Worker:
    """A process that may build a lake in a folder, and the clock of its host."""

    def __init__(self, folder: Path, owner: str) -> None:
        self.now_ns = START + 7200 * S
        self.work = BuildWork(
            LocalStore.at(folder),
            str(folder),
            LIVE,
            owner,
            "t",
            lambda: Moment.exactly(self.now_ns),
            InPlace(),
            LockElection(folder),
            lambda *_: None,
        )

    def turn(self, seconds: int = 6) -> str | None:
        """Let it go on after a while; returns what is wrong."""
        self.now_ns += seconds * S
        self.work.turn(committed=True)
        self.work.rest()
        return self.work.status.troubles

    def gauges(self) -> dict[str, float]:
        status = LiveStatus(self.now_ns, (), False, None, False, build=self.work.status)
        families = _builder(status, Moment.exactly(self.now_ns))
        return {family.name: sample.value for family in families for sample in family.samples}


@pytest.fixture
def lake(tmp_path: Path) -> LocalStore:
    folder = tmp_path / "lake"
    folder.mkdir()
    store = made_lake(LocalStore.at(folder))
    lane = LoggingLane(store, 1)
    for minute in range(3):
        lane.polls.append((trace(f"t{minute}", 60 * minute), START + (60 * minute + 2) * S))
    lane.take()
    lane.commit()
    return store


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device."),
        (MemoryError(), "there is not enough memory."),
        (pa.ArrowMemoryError("malloc of size 99 failed"), "there is not enough memory."),
    ],
)
def test_who_fails_to_build_leaves_it_to_another_process(
    error: BaseException, why: str, lake: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = Worker(tmp_path / "lake", "one"), Worker(tmp_path / "lake", "other")
    real: Callable[..., Any] = Builder._groups

    def groups(self: Builder, *given: Any) -> Any:
        if self._run.owner == "one":
            raise error
        return real(self, *given)

    monkeypatch.setattr(Builder, "_groups", groups)
    for attempt in range(1, LIVE.build_attempts + 1):
        told = str(one.turn())
        assert told.startswith(f"Windows cannot be built: {why}")
        is_last = attempt == LIVE.build_attempts
        assert ("Left to another process after 3 attempts." in told) == is_last
        assert one.work.status.has_given_up == is_last
        assert one.work.status.builds != is_last
        if not is_last:
            assert other.turn() is None
            assert not other.work.status.builds
    assert other.turn(0) is None
    assert other.work.status.builds
    assert open_manifest(lake).files("flows")
    assert one.turn(1) is None  # another one built
    assert one.work.status.has_given_up
    other.work.close()
    # Nobody builds: after a pause it tries again, and may fail again.
    assert one.turn(LIVE.build_pause_ns // S) is None
    assert one.work.status.builds
    one.work.close()


def test_a_scratch_folder_that_was_cleaned_away_holds_up_no_build(
    lake: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs that clean the folder for temporary files remove what nobody used for long."""
    one = Worker(tmp_path / "lake", "one")
    monkeypatch.setattr(BuildSettings, "planned_in_memory", 0)
    one.work._scratch.folder.rmdir()
    assert one.turn() is None
    assert one.turn() is None
    assert open_manifest(lake).files("flows")
    one.work.close()


def test_a_file_lost_from_the_stage_is_a_trouble_and_no_other_builder(
    lake: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Worker(tmp_path / "lake", "one")
    swept_while(monkeypatch, "lost", 1)
    assert one.turn() == "Windows cannot be built: No such file or directory."
    assert one.work.status.builds
    assert one.turn() is None
    assert open_manifest(lake).files("flows")
    one.work.close()


def test_a_trouble_of_the_lake_is_told_as_long_as_nobody_builds(lake: LocalStore, tmp_path: Path) -> None:
    one, other = Worker(tmp_path / "lake", "one"), Worker(tmp_path / "lake", "other")
    lake.remove(segment_folder(1))
    for _ in range(LIVE.build_attempts):
        one.turn()
    for _ in range(LIVE.build_attempts):
        other.turn()
    for _ in range(3):
        assert "missing or damaged" in str(one.turn(1))
        assert "missing or damaged" in str(other.turn(1))
    for worker in (one, other):
        worker.work.close()


def test_gauges_tell_who_gave_up(lake: LocalStore, tmp_path: Path) -> None:
    one = Worker(tmp_path / "lake", "one")
    lake.remove(segment_folder(1))
    seen = []
    for _ in range(LIVE.build_attempts):
        one.turn()
        found = one.gauges()
        seen.append(tuple(found[f"flowdiff_build{name}"] for name in ("s", "_trouble", "_given_up")))
    assert seen == [(1, 1, 0)] * (LIVE.build_attempts - 1) + [(0, 1, 1)]
    one.work.close()


def test_a_failing_sweep_says_so_and_holds_up_no_build(
    lake: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Worker(tmp_path / "lake", "one")

    def fails(_self: UpkeepLane, _until_ns: int) -> int:
        raise OSError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(UpkeepLane, "sweep", fails)
        for _ in range(4):
            told = one.turn()
            assert told == "Files of replaced windows cannot be removed: Permission denied."
            assert one.work.status.builds
            assert one.work.status.trouble is None
            assert one.gauges()["flowdiff_sweep_trouble"] == 1
        assert open_manifest(lake).files("flows")
    assert one.turn() is None
    assert one.gauges()["flowdiff_sweep_trouble"] == 0
    one.work.close()


def swept_while(monkeypatch: pytest.MonkeyPatch, name: str, times: int) -> list[int]:
    """Take the stage of an upkeep away at its commit, so many times, by another builder (`swept`) or without
    one (`lost`); counts the commits."""
    real: Callable[..., Any] = UpkeepLane.commit
    seen: list[int] = []

    def commit(self: UpkeepLane, staging: Any, **given: Any) -> Any:
        seen.append(self.seq)
        if len(seen) <= times:
            if name == "taken":
                raise CommitTakenError("taken")
            if name == "swept":  # by a builder that takes the lane over
                info = read_info(self._store, "lake")
                assert info is not None
                Lane(self._store, info, owner="other", created_by="t", lane=UPKEEP_LANE, fence=True)
            self._store.remove(stage_lane_folder(UPKEEP_LANE))
            if not staging.items():
                raise FileNotFoundError(2, "gone")
        return real(self, staging, **given)

    monkeypatch.setattr(UpkeepLane, "commit", commit)
    return seen


@pytest.mark.parametrize("how", ["swept", "taken", "lost"])
@pytest.mark.parametrize("times", [1, 8, 9])
def test_a_repair_goes_on_where_a_builder_was_first(
    how: str, times: int, lake: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = BuiltLake(lake, tmp_path / "scratch", BuildSettings(rebuild_ns=10**15, rebuild_share=10), lake)
    built.step()
    lane = LoggingLane(lake, 2)
    lane.polls.append((batch(child("t0", 1.2)), START + 300 * S))
    lane.take()
    lane.commit()
    run = UpkeepRun(LocalStore.at(tmp_path / "lake"), "lake", START, 0, "repair", "t")
    seen = swept_while(monkeypatch, how, times)
    with Scratch(tmp_path) as scratch:
        if times > run.losses_borne:
            with pytest.raises(FileNotFoundError if how == "lost" else CommitTakenError):
                repair(run, scratch)
            return
        done = repair(run, scratch)
    assert done.windows == 1
    assert len(seen) >= times + 1


@pytest.mark.parametrize("how", ["swept", "taken", "lost"])
@pytest.mark.parametrize("times", [1, 8, 9])
def test_a_retention_goes_on_where_a_builder_was_first(
    how: str, times: int, lake: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    BuiltLake(lake, tmp_path / "scratch", BuildSettings(), lake).finish()
    n_windows = len(open_manifest(lake).windows())
    run = UpkeepRun(LocalStore.at(tmp_path / "lake"), "lake", START + 10**15, 0, "retain", "t")
    seen = swept_while(monkeypatch, how, times)
    if times > run.losses_borne:
        with pytest.raises(FileNotFoundError if how == "lost" else CommitTakenError):
            retire(run, keep_ns=1)
        return
    done = retire(run, keep_ns=1)
    assert done.windows
    assert len(done.windows) + done.held_back == n_windows
    assert len(seen) == times + 1


def test_the_log_ages_across_takeovers() -> None:
    disk = MemoryDisk()
    store = made_lake(LocalStore(disk))
    settings = LIVE.model_copy(update={"keep_events_ns": 600 * S})
    lane = LoggingLane(store, 1, settings, keeps_for_builds=False)
    for minute in range(30):
        lane.polls.append((trace(f"t{minute}", 60 * minute), START + 60 * minute * S))
        lane.start()  # no process lives as long as events are kept
        lane.take()
        lane.commit()
        segments = [name for name in store.names(segment_folder(1)) if name.endswith(".arrow")]
        assert len(segments) <= 12, "events are kept anew by each owner"
    kept_from = read_tail(store, 1).standing.kept_from
    assert kept_from is not None
    assert kept_from > 20


def test_records_without_a_request_id_cost_a_step_what_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = made_lake(LocalStore(MemoryDisk()))
    lane = LoggingLane(store, 1)
    lines = [line.encode() for line in native_lines(14, seed=3, seconds=3600)]
    events = concat_events([codec_for("native").decode(lines, DecodeConfig()).events])
    place = events.schema.get_field_index("request_id")
    ids = pa.array([None] * events.num_rows, pa.string())
    events = events.set_column(place, events.schema.field(place), ids)
    built = BuiltLake(store, tmp_path, BuildSettings(), store)
    read: list[str] = []
    real = event_log.open_index

    def open_index(store: Any, segment: Any) -> Any:
        read.append(segment.name)
        return real(store, segment)

    monkeypatch.setattr("stitch.drivers.build.log_follower.open_index", open_index)
    seen = []
    for at in range(0, events.num_rows, 12):
        some = events.slice(at, 12)
        lane.polls.append((some, int(some["ts_ns"].to_numpy().max())))
        lane.take()
        lane.commit()
        read.clear()
        built.step()
        seen.append(len(read))
    assert len(seen) > 30
    # The new one when it is followed and when it is planned, and those that its records are linked with.
    assert sorted(seen)[len(seen) // 2] <= 8
    built.finish()
