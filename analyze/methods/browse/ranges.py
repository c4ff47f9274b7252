"""Fill the section `browse-ranges`: densities, bins, and what lies in a range of response times.

Requests, categories and call sites are counted by bin of response time. A range of bins is compared with all
other requests; some ranges are shown without being asked for, around modes and in the tail.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from analyze.methods.browse.settings import BrowseSettings
from analyze.population import Category, Population
from analyze.profile.names import SiteKind, site_name
from analyze.profile.samples import OK
from analyze.profile.times import AllPathTimes, PathTimes, at_sites
from analyze.report.limits import ReportLimits
from analyze.report.moment_rows import canonical
from analyze.stats.density import LEAST_US, Density, Mode, log_density, modes
from analyze.stats.moments import LARGE, SampleMoments, pooled, squared_variation
from analyze.stats.sums import totals
from schemas.arrays import B1, F8, I8
from schemas.report.browse import (
    BinnedCategory,
    BinnedRoot,
    BinnedSite,
    BrowseRangesSection,
    DensityCurve,
    KindInRange,
    ResponseRange,
    SiteInRange,
)
from schemas.windows import NS_PER_US

_MOST_ROOTS: Final = 60
_MOST_CATEGORIES: Final = 200
_MOST_SITES: Final = 120
"""Root types, categories and places that carry their bins, so that any range can be described by them: those
of most requests, and of most time, and all that a range lists."""
_DIGITS: Final = 9
"""Significant digits of sums in the section: half of the page would be digits that nobody sees."""
_CANONICAL: Final = 600
"""Characters of a category's canonical text: two hundred of them would make a page of their own."""
_TAIL: Final = 0.01
"""The slowest share of the requests is always looked into."""
_SHOWN: Final = 8
"""Categories and places listed a range."""
_MOST_DIGITS: Final = 19
"""Of a whole number of ns."""


class Ranges:
    """Bins of the last sample, the ranges that are shown, and the densities of all samples."""

    def __init__(self, population: Population, times: AllPathTimes, settings: BrowseSettings) -> None:
        self.sample = len(population.samples) - 1
        all_of = [_responses(population, sample) for sample in range(len(population.samples))]
        self.densities: list[Density | None] = [log_density(ns / NS_PER_US, weight) for ns, weight in all_of]
        shown = self.densities[-1]
        found = [] if shown is None else modes(shown, settings.modes)
        edges = bin_edges(all_of[-1][0], settings.bins, found)
        self.bins: ResponseBins = response_bins(population, times, self.sample, edges)
        self.ranges: list[BinRange] = mode_ranges(self.bins, found) if len(all_of[-1][0]) else []
        self.requests: list[int] = [len(ns) for ns, _ in all_of]


def _responses(population: Population, sample: int) -> tuple[I8, F8]:
    """Response times, ns, and weights of a sample."""
    parts = [(category, category.rows(sample)) for category in population.categories]
    ns = [category.response_ns[rows] for category, rows in parts]
    weight = [category.weight[rows] for category, rows in parts]
    return np.concatenate([np.zeros(0, np.int64), *ns]), np.concatenate([np.zeros(0), *weight])


def ranges_section(
    population: Population,
    times: AllPathTimes,
    moments: SampleMoments,
    ranges: Ranges,
    limits: ReportLimits,
) -> BrowseRangesSection:
    """The section."""
    bins = ranges.bins
    bounds = [(one.first, one.past) for one in ranges.ranges]
    roots = _listed(
        bins.roots.n.sum(axis=1), _MOST_ROOTS, [_leading_kinds(bins.roots, *one) for one in bounds]
    )
    categories = _listed(
        bins.categories.n.sum(axis=1),
        _MOST_CATEGORIES,
        [_leading_kinds(bins.categories, *one) for one in bounds],
    )
    sites = _listed(bins.site_us.sum(axis=1), _MOST_SITES, [_leading_sites(bins, *one) for one in bounds])
    places = [{number: place for place, number in enumerate(part)} for part in (roots, categories, sites)]
    all_roots = [
        pooled(moments, np.flatnonzero(bins.root_of == root)) for root in range(len(bins.root_names))
    ]
    return BrowseRangesSection(
        sample=population.samples[ranges.sample].name,
        curves=tuple(
            _curve(sample.name, requests, density)
            for sample, requests, density in zip(
                population.samples, ranges.requests, ranges.densities, strict=True
            )
            if density is not None
        ),
        edges_us=tuple((bins.edges_ns / NS_PER_US).tolist()),
        n=tuple(bins.n.tolist()),
        weight=_short(bins.weight),
        us=_short(bins.us),
        failed=_short(bins.failed),
        roots=tuple(_root(bins, all_roots, root) for root in roots),
        roots_total=int((bins.roots.n.sum(axis=1) > 0).sum()),
        categories=tuple(
            _category(population, moments, bins, ranges.sample, number, limits) for number in categories
        ),
        categories_total=int((bins.categories.n.sum(axis=1) > 0).sum()),
        sites=tuple(_site(times, bins, site) for site in sites),
        sites_total=int((bins.site_n > 0).sum()),
        ranges=tuple(_range_row(bins, one, *places) for one in ranges.ranges),
    )


