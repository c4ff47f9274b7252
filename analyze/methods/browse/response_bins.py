"""Count requests, categories and call sites by bin of response time; compare a range with the rest.

A range that one chooses is a range of bins; some are chosen here, around the modes of the density and in the
tail.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from analyze.population import Category, Population
from analyze.profile.times import AllPathTimes, PathTimes, at_sites
from analyze.stats.density import LEAST_US, Mode
from analyze.stats.moments import LARGE, squared_variation
from analyze.stats.sums import row_totals, totals
from schemas.arrays import F8, I8
from schemas.windows import NS_PER_US

_TAIL: Final = 0.01
"""The slowest share of the requests is always looked into."""
_SHOWN: Final = 8
"""Categories and places listed a range."""
_MOST_DIGITS: Final = 19
"""Of a whole number of ns."""


@dataclass(frozen=True, slots=True)
class KindBins:
    """Requests of each kind, a category or a root type, by bin; arrays are [kinds, bins]."""

    n: I8
    weight: F8
    failed: F8
    """Weight of those whose root did not end `ok`."""


@dataclass(frozen=True, slots=True)
class SiteBins:
    """Requests that waited at each call site, by bin; arrays are [sites, bins] unless stated."""

    weight: F8
    us: F8
    """Weighted time that they waited there."""
    failed: F8
    """Weight of the requests in which the place failed, whether they waited there or not."""
    n: I8
    """[sites] requests that waited there."""
    failed_n: I8
    """[sites] requests in which it failed."""
    squares: F8
    """[sites] weighted squares of the time waited there."""

    def c2(self, site: int) -> float | None:
        """C² of the time that requests waited at a place; for more than LARGE of them."""
        found = float(squared_variation(self.weight[site].sum(), self.us[site].sum(), self.squares[site]))
        return found if self.n[site] > LARGE and math.isfinite(found) else None


@dataclass(frozen=True, slots=True)
class ResponseBins:
    """One sample. Sums are weighted, times µs."""

    edges_ns: I8
    """[bins + 1] ascending; a bin is half open."""
    us: F8
    """[bins] response times."""
    categories: KindBins
    roots: KindBins
    """All categories of each root type."""
    sites: SiteBins
    root_names: tuple[str, ...]
    root_of: I8
    """[categories] index into `root_names`."""

    @property
    def n_bins(self) -> int:
        """Number of bins."""
        return len(self.us)

    @property
    def n(self) -> I8:
        """[bins] requests."""
        return np.asarray(self.roots.n.sum(axis=0))

    @property
    def weight(self) -> F8:
        """[bins] the same, weighted."""
        return np.asarray(self.roots.weight.sum(axis=0))

    @property
    def failed(self) -> F8:
        """[bins] weight of those whose root did not end `ok`."""
        return np.asarray(self.roots.failed.sum(axis=0))


def bin_edges(response_ns: I8, bins: int, modes: Sequence[Mode]) -> I8:
    """Cut response times into bins, [bins + 1] edges, ns.

    They are equal on a log scale from the least to past the longest time, with the valleys between modes, and
    have as few digits as keep them apart: people read them. Of no request: one bin.
    """
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
    for digits in range(2, _MOST_DIGITS):
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


def response_bins(population: Population, times: AllPathTimes, sample: int, edges_ns: I8) -> ResponseBins:
    """Add up by bin. O(requests · edges)."""
    n_bins, n_sites = len(edges_ns) - 1, len(times.names.sites)
    us = np.zeros(n_bins)
    shape = len(population.categories), n_bins
    categories = KindBins(np.zeros(shape, np.int64), np.zeros(shape), np.zeros(shape))
    waiting, waited, failing = np.zeros((3, n_sites, n_bins))
    n, failed_n = np.zeros((2, n_sites), np.int64)
    sites = SiteBins(waiting, waited, failing, n, failed_n, np.zeros(n_sites))
    for number, (category, mine) in enumerate(zip(population.categories, times.categories, strict=True)):
        rows = category.rows(sample)
        if rows.start >= rows.stop:
            continue
        response, weight = category.response_ns[rows], category.weight[rows]
        place = np.searchsorted(edges_ns[1:-1], response, side="right")
        categories.n[number] = np.bincount(place, minlength=n_bins)
        categories.weight[number] = totals(place, weight, n_bins)
        failed = weight * population.failed(category, rows)
        categories.failed[number] = totals(place, failed, n_bins)
        us += totals(place, weight * response / NS_PER_US, n_bins)
        _add_sites(category, mine, rows, place, sites)
    names, root_of = population.root_types()
    roots = KindBins(
        row_totals(categories.n, root_of, len(names)),
        row_totals(categories.weight, root_of, len(names)),
        row_totals(categories.failed, root_of, len(names)),
    )
    return ResponseBins(edges_ns, us, categories, roots, sites, names, root_of)


def _add_sites(category: Category, mine: PathTimes, rows: slice, place: I8, to: SiteBins) -> None:
    """Add one category's requests, whose bins are given."""
    weight = category.weight[rows]
    here = at_sites(mine, rows)
    if len(here.codes):
        order = np.argsort(place, kind="stable")
        starts = np.flatnonzero(np.diff(place[order], prepend=-1))
        cell = np.ix_(here.codes, place[order][starts])
        weighted = here.us[:, order] * weight[order]
        to.us[cell] += np.add.reduceat(weighted, starts, axis=1)
        to.weight[cell] += np.add.reduceat(here.on_path[:, order] * weight[order], starts, axis=1)
        to.n[here.codes] += here.on_path.sum(axis=1)
        to.squares[here.codes] += (weighted * here.us[:, order]).sum(axis=1)
    failures = category.failures.of_rows(rows)
    if len(failures.row):
        # Once a request and place, however often it failed there.
        at = mine.graph.site_at(failures.position)
        site, row = np.unique(np.stack([at, failures.row.astype(np.int64)]), axis=1)
        np.add.at(to.failed, (site, place[row]), weight[row])
        to.failed_n[:] += np.bincount(site, minlength=len(to.failed_n))


