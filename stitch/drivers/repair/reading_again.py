"""Read the damaged segments of a live lane again from the log, so that the lane can go on.

A segment holds the open events that one commit read, and that commit says from which messages. What they hold
and is open still is what the lake does not have: it is written as a segment in the place of the damaged one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ingest.formats import codec_for
from ingest.source import Place, RangeSource, StreamId
from schemas.arrays import B1, U8
from schemas.commits import CommitBody, Counters, PartitionRange, Segment
from schemas.config import DecodeConfig
from schemas.errors import LakeError
from schemas.events import concat_events, empty_events
from stitch.closing import event_times
from stitch.drivers.live.arrivals import refusals
from stitch.drivers.live.closed_memory import ClosedMemory
from stitch.drivers.live.due import log_rows, with_settled
from stitch.drivers.live.keys import print_events, record_words, request_keys
from stitch.drivers.live.live_settings import RECORDED, LiveSettings
from stitch.drivers.live.taking_over import late_of, remember_flows, taken_over
from stitch.drivers.repair.kept_events import lane_settings
from stitch.lake.chain import lanes, read_record
from stitch.lake.event_log import read_segment
from stitch.lake.lane import Lane
from stitch.lake.layout import segment_seq
from stitch.lake.manifest import Manifest, open_manifest
from stitch.lake.store import Store
from stitch.lake.upkeep.upkeep_lane import UpkeepRun


@dataclass(frozen=True, slots=True)
class ReadAgain:
    """Result for a lane."""

    segments: int
    """Number of damaged segments."""
    open_before: int
    """Events, as the last commit says."""
    open_after: int
    lost: tuple[PartitionRange, ...]
    """Ranges to be read again that the log does not have any more."""


def read_again(
    run: UpkeepRun, number: int, log: RangeSource, decode: DecodeConfig, *, accept_gaps: bool
) -> ReadAgain:
    """Take a lane over, write its damaged segments anew, and commit that.

    Records without a request id that a damaged segment held are lost: which of them were published since
    cannot be known. What is lost is committed where gaps are accepted, else nothing is. Raises LakeError,
    CommitTakenError (an owner went on: run it again), InputError where the log does not answer, OSError.
    """
    store, manifest = run.store, open_manifest(run.store, run.lake)
    if number not in lanes(store):
        raise LakeError(
            f"There is no lane {number} in '{run.lake}'.", remedy="`flowdiff end-lane` lists lanes."
        )
    settings = lane_settings(store, number)
    lane = Lane(store, manifest.info, owner=run.owner, created_by=run.created_by, lane=number, fence=True)
    standing, open_before = lane.standing, lane.events_open
    held = [_whole(store, segment) for segment in standing.segments]
    damaged = [place for place, events in enumerate(held) if events is None]
    if not damaged:
        raise LakeError(f"Every segment of lane {number} is whole.", remedy="There is nothing to read again.")
    replaced = [standing.segments[place].name for place in damaged]
    aside = dict.fromkeys(damaged, empty_events())
    known = _Known(manifest, number, settings, standing.sealed_to_ns, run.now_ns)
    lost: list[PartitionRange] = []
    for place in damaged:
        record = read_record(store, number, _seq(standing.segments[place])).record
        events, gone = _events(record.standing.positions, log, decode)
        held[place], aside[place] = known.parted(events)
        lost += gone
    tables = [events for events in held if events is not None]
    settled = known.settled(tables[: damaged[-1] + 1])
    with lane.stage() as staging:
        segments = list(standing.segments)
        for place in damaged:
            events = with_settled(tables[place], settled) if place == damaged[-1] else tables[place]
            segments[place] = staging.add_segment(log_rows(events, aside[place]), _seq(segments[place]))
        standing = standing.kept().model_copy(update={"segments": tuple(segments)})
        open_after = taken_over(store, number, settings, standing, None).open_events
        if open_after < open_before and not accept_gaps:
            raise _loss(number, open_before - open_after, open_before, lost)
        lane.commit(
            staging,
            CommitBody(
                kind="live",
                counters=Counters(
                    events_carried=open_before,
                    events_read=max(0, open_after - open_before),
                    events_lost=max(0, open_before - open_after),
                    events_open=open_after,
                ),
                gaps=tuple(lost) if open_after < open_before else (),
                config=settings.model_dump(mode="json", include={*RECORDED}),
                standing=standing,
            ),
        )
    # Nothing names them any more but commits of before, and what is damaged helps no repair.
    for name in replaced:
        if store.size(name) is not None:
            store.remove(name)
    return ReadAgain(len(damaged), open_before, open_after, tuple(lost))


def _loss(lane: int, lost: int, open_before: int, ranges: Sequence[PartitionRange]) -> LakeError:
    where = ", ".join(f"{each.topic}/{each.partition} {each.start} to {each.end - 1}" for each in ranges)
    gone = f": the log no longer has {where}" if where else ""
    return LakeError(
        f"{lost:,} of {open_before:,} open events of lane {lane} cannot be read again{gone}; "
        "nothing was changed.",
        remedy="Restore the segment from a backup, or take the loss with --accept-gaps.",
    )


def _whole(store: Store, segment: Segment) -> pa.Table | None:
    """Events of a segment; None: it is damaged."""
    try:
        return read_segment(store, segment)
    except LakeError:
        return None


def _seq(segment: Segment) -> int:
    """Number of the commit whose messages a segment holds."""
    seq = segment_seq(segment.name.rpartition("/")[2])
    assert seq is not None
    return seq


def _events(
    ranges: Sequence[PartitionRange], log: RangeSource, decode: DecodeConfig
) -> tuple[pa.Table, list[PartitionRange]]:
    """Return all events of some ranges of the log, and what it no longer has of them."""
    found, lost = [], []
    for part in ranges:
        if part.start == part.end:
            continue
        stream = StreamId(part.topic, part.partition)
        polls, missing = log.read(stream, part.start, Place(part.end, part.topic_id, part.epoch))
        found += [codec_for(p.format).decode(p.payloads, decode).events for p in polls if p.format]
        lost += [part.model_copy(update={"start": start, "end": end}) for start, end in missing]
    return concat_events(found), lost


class _Known:
    """Flows and late events of a lane that the lake has; all other events of its messages are open."""

    def __init__(
        self, manifest: Manifest, lane: int, settings: LiveSettings, sealed_to_ns: int | None, now_ns: int
    ) -> None:
        self._sealed_to_ns = sealed_to_ns
        self._latest_ns = now_ns + settings.max_future_ns
        horizon = None if sealed_to_ns is None else sealed_to_ns - settings.stitch.max_age_ns
        self._memory = ClosedMemory()
        remember_flows(manifest, lane, horizon, self._memory)
        prints = [print_events(late, request_keys(late)[0]) for late in late_of(manifest, lane, horizon)]
        self._late = np.concatenate([np.zeros(0, np.uint64), *prints])

    def parted(self, events: pa.Table) -> tuple[pa.Table, pa.Table]:
        """(Events that were open when they came, those that were late, or are settled), without refused
        ones.
        """
        if not events.num_rows:
            return events, events
        key, _ = request_keys(events)
        first, last = event_times(events)
        aside: B1 = np.isin(print_events(events, key), self._late)
        if self._sealed_to_ns is not None:
            aside |= first < self._sealed_to_ns
        refused = np.zeros(len(key), dtype=np.bool_)
        for rows in refusals(events, first, last, self._latest_ns).values():
            refused |= rows
        return (
            events.filter(pa.array(~(aside | refused))).combine_chunks(),
            events.filter(pa.array(aside & ~refused)).combine_chunks(),
        )

    def settled(self, segments: Sequence[pa.Table]) -> U8:
        """Return what of some segments is published, or must count so: a damaged one said so, and no longer
        does."""
        found = [np.zeros(0, np.uint64)]
        for segment in segments:
            events = concat_events([segment.replace_schema_metadata(None)])
            if not events.num_rows:
                continue
            key, loose = request_keys(events)
            distinct = np.unique(key)
            found.append(distinct[self._memory.requests.has(distinct)])
            if loose is not None:
                found.append(record_words(events.filter(pa.array(loose)).combine_chunks())[1])
        return np.unique(np.concatenate(found))
