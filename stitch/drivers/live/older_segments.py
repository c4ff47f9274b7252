"""Read the open events of a lane whose last commit was written by an earlier version.

In that version lanes published flows themselves, and segments list the requests already published or rejected
("settled"). Events of all other requests are open: they are read once, at takeover, and join the lane's log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from schemas.arrays import B1, I8, U8
from schemas.commits import Segment
from schemas.errors import LakeError
from schemas.events import EVENT_SCHEMA, concat_events
from stitch.drivers.live.keys import record_words, request_keys
from stitch.lake.event_log import read_segment
from stitch.lake.store import Store

_SETTLED: Final = b"flowdiff.settled"
"""Key in the metadata of a segment's schema: 64-bit hashes, little-endian, one after another."""


def open_events(store: Store, lane: int, segments: Sequence[Segment], events_open: int) -> pa.Table:
    """Open events (EVENT_SCHEMA) of a lane. segments, events_open: from its last commit.

    Raises LakeError if a segment is missing or damaged, or the number of open events is not `events_open`.
    """
    read = [read_segment(store, segment) for segment in segments]
    settled = Settled(read)
    events = concat_events(
        [
            own
            for number, segment in enumerate(read)
            if (own := segment_rows(segment, number, settled).open()).num_rows
        ]
    )
    if events.num_rows != events_open:
        raise LakeError(
            f"The segments of lane {lane} hold {events.num_rows:,} open events; "
            f"its last commit says {events_open:,}.",
            remedy="Please report it; `flowdiff fsck` says what is damaged.",
        )
    return events


def settled_of(events: pa.Table) -> U8:
    """Hashes of the requests published or rejected by the commit that wrote a segment, from the metadata of
    the segment's schema."""
    packed = (events.schema.metadata or {}).get(_SETTLED, b"")
    return np.frombuffer(packed, dtype="<u8").astype(np.uint64)


@dataclass(frozen=True, slots=True)
class SegmentRows:
    """Events of one segment, and which of them were already published or rejected."""

    events: pa.Table
    """EVENT_SCHEMA, one chunk a column."""
    key: U8
    """[events] key of the request, as of `request_keys`; 0 for records without a request id."""
    loose: B1 | None
    """[events] True for records without a request id; None: every event has one."""
    settled: B1
    """[events] True if published or rejected by the segment's own commit or a later one."""
    words: tuple[I8, U8]
    """([pairs] row, [pairs] hash) of the links of all records, as of `keys.record_words`."""

    def open(self) -> pa.Table:
        """Events (EVENT_SCHEMA) that were neither published nor rejected."""
        return self.events.filter(pa.array(~self.settled)).combine_chunks()


class Settled:
    """Requests already published or rejected, according to the segments of a lane.

    Each segment lists hashes for events of its own and of earlier segments.
    """

    def __init__(self, segments: Sequence[pa.Table]) -> None:
        """segments: all segments that the lane's last commit names, in that order."""
        settled = [settled_of(segment) for segment in segments]
        keys = np.concatenate([np.zeros(0, np.uint64), *settled])
        number = np.repeat(np.arange(len(settled)), [len(part) for part in settled])
        order = np.lexsort((number, keys))
        keys, number = keys[order], number[order]
        last = np.ones(len(keys), dtype=np.bool_)
        last[:-1] = keys[1:] != keys[:-1]
        self.keys: U8 = keys[last]
        """Distinct hashes of requests that a segment lists as published or rejected, ascending."""
        self._by: I8 = number[last]
        """[keys] index of the last segment that lists the hash in `keys`."""

    def has(self, keys: U8, segment: int) -> B1:
        """[keys] True if the events of a request in segment number `segment` were published or rejected:
        that segment or a later one lists the request's hash."""
        if not len(self.keys):
            return np.zeros(len(keys), dtype=np.bool_)
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        found: B1 = (self.keys[place] == keys) & (self._by[place] >= segment)
        return found


def segment_rows(segment: pa.Table, number: int, settled: Settled) -> SegmentRows:
    """Events of one segment with their state. number: index of the segment in the list given to `settled`."""
    events = concat_events([segment.cast(EVENT_SCHEMA)] if segment.num_rows else [])
    key, loose = request_keys(events)
    gone = settled.has(key, number)
    row, word = record_words(events)
    if loose is not None:
        gone &= ~loose
        tied = row[settled.has(word, number)]
        gone[tied] |= loose[tied]
    return SegmentRows(events, key, loose, gone, (row, word))
