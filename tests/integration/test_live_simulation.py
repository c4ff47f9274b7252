"""The live driver over a disk, a log and a clock in memory: a crash, or another owner, at every operation."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping

import pytest
from oracles.live_process import World, flow_rows, requests
from oracles.memory_disk import CrashError, MemoryDisk

from ingest.source import Place
from schemas.commits import Segment
from schemas.errors import FlowdiffError
from stitch.drivers.build.log_follower import LogFollower
from stitch.drivers.live.live_lane import LiveLane
from stitch.lake.chain import read_chain
from stitch.lake.event_log import KeptSegments, sweep_segments
from stitch.lake.fsck import check
from stitch.lake.staging import Staging
from stitch.lake.store import LocalStore

pytestmark = pytest.mark.usefixtures("encoded_once")

Ending = Callable[[MemoryDisk], None]
ENDINGS: dict[str, Ending] = {
    "kill": MemoryDisk.kill,
    "power": MemoryDisk.lose_power,
    "some": lambda disk: disk.lose_some(random.Random(disk.steps)),
}
SENT = requests(6, partitions=2, spread_s=50)
STEP_S = 6
"""Between two turns: as few as let every mutant below be caught."""


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
    world = World(SENT, step_s=STEP_S)
    live(world)
    judge(world)


STEPS = 0


def steps() -> int:
    """Operations of an undisturbed life."""
    global STEPS
    if not STEPS:
        world = World(SENT, step_s=STEP_S)
        live(world)
        STEPS = world.disk.steps
    return STEPS


def crash(at: int, ending: Ending) -> None:
    world = World(SENT, disk=MemoryDisk(crash_at=at), step_s=STEP_S)
    try:
        live(world, "first")
    except CrashError:
        ending(world.disk)
        world.bury("first")
        live(world)
    judge(world)


SHARE = int(os.environ.get("FLOWDIFF_SCHEDULES", "25"))
"""Operations of each ending, by chance: as many as catch every mutant below."""


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_crash_at_any_operation_loses_and_doubles_nothing(ending: str) -> None:
    every = random.Random(ending).sample(range(1, steps() + 1), min(SHARE, steps()))
    for at in every:
        crash(at, ENDINGS[ending])


def overtaken(at: int, disk: MemoryDisk | None = None) -> None:
    """A process sleeps just before an operation; another takes over and goes on; then the first one wakes."""
    world = World(SENT, disk=disk or MemoryDisk(), step_s=STEP_S)
    world.start("zombie")

    def sleep() -> None:
        world.log.declare_dead(world.members["zombie"])
        world.start("heir")
        for turn in world.turns("heir"):
            if turn == 12:
                return

    world.disk.at_step(at, sleep)
    while not world.over:
        world.pass_time(world.step_s)
        for run in [*world.processes.values()]:
            run.turn(0.0)
    for run in [*world.processes.values()]:
        run.stop()
    judge(world)


def test_of_two_owners_of_a_lane_the_later_one_counts() -> None:
    for at in random.Random(3).sample(range(1, steps() + 1), min(SHARE, steps())):
        overtaken(at)


def test_lanes_move_to_a_second_process_and_back() -> None:
    world = World(requests(24, partitions=3, spread_s=100), partitions=3)
    world.start("a")
    for turn in world.turns("a"):
        if turn == 8:
            world.start("b")
        if "b" in world.processes:
            world.processes["b"].turn(0.0)
        if turn == 20:
            world.processes.pop("b").stop()
    world.processes["a"].stop()
    judge(world)
    owners = {link.record.owner for link in read_chain(world.store, 2)}
    assert owners == {"a", "b"}


# -- mutants: each must be caught by the schedules above ---------------------------------------------------
#
# To take over without a fence is no mutant: a zombie that commits once more before the heir does is at the
# next number, as it may be; the heir then finds that number taken, and takes over again from there. The fence
# spares it that. What keeps the two apart is that every commit names the one before (`test_lake_crash`).


def schedules() -> None:
    """The schedules above, those that catch most first. Raises once something went wrong."""
    rng = random.Random(5)
    for at in rng.sample(range(1, steps() + 1), 12):
        overtaken(at)
    for ending in ("power", "kill"):
        for at in rng.sample(range(1, steps() + 1), 25):
            crash(at, ENDINGS[ending])


def _segments_not_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Staging, "names", lambda self: [item.stage for item in self.items()])


def _segments_swept_early(monkeypatch: pytest.MonkeyPatch) -> None:
    def early(self: KeptSegments, needed: tuple[Segment, ...]) -> None:
        sweep_segments(self._store, self._lane, self._commits[-1][1], needed[:-1])

    monkeypatch.setattr(KeptSegments, "sweep", early)


def _swept_before_it_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ages alone decide, and whoever builds comes too late."""
    real = KeptSegments.kept_from

    def by_age(self: KeptSegments, seq: int, now_ns: int, built_to: int) -> int:
        del built_to
        self._keep_ns = 0
        return real(self, seq, now_ns, 2**60)

    monkeypatch.setattr(KeptSegments, "kept_from", by_age)


def _log_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A builder plans with what it saw first."""
    real = LogFollower.follow

    def once(self: LogFollower, known: Mapping[int, int]) -> object:
        return real(self, known) if not self.segments else ([], [])

    monkeypatch.setattr(LogFollower, "follow", once)


def _released_without_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Offsets go to the log, and the next owner believes them."""
    monkeypatch.setattr(LiveLane, "place", lambda self, stream: Place(10**6))


@pytest.mark.parametrize(
    "mutant",
    [
        _segments_not_durable,
        _segments_swept_early,
        _swept_before_it_is_built,
        _log_not_followed,
        _released_without_commit,
    ],
)
def test_a_driver_that_cheats_is_caught(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    steps()
    mutant(monkeypatch)
    with pytest.raises((AssertionError, FlowdiffError)):
        schedules()
