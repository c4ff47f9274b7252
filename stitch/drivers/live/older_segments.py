"""Segments of a lane whose last commit an earlier version made: events of requests that were open then.

That version published flows itself, and its segments say which of their requests were settled. What is open
is read once, when the lane is taken over, and becomes part of its log.
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
    """EVENT_SCHEMA: events that the lane's last commit says are open. Raises LakeError where a segment is
    missing or damaged, or holds another number of them.
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
    """Return what a segment's schema says was settled by the commit that wrote it."""
    packed = (events.schema.metadata or {}).get(_SETTLED, b"")
    return np.frombuffer(packed, dtype="<u8").astype(np.uint64)


@dataclass(frozen=True, slots=True)
class SegmentRows:
    """The events of one segment, and what became of them."""

    events: pa.Table
    """EVENT_SCHEMA, one chunk a column."""
    key: U8
    """[events] `request_keys`."""
    loose: B1 | None
    """[events] records without a request id; None: there are none."""
    settled: B1
    """[events] published or refused by a commit that was made later than the segment, or with it."""
    words: tuple[I8, U8]
    """`request_keys.record_words` of all events."""

    def open(self) -> pa.Table:
        """The events that are not settled."""
        return self.events.filter(pa.array(~self.settled)).combine_chunks()


class Settled:
    """Settled events by the segments of a lane. A segment lists its own and those of segments before it."""

    def __init__(self, segments: Sequence[pa.Table]) -> None:
        """`segments` are all that the lane needs, in their order."""
        settled = [settled_of(segment) for segment in segments]
        keys = np.concatenate([np.zeros(0, np.uint64), *settled])
        number = np.repeat(np.arange(len(settled)), [len(part) for part in settled])
        order = np.lexsort((number, keys))
        keys, number = keys[order], number[order]
        last = np.ones(len(keys), dtype=np.bool_)
        last[:-1] = keys[1:] != keys[:-1]
        self.keys: U8 = keys[last]
        """Ascending."""
        self._by: I8 = number[last]
        """[keys] the last segment that says so."""

    def has(self, keys: U8, segment: int) -> B1:
        """[keys] whether what a segment holds of each is settled."""
        if not len(self.keys):
            return np.zeros(len(keys), dtype=np.bool_)
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        found: B1 = (self.keys[place] == keys) & (self._by[place] >= segment)
        return found


def segment_rows(segment: pa.Table, number: int, settled: Settled) -> SegmentRows:
    """The rows of one segment, the `number`th of those that `settled` was made of."""
    events = concat_events([segment.cast(EVENT_SCHEMA)] if segment.num_rows else [])
    key, loose = request_keys(events)
    gone = settled.has(key, number)
    row, word = record_words(events)
    if loose is not None:
        gone &= ~loose
        tied = row[settled.has(word, number)]
        gone[tied] |= loose[tied]
    return SegmentRows(events, key, loose, gone, (row, word))
