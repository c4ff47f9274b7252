"""A lane whose segments are damaged or missing: halted, read again, and as whole as the log is."""

from __future__ import annotations

import json
from copy import deepcopy
from functools import cache

import pytest
from oracles.live_process import SETTINGS, START_NS, Sent, World, flow_rows, requests
from oracles.memory_disk import MemoryDisk

from ingest.source import StreamId
from schemas.commits import CommitRecord
from schemas.config import DecodeConfig
from schemas.errors import LakeError
from schemas.windows import NS_PER_SECOND
from stitch.drivers.ending import end_lane
from stitch.drivers.repair.reading_again import ReadAgain, read_again
from stitch.lake.chain import read_chain
from stitch.lake.fsck import check
from stitch.lake.manifest import open_manifest
from stitch.lake.upkeep.upkeep_lane import UpkeepRun

pytestmark = pytest.mark.usefixtures("encoded_once")

SPANS = StreamId("spans", 0)


def last(world: World) -> CommitRecord:
    return [*read_chain(world.store, 1)][-1].record


def lived(sent: list[Sent], turns: int) -> World:
    """A world whose process has ended after some turns."""
    settings = SETTINGS.model_copy(update={"commit_interval_ns": 5 * NS_PER_SECOND})
    world = World(sent, settings=settings, partitions=2)
    world.start("first")
    for turn in world.turns("first"):
        if turn == turns:
            break
    world.processes.pop("first").stop()
    world.members.clear()
    return world


@cache
def ended(turns: int) -> World:
    """The one that several tests go on from; to be copied."""
    return lived(requests(60, partitions=2, spread_s=240), turns)


def damaged(which: str, how: str, sent: list[Sent] | None = None, turns: int = 23) -> World:
    """A world whose process has ended, and some of whose segments are not what they were."""
    world = deepcopy(ended(turns)) if sent is None else lived(sent, turns)
    segments = last(world).standing.segments
    assert len(segments) > 1
    for segment in {"first": segments[:1], "last": segments[-1:], "all": segments}[which]:
        store = world.store
        data = store.read(segment.name).to_pybytes()
        store.remove(segment.name)
        if how == "damaged":
            store.put(segment.name, data[:-9] + bytes(9))
    return world


def again(world: World, *, accept_gaps: bool = False) -> ReadAgain:
    run = UpkeepRun(world.store, "lake", world.now_ns, 0, "repair", "test")
    return read_again(run, 1, world.log, DecodeConfig(), accept_gaps=accept_gaps)


def to_the_end(world: World) -> None:
    run = world.start("second")
    for _ in world.turns("second"):
        pass
    run.stop()
    assert run.halted == {}


@pytest.mark.parametrize(
    ("which", "how"), [("first", "missing"), ("last", "missing"), ("all", "missing"), ("all", "damaged")]
)
@pytest.mark.parametrize("turns", [11, 23, 25])  # behind a seal, before one, and in between
def test_what_the_log_still_has_is_read_again_and_nothing_is_lost(which: str, how: str, turns: int) -> None:
    world = damaged(which, how, turns=turns)
    run = world.start("halts")
    run.turn(0.0)
    assert set(run.halted) == {1}
    assert "`flowdiff repair --lane`" in run.halted[1]
    run.stop()
    world.bury("halts")
    assert check(world.store) != []
    done = again(world)
    assert (done.open_before, done.lost) == (done.open_after, ())
    assert check(world.store) == []
    to_the_end(world)
    assert check(world.store) == []
    assert world.published() == {row[0]: row for row in flow_rows(world.expected().flows)}
    counted = [link.record.counters for link in read_chain(world.store, 1)]
    assert sum(counters.events_late + counters.events_lost for counters in counted) == 0


def test_it_is_read_again_once_more_where_it_is_damaged_again() -> None:
    world = damaged("last", "missing")
    again(world)
    world.store.remove(last(world).standing.segments[-1].name)
    again(world)
    to_the_end(world)
    assert world.published() == {row[0]: row for row in flow_rows(world.expected().flows)}


