"""Times of graph units: own time, duration, overlap of children, critical time.

For a batch of many graphs, flat (`batches`), or for units of one category as matrices [units, requests].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from analyze.paths.critical_path import critical_path, edge_latency_ns
from analyze.population import Population
from analyze.profile.batches import Batch
from analyze.profile.call_sites import GraphSites, sites_of_graphs
from analyze.profile.names import NameBook, Names
from analyze.profile.sums import Grouped
from analyze.ragged import Ragged
from schemas.arrays import B1, F8, I8
from schemas.windows import NS_PER_US

_PAIR = 2


@dataclass(frozen=True, slots=True)
class CallTimes:
    """Times of the units of a batch; arrays are [cells of units], ns."""

    own: I8
    """Own time: duration less the union of the awaited children's intervals; for a step its latency."""
    duration: I8
    wide: I8
    """[wide units] units with several children."""
    overlap: F8
    """[cells of wide units] sum of the children's durations over their union, >= 1."""
    stretch: F8
    """[cells of wide units] union of the children over the longest child, >= 1; 1 if all run during it."""


def call_times(batch: Batch) -> CallTimes:
    """Times of every unit in every request. O(cells log children)."""
    unit = batch.unit
    start, end = (batch.times[unit.at(batch.node.first[of])] for of in (batch.start, batch.end))
    duration = end - start
    own = duration.copy()
    takes_time = np.flatnonzero((batch.above >= 0) & (batch.end != batch.start))
    called = takes_time[np.argsort(batch.above[takes_time], kind="stable")]
    n_called = np.bincount(batch.above[called], minlength=len(batch.above))
    first = np.cumsum(n_called) - n_called
    wide, overlap, stretch = [np.zeros(0, np.int64)], [np.zeros(0)], [np.zeros(0)]
    for n in np.unique(n_called[n_called > 0]).tolist():
        callers = np.flatnonzero(n_called == n)
        mine, cells = unit.chosen(callers)
        children = [mine.at(unit.first[called[first[callers] + nth]]) for nth in range(n)]
        if n == 1:
            own[cells] -= duration[children[0]]
            continue
        union = _union(*(np.stack([time[child] for child in children]) for time in (start, end)))
        own[cells] -= union
        durations = np.stack([duration[child] for child in children])
        # Children without length do not overlap.
        overlap.append(np.where(union > 0, durations.sum(axis=0) / np.maximum(union, 1), 1.0))
        stretch.append(np.where(union > 0, union / np.maximum(durations.max(axis=0), 1), 1.0))
        wide.append(callers)
    return CallTimes(
        np.maximum(own, 0, out=own),
        duration,
        np.concatenate(wide),
        np.concatenate(overlap),
        np.concatenate(stretch),
    )


class CriticalSteps(NamedTuple):
    """Edges on the critical paths of requests; arrays are [steps], one entry an edge and request."""

    unit: I8
    """Unit whose own time the edge is (`GraphSites.owner`)."""
    request: I8
    weighted_ns: F8
    """Latency times the request's weight; a request's steps add up exactly to its response time times
    weight."""


def critical_steps(batch: Batch) -> CriticalSteps:
    """Walk the critical paths of all requests at once, from the response backwards (`paths.critical_path`).

    Raises ValueError if a path does not lead to the root, or its latencies are not the response time.
    O(cells).
    """
    first, times, place = batch.node.first, batch.times, batch.place
    by_dst = np.lexsort((batch.src, batch.dst))
    src, owner = batch.src[by_dst], batch.owner[by_dst]
    before = Ragged.of(np.bincount(batch.dst, minlength=len(first)))
    via = _latest(batch, batch.node, before, src)
    left_at = _latest(batch, Ragged.of(batch.n_of), batch.responses, batch.response_node)
    at = batch.response_node[left_at]
    is_whole = times[first[at] + place] == batch.requests.response_ns
    none = np.zeros(0, dtype=np.int64)
    steps = [(none, none, none)]
    walking = np.arange(len(at))
    while len(walking := walking[before.size[at[walking]] > 0]):
        cell = first[at[walking]] + place[walking]
        edge = via[cell]
        at[walking] = src[edge]
        steps.append((owner[edge], walking, times[cell] - times[first[src[edge]] + place[walking]]))
    if not (is_whole & (at == batch.root[batch.requests.group]) & (times[first[at] + place] == 0)).all():
        raise ValueError("a critical path does not reach the root, or is not as long as the response time")
    unit, request, ns = (np.concatenate(column) for column in zip(*steps, strict=True))
    return CriticalSteps(unit, request, ns * batch.requests.weight[request])


