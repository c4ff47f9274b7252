"""When a lake's recording is known to have gone on, by the windows that hold flows and by how far lanes are.

A stretch without flows may be an outage, or a time that nobody recorded. Files do not say; what was recorded
before and after the stretch does, and a live lane that is past it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from schemas.arrays import I8

_LONGEST_GAP: Final = 2
"""A gap longer than this times what was recorded around it separates two recordings."""


class Recorded(NamedTuple):
    """A recording, half open, ns since the epoch."""

    start_ns: int
    end_ns: int
    """Windows that belong to it."""
    before_ns: int | None
    """Something was recorded between this and the period's start; None: not known."""
    after_ns: int | None
    """Something was recorded between the period's end and this, or live lanes are there; None: not known."""


def recordings(
    starts_ns: I8, length_ns: int, start_ns: int, end_ns: int, sealed_to_ns: int | None = None
) -> tuple[Recorded, ...]:
    """The recordings that a period touches, ascending. starts_ns: of all windows of the lake with flows,
    ascending; each is `length_ns` long.

    sealed_to_ns: how far live lanes are; None: there is none. O(windows).
    """
    live = sealed_to_ns is not None and sealed_to_ns >= end_ns
    found = [*_parts(starts_ns, length_ns)]
    changes = []
    for number, own in enumerate(found, 1):
        start, end = int(own[0]), int(own[-1]) + length_ns
        earlier, later = own[own + length_ns <= start_ns], own[own >= end_ns]
        before = int(earlier[-1]) if len(earlier) else None
        after = int(later[0]) + length_ns if len(later) else None
        if live and number == len(found) and start < end_ns:  # what is sealed is whole, to the last instant
            end, after = max(end, end_ns), end_ns
        elif live and after is not None:
            after = end_ns
        if live and before is not None:
            before = start_ns
        if start < end_ns and start_ns < end:
            changes.append(Recorded(start, end, before, after))
    return tuple(changes)


def _parts(starts_ns: I8, length_ns: int) -> Iterator[I8]:
    """Windows of each recording: it went on over a gap that is not long against what came before."""
    first = 0
    for place in (np.flatnonzero(np.diff(starts_ns) != length_ns) + 1).tolist():
        recorded = starts_ns[place - 1] + length_ns - starts_ns[first]
        if starts_ns[place] - starts_ns[place - 1] - length_ns > _LONGEST_GAP * (recorded + length_ns):
            yield starts_ns[first:place]
            first = place
    if len(starts_ns):
        yield starts_ns[first:]
