"""How long requests waited for each host, and what failed there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analyze.population import Category, Population
from analyze.profile.call_sites import GraphSites
from analyze.profile.times import AllPathTimes
from analyze.stats.sums import totals
from schemas.arrays import F8, I8


@dataclass(frozen=True, slots=True)
class HostTimes:
    """One sample; arrays are [hosts + 1], the last one for what has no host."""

    n: I8
    """Requests with a node there."""
    weight: F8
    """The same, weighted."""
    us: F8
    """Weighted critical time of what a host did itself; over all the weighted sum of the response times."""
    failed: I8
    """Requests in which a node failed there."""
    components: tuple[tuple[str, ...], ...]
    """[hosts + 1] sorted."""


def host_times(population: Population, times: AllPathTimes, sample: int) -> HostTimes:
    """Times by host. O(requests · (nodes + edges))."""
    n_hosts = len(population.hosts) + 1
    n, failed = np.zeros(n_hosts, dtype=np.int64), np.zeros(n_hosts, dtype=np.int64)
    weight, us = np.zeros(n_hosts), np.zeros(n_hosts)
    components: list[set[str]] = [set() for _ in range(n_hosts)]
    for category, mine in zip(population.categories, times.categories, strict=True):
        rows = category.rows(sample)
        if rows.start >= rows.stop:
            continue
        host = _host_codes(category, rows, n_hosts - 1)
        w = category.weight[rows]
        for edge, position in enumerate(edge_positions(mine.graph, category).tolist()):
            us += totals(host[position], w * mine.us[edge, rows], n_hosts)
        # A host several of whose nodes a request has counts once.
        seen = np.unique(host * len(w) + np.arange(len(w)))
        n += np.bincount(seen // len(w), minlength=n_hosts)
        weight += totals(seen // len(w), w[seen % len(w)], n_hosts)
        for position, node in enumerate(category.graph.nodes):
            for code in np.unique(host[position]).tolist():
                components[code].add(node.component)
        failures = category.failures.of_rows(rows)
        if len(failures.row):
            at = host[failures.position, failures.row]
            failed += np.bincount(np.unique(at * len(w) + failures.row) // len(w), minlength=n_hosts)
    return HostTimes(n, weight, us, failed, tuple(tuple(sorted(found)) for found in components))


def _host_codes(category: Category, rows: slice, unknown: int) -> I8:
    """[nodes, requests] host of each node, `unknown` where it is not known."""
    if category.host is None:
        return np.full((category.graph.n_nodes, rows.stop - rows.start), unknown, dtype=np.int64)
    codes = category.host[:, rows].astype(np.int64)
    return np.where(codes < 0, unknown, codes)


def edge_positions(sites: GraphSites, category: Category) -> I8:
    """[edges] the node whose host an edge's time is spent on.

    Of spans the start of the span whose own time it is, of records where the edge ends.
    """
    if sites.are_calls:
        found: I8 = sites.start[sites.owner]
        return found
    return category.graph.edges[:, 1].astype(np.int64)
