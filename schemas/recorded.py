"""Recordings of a lake: stretches of time for which it is known that recording was on.

A stretch without flows may be an outage, or a time without recording. The lake's files do not distinguish the
two; it is inferred from the amount recorded before and after the stretch, and from live lanes that have
passed it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from schemas.arrays import I8

_LONGEST_GAP: Final = 2
"""Minimum length of a gap that separates two recordings, as a multiple of the length of the recording before
it."""


class Recorded(NamedTuple):
    """Recording `[start_ns, end_ns)`, and the time around a period during which recording was on; all in
    ns since the epoch."""

    start_ns: int
    """Start of the recording's first window, ns since the epoch."""
    end_ns: int
    """End of the recording's last window, exclusive, ns since the epoch."""
    before_ns: int | None
    """Start of the time before the period during which recording was on, ns since the epoch; None:
    unknown."""
    after_ns: int | None
    """End of the time after the period during which recording was on, as windows with flows or live lanes
    show, ns since the epoch; None: unknown."""


def recordings(
    starts_ns: I8, length_ns: int, start_ns: int, end_ns: int, sealed_to_ns: int | None = None
) -> tuple[Recorded, ...]:
    """Recordings that overlap the period `[start_ns, end_ns)`, ascending.

    starts_ns: starts of all windows of the lake with flows, ascending, each `length_ns` long. sealed_to_ns:
    time up to which the live lanes have sealed; None without live lanes. O(windows).
    """
    live = sealed_to_ns is not None and sealed_to_ns >= end_ns
    found = [*_parts(starts_ns, length_ns)]
    changes = []
    for number, own in enumerate(found, 1):
        start, end = int(own[0]), int(own[-1]) + length_ns
        earlier, later = own[own + length_ns <= start_ns], own[own >= end_ns]
        before = int(earlier[-1]) if len(earlier) else None
        after = int(later[0]) + length_ns if len(later) else None
        if (
            live and number == len(found) and start < end_ns
        ):  # sealed windows are complete, to the last instant
            end, after = max(end, end_ns), end_ns
        elif live and after is not None:
            after = end_ns
        if live and before is not None:
            before = start_ns
        if start < end_ns and start_ns < end:
            changes.append(Recorded(start, end, before, after))
    return tuple(changes)


def _parts(starts_ns: I8, length_ns: int) -> Iterator[I8]:
    """Yield one array per recording: the starts of its windows.

    A gap that is short relative to the recording before it does not separate recordings.
    """
    first = 0
    for place in (np.flatnonzero(np.diff(starts_ns) != length_ns) + 1).tolist():
        recorded = starts_ns[place - 1] + length_ns - starts_ns[first]
        if starts_ns[place] - starts_ns[place - 1] - length_ns > _LONGEST_GAP * (recorded + length_ns):
            yield starts_ns[first:place]
            first = place
    if len(starts_ns):
        yield starts_ns[first:]
