"""A builder at the end of its process: nothing waits for it, or all is built, and if not, it is said."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest
from integration.test_build_windows import START, S, child, trace
from oracles.in_place import InPlace
from oracles.live_process import World, flow_rows, requests
from oracles.logged_lake import LIVE, LoggingLane, made_lake
from oracles.memory_disk import MemoryDisk
from oracles.span_events import batch
from oracles.waiting import PATIENCE_S, wait_until

from schemas.commits import CommitRecord
from schemas.windows import NS_PER_SECOND
from stitch.drivers.build.build_settings import BuildSettings
from stitch.drivers.build.builder import Builder, Step
from stitch.drivers.live.build_work import BuildWork
from stitch.drivers.live.election import NoElection
from stitch.drivers.live.steady_clock import Moment
from stitch.drivers.live.watch import Watch
from stitch.lake.chain import lanes, read_tail
from stitch.lake.layout import ASIDE, segment_folder, stage_folder, stage_lane_folder
from stitch.lake.store import LocalStore
from stitch.lake.upkeep.hidden import UPKEEP_LANE
from stitch.lake.upkeep.upkeep_lane import UpkeepRun
from stitch.scratch import Scratch


class Told(Watch):
    """What was told of the builder, and that a lane committed."""

    def __init__(self) -> None:
        self.troubles: list[str | None] = []
        self.has_committed = threading.Event()

    def committed(self, record: CommitRecord, took_s: float) -> None:
        if record.lane != UPKEEP_LANE:
            self.has_committed.set()

    def building(self, why: str | None) -> None:
        self.troubles.append(why)


def a_world(**how: int) -> World:
    """All was sent before a process comes."""
    world = World(requests(40, partitions=2, spread_s=200), watch=Told(), **how)  # type: ignore[arg-type]
    world.pass_time(400)
    return world


def test_at_the_end_of_the_topics_all_is_built_beside_the_stage_of_a_process_that_is_gone() -> None:
    world = a_world()
    run = world.start("one")
    world.store.put(f"{stage_folder(UPKEEP_LANE, 1)}/left", b"left")
    for _ in range(20):
        run.turn(0.0)
    assert run.stop(whole=True)
    assert world.published() == {row[0]: row for row in flow_rows(world.expected().flows)}


def test_an_end_at_which_windows_cannot_be_built_fails_and_says_why() -> None:
    world = a_world()
    run = world.start("one")
    for _ in range(20):
        run.turn(0.0)
    lane = next(lane for lane in lanes(world.store) if lane != UPKEEP_LANE)
    world.store.remove(segment_folder(lane))
    assert not run.stop(whole=True)
    assert isinstance(world.watch, Told)
    assert "missing or damaged" in str(world.watch.troubles[-1])


def test_lanes_commit_at_a_stop_before_a_builder_at_work_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = a_world(lanes_at_once=1)
    told, is_at_work, waited = world.watch, threading.Event(), []
    assert isinstance(told, Told)

    def step(_self: Builder, _now_ns: int, **_how: bool) -> Step:
        told.has_committed.clear()
        is_at_work.set()
        waited.append(told.has_committed.wait(PATIENCE_S))
        return Step(built=int(len(waited) < 3))  # there is more

    monkeypatch.setattr(Builder, "step", step)
    run = world.start("one")
    wait_until(lambda: run.turn(0.0) or is_at_work.wait(0.1))
    world.now_ns += NS_PER_SECOND
    assert run.stop()
    assert waited == [True]


def test_a_builder_that_is_to_stop_leaves_what_it_began(tmp_path: Path) -> None:
    store = made_lake(LocalStore(MemoryDisk()))
    lane = LoggingLane(store, 1)
    for minute in range(4):
        lane.polls.append((trace(f"t{minute}", 60 * minute), START + (60 * minute + 2) * S))
    lane.take()
    lane.commit()
    asked: list[None] = []

    def is_stopping() -> bool:
        asked.append(None)
        return len(asked) > 1

    run = UpkeepRun(store, "lake", 0, 0, "o", "t")
    builder = Builder(store, run, Scratch(tmp_path), BuildSettings(), is_stopping=is_stopping)
    assert not builder.step(START).did_anything
    assert len(asked) == 2
    assert read_tail(store, UPKEEP_LANE).head == 0
    assert store.names(stage_lane_folder(UPKEEP_LANE)) == []


def test_what_a_failed_publication_replaced_is_set_aside_once_it_succeeds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else whoever reads files by their names counts its requests twice for an hour."""
    store = made_lake(LocalStore(MemoryDisk()))
    lane, now_ns = LoggingLane(store, 1), START + 7200 * S
    work = BuildWork(
        store,
        "lake",
        LIVE,
        "o",
        "t",
        lambda: Moment.exactly(now_ns),
        InPlace(),
        NoElection(),
        lambda *_: None,
    )

    def go_on() -> list[str]:
        work.turn(committed=True)
        work.rest()
        (window,) = store.names("flows")
        return store.names(f"flows/{window}")

    def log(events: pa.Table, at_s: int) -> None:
        lane.polls.append((events, START + at_s * S))
        lane.take()
        lane.commit()

    def fails(_moves: object) -> None:
        raise OSError(28, "full")

    log(trace("t0", 1), 2)
    log(trace("t1", 80), 81)
    (first,) = go_on()
    log(batch(child("t0", 1.2)), 90)
    with monkeypatch.context() as patched:
        patched.setattr(store, "publish", fails)
        assert go_on() == [first]
    now_ns += 10 * S
    assert [name.endswith(ASIDE) for name in go_on()] == [True, False]
    work.close()


def test_a_backlog_is_seen_to_shrink_while_it_is_built() -> None:
    store = made_lake(LocalStore(MemoryDisk()))
    lane, seen = LoggingLane(store, 1), []
    for minute in range(40):
        lane.polls.append((trace(f"t{minute}", 60 * minute), START + (60 * minute + 2) * S))
    lane.take()
    lane.commit()
    now = Moment.exactly(START + 7200 * S)
    work = BuildWork(
        store,
        "lake",
        LIVE,
        "o",
        "t",
        lambda: now,
        InPlace(),
        NoElection(),
        lambda *_: seen.append((work.status.builds, work.status.windows)),
    )
    work.turn(committed=True)
    work.rest()
    assert seen == [(True, 0), (True, 38), (True, 22)]
    assert (work.status.windows, work.status.trouble) == (0, None)
    work.close()
