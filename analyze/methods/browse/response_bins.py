"""Counts of requests, categories and call sites by bin of response time; comparison of a range with all other
requests.

Users choose ranges of bins on the page; ranges around the modes of the density and in the tail are chosen
here.
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
"""Share, in [0, 1], of the slowest requests that make up the slow end."""
_SHOWN: Final = 8
"""Maximum number of categories, and of call sites, listed for a range."""
_MOST_DIGITS: Final = 19
"""Maximum number of decimal digits of a whole number of ns (int64)."""


@dataclass(frozen=True, slots=True)
class KindBins:
    """Numbers of requests by bin, of categories or of root types ("kinds"); arrays are [kinds, bins]."""

    n: I8
    weight: F8
    """Sum of the weights of the requests of each kind in each bin."""
    failed: F8
    """Sum of the weights of requests whose root did not end `ok`."""


@dataclass(frozen=True, slots=True)
class SiteBins:
    """Requests that waited at each call site, by bin; arrays are [sites, bins] unless stated."""

    weight: F8
    """Sum of the weights of the requests that waited."""
    us: F8
    """Time for which responses waited at the site, µs, weighted sum."""
    failed: F8
    """Sum of the weights of requests in which each site failed, whether on the critical path or not."""
    n: I8
    """Number of requests that waited at the site, int64[sites]."""
    failed_n: I8
    """Number of requests in which the site failed, int64[sites]."""
    squares: F8
    """Weighted sum of the squared waiting time, µs², float64[sites]."""

    def c2(self, site: int) -> float | None:
        """Squared coefficient of variation C² of the waiting time at a site.

        site: index of the site. None for at most LARGE requests.
        """
        found = float(squared_variation(self.weight[site].sum(), self.us[site].sum(), self.squares[site]))
        return found if self.n[site] > LARGE and math.isfinite(found) else None


@dataclass(frozen=True, slots=True)
class ResponseBins:
    """Counts of one sample by bin of response time; sums are weighted, times in µs."""

    edges_ns: I8
    """Edges of the bins, ns, int64[bins + 1], ascending; a bin includes its lower edge, not the upper one."""
    us: F8
    """Sum of the response times in each bin, float64[bins]."""
    categories: KindBins
    """Numbers of requests by category and bin."""
    roots: KindBins
    """Numbers of requests by root type and bin (sums over the root type's categories)."""
    sites: SiteBins
    """Numbers of requests, and waiting times, by call site and bin."""
    root_names: tuple[str, ...]
    """Names of the root types, by index."""
    root_of: I8
    """Index in `root_names` of each category's root type, int64[categories]."""

    @property
    def n_bins(self) -> int:
        """Number of bins."""
        return len(self.us)

    @property
    def n(self) -> I8:
        """Number of requests in each bin, int64[bins]."""
        return np.asarray(self.roots.n.sum(axis=0))

    @property
    def weight(self) -> F8:
        """Sum of the requests' weights in each bin, float64[bins]."""
        return np.asarray(self.roots.weight.sum(axis=0))

    @property
    def failed(self) -> F8:
        """Sum of the weights of requests whose root did not end `ok`, float64[bins]."""
        return np.asarray(self.roots.failed.sum(axis=0))


def bin_edges(response_ns: I8, bins: int, modes: Sequence[Mode]) -> I8:
    """Choose the edges of about `bins` bins of response times: int64[edges], ns.

    Bins are equal on a log scale from the shortest time to beyond the longest time, with the valleys between
    modes as edges. Edges are rounded to as few digits as keep them distinct, for readability. A single bin if
    there are no requests.
    """
    if not len(response_ns):
        return np.array([0, 1], dtype=np.int64)
    low, high = int(response_ns.min()), int(response_ns.max())
    if low == high:
        return np.array([low, high + 1], dtype=np.int64)
    least = LEAST_US * NS_PER_US
    plain = np.geomspace(max(low, least), high, bins + 1)[1:-1]
    valleys = np.array([2.0**mode.low * NS_PER_US for mode in modes if np.isfinite(mode.low)])
    # A valley replaces the edges beside it, so that no bin is very narrow.
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
    """Round a time, ns, to `digits` significant digits: to the nearest, or down or up if `towards` is
    negative or positive."""
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
    """Count the requests of a sample by bin of response time.

    sample: index of the sample. O(requests · edges).
    """
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
    """Add the requests `rows` of a category to the sums by call site, `to`. place: bin of each request."""
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
        # Count a request once a site, however often it failed there.
        at = mine.graph.site_at(failures.position)
        site, row = np.unique(np.stack([at, failures.row.astype(np.int64)]), axis=1)
        np.add.at(to.failed, (site, place[row]), weight[row])
        to.failed_n[:] += np.bincount(site, minlength=len(to.failed_n))


@dataclass(frozen=True, slots=True)
class BinRange:
    """Range of bins, `first` to `past` (exclusive): a mode of the density, or the slow end."""

    first: int
    past: int
    mode: Mode | None = None
    """Mode that the range belongs to; None for the slow end."""


def mode_ranges(bins: ResponseBins, modes: Sequence[Mode]) -> list[BinRange]:
    """Range of bins of each mode, from valley to valley, and then of the slowest requests.

    Ranges without requests are left out. If all response times are equal there is no mode, and one range with
    all bins.
    """
    inner = bins.edges_ns[1:-1]

    def bin_at(log_us: float) -> int:
        if not math.isfinite(log_us):
            return 0 if log_us < 0 else bins.n_bins
        # The edge at the valley is the nearest one.
        if not len(inner):
            return bins.n_bins
        return int(np.argmin(np.abs(np.log2(np.maximum(inner, 1) / NS_PER_US) - log_us))) + 1

    found = [BinRange(bin_at(mode.low), bin_at(mode.high), mode) for mode in modes]
    tail = tail_bin(bins)
    if tail > 0 or not found:
        found.append(BinRange(tail, bins.n_bins))
    return [one for one in found if bins.n[one.first : one.past].sum() > 0]


def tail_bin(bins: ResponseBins) -> int:
    """First bin of the slow end: the highest bin such that at least the share _TAIL of the requests are in it
    or above."""
    behind = np.cumsum(bins.weight[::-1])[::-1]
    enough = np.flatnonzero(behind >= _TAIL * bins.weight.sum())
    return int(enough[-1]) if len(enough) else 0


class KindsInRange(NamedTuple):
    """Root types or categories ("kinds") in a range of bins, compared with all other bins; arrays are
    [kinds]."""

    n: I8
    """Number of requests of each kind in the range."""
    share_in: F8
    """Share, in [0, 1], of the range's requests that are of each kind."""
    share_out: F8
    """Share, in [0, 1], of the requests outside of the range that are of each kind."""
    failed: F8
    """Share, in [0, 1], of failed requests among the requests of each kind in the range."""


class SitesInRange(NamedTuple):
    """Call sites in a range of bins, compared with all other bins; arrays are float64[sites]."""

    share_in: F8
    """Share, in [0, 1], of the range's requests that waited at each site."""
    share_out: F8
    """Share, in [0, 1], of the requests outside of the range that waited at each site."""
    mean_in_us: F8
    """Mean waiting time at each site per request of the range, µs."""
    mean_out_us: F8
    """Mean waiting time at each site per request outside of the range, µs."""
    failed: F8
    """Share, in [0, 1], of the range's requests in which each site failed."""


def split_sums(values: npt.NDArray[np.number], first: int, past: int) -> tuple[F8, F8]:
    """Sum values [..., bins] over the bins `first` to `past` (exclusive), and over all other bins."""
    inside = values[..., first:past].sum(axis=-1)
    return np.asarray(inside), np.asarray(values[..., :first].sum(axis=-1) + values[..., past:].sum(axis=-1))


def over(part: F8, whole: F8 | float) -> F8:
    """Ratio part / whole; 0 where whole is 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        found: F8 = np.where(np.asarray(whole) > 0, part / whole, 0.0)
    return found


def kinds_in(kinds: KindBins, first: int, past: int) -> KindsInRange:
    """Compare root types or categories between the bins `first` to `past` (exclusive) and all other bins.
    O(kinds · bins)."""
    inside, outside = split_sums(kinds.weight, first, past)
    failed, _ = split_sums(kinds.failed, first, past)
    return KindsInRange(
        kinds.n[:, first:past].sum(axis=1),
        over(inside, inside.sum()),
        over(outside, outside.sum()),
        over(failed, inside),
    )


def sites_in(bins: ResponseBins, first: int, past: int) -> SitesInRange:
    """Compare call sites between the bins `first` to `past` (exclusive) and all other bins. O(sites ·
    bins)."""
    inside, outside = (float(part) for part in split_sums(bins.weight, first, past))
    waiting, waiting_else = split_sums(bins.sites.weight, first, past)
    us, us_else = split_sums(bins.sites.us, first, past)
    failed, _ = split_sums(bins.sites.failed, first, past)
    return SitesInRange(
        over(waiting, inside),
        over(waiting_else, outside),
        over(us, inside),
        over(us_else, outside),
        over(failed, inside),
    )


def leading_kinds(kinds: KindBins, first: int, past: int) -> list[int]:
    """Indices of the root types or categories with the most requests in the bins `first` to `past`
    (exclusive): at most _SHOWN, most requests first."""
    n = kinds.n[:, first:past].sum(axis=1)
    order = np.lexsort((np.arange(len(n)), -n))[:_SHOWN]
    return [int(number) for number in order if n[number] > 0]


def leading_sites(bins: ResponseBins, first: int, past: int) -> list[int]:
    """Indices of the call sites whose mean wait per request differs most between the bins `first` to `past`
    (exclusive) and all other bins."""
    found = sites_in(bins, first, past)
    # A range that holds all requests has no others (mean_out_us is 0): sites are ordered by time.
    size = np.abs(found.mean_in_us - found.mean_out_us)
    order = np.lexsort((np.arange(len(size)), -size))[:_SHOWN]
    return [int(site) for site in order if size[site] > 0]


def leading_category(bins: ResponseBins, first: int, past: int) -> int:
    """Index of the category with most requests in the bins `first` to `past`, within the root type with most
    requests there.

    One kind of work may be spread over many categories, so the largest category overall may be of another
    root type.
    """
    root = leading_kinds(bins.roots, first, past)[0]
    n = np.where(bins.root_of == root, bins.categories.n[:, first:past].sum(axis=1), -1)
    return int(np.argmax(n))
