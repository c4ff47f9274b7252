"""How long each request waited for each edge of its graph: the parts that its response time is the sum of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analyze.paths.critical_path import critical_path, edge_latency_ns
from analyze.population import Population
from analyze.sites.graph_sites import GraphSites, graph_sites
from analyze.sites.names import NameBook, Names
from analyze.sites.slot_runs import Grouped
from analyze.stats.moments import NS_PER_US

I8 = npt.NDArray[np.int64]
F8 = npt.NDArray[np.float64]
B1 = npt.NDArray[np.bool_]


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
