"""What a lane's segments hold that is not in a published flow yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from schemas.arrays import B1, I8, U8
from schemas.events import EVENT_SCHEMA, concat_events
from stitch.drivers.live.due import settled_of
from stitch.drivers.live.request_keys import record_words, request_keys


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
    """What the segments of a lane say was settled. A segment speaks of itself and of those before it."""

    def __init__(self, segments: Sequence[pa.Table]) -> None:
        """`segments` are all that the lane needs, in their order."""
        told = [settled_of(segment) for segment in segments]
        keys = np.concatenate([np.zeros(0, np.uint64), *told])
        number = np.repeat(np.arange(len(told)), [len(part) for part in told])
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