def _curve(name: str, requests: int, density: Density) -> DensityCurve:
    kept = np.flatnonzero(density.density > density.density.max() * 1e-5)
    shown = slice(int(kept[0]), int(kept[-1]) + 1)
    points = zip(_short(2.0 ** density.at[shown]), _short(density.density[shown], 5), strict=True)
    return DensityCurve(
        sample=name,
        requests=requests,
        bandwidth=density.bandwidth,
        rule=density.rule,
        points=tuple(points),
    )


def _listed(size: npt.NDArray[np.generic], most: int, needed: list[list[int]]) -> list[int]:
    """Numbers of the largest, and of those that are needed, largest first."""
    known = size.astype(np.float64)
    order = np.lexsort((np.arange(len(known)), -known)).tolist()
    kept = {number for number in order[:most] if known[number] > 0} | {n for part in needed for n in part}
    return [number for number in order if number in kept]


def _short(values: F8, digits: int = _DIGITS) -> tuple[float, ...]:
    return tuple(float(f"{value:.{digits}g}") for value in values.tolist())


def _root(bins: ResponseBins, moments: Sequence[SampleMoments], root: int) -> BinnedRoot:
    used = np.flatnonzero(bins.roots.n[root])
    n, mean, c2 = _moments_of(moments[root], -1, 0)
    return BinnedRoot(
        root=bins.root_names[root],
        requests=n,
        mean_us=mean,
        c2=c2,
        bins=tuple(used.tolist()),
        n=tuple(bins.roots.n[root, used].tolist()),
        weight=_short(bins.roots.weight[root, used]),
        failed=_short(bins.roots.failed[root, used]),
    )


def _moments_of(moments: SampleMoments, sample: int, place: int) -> tuple[int, float, float | None]:
    """Requests, mean in µs, C² for more than LARGE."""
    n, mean = int(moments.count[sample, place]), float(moments.mean_us[sample, place])
    return n, mean, float(moments.c2[sample, place]) if n > LARGE and mean > 0 else None


def _category(
    population: Population,
    moments: SampleMoments,
    bins: ResponseBins,
    sample: int,
    number: int,
    limits: ReportLimits,
) -> BinnedCategory:
    graph = population.categories[number].graph
    used = np.flatnonzero(bins.categories.n[number])
    n, mean, c2 = _moments_of(moments, sample, number)
    return BinnedCategory(
        category=graph.key,
        root=graph.root,
        canonical=canonical(graph.canonical, limits)[:_CANONICAL],
        requests=n,
        mean_us=mean,
        c2=c2,
        bins=tuple(used.tolist()),
        n=tuple(bins.categories.n[number, used].tolist()),
        weight=_short(bins.categories.weight[number, used]),
        failed=_short(bins.categories.failed[number, used]),
    )


def site_c2(bins: ResponseBins, site: int) -> float | None:
    """C² of the time that requests waited at a place; for more than LARGE of them."""
    if bins.site_n[site] <= LARGE:
        return None
    sums = bins.site_weight[site].sum(), bins.site_us[site].sum(), bins.site_squares[site]
    found = float(squared_variation(*sums))
    return found if math.isfinite(found) else None


def site_words(times: AllPathTimes, site: int) -> tuple[str, str | None]:
    """A place, and who calls where it is a call."""
    caller = times.names.caller(site) if times.names.sites[site].kind == SiteKind.CALL else None
    return site_name(site, times.names).text, None if caller is None else caller.text


