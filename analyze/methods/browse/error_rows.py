"""What failed where, how often, and when."""

from __future__ import annotations

from typing import Final

import numpy as np

from analyze.methods.browse.range_section import site_words
from analyze.methods.browse.response_bins import failed_requests
from analyze.population import Population
from analyze.profile.times import AllPathTimes
from schemas.arrays import B1, F8, I8
from schemas.report.browse import ErrorRow

MOST_HOSTS: Final = 3


def error_rows(
    population: Population, times: AllPathTimes, sample: int, edges_ns: I8
) -> tuple[list[ErrorRow], float]:
    """Rows by error class and place, most requests first; and the share of requests in which anything failed.

    edges_ns: [times + 1] of the counts by time. O(failures log failures).
    """
    site, error, request, host = (np.zeros(0, np.int64) for _ in range(4))
    start, ok, weights = np.zeros(0, np.int64), np.zeros(0, np.bool_), np.zeros(0)
    total, inside, before = 0.0, 0.0, 0
    for category, mine in zip(population.categories, times.categories, strict=True):
        rows = category.rows(sample)
        weight = category.weight[rows]
        total += float(weight.sum())
        failures = category.failures.of_rows(rows)
        if not len(failures.row):
            before += len(weight)
            continue
        row = failures.row.astype(np.int64)
        inside += float(weight[np.unique(row)].sum())
        site = np.append(site, mine.graph.site_at(failures.position))
        error = np.append(error, failures.error.astype(np.int64))
        request = np.append(request, row + before)
        start = np.append(start, category.start_ns[rows][row])
        ok = np.append(ok, ~failed_requests(population, category, rows)[row])
        weights = np.append(weights, weight[row])
        hosts = (
            np.full(len(row), -1)
            if category.host is None
            else category.host[:, rows][failures.position, row].astype(np.int64)
        )
        host = np.append(host, hosts)
        before += len(weight)
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
    leading = names[np.lexsort((names, -counts))][:MOST_HOSTS].tolist()
    count = len(edges_ns) - 1
    place = np.clip(np.searchsorted(edges_ns, start[first], side="right") - 1, 0, count - 1)
    return ErrorRow(
        error=population.errors[error],
        site=site_words(times, site)[0],
        requests=len(first),
        share=float(weights[first].sum()) / total,
        answered_ok=float(ok[first].mean()),
        hosts=tuple(population.hosts[code] for code in leading),
        first_ns=int(start.min()),
        last_ns=int(start.max()),
        by_time=tuple(np.bincount(place, minlength=count).tolist()),
    )
