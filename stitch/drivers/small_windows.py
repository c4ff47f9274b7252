"""Small windows of an import wait until every group has its part of them, and become one file a table.

Groups are cut by request, so each has requests of every window. A file has a fixed cost, and structures of
its own: in a lake of small windows that was a third of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from schemas.windows import Window
from stitch.lake.merging import merged_flows, merged_params, merged_structures
from stitch.lake.windowing import WindowPart

SMALL_PART_BYTES: Final = 2 * 2**20
"""In memory; some 300 KB on disk, of which the fixed cost of a file is 2 %."""
HELD_SHARE: Final = 16
"""One part in so many of an import's memory is for parts that wait."""


def is_small(part: WindowPart) -> bool:
    """Whether a part is worth waiting for the rest of its window."""
    return bool(part.flows.nbytes + part.params.nbytes <= SMALL_PART_BYTES)


def own_copy(part: WindowPart) -> WindowPart:
    """The part in memory of its own: what the kernel gave shares the buffers of its group."""
    return WindowPart(part.window, *(_copied(t) for t in (part.flows, part.structures, part.params)))


@dataclass(slots=True)
class SmallWindows:
    """Parts that wait. Groups must be added in their order, so that which files there are is no accident."""

    limit_bytes: int
    _parts: dict[Window, list[tuple[int, WindowPart]]] = field(default_factory=dict)
    _bytes: int = 0

    def add(self, group: int, parts: list[WindowPart]) -> None:
        """Parts of one group, each of another window."""
        for part in parts:
            self._parts.setdefault(part.window, []).append((group, part))
            self._bytes += part.flows.nbytes + part.structures.nbytes + part.params.nbytes

    @property
    def full(self) -> bool:
        """Whether they should be written before more come."""
        return self._bytes > self.limit_bytes

    def take(self) -> list[tuple[int, list[WindowPart]]]:
        """Everything that waits, a window after the other in order of time: a group that nobody else names
        for this window, and the parts. Nothing waits then."""
        waiting = [(parts[0][0], [part for _, part in parts]) for _, parts in sorted(self._parts.items())]
        self._parts, self._bytes = {}, 0
        return waiting


def merged(parts: list[WindowPart]) -> WindowPart:
    """Parts of one window, of different requests, as one in the order of the contract."""
    if len(parts) == 1:
        return parts[0]
    flows = merged_flows([part.flows for part in parts])
    return WindowPart(
        parts[0].window,
        flows,
        merged_structures([part.structures for part in parts]),
        merged_params([part.params for part in parts], flows),
    )


def _copied(table: pa.Table) -> pa.Table:
    return table.take(pa.array(np.arange(table.num_rows))).combine_chunks()
