"""Say what the next commit of a lane publishes, and which events of its log are in no published flow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from schemas.arrays import B1, I8, U8
from schemas.commits import Counters
from schemas.events import EVENT_SCHEMA, concat_events
from stitch.drivers.live.keys import record_words, request_keys
from stitch.drivers.live.pending_windows import Piece
from stitch.lake.event_log import LogRows
from stitch.lake.staging import Staging
from stitch.lake.windowing import WindowPart

_SETTLED: Final = b"flowdiff.settled"
"""Key in the metadata of a segment's schema: 64-bit hashes, little-endian, one after another."""


@dataclass(frozen=True, slots=True, eq=False)
class Due:
    """Made by `LaneBuffer.due`, given back to `LaneBuffer.committed`."""

    parts: Callable[[], Iterator[WindowPart]]
    """Windows in order of time; several of one that is large, so each needs a part number. One is made when
    it is asked for: on its way to a file it takes more memory than what it is made of."""
    late: pa.Table
    """TEXT_EVENT_SCHEMA: events that came after their request was closed, or their window sealed."""
    dead_letters: pa.Table
    """REJECT_SCHEMA: events refused, as many as the settings keep; `counters.rejects` reports all."""
    counters: Counters
    """The ledger of events; what codecs and the log tell is to be added."""
    sealed_to_ns: int | None
    """Every window that ends here or before is whole with this commit."""
    new_events: pa.Table
    """EVENT_SCHEMA, for the coming segment of the log: events that were open when they came since the last
    commit; all, or where they are older than `keep_events_ns` only those that are open still. Its schema's
    metadata says what was settled (`settled_of`)."""
    aside: pa.Table
    """EVENT_SCHEMA, for the same segment: events that were late or repeated; none where they are as old."""
    has_segment: bool
    """True if the segment must be written; without rows it may still list what was settled."""
    segments_needed: int
    """Number of the lane's last segments, the coming one among them, that must be kept; earlier ones hold
    nothing that is open."""
    pieces: tuple[Piece, ...]
    """Pieces that `parts` are made of."""

    def stage(self, staging: Staging, letters: Sequence[pa.Table] = ()) -> None:
        """Stage all but the segment of the log; `letters`: dead letters of others before its own. Raises
        OSError.
        """
        for place, part in enumerate(self.parts()):
            staging.add_window("flows", part.window, place, part.flows)
            staging.add_window("structures", part.window, place, part.structures)
            staging.add_window("params", part.window, place, part.params)
        staging.add_side("late", 0, self.late)
        staging.add_side("dead_letters", 0, pa.concat_tables([*letters, self.dead_letters]))

    def log_rows(self) -> LogRows:
        """Rows of the segment."""
        return log_rows(self.new_events, self.aside)


def log_rows(events: pa.Table, aside: pa.Table) -> LogRows:
    """Rows of a segment: events that were open when they came, with the metadata of their schema, and others
    that stand aside (EVENT_SCHEMA).
    """
    metadata = events.schema.metadata
    if aside.num_rows:
        events = concat_events([events.replace_schema_metadata(None), aside]).replace_schema_metadata(
            metadata
        )
    elif events.num_rows:
        events = concat_events([events])
    key, loose = request_keys(events) if events.num_rows else (np.zeros(0, np.uint64), None)
    return LogRows(events, key, loose, aside.num_rows)


def with_settled(events: pa.Table, settled: U8) -> pa.Table:
    """Events whose schema says what is settled."""
    if not len(settled):
        return events
    return events.replace_schema_metadata({_SETTLED: settled.astype("<u8").tobytes()})


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
