"""The section `browse-ranges`: densities, bins, and the ranges that are told without asking."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from analyze.methods.browse.range_rows import (
    BinRange,
    leading_kinds,
    leading_sites,
    mode_ranges,
    range_row,
)
from analyze.methods.browse.response_bins import ResponseBins, bin_edges, response_bins
from analyze.methods.browse.settings import BrowseSettings
from analyze.population import Population
from analyze.profile.names import SiteKind, site_name
from analyze.profile.times import AllPathTimes
from analyze.report.limits import ReportLimits
from analyze.report.moment_rows import canonical
from analyze.stats.density import Density, log_density, modes
from analyze.stats.moments import LARGE, SampleMoments, pooled
from schemas.arrays import F8, I8
from schemas.report.browse import BinnedCategory, BinnedRoot, BinnedSite, BrowseRangesSection, DensityCurve
from schemas.windows import NS_PER_US

MOST_ROOTS: Final = 60
MOST_CATEGORIES: Final = 200
MOST_SITES: Final = 120
"""Root types, categories and places that carry their bins, so that any range can be told of them: those of
most requests, and of most time, and all that a range lists."""
_DIGITS: Final = 9
"""Significant digits of sums in the section: half of the page would be digits that nobody sees."""


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
    told = [(one.first, one.past) for one in ranges.ranges]
    roots = _listed(bins.roots.n.sum(axis=1), MOST_ROOTS, [leading_kinds(bins.roots, *one) for one in told])
    categories = _listed(
        bins.categories.n.sum(axis=1), MOST_CATEGORIES, [leading_kinds(bins.categories, *one) for one in told]
    )
    sites = _listed(bins.site_us.sum(axis=1), MOST_SITES, [leading_sites(bins, *one) for one in told])
    places = [{number: place for place, number in enumerate(part)} for part in (roots, categories, sites)]
    all_roots = _root_moments(moments, bins)
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
        ranges=tuple(range_row(bins, one, *places) for one in ranges.ranges),
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


def _root_moments(moments: SampleMoments, bins: ResponseBins) -> list[SampleMoments]:
    """Moments of each root type."""
    return [pooled(moments, np.flatnonzero(bins.root_of == root)) for root in range(len(bins.root_names))]


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
    c2 = float(moments.variance_us2[sample, place]) / mean**2 if n > LARGE and mean > 0 else None
    return n, mean, c2


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
        canonical=canonical(graph.canonical, limits)[:CANONICAL],
        requests=n,
        mean_us=mean,
        c2=c2,
        bins=tuple(used.tolist()),
        n=tuple(bins.categories.n[number, used].tolist()),
        weight=_short(bins.categories.weight[number, used]),
        failed=_short(bins.categories.failed[number, used]),
    )


CANONICAL: Final = 600
"""Characters of a category's canonical text: two hundred of them would make a page of their own."""


def site_c2(bins: ResponseBins, site: int) -> float | None:
    """C² of the time that requests waited at a place; for more than LARGE of them."""
    weight, us = float(bins.site_weight[site].sum()), float(bins.site_us[site].sum())
    if int(bins.site_n[site]) <= LARGE or not us > 0:
        return None
    found = weight * float(bins.site_squares[site]) / us**2 - 1.0
    return max(found, 0.0) if math.isfinite(found) else None


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
