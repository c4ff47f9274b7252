"""The live driver over a disk, a log and a clock in memory: a crash, or another owner, at every operation."""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import pytest
from oracles.live_process import START_NS, Sent, World, flow_rows, requests
from oracles.memory_disk import CrashError, MemoryDisk

from schemas.windows import NS_PER_SECOND
from stitch.lake.fsck import check
from stitch.lake.store import LocalStore

Ending = Callable[[MemoryDisk], None]
ENDINGS: dict[str, Ending] = {
    "kill": MemoryDisk.kill,
    "power": MemoryDisk.lose_power,
    "some": lambda disk: disk.lose_some(random.Random(disk.steps)),
}
SENT = requests(24, partitions=2, spread_s=100)


def live(world: World, name: str = "process") -> None:
    """One process until the world is over, or its own end."""
    world.start(name)
    for _ in world.turns(name):
        pass
    world.processes[name].stop()


def judge(world: World) -> None:
    """Whole, once, as the kernel makes it of everything at once; and the lake is sound."""
    world.disk.lose_power()  # everything was acknowledged
    assert check(LocalStore(world.disk)) == []
    expected = {row[0]: row for row in flow_rows(world.expected().flows)}
    assert world.published() == expected


def test_undisturbed_everything_is_published_once() -> None:
    world = World(SENT)
    live(world)
    judge(world)


STEPS = 0


def steps() -> int:
    """Operations of an undisturbed life."""
    global STEPS
    if not STEPS:
        world = World(SENT)
        live(world)
        STEPS = world.disk.steps
    return STEPS


def crash(at: int, ending: Ending) -> None:
    world = World(SENT, disk=MemoryDisk(crash_at=at))
    with pytest.raises(CrashError):
        live(world, "first")
    ending(world.disk)
    world.bury("first")
    live(world)
    judge(world)


SHARE = int(os.environ.get("FLOWDIFF_SCHEDULES", "120"))


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_crash_at_any_operation_loses_and_doubles_nothing(ending: str) -> None:
    every = random.Random(ending).sample(range(1, steps() + 1), min(SHARE, steps()))
    for at in every:
        crash(at, ENDINGS[ending])


def test_two_owners_of_a_lane_cannot_both_commit() -> None:
    """A process stops in its tracks at any operation; another takes over; then the first one wakes."""
    for at in random.Random(3).sample(range(1, steps() + 1), min(SHARE, steps())):
        world = World(SENT)
        world.start("zombie")

        def asleep(world: World = world) -> None:
            world.log.declare_dead(world.members["zombie"])
            world.start("heir")
            for turn in world.turns("heir"):
                if turn >= 30:
                    return

        world.disk.at_step(at, asleep)
        for _ in world.turns("zombie"):
            if "heir" in world.processes:
                break
        while not world.over:
            world.pass_time(1)
            for run in list(world.processes.values()):
                run.turn(0.0)
        for run in list(world.processes.values()):
            run.stop()
        judge(world)


def test_lanes_move_to_a_second_process_and_back() -> None:
    world = World(SENT, partitions=2)
    world.start("a")
    for turn in world.turns("a"):
        if turn == 30:
            world.start("b")
        if turn > 30 and "b" in world.processes:
            world.processes["b"].turn(0.0)
        if turn == 70:
            world.processes.pop("b").stop()
    world.processes["a"].stop()
    judge(world)


def test_a_request_whose_records_come_too_late_is_kept_apart() -> None:
    late = Sent(SENT[-1].at_ns, 0, SENT[0].value.replace(b'"p0"', b'"p9"'))
    world = World([*SENT, Sent(START_NS + 95 * NS_PER_SECOND, 0, late.value)])
    world.sent.sort(key=lambda sent: sent.at_ns)
    live(world)
    assert check(world.store) == []
    assert len(world.published()) == 24
