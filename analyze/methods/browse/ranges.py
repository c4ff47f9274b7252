"""Section `browse-ranges`: densities, bins, and the content of ranges of response times.

`response_bins` counts the requests and chooses the ranges.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from analyze.methods.browse.browse_run import BrowseRun
from analyze.methods.browse.response_bins import (
    BinRange,
    KindBins,
    KindsInRange,
    ResponseBins,
    SitesInRange,
    kinds_in,
    leading_kinds,
    leading_sites,
    sites_in,
    split_sums,
)
from analyze.profile.names import caller_name, site_name
from analyze.profile.times import AllPathTimes
from analyze.report.limits import ReportLimits
from analyze.report.model_values import canonical
from analyze.stats.density import Density
from analyze.stats.moments import LARGE, SampleMoments, pooled
from schemas.arrays import F8
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
"""Maximum number of root types, those with most requests, whose counts by response-time bin are in the
section, from which the page fills any range that the user chooses. Root types of a listed range are added.
"""
_MOST_CATEGORIES: Final = 200
"""Maximum number of categories, those with most requests, whose counts by response-time bin are in the
section, from which the page fills any range that the user chooses. Categories of a listed range are added.
"""
_MOST_SITES: Final = 120
"""Maximum number of call sites, those with most time, whose sums by response-time bin are in the section,
from which the page fills any range that the user chooses. Call sites of a listed range are added.
"""
_DIGITS: Final = 9
"""Number of significant digits to which sums in the section are rounded, to limit the size of the page."""
_CANONICAL: Final = 600
"""Maximum number of characters of a category's canonical text; limits the size of the page."""


