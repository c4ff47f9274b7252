"""Keep dead letters of an import: all counted, so many a file kept, in memory at most one file of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa

from stitch.lake.staging import Staging

FLUSH_BYTES: Final = 32 * 2**20
"""Held at most; a file of dead letters is about so large before compression."""
FLUSH_ROWS: Final = 100_000
"""The same for dead letters of a few bytes each."""
KERNEL_SOURCE: Final = "(stitched)"
"""`source` of dead letters found when events of several files came together."""
_ORDER: Final = [(name, "ascending") for name in ("source", "position", "item", "sha256", "detail")]


class DeadLetters:
    """Written to the stage as they come. Not for several threads."""

    def __init__(self, staging: Staging, max_per_file: int) -> None:
        self._staging = staging
        self._max_per_file = max_per_file
        self._kept: Counter[str] = Counter()
        self._held: list[pa.Table] = []
        self._parts = 0
        self.counts: Counter[str] = Counter()
        """By reason, kept or not."""
        self.not_kept = 0

    def room(self, source: str) -> int:
        """How many more would be kept of a source."""
        return max(0, self._max_per_file - self._kept[source])

    def add(self, letters: pa.Table, source: str, refused: Mapping[str, int]) -> None:
        """Take REJECT_SCHEMA rows of one source, under its name, the first of them kept while there is room.

        `refused` counts by reason what was refused, at least as much as there are rows. Raises OSError.
        """
        kept = letters.slice(0, self.room(source))
        self._kept[source] += kept.num_rows
        self.counts.update(refused)
        self.not_kept += sum(refused.values()) - kept.num_rows
        if not kept.num_rows:
            return
        self._held.append(_renamed(kept, source))
        rows = sum(table.num_rows for table in self._held)
        if rows > FLUSH_ROWS or sum(table.nbytes for table in self._held) > FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what is held as one file of the stage. Raises OSError."""
        if self._held:
            table = pa.concat_tables(self._held)
            self._staging.add_side("dead_letters", self._parts, table.sort_by(_ORDER))
            self._held = []
            self._parts += 1


def _renamed(letters: pa.Table, source: str) -> pa.Table:
    """Under the name the user gave, not that of a spool file."""
    names = pa.array([source], pa.string()).take(pa.array(np.zeros(letters.num_rows, dtype=np.int32)))
    return letters.set_column(0, "source", names)
