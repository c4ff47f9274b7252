"""When a lake's recording is known to have gone on, by the windows that hold flows and by how far lanes are.

A stretch without flows may be an outage, or a time that nobody recorded. Files do not tell; what was recorded
before and after the stretch does, and a live lane that is past it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from schemas.windows import Window

_MOST_SILENCE: Final = 2
"""Silences longer than this times what was recorded around them part two recordings."""


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
    windows: Iterable[Window], start_ns: int, end_ns: int, sealed_to_ns: int | None = None
) -> tuple[Recorded, ...]:
    """The recordings that a period touches, ascending. windows: all of the lake with flows, ascending.

    sealed_to_ns: how far live lanes are; None: there is none. O(windows).
    """
    live = sealed_to_ns is not None and sealed_to_ns >= end_ns
    found: list[list[Window]] = []
    for window in windows:
        if found and _goes_on(found[-1], window):
            found[-1].append(window)
        else:
            found.append([window])
    told = []
    for number, parts in enumerate(found, 1):
        start, end = parts[0].start_ns, parts[-1].end_ns
        before = max((one.start_ns for one in parts if one.end_ns <= start_ns), default=None)
        after = min((one.end_ns for one in parts if one.start_ns >= end_ns), default=None)
        if live and number == len(found) and start < end_ns:  # what is sealed is whole, to the last instant
            end, after = max(end, end_ns), end_ns
        elif live and after is not None:
            after = end_ns
        if live and before is not None:
            before = start_ns
        if start < end_ns and start_ns < end:
            told.append(Recorded(start, end, before, after))
    return tuple(told)


def _goes_on(before: list[Window], window: Window) -> bool:
    """Whether a recording went on to a window."""
    gap = window.start_ns - before[-1].end_ns
    return gap <= _MOST_SILENCE * (before[-1].end_ns - before[0].start_ns + window.length_ns)