@dataclass(frozen=True, slots=True)
class BinRange:
    """Bins `first` to `past`, half open, and why."""

    first: int
    past: int
    mode: Mode | None = None
    """None: the slow end."""


def mode_ranges(bins: ResponseBins, modes: Sequence[Mode]) -> list[BinRange]:
    """Find the bins of each mode, from valley to valley, and of the slowest requests.

    Those without a request are left out. Of one distinct time there is no mode, and one range: all.
    """
    inner = bins.edges_ns[1:-1]

    def bin_at(log_us: float) -> int:
        if not math.isfinite(log_us):
            return 0 if log_us < 0 else bins.n_bins
        # The edge that was made of the valley is the nearest one.
        if not len(inner):
            return bins.n_bins
        return int(np.argmin(np.abs(np.log2(np.maximum(inner, 1) / NS_PER_US) - log_us))) + 1

    found = [BinRange(bin_at(mode.low), bin_at(mode.high), mode) for mode in modes]
    tail = tail_bin(bins)
    if tail > 0 or not found:
        found.append(BinRange(tail, bins.n_bins))
    return [one for one in found if bins.n[one.first : one.past].sum() > 0]


def tail_bin(bins: ResponseBins) -> int:
    """Find the first bin of the slow end: as many requests as TAIL of them, at least one."""
    behind = np.cumsum(bins.weight[::-1])[::-1]
    enough = np.flatnonzero(behind >= _TAIL * bins.weight.sum())
    return int(enough[-1]) if len(enough) else 0


class KindsInRange(NamedTuple):
    """All root types, or categories, against a range; arrays are [kinds]."""

    n: I8
    share_in: F8
    share_out: F8
    failed: F8
    """Share of its requests in the range."""


class SitesInRange(NamedTuple):
    """All places against a range; arrays are [sites]."""

    share_in: F8
    share_out: F8
    mean_in_us: F8
    mean_out_us: F8
    failed: F8


def parted(values: npt.NDArray[np.number], first: int, past: int) -> tuple[F8, F8]:
    """Add up [..., bins] inside the bins `first` to `past`, and outside of them."""
    inside = values[..., first:past].sum(axis=-1)
    return np.asarray(inside), np.asarray(values[..., :first].sum(axis=-1) + values[..., past:].sum(axis=-1))


def over(part: F8, whole: F8 | float) -> F8:
    """Divide; 0 where there is nothing to divide by."""
    with np.errstate(invalid="ignore", divide="ignore"):
        found: F8 = np.where(np.asarray(whole) > 0, part / whole, 0.0)
    return found


def kinds_in(kinds: KindBins, first: int, past: int) -> KindsInRange:
    """Compare kinds in the bins `first` to `past` with the others. O(kinds · bins)."""
    inside, outside = parted(kinds.weight, first, past)
    failed, _ = parted(kinds.failed, first, past)
    return KindsInRange(
        kinds.n[:, first:past].sum(axis=1),
        over(inside, inside.sum()),
        over(outside, outside.sum()),
        over(failed, inside),
    )


def sites_in(bins: ResponseBins, first: int, past: int) -> SitesInRange:
    """Compare places in the bins `first` to `past` with the others. O(sites · bins)."""
    inside, outside = (float(part) for part in parted(bins.weight, first, past))
    waiting, waiting_else = parted(bins.sites.weight, first, past)
    us, us_else = parted(bins.sites.us, first, past)
    failed, _ = parted(bins.sites.failed, first, past)
    return SitesInRange(
        over(waiting, inside),
        over(waiting_else, outside),
        over(us, inside),
        over(us_else, outside),
        over(failed, inside),
    )


def leading_kinds(kinds: KindBins, first: int, past: int) -> list[int]:
    """List root types or categories of a range, most requests first."""
    n = kinds.n[:, first:past].sum(axis=1)
    order = np.lexsort((np.arange(len(n)), -n))[:_SHOWN]
    return [int(number) for number in order if n[number] > 0]


def leading_sites(bins: ResponseBins, first: int, past: int) -> list[int]:
    """List places of a range: what makes the range's requests longer than the others, or shorter."""
    found = sites_in(bins, first, past)
    # A range that is all is compared with nothing: then by time.
    size = np.abs(found.mean_in_us - found.mean_out_us)
    order = np.lexsort((np.arange(len(size)), -size))[:_SHOWN]
    return [int(site) for site in order if size[site] > 0]


def leading_category(bins: ResponseBins, first: int, past: int) -> int:
    """Find the category of most requests among those of the root type of most requests.

    One kind of work scatters over many categories, and the largest may be of another kind.
    """
    root = leading_kinds(bins.roots, first, past)[0]
    n = np.where(bins.root_of == root, bins.categories.n[:, first:past].sum(axis=1), -1)
    return int(np.argmax(n))
