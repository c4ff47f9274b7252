"""Section `browse-places`: call sites and hosts by time spent; failures by call site, number and time of
occurrence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from analyze.methods.browse.browse_run import BrowseRun
from analyze.methods.browse.ranges import site_words
from analyze.methods.browse.sections import ERRORS, HOSTS, SITES
from analyze.methods.browse.timeline import entries_of, time_edges
from analyze.population import Category, Population
from analyze.profile.call_sites import GraphSites
from analyze.profile.times import AllPathTimes
from analyze.stats.sums import totals
from analyze.stats.time_blocks import block_of
from schemas.arrays import B1, F8, I8
from schemas.report.browse import BrowsePlacesSection, ErrorRow, HostRow, SiteRow
from schemas.report.columns import arrow_table

_MOST_SITES: Final = 60
_MOST_HOSTS: Final = 60
_MOST_ERRORS: Final = 40
_MOST_COMPONENTS: Final = 6
_TIMES: Final = 48
"""Number of intervals of time into which failures are counted."""
_MOST_ERROR_HOSTS: Final = 3


def places_of(run: BrowseRun) -> tuple[BrowsePlacesSection, dict[str, pa.Table]]:
    """Fill the section; return (section, table name -> complete table of one of its lists)."""
    population = run.population
    sites, (hosts, no_host) = _sites(run), _hosts(run)
    edges = time_edges(entries_of(population, run.sample), population.samples[-1], _TIMES)
    errors, failed_inside = _error_rows(population, run.times, run.sample, edges)
    section = BrowsePlacesSection(
        sample=run.name,
        sites=tuple(sites[:_MOST_SITES]),
        sites_total=len(sites),
        hosts=tuple(hosts[:_MOST_HOSTS]),
        hosts_total=len(hosts),
        no_host=no_host,
        errors=tuple(errors[:_MOST_ERRORS]),
        errors_total=len(errors),
        failed_inside=failed_inside,
    )
    return section, {
        "browse_sites": arrow_table(SITES, sites),
        "browse_hosts": arrow_table(HOSTS, hosts),
        "browse_errors": arrow_table(ERRORS, errors),
    }


def _sites(run: BrowseRun) -> list[SiteRow]:
    bins = run.bins
    us, weight = bins.sites.us.sum(axis=1), bins.sites.weight.sum(axis=1)
    total = float(bins.us.sum())
    rows = []
    for site in np.argsort(-us, kind="stable").tolist():
        if not bins.sites.n[site]:
            continue
        label, caller = site_words(run.times, site)
        rows.append(
            SiteRow(
                label=label,
                caller=caller,
                requests=int(bins.sites.n[site]),
                mean_us=float(us[site] / weight[site]),
                c2=bins.sites.c2(site),
                share_of_time=float(us[site]) / total if total > 0 else 0.0,
                failed=int(bins.sites.failed_n[site]),
            )
        )
    return rows


def _hosts(run: BrowseRun) -> tuple[list[HostRow], float]:
    found = host_times(run.population, run.times, run.sample)
    total, weight = float(found.us.sum()), float(run.bins.weight.sum())
    rows = [
        HostRow(
            host=host,
            components=found.components[code][:_MOST_COMPONENTS],
            requests=int(found.n[code]),
            share_of_requests=float(found.weight[code]) / weight,
            share_of_time=float(found.us[code]) / total if total > 0 else 0.0,
            per_request_us=float(found.us[code] / found.weight[code]),
            failed=int(found.failed[code]),
        )
        for code, host in enumerate(run.population.hosts)
        if found.n[code]
    ]
    rows.sort(key=lambda row: (-row.share_of_time, row.host))
    return rows, float(found.us[-1]) / total if total > 0 else 0.0


@dataclass(frozen=True, slots=True)
class HostTimes:
    """Times, requests and failures by host in one sample; arrays are [hosts + 1], the last element for
    unknown hosts."""

    n: I8
    """Number of requests with a node on the host."""
    weight: F8
    """Sum of the weights of the requests counted in `n`."""
    us: F8
    """Own time on the critical path at the host, µs, weighted; the sum over hosts is the weighted sum of
    response times."""
    failed: I8
    """Number of requests in which a node on the host failed."""
    components: tuple[tuple[str, ...], ...]
    """Names of the components on each host, sorted."""


def host_times(population: Population, times: AllPathTimes, sample: int) -> HostTimes:
    """Sum times, requests and failures by host.

    sample: index of the sample. O(requests · (nodes + edges)).
    """
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
        for edge, position in enumerate(_edge_positions(mine.graph, category).tolist()):
            us += totals(host[position], w * mine.us[edge, rows], n_hosts)
        # A request with several nodes at a host counts once.
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
    """Index of the host of each node in each request, int64[nodes, requests]; `unknown` if not known."""
    if category.host is None:
        return np.full((category.graph.n_nodes, rows.stop - rows.start), unknown, dtype=np.int64)
    codes = category.host[:, rows].astype(np.int64)
    return np.where(codes < 0, unknown, codes)


def _edge_positions(sites: GraphSites, category: Category) -> I8:
    """Index of the node on whose host the time of each edge is spent, int64[edges].

    For spans it is the start of the span whose own time includes the edge, for activity records the end of
    the edge.
    """
    if sites.are_calls:
        found: I8 = sites.start[sites.owner]
        return found
    return category.graph.edges[:, 1].astype(np.int64)


def _error_rows(
    population: Population, times: AllPathTimes, sample: int, edges_ns: I8
) -> tuple[list[ErrorRow], float]:
    """Count failures by error class and call site.

    Returns (rows, most requests first; share of requests with any failure). sample: index of the sample.
    edges_ns: [intervals + 1] bounds of the intervals of time in which failures are counted.
    """
    none = np.zeros(0, np.int64)
    parts: list[tuple[npt.NDArray[Any], ...]] = [(none, none, none, none, np.zeros(0), none > 0, none)]
    total, inside, before = 0.0, 0.0, 0
    for category, mine in zip(population.categories, times.categories, strict=True):
        rows = category.rows(sample)
        weight = category.weight[rows]
        failures = category.failures.of_rows(rows)
        row = failures.row.astype(np.int64)
        if len(row):
            parts.append(
                (
                    mine.graph.site_at(failures.position),
                    failures.error.astype(np.int64),
                    row + before,
                    category.start_ns[rows][row],
                    weight[row],
                    ~population.failed(category, rows)[row],
                    _host_codes(category, rows, -1)[failures.position, row],
                )
            )
        total += float(weight.sum())
        inside += float(weight[np.unique(row)].sum())
        before += len(weight)
    site, error, request, start, weights, ok, host = (
        np.concatenate(part) for part in zip(*parts, strict=True)
    )
    key = site * max(len(population.errors), 1) + error
    found = [
        _row(
            population,
            times,
            int(code),
            (request[mine], start[mine], ok[mine], weights[mine], host[mine]),
            total,
            edges_ns,
        )
        for code in np.unique(key).tolist()
        for mine in [key == code]
    ]
    found.sort(key=lambda row: (-row.requests, row.error, row.site))
    return found, inside / total if total > 0 else 0.0


def _row(
    population: Population,
    times: AllPathTimes,
    code: int,
    of: tuple[I8, I8, B1, F8, I8],
    total: float,
    edges_ns: I8,
) -> ErrorRow:
    request, start, ok, weights, host = of
    site, error = divmod(code, max(len(population.errors), 1))
    _, first = np.unique(request, return_index=True)  # once a request
    names, counts = np.unique(host[host >= 0], return_counts=True)
    leading = names[np.lexsort((names, -counts))][:_MOST_ERROR_HOSTS].tolist()
    return ErrorRow(
        error=population.errors[error],
        site=site_words(times, site)[0],
        requests=len(first),
        share=float(weights[first].sum()) / total,
        answered_ok=float(ok[first].mean()),
        hosts=tuple(population.hosts[code] for code in leading),
        first_ns=int(start.min()),
        last_ns=int(start.max()),
        by_time=tuple(np.bincount(block_of(start[first], edges_ns), minlength=len(edges_ns) - 1).tolist()),
    )
