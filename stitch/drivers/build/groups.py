"""Divide the requests of a window into groups that are stitched one at a time, by the time of their first
event.

The window is halved, and each half again, while a part has more events than a group may have. A group thus
depends only on the requests of the window, not on when a builder looks, and it is known before the window is
over: a part that is too large is halved whatever comes, and nothing more begins in a half that is past. Late
events change the group that they belong to, and seldom its bounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from schemas.arrays import I8
from stitch.drivers.build.request_plan import Planned, PlannedWindow

_SHORTEST_NS: Final = 2
"""Length, ns, of the shortest part that can be halved."""


@dataclass(frozen=True, eq=False, slots=True)
class Group:
    """Whole requests of a window that are stitched at once."""

    begin_ns: int
    """Begin of the group's part of the window, ns since the epoch."""
    end_ns: int
    """End of the part, ns: first events of the requests lie in [begin_ns, end_ns)."""
    part: int
    """Number of the group among those of its part, which are several only if it cannot be halved further."""
    rows: I8
    """Indices of the requests in the window's plan, ascending."""
    within: PlannedWindow
    """Requests of the group, as those of a window of their own that starts where the group's window does."""
    is_fixed: bool
    """True if events that come later can change the group's bounds only by joining a request of another group
    or by beginning in the group's part."""

    @property
    def place(self) -> tuple[int, int, int, int]:
        """Identity of the group in a log: start of its window, bounds of its part (ns), number in that."""
        return self.within.start_ns, self.begin_ns, self.end_ns, self.part


def groups_of(window: PlannedWindow, length_ns: int, most: int) -> list[Group]:
    """Groups of a window of at most about `most` events each, in order of time; a request of more events is a
    group of its own.

    O(requests log requests).
    """
    requests = window.requests
    first = np.clip(requests["first_ns"], window.start_ns, window.start_ns + length_ns - 1)
    order = np.argsort(first, kind="stable")
    first, ends = first[order], np.cumsum(requests["rows"][order])
    found: list[Group] = []
    for begin, end, low, high, is_fixed in _parts(first, ends, window.start_ns, length_ns, most):
        rows = np.sort(order[low:high])
        n = int(ends[high - 1] - (ends[low - 1] if low else 0))
        cuts = _cuts(requests[rows], n, most)
        for part, own in enumerate(np.split(rows, cuts)):
            within = PlannedWindow(window.start_ns, requests[own])
            found.append(Group(begin, end, part, own, within, is_fixed))
    return found


def _parts(
    first: I8, ends: I8, start_ns: int, length_ns: int, most: int
) -> Iterator[tuple[int, int, int, int, bool]]:
    """Yield (begin, end, index of the first request, index after the last, True if halving led to it) of the
    parts of a window with requests.

    first, ends: [requests, ascending by first event] time, ns, and number of events up to the request's end.
    """
    left = [(start_ns, start_ns + length_ns, 0, len(first), False)]
    while left:
        begin, end, low, high, is_half = left.pop()
        if low == high:
            continue
        rows = int(ends[high - 1] - (ends[low - 1] if low else 0))
        if rows <= most or end - begin < _SHORTEST_NS or high - low == 1:
            yield begin, end, low, high, is_half
            continue
        middle = (begin + end) // 2
        cut = low + int(np.searchsorted(first[low:high], middle))
        left += [(middle, end, cut, high, True), (begin, middle, low, cut, True)]


def _cuts(requests: Planned, n_rows: int, most: int) -> I8:
    """Indices at which requests that begin at one time are divided into groups of at most about `most`
    events."""
    ends = np.cumsum(requests["rows"])
    number = (ends - requests["rows"]) * -(-n_rows // most) // max(1, n_rows)
    cuts: I8 = np.flatnonzero(np.diff(number)) + 1
    return cuts
