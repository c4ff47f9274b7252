"""Lanes that work in threads publish what they would have published one after the other."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from oracles.live_process import World, flow_rows, requests

from stitch.drivers.live.lane_work import Commit, LaneWork
from stitch.drivers.live.live_run import LiveRun
from stitch.drivers.live.steady_clock import Moment
from stitch.lake.disk import LocalDisk
from stitch.lake.fsck import check
from stitch.lake.store import LocalStore


def end(world: World) -> None:
    """The time of a world does not wait for threads: at its end they have some more."""
    run = world.processes["process"]
    for _ in range(8):
        run._work.rest()
        run._build.rest()
        run.turn(0.0)
        world.pass_time(30)
    run._build.rest()  # a stop leaves what is not built to the next process
    run.stop()


def lived(world: World) -> dict[str, tuple[object, ...]]:
    """One process until the world is over; what it published."""
    world.start("process")
    for _ in world.turns("process"):
        pass
    end(world)
    assert check(LocalStore(world.disk)) == []
    return world.published()


def test_threads_publish_what_one_would(tmp_path: Path) -> None:
    sent = requests(60, partitions=4, spread_s=100)
    world = World(sent, partitions=4, lanes_at_once=3, disk=LocalDisk(tmp_path))  # type: ignore[arg-type]
    expected = {row[0]: row for row in flow_rows(world.expected().flows)}
    assert lived(world) == expected
    assert lived(World(sent, partitions=4)) == expected


def test_a_commit_that_fails_in_a_thread_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = random.Random(4).sample(range(400), 40)
    lock, made = threading.Lock(), iter(range(10**6))
    create = LocalDisk.create

    def sometimes(self: LocalDisk, name: str, data: Any) -> None:
        with lock:
            number = next(made)
        if number in failing:
            raise OSError(28, "No space left on device", name)
        create(self, name, data)

    sent = requests(40, partitions=3, spread_s=80)
    world = World(sent, partitions=3, lanes_at_once=2, disk=LocalDisk(tmp_path))  # type: ignore[arg-type]
    expected = {row[0]: row for row in flow_rows(world.expected().flows)}
    world.start("process")
    monkeypatch.setattr(LocalDisk, "create", sometimes)
    for turn in world.turns("process"):
        if turn == 40:
            monkeypatch.setattr(LocalDisk, "create", create)
    end(world)
    assert check(LocalStore(world.disk)) == []
    assert world.published() == expected


class SlowLane:
    """As far as `LaneWork` knows a lane. It takes until it is let go."""

    number, streams = 1, ()

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.steps = 0

    def advance(self, *_: object) -> None:
        assert self.go_on.wait(30)
        self.steps += 1

    def is_due(self, now_ns: int) -> bool:
        return False


def test_a_lane_does_one_thing_after_another() -> None:
    lane = SlowLane()
    work = LaneWork(lambda: Moment.exactly(0), ThreadPoolExecutor(2))
    work.begin(lane, {}, Commit.DUE)  # type: ignore[arg-type]
    work.begin(lane, {}, Commit.DUE)  # type: ignore[arg-type]  # it is at work: nothing happens
    assert [*work.finished()] == []
    lane.go_on.set()
    work.rest()
    assert [(number, result()) for number, result in work.finished()] == [(1, None)]
    assert lane.steps == 1
    work.close()


def test_nothing_is_read_while_lanes_lag_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = requests(6, partitions=1, spread_s=20)
    world = World(sent, partitions=1, lanes_at_once=1, disk=LocalDisk(tmp_path))  # type: ignore[arg-type]
    run: LiveRun = world.start("process")
    polls: list[float] = []
    monkeypatch.setattr(run, "_poll", lambda timeout_s: polls.append(timeout_s))
    run._work.bytes = world.settings.memory_bytes
    run.turn(0.0)
    assert polls == []
    run._work.bytes = 0
    run.turn(0.0)
    assert len(polls) == 1
    run.stop()
