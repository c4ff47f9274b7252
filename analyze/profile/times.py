"""Times of the units of a category: own time, duration, how much ran side by side, the critical part.

All are [units, requests] matrices, by columns of the category's node matrix; no loop over requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analyze.paths.critical_path import critical_path, edge_latency_ns
from analyze.population import Category, Population
from analyze.profile.call_sites import GraphSites, graph_sites
from analyze.profile.names import NameBook, Names
from analyze.profile.sums import Grouped
from schemas.arrays import B1, F8, I8
from schemas.windows import NS_PER_US

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
    start, end = sites.start.tolist(), sites.end.tolist()
    for unit, called in _calls_below(sites).items():
        if len(called) == 1:
            own[unit] -= duration[called[0]]
            continue
        union = _union(times, [start[child] for child in called], [end[child] for child in called])
        own[unit] -= union
        # Children without length do not overlap.
        overlap[unit] = np.where(union > 0, duration[called].sum(axis=0) / np.maximum(union, 1), 1.0)
        stretch[unit] = np.where(union > 0, union / np.maximum(duration[called].max(axis=0), 1), 1.0)
    on_edge = critical_path(category).T
    waited = edge_latency_ns(category).T
    waited *= on_edge
    if not sites.are_calls:  # a step is its edge
        return CallTimes(np.maximum(own, 0, out=own), duration, waited, on_edge, overlap, stretch)
    on_path = np.zeros(duration.shape, dtype=np.bool_)
    for edge, unit in enumerate(sites.owner.tolist()):
        on_path[unit] |= on_edge[edge]
    return CallTimes(np.maximum(own, 0, out=own), duration, waited, on_path, overlap, stretch)


def own_time_ns(times: I8, sites: GraphSites, units: I8) -> I8:
    """[units, requests] own time of some units; `times` [nodes, requests]."""
    own: I8 = times[sites.end[units]] - times[sites.start[units]]
    start, end, below = sites.start.tolist(), sites.end.tolist(), _calls_below(sites)
    for place, unit in enumerate(units.tolist()):
        called = below.get(unit, ())
        if len(called) == 1:
            own[place] -= times[end[called[0]]] - times[start[called[0]]]
        elif called:
            own[place] -= _union(times, [start[child] for child in called], [end[child] for child in called])
    np.maximum(own, 0, out=own)
    return own


def _calls_below(sites: GraphSites) -> dict[int, list[int]]:
    """Unit -> units that it calls and that take time, ascending. O(units)."""
    below: dict[int, list[int]] = {}
    for unit, (above, start, end) in enumerate(
        zip(sites.above.tolist(), sites.start.tolist(), sites.end.tolist(), strict=True)
    ):
        if above >= 0 and end != start:
            below.setdefault(above, []).append(unit)
    return below


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


@dataclass(frozen=True, slots=True)
class PathTimes:
    """The edges of one category."""

    site: I8
    """[edges] the site whose own time an edge is."""
    us: F8
    """[edges, requests] latency where the edge is on the request's critical path, else 0. A column adds up
    to the response time."""
    on_path: B1
    """[edges, requests]"""
    graph: GraphSites
    """What the edges and nodes belong to."""


@dataclass(frozen=True, slots=True)
class AllPathTimes:
    """Those of a population; memory: 9 bytes an edge and request."""

    categories: tuple[PathTimes, ...]
    names: Names

    def responses(self, unmarked: Sequence[B1] | None = None) -> tuple[F8, ...]:
        """[categories] of [requests]: response times, or what is left of them on edges without a marker."""
        return tuple(
            times.us.sum(axis=0) if unmarked is None else unmarked[number].astype(np.float64) @ times.us
            for number, times in enumerate(self.categories)
        )


def path_times(population: Population) -> AllPathTimes:
    """Critical times of every edge of every request. O(requests · edges)."""
    book = NameBook()
    found = []
    for category in population.categories:
        sites = graph_sites(category.graph, (), book)
        on_path = np.ascontiguousarray(critical_path(category).T)
        us = edge_latency_ns(category).T / NS_PER_US
        us *= on_path
        found.append(PathTimes(sites.site[sites.owner], us, on_path, sites))
    return AllPathTimes(tuple(found), book.names())


@dataclass(frozen=True, slots=True)
class AtSites:
    """The sites of one category's edges; arrays are [sites, requests]."""

    codes: I8
    """[sites] ascending."""
    us: F8
    on_path: B1


def at_sites(times: PathTimes, rows: slice, unmarked: B1 | None = None) -> AtSites:
    """Edges of a site added up, over some requests; only edges without a marker."""
    chosen = slice(None) if unmarked is None else unmarked
    grouped = Grouped(times.site[chosen])
    us, on_path = times.us[chosen, rows], times.on_path[chosen, rows]
    return AtSites(grouped.codes, grouped.sums(us), grouped.sums(on_path) > 0)
