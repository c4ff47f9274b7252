"""Restore damaged segments of a lane's log by reading their messages from Kafka again.

A segment holds the events that one commit read, and the commit records the offsets of the messages. They are
read and decoded again, and a new segment replaces the damaged one. Builders then rebuild the windows that
need it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ingest.formats import codec_for
from ingest.source import Payloads, Place, RangeSource, StreamId
from schemas.commits import CommitBody, CommitRecord, Counters, PartitionRange, Segment
from schemas.config import DecodeConfig
from schemas.errors import LakeError
from schemas.events import concat_events
from stitch.closing import event_times
from stitch.drivers.live.arrivals import refusals
from stitch.drivers.live.keys import log_rows
from stitch.drivers.live.lane_settings import lane_settings
from stitch.drivers.live.live_settings import RECORDED
from stitch.lake.chain import lanes, read_records
from stitch.lake.event_log import named_segments, open_segment
from stitch.lake.lane import Lane
from stitch.lake.layout import segment_part, segment_seq
from stitch.lake.manifest import open_manifest
from stitch.lake.store import Store
from stitch.lake.upkeep.upkeep_lane import UpkeepRun


@dataclass(frozen=True, slots=True)
class ReadAgain:
    """Counts of a restoration of a lane's damaged segments."""

    segments: int
    """Number of damaged segments."""
    events_before: int
    """Number of events that the damaged segments had, according to their commits."""
    events_after: int
    """Number of events in the new segments."""
    lost: tuple[PartitionRange, ...]
    """Offset ranges whose messages were needed, but are no longer in Kafka."""


class NothingLeft:
    """`RangeSource` of an input whose messages cannot be read again once they are in the lake."""

    def read(self, stream: StreamId, start: int, end: Place) -> tuple[list[Payloads], list[tuple[int, int]]]:
        """Return no messages, and the whole range as lost."""
        del stream
        return [], [(start, end.offset)]


def read_again(
    run: UpkeepRun, number: int, log: RangeSource, decode: DecodeConfig, *, accept_gaps: bool
) -> ReadAgain:
    """Take over the lane with this number, replace its damaged segments, and commit the new ones.

    log: source from which the messages are read again. accept_gaps: if events are lost, commit nevertheless;
    otherwise nothing is changed and LakeError is raised. Raises LakeError also if no segment is damaged;
    CommitTakenError if the lane's owner committed meanwhile (run it again); InputError if the log cannot be
    reached; OSError.
    """
    store, manifest = run.store, open_manifest(run.store, run.lake)
    if number not in lanes(store):
        raise LakeError(
            f"There is no lane {number} in '{run.lake}'.", remedy="`flowdiff end-lane` lists lanes."
        )
    settings = lane_settings(store, number)
    lane = Lane(store, manifest.info, owner=run.owner, created_by=run.created_by, lane=number, fence=True)
    standing, head = lane.standing, lane.seq - 1
    if not standing.logs and standing.segments:
        raise LakeError(
            f"Lane {number} was last at work in an earlier version, which holds open events of its own.",
            remedy="Read it again with that version, or end the lane: `flowdiff end-lane`.",
        )
    first = head + 1 if standing.kept_from is None else standing.kept_from
    records = {link.record.seq: link.record for link in read_records(store, number, range(first, head + 1))}
    current = {_place(one): one for one in named_segments(records.values()).values()}
    damaged = [
        at for at, segment in sorted(current.items()) if at[0] in records and not _is_whole(store, segment)
    ]
    if not damaged:
        raise LakeError(f"Every segment of lane {number} is whole.", remedy="There is nothing to read again.")
    lost: list[PartitionRange] = []
    before = sum(current[at].rows for at in damaged)
    latest_ns = run.now_ns + settings.max_future_ns
    with lane.stage() as staging:
        made: list[Segment] = []
        for seq, part in damaged:
            events, gone = _events(records[seq], log, decode, latest_ns)
            made.append(staging.add_segment(log_rows(events), seq, part))
            lost += gone
        after = sum(segment.rows for segment in made)
        if after < before and not accept_gaps:
            raise _loss(number, before - after, before, lost)
        missing = max(0, before - after)
        lane.commit(
            staging,
            CommitBody(
                kind="live",
                counters=Counters(
                    events_carried=missing,
                    events_lost=missing,
                    events_read=max(0, after - before),
                    events_logged=max(0, after - before),
                ),
                gaps=tuple(lost) if missing else (),
                config=settings.model_dump(mode="json", include={*RECORDED}),
                standing=standing.kept().model_copy(update={"segments": tuple(made)}),
            ),
        )
    # Nothing names them any more but commits of before.
    for at in damaged:
        if store.size(current[at].name) is not None:
            store.remove(current[at].name)
    return ReadAgain(len(damaged), before, after, tuple(lost))


def _loss(lane: int, lost: int, before: int, ranges: Sequence[PartitionRange]) -> LakeError:
    where = ", ".join(f"{each.topic}/{each.partition} {each.start} to {each.end - 1}" for each in ranges)
    gone = f": the log no longer has {where}" if where else ""
    return LakeError(
        f"{lost:,} of {before:,} events of lane {lane} cannot be read again{gone}; nothing was changed.",
        remedy="Restore the segment from a backup, or take the loss with --accept-gaps.",
    )


def _is_whole(store: Store, segment: Segment) -> bool:
    try:
        open_segment(store, segment)
    except LakeError:
        return False
    return True


def _place(segment: Segment) -> tuple[int, int]:
    """(Number of the commit whose events a segment holds, number of the segment in it), from its name."""
    file = segment.name.rpartition("/")[2]
    seq = segment_seq(file)
    assert seq is not None
    return seq, segment_part(file)


def _events(
    record: CommitRecord, log: RangeSource, decode: DecodeConfig, latest_ns: int
) -> tuple[pa.Table, list[PartitionRange]]:
    """Read again the messages of a commit: (accepted events, offset ranges that the log no longer has).

    latest_ns: later events are rejected.
    """
    found, lost = [], []
    for part in record.standing.positions:
        if part.start == part.end:
            continue
        stream = StreamId(part.topic, part.partition)
        polls, missing = log.read(stream, part.start, Place(part.end, part.topic_id, part.epoch))
        found += [codec_for(p.format).decode(p.payloads, decode).events for p in polls if p.format]
        lost += [part.model_copy(update={"start": start, "end": end}) for start, end in missing]
    events = concat_events([table for table in found if table.num_rows])
    if events.num_rows:
        refused = np.zeros(events.num_rows, dtype=np.bool_)
        for rows in refusals(events, *event_times(events), latest_ns).values():
            refused |= rows
        events = events.filter(pa.array(~refused)).combine_chunks() if refused.any() else events
    return events, lost