def ranges_section(run: BrowseRun, limits: ReportLimits) -> BrowseRangesSection:
    """Fill the section: density curves, bins, and the ranges with their leading root types, categories and
    call sites."""
    bins, samples = run.bins, run.population.samples
    inside = [_leading(bins, one.first, one.past) for one in run.ranges]
    sizes = (
        (bins.roots.n.sum(axis=1), _MOST_ROOTS),
        (bins.categories.n.sum(axis=1), _MOST_CATEGORIES),
        (bins.sites.us.sum(axis=1), _MOST_SITES),
    )
    listed = [
        _listed(size, most, [number for found in inside for number in found[kind]])
        for kind, (size, most) in enumerate(sizes)
    ]
    places = [{number: place for place, number in enumerate(part)} for part in listed]
    return BrowseRangesSection(
        sample=run.name,
        curves=tuple(
            _curve(sample.name, int(requests), density)
            for sample, requests, density in zip(
                samples, run.moments.count.sum(axis=1), run.densities, strict=True
            )
            if density is not None
        ),
        edges_us=tuple((bins.edges_ns / NS_PER_US).tolist()),
        n=tuple(bins.n.tolist()),
        weight=_short(bins.weight),
        us=_short(bins.us),
        failed=_short(bins.failed),
        roots=tuple(_root(run, root) for root in listed[0]),
        roots_total=int((bins.roots.n.sum(axis=1) > 0).sum()),
        categories=tuple(_category(run, number, limits) for number in listed[1]),
        categories_total=int((bins.categories.n.sum(axis=1) > 0).sum()),
        sites=tuple(_site(run.times, bins, site) for site in listed[2]),
        sites_total=int((bins.sites.n > 0).sum()),
        ranges=tuple(
            _range_row(bins, one, found, places) for one, found in zip(run.ranges, inside, strict=True)
        ),
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


def _listed(size: npt.NDArray[np.number], most: int, needed: Sequence[int]) -> list[int]:
    """Indices of the `most` largest entries of `size`, and of all entries in `needed`, largest first."""
    order = np.argsort(-size, kind="stable").tolist()
    kept = {number for number in order[:most] if size[number] > 0} | set(needed)
    return [number for number in order if number in kept]


def _short(values: F8, digits: int = _DIGITS) -> tuple[float, ...]:
    return tuple(float(f"{value:.{digits}g}") for value in values.tolist())


def _root(run: BrowseRun, root: int) -> BinnedRoot:
    of_root = pooled(run.moments, np.flatnonzero(run.bins.root_of == root))
    return BinnedRoot(
        root=run.bins.root_names[root], **_moments_of(of_root, 0), **_bins_of(run.bins.roots, root)
    )


def _moments_of(moments: SampleMoments, place: int) -> dict[str, Any]:
    """Fields `requests`, `mean_us` and `c2` of a row, for the category at index `place` of `moments`, in the
    last sample; `c2` is None for at most LARGE requests."""
    n, mean = int(moments.count[-1, place]), float(moments.mean_us[-1, place])
    c2 = float(moments.c2[-1, place]) if n > LARGE and mean > 0 else None
    return {"requests": n, "mean_us": mean, "c2": c2}


def _bins_of(kinds: KindBins, row: int) -> dict[str, Any]:
    """Fields of a row: the bins in which a root type or category (index `row` of `kinds`) has requests, and
    the numbers of requests."""
    used = np.flatnonzero(kinds.n[row])
    return {
        "bins": tuple(used.tolist()),
        "n": tuple(kinds.n[row, used].tolist()),
        "weight": _short(kinds.weight[row, used]),
        "failed": _short(kinds.failed[row, used]),
    }


def _category(run: BrowseRun, number: int, limits: ReportLimits) -> BinnedCategory:
    graph = run.population.categories[number].graph
    return BinnedCategory(
        category=graph.key,
        root=graph.root,
        canonical=canonical(graph.text.canonical, limits)[:_CANONICAL],
        **_moments_of(run.moments, number),
        **_bins_of(run.bins.categories, number),
    )


def site_words(times: AllPathTimes, site: int) -> tuple[str, str | None]:
    """Name of a call site, and name of its caller (None if it has none)."""
    return site_name(site, times.names).text, caller_name(site, times.names)


def _site(times: AllPathTimes, bins: ResponseBins, site: int) -> BinnedSite:
    label, caller = site_words(times, site)
    sites = bins.sites
    used = np.flatnonzero((sites.weight[site] > 0) | (sites.failed[site] > 0))
    return BinnedSite(
        label=label,
        caller=caller,
        requests=int(sites.n[site]),
        c2=sites.c2(site),
        bins=tuple(used.tolist()),
        weight=_short(sites.weight[site, used]),
        us=_short(sites.us[site, used]),
        failed=_short(sites.failed[site, used]),
    )


_Leading = dict[int, dict[str, Any]]
"""Leading root types, categories or call sites of a range: index of the entry -> fields of its row, in the
order of the rows."""


def _leading(bins: ResponseBins, first: int, past: int) -> tuple[_Leading, _Leading, _Leading]:
    """Leading (root types, categories, call sites) of the bins `first` to `past` (exclusive)."""
    roots, categories = (
        _fields(kinds_in(kinds, first, past), leading_kinds(kinds, first, past))
        for kinds in (bins.roots, bins.categories)
    )
    return roots, categories, _fields(sites_in(bins, first, past), leading_sites(bins, first, past))


def _fields(found: KindsInRange | SitesInRange, numbers: Sequence[int]) -> _Leading:
    """Fields of the rows `numbers`, each with its lift: share of requests in the range over share outside
    (None if never outside)."""
    rows = {}
    for number in numbers:
        one = {name: column[number].item() for name, column in found._asdict().items()}
        rows[number] = {**one, "lift": one["share_in"] / one["share_out"] if one["share_out"] > 0 else None}
    return rows


def _range_row(
    bins: ResponseBins,
    chosen: BinRange,
    leading: tuple[_Leading, _Leading, _Leading],
    places: Sequence[dict[int, int]],
) -> ResponseRange:
    """Row of a range with its leading entries.

    places: for root types, categories and call sites a mapping: index of the entry -> index in the section's
    list.
    """
    first, past = chosen.first, chosen.past
    (inside, outside), (us_in, us_out), (failed_in, failed_out) = (
        [float(part) for part in split_sums(values, first, past)]
        for values in (bins.weight, bins.us, bins.failed)
    )
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
        roots=tuple(KindInRange(place=places[0][n], **row) for n, row in leading[0].items()),
        categories=tuple(KindInRange(place=places[1][n], **row) for n, row in leading[1].items()),
        sites=tuple(SiteInRange(place=places[2][n], **row) for n, row in leading[2].items()),
    )


def _range_filter(bins: ResponseBins, first: int, past: int) -> str:
    """Filter expression that selects a range of bins: `duration >= 120us and duration < 3ms`.

    Without the bound at an open end; empty for the range of all requests.
    """
    parts = []
    if first > 0:
        parts.append(f"duration >= {_duration(int(bins.edges_ns[first]))}")
    if past < bins.n_bins:
        parts.append(f"duration < {_duration(int(bins.edges_ns[past]))}")
    return " and ".join(parts)


def _duration(ns: int) -> str:
    """Text of a duration as a whole number of the largest possible unit: `120us`."""
    for unit, size in (("s", 10**9), ("ms", 10**6), ("us", 10**3)):
        if ns and ns % size == 0:
            return f"{ns // size}{unit}"
    return f"{ns}ns"
