"""The end of a lane whose partitions are gone: what is open is published, and it holds no seal any more.

A lane that nobody owns seals nothing, and windows are sealed once every lane has sealed them. So one that is
not to come back must be ended, by order. Its positions stay: should its partitions come back after all, the
lane goes on there, as a new one would, behind what the other lanes have sealed meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass

from ingest.source import StreamId
from schemas.commits import CommitBody, Standing
from schemas.errors import LakeError
from stitch.drivers.live.live_settings import RECORDED
from stitch.drivers.live.taking_over import taken_over, verify_open
from stitch.drivers.repair.kept_events import lane_settings
from stitch.lake.chain import lanes, read_tail
from stitch.lake.event_log import sweep_segments
from stitch.lake.lane import Lane
from stitch.lake.manifest import open_manifest
from stitch.lake.store import Store
from stitch.lake.upkeep.upkeep_lane import UpkeepRun


@dataclass(frozen=True, slots=True)
class LaneOfPartitions:
    """State of a lane of partitions by its last commit."""

    lane: int
    commit: int
    standing: Standing

    @property
    def streams(self) -> tuple[StreamId, ...]:
        """Every partition that it ever took from, sorted."""
        return tuple(sorted(StreamId(p.topic, p.partition) for p in self.standing.positions))


@dataclass(frozen=True, slots=True)
class Ended:
    """Counts of what the ending commit of a lane published."""

    streams: tuple[StreamId, ...]
    windows: int
    flows: int
    events: int
    """Events of requests that were open."""


def lanes_of_partitions(store: Store) -> list[LaneOfPartitions]:
    """Lanes that took from a log, ascending; those that were ended, too. Raises LakeError."""
    found = []
    for number in lanes(store):
        tail = read_tail(store, number)
        if tail.standing.positions:
            found.append(LaneOfPartitions(number, tail.head, tail.standing))
    return found


def end_lane(run: UpkeepRun, number: int) -> Ended:
    """Take a lane over, publish all that is open, and let it hold no seal.

    Whoever owned it is fenced off, and learns it from its next commit; if the lane is still its own by then,
    it takes it back and the lane is ended no more. Raw events that were kept of the lane for a repair go. On
    a disk the caller holds `exclusive_lock`. Raises LakeError where the lane is none of a partition or was
    ended before, CommitTakenError (an owner went on: run it again), OSError.
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
    lane = Lane(store, info, owner=run.owner, created_by=run.created_by, lane=number, fence=True)
    before = lane.standing
    buffer = taken_over(store, number, settings, before, None)
    verify_open(buffer, number, lane.events_open)
    due = buffer.everything()
    with lane.stage() as staging:
        due.stage(staging)
        lane.commit(
            staging,
            CommitBody(
                kind="live",
                counters=due.counters,
                config=settings.model_dump(mode="json", include={*RECORDED}),
                standing=Standing(
                    cluster_id=before.cluster_id,
                    positions=before.kept().positions,
                    watermark_ns=before.watermark_ns,
                    ended_to_ns=0 if due.sealed_to_ns is None else due.sealed_to_ns,
                ),
            ),
        )
    sweep_segments(store, number, lane.seq - 1, ())
    return Ended(
        streams=known[number].streams,
        windows=len({piece.window for piece in due.pieces}),
        flows=due.counters.flows,
        events=due.counters.events_carried,
    )