def _site(times: AllPathTimes, bins: ResponseBins, site: int) -> BinnedSite:
    label, caller = site_words(times, site)
    used = np.flatnonzero((bins.site_weight[site] > 0) | (bins.site_failed[site] > 0))
    return BinnedSite(
        label=label,
        caller=caller,
        requests=int(bins.site_n[site]),
        c2=site_c2(bins, site),
        bins=tuple(used.tolist()),
        weight=_short(bins.site_weight[site, used]),
        us=_short(bins.site_us[site, used]),
        failed=_short(bins.site_failed[site, used]),
    )


@dataclass(frozen=True, slots=True)
class BinRange:
    """Bins `first` to `past`, half open, and why."""

    first: int
    past: int
    mode: Mode | None = None
    """None: the slow end."""


@dataclass(frozen=True, slots=True)
class KindsInRange:
    """All root types, or categories, against a range; arrays are [kinds]."""

    n: I8
    share_in: F8
    share_out: F8
    failed: F8
    """Share of its requests in the range."""


@dataclass(frozen=True, slots=True)
class SitesInRange:
    """All places against a range; arrays are [sites]."""

    share_in: F8
    share_out: F8
    mean_in_us: F8
    mean_out_us: F8
    failed: F8


def mode_ranges(bins: ResponseBins, modes: Sequence[Mode]) -> list[BinRange]:
    """The bins of each mode, from valley to valley, and of the slowest requests.

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
    """The first bin of the slow end: as many requests as TAIL of them, at least one."""
    behind = np.cumsum(bins.weight[::-1])[::-1]
    enough = np.flatnonzero(behind >= _TAIL * bins.weight.sum())
    return int(enough[-1]) if len(enough) else 0


def kinds_in(kinds: KindBins, first: int, past: int) -> KindsInRange:
    """Kinds against the bins `first` to `past`. O(kinds · bins)."""
    inside, outside = _parts(kinds.weight.sum(axis=0), first, past)
    mine = kinds.weight[:, first:past].sum(axis=1)
    others = kinds.weight[:, :first].sum(axis=1) + kinds.weight[:, past:].sum(axis=1)
    return KindsInRange(
        kinds.n[:, first:past].sum(axis=1),
        _over(mine, inside),
        _over(others, outside),
        _over(kinds.failed[:, first:past].sum(axis=1), mine),
    )


def sites_in(bins: ResponseBins, first: int, past: int) -> SitesInRange:
    """Places against the bins `first` to `past`. O(sites · bins)."""
    inside, outside = _parts(bins.weight, first, past)

    def both(values: F8) -> tuple[F8, F8]:
        mine = values[:, first:past].sum(axis=1)
        rest = values[:, :first].sum(axis=1) + values[:, past:].sum(axis=1)
        return _over(mine, inside), _over(rest, outside)

    failed = bins.site_failed[:, first:past].sum(axis=1)
    return SitesInRange(*both(bins.site_weight), *both(bins.site_us), _over(failed, inside))


def _parts(values: F8, first: int, past: int) -> tuple[float, float]:
    return float(values[first:past].sum()), float(values[:first].sum() + values[past:].sum())


def _over(part: F8, whole: F8 | float) -> F8:
    with np.errstate(invalid="ignore", divide="ignore"):
        found: F8 = np.where(np.asarray(whole) > 0, part / whole, 0.0)
    return found


def _lift(share_in: float, share_out: float) -> float | None:
    """How much more often it is in the range than out of it; None: in the range only."""
    return share_in / share_out if share_out > 0 else None


def _range_row(
    bins: ResponseBins,
    chosen: BinRange,
    roots: dict[int, int],
    categories: dict[int, int],
    sites: dict[int, int],
) -> ResponseRange:
    """A range with what lies in it.

    roots, categories, sites: number -> index into the lists of the section.
    """
    first, past = chosen.first, chosen.past
    inside, outside = _parts(bins.weight, first, past)
    us_in, us_out = _parts(bins.us, first, past)
    failed_in, failed_out = _parts(bins.failed, first, past)
    low, high = int(bins.edges_ns[first]), int(bins.edges_ns[past])
    mode = chosen.mode
    return ResponseRange(
        kind="tail" if mode is None else "mode",
        peak_us=None if mode is None else 2.0**mode.at,
        prominence=None if mode is None else mode.prominence,
        first=first,
        past=past,
        low_us=low / NS_PER_US,
        high_us=high / NS_PER_US,
        where=_range_filter(bins, first, past),
        n=int(bins.n[first:past].sum()),
        share=inside / (inside + outside),
        mean_us=us_in / inside,
        mean_out_us=us_out / outside if outside > 0 else None,
        failed=failed_in / inside,
        failed_out=failed_out / outside if outside > 0 else None,
        roots=tuple(_kind_rows(bins.roots, first, past, roots)),
        categories=tuple(_kind_rows(bins.categories, first, past, categories)),
        sites=tuple(_site_rows(bins, first, past, sites)),
    )


def _range_filter(bins: ResponseBins, first: int, past: int) -> str:
    """`duration >= 120us and duration < 3ms`; an open end is left out, and all is empty."""
    parts = []
    if first > 0:
        parts.append(f"duration >= {_duration(int(bins.edges_ns[first]))}")
    if past < bins.n_bins:
        parts.append(f"duration < {_duration(int(bins.edges_ns[past]))}")
    return " and ".join(parts)


def _duration(ns: int) -> str:
    """A whole number of the largest unit that it is a whole number of."""
    for unit, size in (("s", 10**9), ("ms", 10**6), ("us", 10**3)):
        if ns and ns % size == 0:
            return f"{ns // size}{unit}"
    return f"{ns}ns"


def _leading_kinds(kinds: KindBins, first: int, past: int) -> list[int]:
    """Root types or categories of a range that are listed, most requests first."""
    n = kinds.n[:, first:past].sum(axis=1)
    order = np.lexsort((np.arange(len(n)), -n))[:_SHOWN]
    return [int(number) for number in order if n[number] > 0]


def _leading_sites(bins: ResponseBins, first: int, past: int) -> list[int]:
    """Places that are listed: what makes the range's requests longer than the others, or shorter."""
    found = sites_in(bins, first, past)
    # A range that is all is compared with nothing: then by time.
    size = np.abs(found.mean_in_us - found.mean_out_us)
    order = np.lexsort((np.arange(len(size)), -size))[:_SHOWN]
    return [int(site) for site in order if size[site] > 0]


