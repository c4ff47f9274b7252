"""Lanes that were put off, lost, halted or in doubt, over a disk, a log and a clock in memory."""

from __future__ import annotations

import errno

import pytest
from oracles.live_process import SETTINGS, World, flow_rows, requests
from oracles.memory_disk import MemoryDisk

from ingest.source import CutBackError, StreamId
from schemas.windows import NS_PER_SECOND
from stitch.drivers.live.watch import Watch
from stitch.lake.chain import read_chain
from stitch.lake.fsck import check

pytestmark = pytest.mark.usefixtures("encoded_once")


class DoubtfulDisk(MemoryDisk):
    """Fails at one commit of lane 1, so that nobody knows whether it was taken."""

    fail_at: int = 0
    commits: int = 0

    def link(self, source: str, target: str) -> None:
        if "lane=1/" in target:
            self.commits += 1
            if self.commits == self.fail_at:
                raise OSError(errno.EIO, "timed out")
        super().link(source, target)


@pytest.mark.parametrize("crash_after", [None, 0, 1, 2])
@pytest.mark.parametrize("step_s", [4, 11])
@pytest.mark.parametrize("fail_at", [2, 4, 5])
def test_what_was_read_behind_a_commit_in_doubt_is_read_again(
    fail_at: int, step_s: float, crash_after: int | None
) -> None:
    """Polls of the lane are still being decoded when it is taken over anew."""
    disk = DoubtfulDisk()
    disk.fail_at = fail_at
    world = World(requests(40, partitions=1, spread_s=200), disk, partitions=1, step_s=step_s, drains=False)
    world.log.per_poll = 3
    run, turns_since = world.start("process"), 0
    for _ in world.turns("process"):
        turns_since += disk.commits >= fail_at
        if crash_after is not None and turns_since == crash_after + 1:
            world.bury("process")
            run = world.start("process")
    while any(stream.lag for lane in run.status().lanes for stream in lane.streams):
        world.now_ns += 4 * NS_PER_SECOND
        run.turn(0.0)
    run.stop(whole=True)
    assert check(world.store) == []
    assert world.published() == {row[0]: row for row in flow_rows(world.expected().flows)}
    records = [link.record for link in read_chain(world.store, 1)]
    assert sum(record.counters.messages for record in records) == len(world.sent)


class FullDisk(MemoryDisk):
    """Refuses to make files of some lane."""

    refused: str = ""

    def create(self, name: str, data: bytes) -> None:  # type: ignore[override]
        if self.refused and self.refused in name:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().create(name, data)


def begun(partitions: int, disk: MemoryDisk, turns: int = 4) -> World:
    """A world whose first process has done something, and has gone."""
    world = World(requests(12, partitions, 100), disk, partitions=partitions)
    world.start("first")
    for turn in world.turns("first"):
        if turn == turns:
            break
    world.processes.pop("first").stop()
    return world


@pytest.mark.parametrize("waits_turns", [0, 3])
def test_a_lane_that_is_put_off_has_all_its_streams_later(waits_turns: int) -> None:
    disk = FullDisk()
    world = begun(1, disk)
    disk.refused = "lane=1"
    run = world.start("second")
    for turn in world.turns("second"):
        if turn == 1:
            world.log.create("more", 1)  # of the same lane
            world.log.rebalance()
        if turn == 2 + waits_turns:
            disk.refused = ""
    told = {stream.name: stream.lag for lane in run.status().lanes for stream in lane.streams}
    assert told == {"more/0": 0, "spans/0": 0}
    assert run.status().ready
    run.stop()
    assert world.published() == {row[0]: row for row in flow_rows(world.expected().flows)}


def test_a_lane_of_which_a_stream_goes_is_waited_for_with_the_rest() -> None:
    disk = FullDisk()
    world = begun(1, disk)
    disk.refused = "lane=1"
    world.log.create("more", 1)
    run = world.start("second")
    member = world.members["second"]
    for turn in world.turns("second"):
        if turn == 1:
            member.wanted.discard(StreamId("more", 0))
            world.log._settle()
        if turn == 3:
            disk.refused = ""
    assert [stream.name for lane in run.status().lanes for stream in lane.streams] == ["spans/0"]
    run.stop()
    assert world.published() == {row[0]: row for row in flow_rows(world.expected().flows)}


def test_a_halted_lane_stays_halted_where_a_stream_comes_to_it() -> None:
    world = begun(1, MemoryDisk(), turns=6)
    world.log.first[StreamId("spans", 0)] = 30  # retention passed us
    run = world.start("second")
    for turn in world.turns("second"):
        if turn == 2:
            assert set(run.halted) == {1}
            world.log.create("more", 1)
            world.log.rebalance()
    assert set(run.halted) == {1}
    assert "begins at 30" in run.halted[1]
    assert run.all_halted


def test_a_lane_that_waits_is_no_reason_to_end() -> None:
    disk = FullDisk()
    world = begun(2, disk, turns=6)
    world.log.first[StreamId("spans", 0)] = 9
    disk.refused = "lane=2"
    run = world.start("second")
    for turn in world.turns("second"):
        if turn == 1:
            assert set(run.halted) == {1}
            assert not run.all_halted
            disk.refused = ""
    assert [lane.lane for lane in run.status().lanes] == [2]


