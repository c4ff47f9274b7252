"""Read the open events of a lane whose last commit was written by an earlier version of this program.

In that version lanes published flows themselves, and a segment lists ("settles") the requests that were
published or rejected when it was written. Events of all other requests are open: they are read once, when the
lane is taken over, and appended to the lane's log.
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
"""Key, in the metadata of a segment's schema, of the settled requests: concatenated little-endian 64-bit
hashes."""


def open_events(store: Store, lane: int, segments: Sequence[Segment], events_open: int) -> pa.Table:
    """Read the open events (EVENT_SCHEMA) of a lane, those of requests neither published nor rejected.
    segments: segments named by the lane's last commit; events_open: number of open events that this commit
    records.

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
    """[hashes] 64-bit hashes of the requests that were published or rejected by the commit which wrote a
    segment (`events`), from the metadata of the segment's schema."""
    packed = (events.schema.metadata or {}).get(_SETTLED, b"")
    return np.frombuffer(packed, dtype="<u8").astype(np.uint64)


@dataclass(frozen=True, slots=True)
class SegmentRows:
    """Events of one segment, with the requests that they belong to and whether these were already published
    or rejected."""

    events: pa.Table
    """Events, EVENT_SCHEMA, each column in one chunk."""
    key: U8
    """[events] key of the event's request, computed by `request_keys`; 0 for records without a request id."""
    loose: B1 | None
    """[events] True for records without a request id; None: every event has a request id."""
    settled: B1
    """[events] True if the event's request was published or rejected by this segment's commit or a later
    one."""
    words: tuple[I8, U8]
    """([pairs] row of a record, [pairs] hash of a breadcrumb or id of the record), from
    `keys.record_words`."""

    def open(self) -> pa.Table:
        """Open events (EVENT_SCHEMA): those neither published nor rejected."""
        return self.events.filter(pa.array(~self.settled)).combine_chunks()


class Settled:
    """Requests that were already published or rejected, as listed by the segments of a lane.

    Each segment lists hashes of requests whose events are in that segment or in earlier ones.
    """

    def __init__(self, segments: Sequence[pa.Table]) -> None:
        """segments: all segments named by the lane's last commit, in that order."""
        settled = [settled_of(segment) for segment in segments]
        keys = np.concatenate([np.zeros(0, np.uint64), *settled])
        number = np.repeat(np.arange(len(settled)), [len(part) for part in settled])
        order = np.lexsort((number, keys))
        keys, number = keys[order], number[order]
        last = np.ones(len(keys), dtype=np.bool_)
        last[:-1] = keys[1:] != keys[:-1]
        self.keys: U8 = keys[last]
        """Distinct hashes of requests listed by any segment, ascending."""
        self._by: I8 = number[last]
        """[keys] index of the last segment that lists the hash in `keys` at this position."""

    def has(self, keys: U8, segment: int) -> B1:
        """[keys] True if the request's events in the segment with index `segment` were published or rejected,
        as this segment or a later one lists the request."""
        if not len(self.keys):
            return np.zeros(len(keys), dtype=np.bool_)
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        found: B1 = (self.keys[place] == keys) & (self._by[place] >= segment)
        return found


def segment_rows(segment: pa.Table, number: int, settled: Settled) -> SegmentRows:
    """Events of one segment with their requests and state. number: index of the segment in the list that
    `settled` was made from."""
    events = concat_events([segment.cast(EVENT_SCHEMA)] if segment.num_rows else [])
    key, loose = request_keys(events)
    gone = settled.has(key, number)
    row, word = record_words(events)
    if loose is not None:
        gone &= ~loose
        tied = row[settled.has(word, number)]
        gone[tied] |= loose[tied]
    return SegmentRows(events, key, loose, gone, (row, word))
