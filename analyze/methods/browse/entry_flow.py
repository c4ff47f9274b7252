"""Follow the requests at one place in time: how many at work, gaps without any, arrivals (TR §6.2, H.4).

A request is at work from its start until before its end, [start, start + T). All by sorting and running sums:
no loop over requests.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analyze.stats.sums import totals
from schemas.arrays import F8, I8


@dataclass(frozen=True, slots=True)
class EntryFlow:
    """Requests by start; arrays are [requests], ns."""

    start: I8
    end: I8
    reached: I8
    """Latest end of the requests up to and with this one."""

    @classmethod
    def of(cls, start: I8, response: I8) -> EntryFlow:
        """From starts and response times in any order. O(n log n)."""
        order = np.argsort(start, kind="stable")
        first = start[order]
        end = first + response[order]
        return cls(first, end, np.maximum.accumulate(end) if len(end) else end)

    @property
    def gaps(self) -> I8:
        """[requests - 1] from the end of everything before to each next start, ns; negative: it began while
        others were at work, that much before the last of them ended."""
        between: I8 = self.start[1:] - self.reached[:-1]
        return between

    @property
    def runs(self) -> tuple[I8, I8]:
        """Begins and ends of the stretches in which any was at work; between two of them there is a gap."""
        if not len(self.start):
            return self.start, self.end
        first = np.flatnonzero(np.concatenate(([True], self.gaps > 0)))
        return self.start[first], self.reached[np.append(first[1:] - 1, len(self.start) - 1)]


def time_within(begin: I8, end: I8, edges: I8) -> F8:
    """[bins] how much of the intervals [begin, end) lies in each bin, added up, ns. O(n log bins).

    edges: [bins + 1] ascending. What lies outside of them is not counted.
    """
    count = len(edges) - 1
    first, last = np.clip(begin, edges[0], edges[-1]), np.clip(end, edges[0], edges[-1])
    at = np.clip(np.searchsorted(edges, first, side="right") - 1, 0, count - 1)
    to = np.clip(np.searchsorted(edges, last, side="right") - 1, 0, count - 1)
    # From the begin to the end of its bin, from the begin of its last bin to the end, and whole bins between.
    whole = np.cumsum(np.bincount(at, minlength=count + 1) - np.bincount(to, minlength=count + 1))[:-1]
    parts = totals(to, last - edges[to], count) - totals(at, first - edges[at], count)
    found: F8 = parts + whole * np.diff(edges)
    return found


def most_in_flight(flow: EntryFlow, edges: I8) -> I8:
    """[bins] the largest number at work at any instant of each bin [edges[i], edges[i + 1]). O(n log n)."""
    n, m = len(flow.start), len(edges)
    when = np.concatenate([flow.end, edges, flow.start])
    step = np.repeat(np.array([-1, 0, 1], dtype=np.int64), [n, m, n])
    # At one instant: who ends leaves, then the edge counts, then who starts comes.
    order = np.lexsort((np.repeat([0, 1, 2], [n, m, n]), when))
    level = np.cumsum(step[order])
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    found: I8 = np.maximum.reduceat(level, place[n : n + m])[:-1]
    return found


def pack_lanes(start: I8, end: I8, most: int) -> I8:
    """[requests] lane of each, the first that is free at its start; `most` where all are taken.

    start: ascending. O(requests · lanes): for a strip of some hundred.
    """
    free = [np.iinfo(np.int64).min] * most
    lanes = []
    for begins, ends in zip(start.tolist(), end.tolist(), strict=True):
        lane = next((i for i, since in enumerate(free) if since <= begins), most)
        if lane < most:
            free[lane] = max(ends, begins + 1)
        lanes.append(lane)
    return np.array(lanes, dtype=np.int64)
