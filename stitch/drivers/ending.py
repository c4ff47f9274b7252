"""End a lane whose partitions are gone: build the windows of its log, and let windows be built without
waiting for it.

A window is built once the watermark of every lane has passed it, and the watermark of a lane without an owner
stands still. So an operator must end a lane that will not come back. The lane keeps its offsets: if its
partitions do come back, a process takes the lane over and resumes there; events of windows already built are
then late.
"""

from __future__ import annotations

from dataclasses import dataclass

from ingest.source import StreamId
from schemas.commits import CommitBody, Counters, Segment, Standing
from schemas.errors import LakeError
from stitch.drivers.build.build_settings import BuildSettings
from stitch.drivers.build.builder import Builder, Step
from stitch.drivers.live.keys import log_rows
from stitch.drivers.live.lane_settings import lane_settings
from stitch.drivers.live.live_settings import RECORDED
from stitch.drivers.live.older_segments import open_events
from stitch.lake.chain import lanes, read_tail
from stitch.lake.event_log import sweep_segments
from stitch.lake.lane import Lane
from stitch.lake.manifest import open_manifest
from stitch.lake.store import Store
from stitch.lake.upkeep.upkeep_lane import UpkeepRun
from stitch.scratch import Scratch


@dataclass(frozen=True, slots=True)
class LaneOfPartitions:
    """A lane that reads partitions, as of its last commit."""

    lane: int
    commit: int
    standing: Standing

    @property
    def streams(self) -> tuple[StreamId, ...]:
        """Every partition that the lane ever read, sorted."""
        return tuple(sorted(StreamId(p.topic, p.partition) for p in self.standing.positions))


@dataclass(frozen=True, slots=True)
class Ended:
    """Result of ending a lane: its streams, and what was built afterwards."""

    streams: tuple[StreamId, ...]
    windows: int
    """Number of windows built, including ones that only have events of other lanes."""
    events: int
    """Number of events in the windows built."""


def lanes_of_partitions(store: Store) -> list[LaneOfPartitions]:
    """Lanes that read partitions of a log, ascending, ended ones included. Raises LakeError."""
    found = []
    for number in lanes(store):
        tail = read_tail(store, number)
        if tail.standing.positions:
            found.append(LaneOfPartitions(number, tail.head, tail.standing))
    return found


def end_lane(run: UpkeepRun, number: int, scratch: Scratch) -> Ended:
    """End the lane with this number: take it over, mark it as ended, and build the windows that waited for
    it.

    Whoever owned it is fenced off, and learns it from its next commit; if the lane is still its own by then,
    it takes it back and the lane is ended no more. Raw events that were kept of the lane go. On
    a disk the caller holds `exclusive_lock`. Raises LakeError where the lane is none of a partition or was
    ended before, CommitTakenError (an owner went on, or builders always committed first: run it again),
    OSError.
    """
    store, lake = run.store, run.lake
    info = open_manifest(store, lake).info
    known = {lane.lane: lane for lane in lanes_of_partitions(store)}
    if number not in known:
        there = ", ".join(map(str, known)) or "none"
        raise LakeError(
            f"Lane {number} of '{lake}' is none of a partition; these are: {there}.",
            remedy="The lane of partition n is n + 1.",
        )
    if known[number].standing.ended_to_ns is not None:
        raise LakeError(f"Lane {number} of '{lake}' was ended before.", remedy="There is nothing to do.")
    settings = lane_settings(store, number)
    building = BuildSettings(linger_ns=settings.linger_ns, patience_ns=settings.patience_ns)
    run.retry(lambda: Builder(store, run, scratch, building).refuse_lost())
    lane = Lane(store, info, owner=run.owner, created_by=run.created_by, lane=number, fence=True)
    before = lane.standing
    with lane.stage() as staging:
        segments: tuple[Segment, ...] = ()
        counters = Counters()
        if not before.logs and lane.events_open:
            events = open_events(store, number, before.segments, lane.events_open)
            segments = (staging.add_segment(log_rows(events)),)
            counters = Counters(events_carried=events.num_rows, events_logged=events.num_rows)
        standing = Standing(
            cluster_id=before.cluster_id,
            positions=before.kept().positions,
            watermark_ns=before.watermark_ns,
            sealed_to_ns=before.sealed_to_ns,
            ended_to_ns=before.sealed_to_ns or 0,
            segments=segments,
            kept_from=lane.seq if before.kept_from is None else before.kept_from,
            logs=True,
        )
        config = settings.model_dump(mode="json", include={*RECORDED})
        lane.commit(staging, CommitBody(kind="live", counters=counters, config=config, standing=standing))
    total = Step()

    def attempt() -> int:
        nonlocal total
        builder = Builder(store, run, scratch, building)
        while (done := builder.step(run.now_ns, urgent=True)).did_anything:
            total = total.and_(done)
        return builder.built_to(number)

    sweep_segments(store, number, run.retry(attempt), ())
    return Ended(known[number].streams, total.built + total.again, total.events)
