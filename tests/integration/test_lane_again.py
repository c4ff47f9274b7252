"""A lane whose segments are damaged or missing: nothing is built of them until they are read again, as whole
as the log is.
"""

from __future__ import annotations

import json
from copy import deepcopy
from functools import cache
from pathlib import Path

import pytest
from oracles.live_process import SETTINGS, START_NS, Sent, World, flow_rows, requests
from oracles.memory_disk import MemoryDisk

from ingest.source import StreamId
from schemas.commits import CommitRecord, Segment
from schemas.config import DecodeConfig
from schemas.errors import LakeError
from schemas.windows import NS_PER_SECOND
from stitch.drivers.ending import end_lane
from stitch.drivers.repair.reading_again import ReadAgain, read_again
from stitch.lake.chain import read_chain, read_tail
from stitch.lake.event_log import named_segments
from stitch.lake.fsck import check
from stitch.lake.layout import segment_seq
from stitch.lake.manifest import open_manifest
from stitch.lake.upkeep.hidden import UPKEEP_LANE, upkeep_of
from stitch.lake.upkeep.upkeep_lane import UpkeepRun
from stitch.scratch import Scratch

pytestmark = pytest.mark.usefixtures("encoded_once")

SPANS = StreamId("spans", 0)


def last(world: World) -> CommitRecord:
    return [*read_chain(world.store, 1)][-1].record


def waiting(world: World) -> list[Segment]:
    """Segments of lane 1 that hold something of windows to be built."""
    built_to = dict(upkeep_of(read_tail(world.store, UPKEEP_LANE).standing).built_to).get(1, 0)
    named = named_segments(link.record for link in read_chain(world.store, 1))
    current = {segment_seq(name.rpartition("/")[2]): segment for name, segment in named.items()}
    return [segment for seq, segment in sorted(current.items()) if (seq or 0) > built_to]  # type: ignore[type-var]


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
    segments = waiting(world)
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
    sealed_to_ns = open_manifest(world.store).sealed_to_ns
    run = world.start("waits")
    for _ in range(30):
        world.pass_time(world.step_s)
        run.turn(0.0)
    assert run.halted == {}
    assert "is missing or damaged" in (run.status().build.trouble or "")
    assert open_manifest(world.store).sealed_to_ns == sealed_to_ns
    run.stop()
    world.bury("waits")
    assert check(world.store) != []
    done = again(world)
    assert (done.events_before, done.lost) == (done.events_after, ())
    assert check(world.store) == []
    to_the_end(world)
    assert check(world.store) == []
    assert world.published() == {row[0]: row for row in flow_rows(world.expected().flows)}
    counted = [link.record.counters for link in read_chain(world.store, 1)]
    assert sum(counters.events_lost for counters in counted) == 0
    assert not open_manifest(world.store).files("late")


def test_it_is_read_again_once_more_where_it_is_damaged_again() -> None:
    world = damaged("last", "missing")
    again(world)
    world.store.remove(waiting(world)[-1].name)
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
    again(world)
    to_the_end(world)
    assert check(world.store) == []
    assert world.published() == quiet.published()


def test_what_the_log_no_longer_has_is_lost_by_order_and_in_the_ledger() -> None:
    world = damaged("all", "missing")
    positions = [record.record.standing.positions[0] for record in read_chain(world.store, 1)]
    needed = [p for p in positions if p.end > p.start][-2]
    world.log.first[SPANS] = needed.start + 1
    before = last(world)
    with pytest.raises(LakeError, match=r"events of lane 1 cannot be read again: the log no longer has"):
        again(world)
    assert last(world).standing.segments == before.standing.segments
    done = again(world, accept_gaps=True)
    assert done.events_after < done.events_before
    assert {gone.end for gone in done.lost} >= {needed.start + 1}
    record = last(world)
    assert record.gaps == done.lost
    assert record.counters.events_lost == done.events_before - done.events_after
    assert check(world.store) == []
    to_the_end(world)
    assert check(world.store) == []
    expected = {row[0]: row for row in flow_rows(world.expected().flows)}
    published = world.published()
    assert {name for name in expected if int(str(name)[1:]) % 2} <= set(published)
    sealed_to_ns = open_manifest(world.store).sealed_to_ns
    assert sealed_to_ns is not None
    assert sealed_to_ns > START_NS + 200 * NS_PER_SECOND


def test_records_without_a_request_id_are_read_again() -> None:
    sent = []
    for message in requests(60, partitions=2, spread_s=240):
        told = json.loads(message.value)
        del told["request_id"]
        sent.append(Sent(message.at_ns, message.partition, json.dumps(told).encode()))
    world = damaged("last", "missing", sent)
    again(world)
    to_the_end(world)
    assert check(world.store) == []
    assert world.published() == {row[0]: row for row in flow_rows(world.expected().flows)}


def test_a_lane_that_is_read_again_can_be_ended(tmp_path: Path) -> None:
    world = damaged("first", "missing")
    with pytest.raises(LakeError, match="is missing or damaged: events of windows that are to be built"):
        end_lane(UpkeepRun(world.store, "lake", world.now_ns, 0, "end", "test"), 1, Scratch(tmp_path))
    again(world)
    end_lane(UpkeepRun(world.store, "lake", world.now_ns, 0, "end", "test"), 1, Scratch(tmp_path))
    assert check(world.store) == []


def test_a_topic_that_was_made_anew_has_nothing_to_read_again() -> None:
    world = damaged("all", "missing")
    world.log.topic_ids["spans"] = "id-2"
    done = again(world, accept_gaps=True)
    assert done.events_after == 0
    assert last(world).counters.events_lost == done.events_before


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
