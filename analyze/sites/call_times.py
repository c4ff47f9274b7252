"""Times of the units of a category: own time, duration, how much ran side by side, the critical part (L.1).

All are [units, requests] matrices, by columns of the category's node matrix; no loop over requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analyze.paths.critical_path import critical_path
from analyze.population import Category
from analyze.sites.graph_sites import GraphSites

I8 = npt.NDArray[np.int64]
F8 = npt.NDArray[np.float64]
B1 = npt.NDArray[np.bool_]


_AT_ONCE = 1 << 16
"""Cells that are worked on in one go: they stay in a core's second-level cache."""


_PAIR = 2


@dataclass(frozen=True, slots=True)
class CallTimes:
    """Arrays [units, requests], ns."""

    own: I8
    """Exclusive time: duration less the union of the awaited children's. Of a step its latency."""
    duration: I8
    waited: I8
    """[edges, requests] latency of each edge that lies on the critical path, else 0: what of its unit's own
    time (`GraphSites.owner`) the response waited for. Sums to the response time exactly."""
    on_path: B1
    """Whether any of the own time lies on the critical path."""
    overlap: dict[int, F8]
    """Unit of several children -> [requests] sum of their durations over their union, >= 1."""
    stretch: dict[int, F8]
    """The same units -> [requests] the union over the longest child, >= 1: one where all fit beside it."""


def call_times(category: Category, sites: GraphSites) -> CallTimes:
    """Times of every unit in every request. O(requests · (units log children + edges))."""
    times = category.node_ns
    duration = times[sites.end] - times[sites.start]
    own = duration.copy()
    overlap: dict[int, F8] = {}
    stretch: dict[int, F8] = {}
    children: dict[int, list[int]] = {}
    for unit, above in enumerate(sites.above.tolist()):
        if above >= 0 and sites.end[unit] != sites.start[unit]:
            children.setdefault(above, []).append(unit)
    start, end = sites.start.tolist(), sites.end.tolist()
    for unit, called in children.items():
        if len(called) == 1:
            own[unit] -= duration[called[0]]
            continue
        union = _union(times, [start[child] for child in called], [end[child] for child in called])
        own[unit] -= union
        # Children without length do not overlap.
        overlap[unit] = np.where(union > 0, duration[called].sum(axis=0) / np.maximum(union, 1), 1.0)
        stretch[unit] = np.where(union > 0, union / np.maximum(duration[called].max(axis=0), 1), 1.0)
    on_edge = critical_path(category).T
    edges = category.graph.edges
    if on_edge.size <= _AT_ONCE:
        waited = times[edges[:, 1]] - times[edges[:, 0]]
        waited *= on_edge
    else:
        waited = np.empty(on_edge.shape, dtype=np.int64)
        for edge, (src, dst) in enumerate(edges.tolist()):
            np.subtract(times[dst], times[src], out=waited[edge])
            waited[edge] *= on_edge[edge]
    if not sites.are_calls:  # a step is its edge
        return CallTimes(np.maximum(own, 0, out=own), duration, waited, on_edge, overlap, stretch)
    on_path = np.zeros(duration.shape, dtype=np.bool_)
    for edge, unit in enumerate(sites.owner.tolist()):
        on_path[unit] |= on_edge[edge]
    return CallTimes(np.maximum(own, 0, out=own), duration, waited, on_path, overlap, stretch)


def own_time_ns(times: I8, sites: GraphSites, units: I8) -> I8:
    """[units, requests] own time of some units; `times` [nodes, requests]."""
    own: I8 = times[sites.end[units]] - times[sites.start[units]]
    for place, unit in enumerate(units.tolist()):
        called = np.flatnonzero((sites.above == unit) & (sites.end != sites.start))
        if len(called):
            own[place] -= _union(times, sites.start[called].tolist(), sites.end[called].tolist())
    np.maximum(own, 0, out=own)
    return own


def _union(times: I8, starts: Sequence[int], ends: Sequence[int]) -> I8:
    """[requests] length of the union of intervals between rows of `times`; none ends before it starts."""
    if len(starts) == _PAIR:
        (start, other_start), (end, other_end) = (times[at] for at in starts), (times[at] for at in ends)
        both = np.minimum(end, other_end) - np.maximum(start, other_start)
        pair: I8 = (end - start) + (other_end - other_start) - np.maximum(both, 0)
        return pair
    order, request = np.argsort(times[starts], axis=0, kind="stable"), np.arange(times.shape[1])
    start, end = times[starts][order, request], times[ends][order, request]
    reached = np.maximum.accumulate(end, axis=0)
    total: I8 = end[0] - start[0]
    for place in range(1, len(starts)):
        total = total + np.maximum(end[place] - np.maximum(start[place], reached[place - 1]), 0)
    return total