def _latest(batch: Batch, items: Ragged, choices: Ragged, nodes: I8) -> I8:
    """[cells of items] for each item and request the index of its latest choice, relative to `nodes`; the
    first of equal ones; arbitrary for an item without choices."""
    chosen = items.spread(choices.first)
    for n in np.unique(choices.size[choices.size > 1]).tolist():
        rows, cells = items.chosen(np.flatnonzero(choices.size == n))
        first = choices.first[choices.size == n]
        times = [batch.times[rows.at(batch.node.first[nodes[first + nth]])] for nth in range(n)]
        chosen[cells] += np.argmax(np.stack(times), axis=0)
    return chosen


def own_time_ns(times: I8, sites: GraphSites, units: I8) -> I8:
    """[units, requests] own time of `units`, ns; times: [nodes, requests]."""
    own: I8 = times[sites.end[units]] - times[sites.start[units]]
    start, end, below = sites.start.tolist(), sites.end.tolist(), _calls_below(sites)
    for place, unit in enumerate(units.tolist()):
        called = below.get(unit, ())
        if len(called) == 1:
            own[place] -= times[end[called[0]]] - times[start[called[0]]]
        elif called:
            own[place] -= _union(
                times[[start[child] for child in called]], times[[end[child] for child in called]]
            )
    np.maximum(own, 0, out=own)
    return own


def _calls_below(sites: GraphSites) -> dict[int, list[int]]:
    """Unit -> units it calls with start != end, ascending. O(units)."""
    below: dict[int, list[int]] = {}
    for unit, (above, start, end) in enumerate(
        zip(sites.above.tolist(), sites.start.tolist(), sites.end.tolist(), strict=True)
    ):
        if above >= 0 and end != start:
            below.setdefault(above, []).append(unit)
    return below


def _union(starts: I8, ends: I8) -> I8:
    """[cells] length of the union of intervals [intervals, cells]; ends >= starts."""
    if len(starts) == _PAIR:
        both = np.minimum(*ends) - np.maximum(*starts)
        pair: I8 = (ends - starts).sum(axis=0) - np.maximum(both, 0)
        return pair
    order = np.argsort(starts, axis=0, kind="stable")
    start, end = (np.take_along_axis(times, order, axis=0) for times in (starts, ends))
    reached = np.maximum.accumulate(end, axis=0)
    total: I8 = end[0] - start[0]
    for place in range(1, len(starts)):
        total = total + np.maximum(end[place] - np.maximum(start[place], reached[place - 1]), 0)
    return total


@dataclass(frozen=True, slots=True)
class PathTimes:
    """Critical times by edge, of one category."""

    site: I8
    """[edges] site whose own time the edge is."""
    us: F8
    """[edges, requests] latency, µs, where the edge is on the request's critical path, else 0. A column adds
    up to the response time."""
    on_path: B1
    """[edges, requests] True where the edge is on the critical path."""
    graph: GraphSites
    """Units of the category's graph."""


@dataclass(frozen=True, slots=True)
class AllPathTimes:
    """Path times of a population; memory: 9 bytes an edge and request."""

    categories: tuple[PathTimes, ...]
    names: Names

    def responses(self, unmarked: Sequence[B1] | None = None) -> tuple[F8, ...]:
        """[categories] of [requests]: response times, µs; with `unmarked`, [edges] masks: critical time on
        those edges only."""
        return tuple(
            times.us.sum(axis=0) if unmarked is None else unmarked[number].astype(np.float64) @ times.us
            for number, times in enumerate(self.categories)
        )


def path_times(population: Population) -> AllPathTimes:
    """Critical times of every edge of every request. O(requests · edges)."""
    book = NameBook()
    found = []
    graphs = [category.graph for category in population.categories]
    every = sites_of_graphs(graphs, [()] * len(graphs), book)
    for category, sites in zip(population.categories, every, strict=True):
        on_path = np.ascontiguousarray(critical_path(category).T)
        us = edge_latency_ns(category).T / NS_PER_US
        us *= on_path
        found.append(PathTimes(sites.site[sites.owner], us, on_path, sites))
    return AllPathTimes(tuple(found), book.names())


@dataclass(frozen=True, slots=True)
class AtSites:
    """Critical times summed by site, of one category; arrays are [sites, requests]."""

    codes: I8
    """[sites] site numbers, ascending."""
    us: F8
    on_path: B1


def at_sites(times: PathTimes, rows: slice, unmarked: B1 | None = None) -> AtSites:
    """Sum critical times by site for `rows`; unmarked: [edges] mask of edges to include, None: all."""
    chosen = slice(None) if unmarked is None else unmarked
    grouped = Grouped(times.site[chosen])
    us, on_path = times.us[chosen, rows], times.on_path[chosen, rows]
    return AtSites(grouped.codes, grouped.sums(us), grouped.sums(on_path) > 0)