class AwayDisk(MemoryDisk):
    """A store whose commits are not answered for a while."""

    away: bool = False

    def link(self, source: str, target: str) -> None:
        if self.away and "/commits/" in target:
            raise TimeoutError(errno.ETIMEDOUT, "the store did not answer in time")
        super().link(source, target)


def test_a_lane_that_is_given_up_while_a_commit_is_in_doubt_is_left_to_its_heir() -> None:
    disk = AwayDisk()
    world = World(requests(40, partitions=2, spread_s=300), disk)
    ours = world.start("ours")
    for turn in world.turns("ours"):
        if turn == 8:
            break
    theirs = world.start("theirs")  # lane 2 is asked back
    disk.away = True
    world.pass_time(world.step_s)
    ours.turn(0.0)
    disk.away = False
    before = len([*read_chain(world.store, 2)])
    while not world.over:
        world.pass_time(world.step_s)
        theirs.turn(0.0)
        ours.turn(0.0)
    assert {link.record.owner for link in [*read_chain(world.store, 2)][before:]} == {"theirs"}
    assert [lane.lane for lane in ours.status().lanes] == [1]
    ours.stop()
    theirs.stop()
    assert check(world.store) == []
    assert world.published() == {row[0]: row for row in flow_rows(world.expected().flows)}


def read_to(world: World, lane: int) -> int:
    """Position of the only stream of a lane, by its last commit."""
    return [*read_chain(world.store, lane)][-1].record.standing.positions[0].end


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("is_seen_short", [True, False])
def test_a_log_that_was_cut_back_stays_halted_however_long_it_grows(
    processes: int, is_seen_short: bool
) -> None:
    """Also where it has grown past our position before anybody looks, and whoever looks."""
    world = World(requests(60, partitions=2, spread_s=600), partitions=2)
    world.start("first")
    for turn in world.turns("first"):
        if turn == 30:
            break
    world.processes.pop("first").stop()
    world.members.clear()
    position = read_to(world, 1)
    assert position == len(world.log.messages[StreamId("spans", 0)]) > 10
    world.log.cut_back(StreamId("spans", 0), position - 7)
    if not is_seen_short:
        world.pass_time(100)
        assert len(world.log.messages[StreamId("spans", 0)]) > position
    ends = []
    for restart in range(5):
        ends.append(len(world.log.messages[StreamId("spans", 0)]))
        names = [f"{restart}-{n}" for n in range(processes)]
        for name in names:
            world.start(name)
        for _ in range(6):
            world.pass_time(world.step_s)
            for name in names:
                world.processes[name].turn(0.0)
        halted = {lane: why for name in names for lane, why in world.processes[name].halted.items()}
        assert halted == {1: str(CutBackError(StreamId("spans", 0), position, position - 7))}
        for name in names:
            world.processes[name].stop()
            world.bury(name)
        assert read_to(world, 1) == position
    assert (ends[0] < position) == is_seen_short
    assert sum(end > position for end in ends) >= 2  # restarts that find it longer than it was

    world.settings = SETTINGS.model_copy(update={"accept_gaps": True})
    run = world.start("by order")
    for _ in world.turns("by order"):
        pass
    run.stop()
    assert run.halted == {}
    gaps = [gap for link in read_chain(world.store, 1) for gap in link.record.gaps]
    assert [(gap.topic, gap.start, gap.end) for gap in gaps] == [("spans", position - 7, position)]
    assert check(world.store) == []
    assert world.published() == {row[0]: row for row in flow_rows(world.expected().flows)}


def test_a_log_that_is_cut_back_while_it_is_read_is_gone_on_with_by_order() -> None:
    settings = SETTINGS.model_copy(update={"accept_gaps": True})
    world = World(requests(60, partitions=1, spread_s=600), settings=settings, partitions=1)
    run = world.start("process")
    for turn in world.turns("process"):
        if turn == 30:
            world.log.cut_back(StreamId("spans", 0), run.status().lanes[0].streams[0].position - 7)
    run.stop()
    assert run.halted == {}
    gaps = [gap for link in read_chain(world.store, 1) for gap in link.record.gaps]
    assert [gap.end - gap.start for gap in gaps] == [7]
    assert check(world.store) == []
    assert world.published() == {row[0]: row for row in flow_rows(world.expected().flows)}


class Told(Watch):
    """Remembers what became of lanes."""

    def __init__(self) -> None:
        self.lanes: list[tuple[str, str]] = []

    def lane(self, lane: int, state: str, why: str) -> None:
        """See Watch."""
        if lane == 1:
            self.lanes.append((state, why))


def test_settings_that_are_not_those_of_the_lake_are_told_with_both() -> None:
    world = begun(1, MemoryDisk())
    world.watch = told = Told()
    for idle_s in (SETTINGS.stitch.idle_ns // NS_PER_SECOND, 77):
        world.settings = SETTINGS.model_copy(
            update={"stitch": SETTINGS.stitch.model_copy(update={"idle_ns": idle_s * NS_PER_SECOND})}
        )
        run = world.start(f"idle {idle_s}")
        run.turn(0.0)
        run.stop()
        world.bury(f"idle {idle_s}")
    changed = [why for state, why in told.lanes if state == "set otherwise"]
    before, now = SETTINGS.stitch.idle_ns, 77 * NS_PER_SECOND
    assert changed == [f"stitch.idle_ns: {before} until now, {now} from now on"]
