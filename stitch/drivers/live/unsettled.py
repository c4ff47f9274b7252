"""What a lane's segments hold that is not in a published flow yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from schemas.events import EVENT_SCHEMA, concat_events
from stitch.drivers.live.due import settled_of
from stitch.drivers.live.request_keys import record_words, request_keys

U8 = npt.NDArray[np.uint64]
I8 = npt.NDArray[np.int64]
B1 = npt.NDArray[np.bool_]


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


def settled_keys(segments: Sequence[pa.Table]) -> U8:
    """What the segments of a lane say was settled, ascending."""
    return np.unique(np.concatenate([np.zeros(0, np.uint64), *map(settled_of, segments)]))


def segment_rows(segment: pa.Table, settled: U8) -> SegmentRows:
    """The rows of one segment; `settled` are the `settled_keys` of all that the lane needs."""
    events = concat_events([segment.cast(EVENT_SCHEMA)] if segment.num_rows else [])
    key, loose = request_keys(events)
    gone = np.isin(key, settled)
    row, word = record_words(events)
    if loose is not None:
        gone &= ~loose
        tied = row[np.isin(word, settled)]
        gone[tied] |= loose[tied]
    return SegmentRows(events, key, loose, gone, (row, word))
