"""Recordings of a lake: stretches of time for which it is known that recording was on.

A stretch without flows may be an outage, or a time without recording. Files do not tell which; it is inferred
from the amount recorded before and after the stretch, and from live lanes that have passed it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from schemas.arrays import I8

_LONGEST_GAP: Final = 2
"""Factor: a gap longer than this many times the recording before it separates two recordings."""


class Recorded(NamedTuple):
    """A recording `[start_ns, end_ns)`, and how far recording was on before and after a period; ns since the
    epoch.
    """

    start_ns: int
    end_ns: int
    """End of the recording's last window, exclusive (start of its first: `start_ns`)."""
    before_ns: int | None
    """Recording was on from this time (ns since the epoch) to the period's start; None: unknown."""
    after_ns: int | None
    """Recording was on from the period's end to this time (ns since the epoch), shown by windows with flows
    or by live lanes; None: unknown.
    """


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
    """Yield one array per recording: the starts of its windows. A gap that is short relative to the recording
    before it does not end that recording.
    """
    first = 0
    for place in (np.flatnonzero(np.diff(starts_ns) != length_ns) + 1).tolist():
        recorded = starts_ns[place - 1] + length_ns - starts_ns[first]
        if starts_ns[place] - starts_ns[place - 1] - length_ns > _LONGEST_GAP * (recorded + length_ns):
            yield starts_ns[first:place]
            first = place
    if len(starts_ns):
        yield starts_ns[first:]
