"""Times of units (calls, or steps between activity records): self time, duration, overlap of children, time
on the critical path.

Functions work on a batch of many graphs as flat arrays (`batches`), or on one category as matrices.
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
    """Times of the units (calls or steps) of a batch; a cell is a (unit, request)."""

    own: I8
    """int64[cells of `Batch.unit`]: self time, ns: duration minus the union of the children's intervals; for
    a step between records the latency."""
    duration: I8
    """int64[cells of `Batch.unit`]: time from the unit's start to its end, ns."""
    wide: I8
    """int64[n]: calls (units of the batch) that have several children."""
    overlap: F8
    """float64[cells of the calls in `wide`]: sum of the children's durations / length of the union of the
    children's intervals, >= 1."""
    stretch: F8
    """float64[cells of the calls in `wide`]: length of the union of the children's intervals / duration of
    the longest child, >= 1; 1 if all children run during the longest child."""


def call_times(batch: Batch) -> CallTimes:
    """Times of every unit of a batch in every request. O(cells log children)."""
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


class CriticalTimes(NamedTuple):
    """Times of the units of a batch on the critical paths of requests; arrays are [cells of `Batch.unit`]."""

    ns: I8
    """Latencies of the unit's own edges on the request's path, ns; those of a request add up to its response
    time."""
    is_critical: B1
    """True if any of the unit's own edges is on the request's path."""


def critical_times(batch: Batch) -> CriticalTimes:
    """Follow the critical paths of all requests of a batch, from the response backwards
    (`paths.critical_path`).

    Raises ValueError if a path does not reach the root, or its latencies do not add up to the response time.
    O(cells).
    """
    first, times, place = batch.node.first, batch.times, batch.place
    by_dst = np.lexsort((batch.src, batch.dst))
    src, owner = batch.src[by_dst], batch.owner[by_dst]
    before = Ragged.of(np.bincount(batch.dst, minlength=len(first)))
    via = _latest(batch, batch.node, before, src)
    response = batch.response_node[
        _latest(batch, Ragged.of(batch.n_of), batch.responses, batch.response_node)
    ]
    found = CriticalTimes(
        np.zeros(batch.unit.n_cells, dtype=np.int64), np.zeros(batch.unit.n_cells, dtype=np.bool_)
    )
    first_src, first_owner, is_last = first[src], batch.unit.first[owner], before.size[src] == 0
    begin = first[response] + place
    is_whole = times[begin] == batch.requests.response_ns
    request = np.flatnonzero(before.size[response] > 0)
    cell, column = begin[request], place[request]
    while len(request):
        edge = via[cell]
        came, unit = first_src[edge] + column, first_owner[edge] + column
        found.ns[unit] += times[cell] - times[came]
        found.is_critical[unit] = True
        arrived = is_last[edge]
        if arrived.any():
            begin[request[arrived]] = came[arrived]
            request, came, column = (of[~arrived] for of in (request, came, column))
        cell = came
    if not (
        is_whole & (begin == first[batch.root[batch.requests.group]] + place) & (times[begin] == 0)
    ).all():
        raise ValueError("a critical path does not reach the root, or is not as long as the response time")
    return found


def _latest(batch: Batch, items: Ragged, choices: Ragged, nodes: I8) -> I8:
    """int64[cells of `items`]: for each item and request, the index in `nodes` of the item's latest node.

    choices: for each item the range of its candidates in `nodes`. Of equally late nodes the first is taken;
    the value is arbitrary for an item without candidates."""
    chosen = items.spread(choices.first)
    for n in np.unique(choices.size[choices.size > 1]).tolist():
        rows, cells = items.chosen(np.flatnonzero(choices.size == n))
        first = choices.first[choices.size == n]
        times = [batch.times[rows.at(batch.node.first[nodes[first + nth]])] for nth in range(n)]
        chosen[cells] += np.argmax(np.stack(times), axis=0)
    return chosen


def own_time_ns(times: I8, sites: GraphSites, units: I8) -> I8:
    """int64[units, requests]: self time of `units`, ns: duration minus the union of the children's intervals.

    times: int64[nodes, requests], ns. units: int64[units], units of `sites`."""
    start, end = sites.start, sites.end
    own: I8 = times[end[units]] - times[start[units]]
    called = np.flatnonzero((sites.above >= 0) & (end != start))
    caller = sites.above[called]
    n_called, place = np.bincount(caller, minlength=sites.n_units), np.full(sites.n_units, -1)
    place[units] = np.arange(len(units))
    alone = (n_called[caller] == 1) & (place[caller] >= 0)
    own[place[caller[alone]]] -= times[end[called[alone]]] - times[start[called[alone]]]
    for unit in units[n_called[units] > 1].tolist():
        several = called[caller == unit]
        own[place[unit]] -= _union(times[start[several]], times[end[several]])
    return np.maximum(own, 0, out=own)


def _union(starts: I8, ends: I8) -> I8:
    """int64[cells]: length of the union of the intervals in each column. starts, ends: int64[intervals,
    cells], ends >= starts."""
    if len(starts) == _PAIR:
        both = np.minimum(*ends) - np.maximum(*starts)
        pair: I8 = (ends - starts).sum(axis=0) - np.maximum(both, 0)
        return pair
    # As many intervals begin as end before every gap between them.
    start, end = np.sort(starts, axis=0), np.sort(ends, axis=0)
    total: I8 = end[-1] - start[0] - np.maximum(start[1:] - end[:-1], 0).sum(axis=0)
    return total


@dataclass(frozen=True, slots=True)
class PathTimes:
    """Time on the critical path by edge, of the requests of one category."""

    site: I8
    """int64[edges]: number of the site to whose self time the edge belongs."""
    us: F8
    """float64[edges, requests]: latency of the edge, µs, if it is on the request's critical path, else 0. A
    column adds up to the response time."""
    on_path: B1
    """bool[edges, requests]: True if the edge is on the request's critical path."""
    graph: GraphSites
    """Sites of the category's graph."""


@dataclass(frozen=True, slots=True)
class AllPathTimes:
    """Times on the critical path of all categories of a population. Memory: 9 bytes per edge and request."""

    categories: tuple[PathTimes, ...]
    names: Names

    def responses(self, unmarked: Sequence[B1] | None = None) -> tuple[F8, ...]:
        """Response times, µs: a float64[requests] per category.

        unmarked: for each category bool[edges]; if given, only the time on these edges of the critical path
        is counted."""
        return tuple(
            times.us.sum(axis=0) if unmarked is None else unmarked[number].astype(np.float64) @ times.us
            for number, times in enumerate(self.categories)
        )


def path_times(population: Population) -> AllPathTimes:
    """Time on the critical path of every edge in every request. O(requests · edges)."""
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
    """Time on the critical path by site, of requests of one category."""

    codes: I8
    """int64[sites]: site numbers, ascending."""
    us: F8
    """float64[sites, requests]: time of the site's edges on the critical path, µs."""
    on_path: B1
    """bool[sites, requests]: True if an edge of the site is on the critical path."""


def at_sites(times: PathTimes, rows: slice, unmarked: B1 | None = None) -> AtSites:
    """Sum the time on the critical path by site, for the requests in `rows`. unmarked: bool[edges], True to
    include an edge; None: all edges."""
    chosen = slice(None) if unmarked is None else unmarked
    grouped = Grouped(times.site[chosen])
    us, on_path = times.us[chosen, rows], times.on_path[chosen, rows]
    return AtSites(grouped.codes, grouped.sums(us), grouped.sums(on_path) > 0)