def leading_category(bins: ResponseBins, first: int, past: int) -> int:
    """The category of most requests among those of the root type of most requests.

    One kind of work scatters over many categories, and the largest may be of another kind.
    """
    root = _leading_kinds(bins.roots, first, past)[0]
    n = np.where(bins.root_of == root, bins.categories.n[:, first:past].sum(axis=1), -1)
    return int(np.argmax(n))


def _kind_rows(kinds: KindBins, first: int, past: int, listed: dict[int, int]) -> list[KindInRange]:
    found = kinds_in(kinds, first, past)
    return [
        KindInRange(
            place=listed[number],
            n=int(found.n[number]),
            share_in=float(found.share_in[number]),
            share_out=float(found.share_out[number]),
            lift=_lift(float(found.share_in[number]), float(found.share_out[number])),
            failed=float(found.failed[number]),
        )
        for number in _leading_kinds(kinds, first, past)
    ]


def _site_rows(bins: ResponseBins, first: int, past: int, listed: dict[int, int]) -> list[SiteInRange]:
    found = sites_in(bins, first, past)
    return [
        SiteInRange(
            place=listed[site],
            share_in=float(found.share_in[site]),
            share_out=float(found.share_out[site]),
            lift=_lift(float(found.share_in[site]), float(found.share_out[site])),
            mean_in_us=float(found.mean_in_us[site]),
            mean_out_us=float(found.mean_out_us[site]),
            failed=float(found.failed[site]),
        )
        for site in _leading_sites(bins, first, past)
    ]


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


def _ok_status(population: Population) -> int:
    """Code of the status of requests that did not fail; -1 where none ended so."""
    return population.statuses.index(OK) if OK in population.statuses else -1


def failed_requests(population: Population, category: Category, rows: slice) -> B1:
    """[requests] whether the root of each did not end `ok`; without statuses none did."""
    if not population.statuses:
        return np.zeros(len(category.response_ns[rows]), dtype=np.bool_)
    failed: B1 = category.status[rows] != _ok_status(population)
    return failed


def response_bins(population: Population, times: AllPathTimes, sample: int, edges_ns: I8) -> ResponseBins:
    """Sums by bin. O(requests · edges)."""
    n_bins, n_sites = len(edges_ns) - 1, len(times.names.sites)
    names, root_of = population.root_types()
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
