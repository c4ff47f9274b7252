"""What the coming commit of a lane publishes, and what it says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from schemas.arrays import U8
from schemas.commits import Counters
from stitch.drivers.live.pending_windows import Piece
from stitch.lake.staging import Staging
from stitch.lake.windowing import WindowPart

SETTLED: Final = b"flowdiff.settled"
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
    """REJECT_SCHEMA: events refused, as many as the settings keep; `counters.rejects` tells of all."""
    counters: Counters
    """The ledger of events; what codecs and the log tell is to be added."""
    sealed_to_ns: int | None
    """Every window that ends here or before is whole with this commit."""
    new_events: pa.Table
    """EVENT_SCHEMA, the coming segment: events taken since the last commit and open after this one, and
    others that are kept for a repair. Its schema's metadata tells what was settled (`settled_of`)."""
    has_segment: bool
    """Whether `new_events` must be kept; it may have no rows, and yet tell what was settled."""
    segments_needed: int
    """How many of the lane's last segments, the coming one among them, must be kept; earlier ones hold
    nothing that is open."""
    pieces: tuple[Piece, ...]
    """What `parts` are made of."""

    @property
    def windows(self) -> tuple[WindowPart, ...]:
        """All parts."""
        return tuple(self.parts())

    def stage(self, staging: Staging, letters: Sequence[pa.Table] = ()) -> None:
        """All but the segment; `letters`: dead letters of others before its own. Raises OSError."""
        for place, part in enumerate(self.parts()):
            staging.add_window("flows", part.window, place, part.flows)
            staging.add_window("structures", part.window, place, part.structures)
            staging.add_window("params", part.window, place, part.params)
        staging.add_side("late", 0, self.late)
        staging.add_side("dead_letters", 0, pa.concat_tables([*letters, self.dead_letters]))


def with_settled(events: pa.Table, settled: U8) -> pa.Table:
    """Events whose schema tells what is settled."""
    if not len(settled):
        return events
    return events.replace_schema_metadata({SETTLED: settled.astype("<u8").tobytes()})


def settled_of(events: pa.Table) -> U8:
    """What a segment's schema says was settled by the commit that wrote it."""
    told = (events.schema.metadata or {}).get(SETTLED, b"")
    return np.frombuffer(told, dtype="<u8").astype(np.uint64)