def test_late_events_and_copies_among_what_is_read_again_stay_what_they_were() -> None:
    sent = requests(60, partitions=2, spread_s=240)
    first = [message for message in sent if message.partition == 0]
    more = []
    for place, message in enumerate(first):
        if place % 7 == 0:  # again, at once and much later
            more += [Sent(message.at_ns + after * NS_PER_SECOND, 0, message.value) for after in (3, 90)]
        if place % 9 == 0:
            told = json.loads(message.value)
            told["point"] = "late"
            more.append(Sent(message.at_ns + 100 * NS_PER_SECOND, 0, json.dumps(told).encode()))
    sent = sorted([*sent, *more], key=lambda message: message.at_ns)
    quiet = World(sent, partitions=2)
    to_the_end(quiet)
    world = damaged("all", "missing", sent)
    again(world, accept_gaps=True)  # a copy of what waited for its window looks open, and is dropped later
    to_the_end(world)
    assert check(world.store) == []
    assert world.published() == quiet.published()


def test_what_the_log_no_longer_has_is_lost_by_order_and_in_the_ledger() -> None:
    world = damaged("all", "missing")
    positions = [record.record.standing.positions[0] for record in read_chain(world.store, 1)]
    needed = [p for p in positions if p.end > p.start][-3]
    world.log.first[SPANS] = needed.start + 2
    before = last(world)
    with pytest.raises(LakeError, match=r"open events of lane 1 cannot be read again: the log no longer has"):
        again(world)
    assert last(world).standing.segments == before.standing.segments
    done = again(world, accept_gaps=True)
    assert done.open_after < done.open_before == before.counters.events_open
    assert {gone.end for gone in done.lost} >= {needed.start + 2}
    record = last(world)
    assert record.gaps == done.lost
    assert record.counters.events_lost == done.open_before - done.open_after
    assert check(world.store) == []
    to_the_end(world)
    assert check(world.store) == []
    expected = {row[0]: row for row in flow_rows(world.expected().flows)}
    published = world.published()
    assert {name for name in expected if int(str(name)[1:]) % 2} <= set(published)
    sealed_to_ns = open_manifest(world.store).sealed_to_ns
    assert sealed_to_ns is not None
    assert sealed_to_ns > START_NS + 200 * NS_PER_SECOND


def test_records_without_a_request_id_are_lost_and_not_doubled() -> None:
    sent = []
    for message in requests(60, partitions=2, spread_s=240):
        told = json.loads(message.value)
        del told["request_id"]
        sent.append(Sent(message.at_ns, message.partition, json.dumps(told).encode()))
    world = damaged("last", "missing", sent)
    with pytest.raises(LakeError, match=r"\d+ of \d+ open events of lane 1 cannot be read again; nothing"):
        again(world)
    again(world, accept_gaps=True)
    to_the_end(world)
    assert check(world.store) == []
    world.published()  # raises where one is there twice


def test_a_lane_that_is_read_again_can_be_ended() -> None:
    world = damaged("first", "missing")
    with pytest.raises(LakeError, match="is missing: events of open requests are in it"):
        end_lane(UpkeepRun(world.store, "lake", world.now_ns, 0, "end", "test"), 1)
    again(world)
    end_lane(UpkeepRun(world.store, "lake", world.now_ns, 0, "end", "test"), 1)
    assert check(world.store) == []


def test_a_topic_that_was_made_anew_has_nothing_to_read_again() -> None:
    world = damaged("all", "missing")
    world.log.topic_ids["spans"] = "id-2"
    done = again(world, accept_gaps=True)
    assert done.open_after == 0
    assert last(world).counters.events_lost == done.open_before


def test_a_lane_that_is_whole_is_left_alone() -> None:
    world = World(requests(12, partitions=2, spread_s=100), MemoryDisk(), settings=SETTINGS)
    world.start("first")
    for turn in world.turns("first"):
        if turn == 10:
            break
    world.processes.pop("first").stop()
    with pytest.raises(LakeError, match="Every segment of lane 1 is whole"):
        again(world)
    run = UpkeepRun(world.store, "lake", 0, 0, "repair", "test")
    with pytest.raises(LakeError, match="There is no lane 9"):
        read_again(run, 9, world.log, DecodeConfig(), accept_gaps=False)
