"""Count requests, categories and call sites by bin of response time: what ranges are made from (H.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from analyze.population import Category, Population
from analyze.profile.times import AllPathTimes, PathTimes, at_sites
from analyze.report.header import OK
from analyze.stats.density import LEAST_US, Mode
from analyze.stats.sums import totals
from schemas.arrays import B1, F8, I8
from schemas.windows import NS_PER_US

MOST_DIGITS: Final = 19
"""Of a whole number of ns."""


@dataclass(frozen=True, slots=True)
class KindBins:
    """Requests of each kind by bin; arrays are [kinds, bins]."""

    n: I8
    weight: F8
    failed: F8
    """Weight of those whose root did not end `ok`."""

    @classmethod
    def empty(cls, kinds: int, bins: int) -> KindBins:
        """Zeros."""
        return cls(np.zeros((kinds, bins), dtype=np.int64), np.zeros((kinds, bins)), np.zeros((kinds, bins)))


@dataclass(frozen=True, slots=True)
class ResponseBins:
    """One sample; arrays are [bins] or [sites, bins] unless stated. Sums are weighted, times µs."""

    edges_ns: I8
    """[bins + 1] ascending; a bin is half open."""
    n: I8
    weight: F8
    us: F8
    failed: F8
    """Weight of requests whose root did not end `ok`."""
    categories: KindBins
    roots: KindBins
    """All categories of each root type."""
    root_names: tuple[str, ...]
    root_of: I8
    """[categories] index into `root_names`."""
    site_weight: F8
    """Of requests that waited there."""
    site_us: F8
    site_failed: F8
    """Weight of the requests in which the place failed."""
    site_n: I8
    """[sites] requests that waited there."""
    site_squares: F8
    """[sites] weighted squares of the time waited there."""

    @property
    def n_bins(self) -> int:
        """Number of bins."""
        return len(self.n)


def bin_edges(response_ns: I8, bins: int, modes: Sequence[Mode]) -> I8:
    """[bins + 1] edges, ns: equal on a log scale from the least to past the longest time, and the valleys
    between modes. They have as few digits as keep them apart: people read them. Of no request: one bin."""
    if not len(response_ns):
        return np.array([0, 1], dtype=np.int64)
    low, high = int(response_ns.min()), int(response_ns.max())
    if low == high:
        return np.array([low, high + 1], dtype=np.int64)
    least = LEAST_US * NS_PER_US
    plain = np.geomspace(max(low, least), high, bins + 1)[1:-1]
    valleys = np.array([2.0**mode.low * NS_PER_US for mode in modes if np.isfinite(mode.low)])
    # A valley stands for the edges beside it, so that no bin is a sliver.
    step = (high / max(low, least)) ** (0.5 / bins)
    far = [x for x in plain.tolist() if not any(x / step < v < x * step for v in valleys.tolist())]
    inner = np.sort(np.concatenate([far, valleys]))
    for digits in range(2, MOST_DIGITS):
        rounded = np.array([_rounded(x, digits) for x in inner.tolist()], dtype=np.int64)
        if len(np.unique(rounded)) == len(rounded):
            break
    rounded = np.unique(rounded)
    inside = rounded[(rounded > low) & (rounded <= high)]
    first, past = _rounded(low, 2, -1), _rounded(high + 1, 2, 1)
    if len(inside):
        first, past = min(first, int(inside[0]) - 1), max(past, int(inside[-1]) + 1)
    return np.array([first, *inside.tolist(), past], dtype=np.int64)


def _rounded(ns: float, digits: int, towards: int = 0) -> int:
    """A time of `digits` digits: the nearest, or the next in a direction."""
    whole = round(ns)
    if whole <= 0:
        return 0
    unit: int = 10 ** max(len(str(whole)) - digits, 0)
    if towards < 0:
        return whole // unit * unit
    if towards > 0:
        return -(-whole // unit) * unit
    return (whole + unit // 2) // unit * unit


def ok_status(population: Population) -> int:
    """Code of the status of requests that did not fail; -1 where none ended so."""
    return population.statuses.index(OK) if OK in population.statuses else -1


def failed_requests(population: Population, category: Category, rows: slice) -> B1:
    """[requests] whether the root of each did not end `ok`; without statuses none did."""
    if not population.statuses:
        return np.zeros(len(category.response_ns[rows]), dtype=np.bool_)
    failed: B1 = category.status[rows] != ok_status(population)
    return failed


def response_bins(population: Population, times: AllPathTimes, sample: int, edges_ns: I8) -> ResponseBins:
    """Sums by bin. O(requests · edges)."""
    n_bins, n_sites = len(edges_ns) - 1, len(times.names.sites)
    names = tuple(sorted({category.graph.root for category in population.categories}))
    root_of = np.array([names.index(category.graph.root) for category in population.categories], np.int64)
    found = ResponseBins(
        edges_ns,
        n=np.zeros(n_bins, dtype=np.int64),
        weight=np.zeros(n_bins),
        us=np.zeros(n_bins),
        failed=np.zeros(n_bins),
        categories=KindBins.empty(len(root_of), n_bins),
        roots=KindBins.empty(len(names), n_bins),
        root_names=names,
        root_of=root_of,
        site_weight=np.zeros((n_sites, n_bins)),
        site_us=np.zeros((n_sites, n_bins)),
        site_failed=np.zeros((n_sites, n_bins)),
        site_n=np.zeros(n_sites, dtype=np.int64),
        site_squares=np.zeros(n_sites),
    )
    for number, (category, mine) in enumerate(zip(population.categories, times.categories, strict=True)):
        rows = category.rows(sample)
        if rows.start < rows.stop:
            _add(population, category, mine, number, rows, found)
    return found


def _add(
    population: Population, category: Category, mine: PathTimes, number: int, rows: slice, to: ResponseBins
) -> None:
    response, weight = category.response_ns[rows], category.weight[rows]
    place = np.searchsorted(to.edges_ns[1:-1], response, side="right")
    failed = weight * failed_requests(population, category, rows)
    n, weights, bad = (
        np.bincount(place, minlength=to.n_bins),
        totals(place, weight, to.n_bins),
        totals(place, failed, to.n_bins),
    )
    for kinds, row in ((to.categories, number), (to.roots, int(to.root_of[number]))):
        kinds.n[row] += n
        kinds.weight[row] += weights
        kinds.failed[row] += bad
    to.n[:] += n
    to.weight[:] += weights
    to.failed[:] += bad
    to.us[:] += totals(place, weight * response / NS_PER_US, to.n_bins)
    here = at_sites(mine, rows)
    if len(here.codes):
        order = np.argsort(place, kind="stable")
        ordered = place[order]
        starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
        cell = np.ix_(here.codes, ordered[starts])
        weighted = here.us[:, order] * weight[order]
        to.site_us[cell] += np.add.reduceat(weighted, starts, axis=1)
        to.site_weight[cell] += np.add.reduceat(here.on_path[:, order] * weight[order], starts, axis=1)
        to.site_n[here.codes] += here.on_path.sum(axis=1)
        to.site_squares[here.codes] += (weighted * here.us[:, order]).sum(axis=1)
    failures = category.failures.of_rows(rows)
    if len(failures.row):
        # Once a request and place, however often it failed there.
        at = mine.graph.site_at(failures.position)
        both = np.unique(np.stack([at, failures.row.astype(np.int64)]), axis=1)
        np.add.at(to.site_failed, (both[0], place[both[1]]), weight[both[1]])
