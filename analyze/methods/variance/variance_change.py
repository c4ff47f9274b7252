"""Test what became more variable from one sample to the other, with intervals, for the report."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from analyze.methods.variance.rows import MOST_SITES, c2_interval
from analyze.methods.variance.variance_decomposition import (
    NOWHERE,
    GroupVariances,
    RequestGroups,
    SiteVariances,
    VarianceSplit,
    coefficient,
    deviation,
    log_coefficient,
)
from analyze.methods.variance.variance_run import VarianceRun
from analyze.profile.names import caller_name, site_name
from analyze.stats.jackknife import Jackknifed, jackknife
from analyze.stats.moments import LARGE
from analyze.stats.multiple import q_values
from schemas.arrays import F8, I8
from schemas.report.findings import Interval
from schemas.report.variance import CategoryChange, SiteChange, VarianceChangeSection

_ROUNDING: Final = 1e-12
"""Part of the squared mean below which a variance is rounding."""
_LEVEL: Final = 0.01
"""False discovery rate of what is listed: stricter than usual, since jackknife intervals of heavy tails are
too short (86 % for 95 %)."""


@dataclass(frozen=True, slots=True)
class SiteChanges:
    """Arrays are [sites]."""

    log_ratio: Jackknifed
    """ln of the variance of the time that requests wait for it, after over before: what is tested. Its sums
    are of one place; those of what a place adds to all hold every long request, and tell little in small
    samples."""
    q: F8
    """NaN where not testable."""


def _site_changes(before: SiteVariances, after: SiteVariances, least_requests: int) -> SiteChanges:
    """Changes of all sites; tested are those that enough requests of both samples wait for."""
    ratio = jackknife(after.touched, _log_variance).minus(jackknife(before.touched, _log_variance))
    tested = (before.n >= least_requests) & (after.n >= least_requests)
    return SiteChanges(ratio, q_values(np.where(tested, ratio.p, np.nan)))


def _log_variance(sums: F8) -> F8:
    """ln of the variance, of sums [..., 3] of weight, weight·y, weight·y²; NaN for a constant."""
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = sums[..., 1] / sums[..., 0]
        variance = sums[..., 2] / sums[..., 0] - mean**2
        found: F8 = np.log(np.where(variance > _ROUNDING * mean**2, variance, np.nan))
    return found


@dataclass(frozen=True, slots=True)
class CategoryChanges:
    """Categories that are large in both samples; arrays are [common]."""

    category: I8
    group0: I8
    group1: I8
    log_ratio: Jackknifed
    """ln of C² after over C² before."""
    q: F8
    ks_p: float | None
    """Of the two sets of variances of categories, the papers' check (NSDI §8.7); None for fewer than 2."""


def _category_changes(
    groups: tuple[RequestGroups, RequestGroups], found: tuple[GroupVariances, GroupVariances]
) -> CategoryChanges:
    """C² of common categories, before and after."""
    large = [group.category[group.category != NOWHERE] for group in groups]
    common = np.intersect1d(*large)
    place = [group.group[common] for group in groups]
    ratio = log_coefficient(found[1].sums[place[1]]).minus(log_coefficient(found[0].sums[place[0]]))
    spread = [_variances(f, group) for f, group in zip(found, groups, strict=True)]
    return CategoryChanges(common, place[0], place[1], ratio, q_values(ratio.p), _same_spread(*spread))


def _same_spread(before: F8, after: F8) -> float | None:
    # Here: one sample alone needs none of a second's worth of scipy.stats.
    from scipy.stats import ks_2samp

    return float(ks_2samp(before, after).pvalue) if min(len(before), len(after)) >= 2 else None


def _variances(found: GroupVariances, groups: RequestGroups) -> F8:
    sums = found.sums[groups.category != NOWHERE].sum(axis=1)
    spread: F8 = sums[:, 2] / sums[:, 0] - (sums[:, 1] / sums[:, 0]) ** 2
    return spread


def _total_change(before: VarianceSplit, after: VarianceSplit) -> Jackknifed:
    """ln of the variance of all response times after over that before, one item."""

    def log_mean(sums: F8) -> F8:
        return np.log(np.maximum(sums[..., 0] / np.maximum(sums[..., 1], 1e-300), 1e-300))

    def of(split: VarianceSplit) -> Jackknifed:
        n = len(split.block_total)
        return jackknife(np.stack([split.block_total, np.full(n, 1 / n)], axis=1)[None], log_mean)

    return of(after).minus(of(before))


def change_section(run: VarianceRun) -> VarianceChangeSection:
    """Compare the second sample with the first."""
    population, (before, after) = run.population, run.samples
    total = _total_change(before.whole.split, after.whole.split)
    interval = c2_interval(total.interval(), 0) if before.whole.split.total > 0 else None
    sites, sites_tested = _sites(run)
    categories, categories_tested, ks_p = _categories(run)
    return VarianceChangeSection(
        before=population.samples[before.groups.sample].name,
        after=population.samples[after.groups.sample].name,
        sd0_us=math.sqrt(before.whole.split.total),
        sd1_us=math.sqrt(after.whole.split.total),
        ratio=after.whole.split.total / before.whole.split.total if before.whole.split.total > 0 else 0.0,
        interval=interval,
        between=_between(before.whole.split, after.whole.split, interval),
        sites=tuple(sites[:MOST_SITES]),
        sites_total=len(sites),
        sites_tested=sites_tested,
        categories=tuple(categories[: run.limits.categories]),
        categories_total=len(categories),
        categories_tested=categories_tested,
        ks_p=ks_p,
    )


def _between(before: VarianceSplit, after: VarianceSplit, interval: Interval | None) -> float | None:
    """Part of a change of the variance that lies between paths or root types; above 1 where the rest fell."""
    if interval is None or interval.low <= 1 <= interval.high:
        return None
    within = float(after.within.sum() - before.within.sum())
    return 1 - within / (after.total - before.total)


def _sites(run: VarianceRun) -> tuple[list[SiteChange], int]:
    """Sites whose variance changed by test and beyond the floor; by the change of all that they add.

    All: where times grow with the path (a loop of slow calls), what a place adds moves between paths.
    """
    before, after = run.samples
    names = run.times.names
    one, other = before.whole.sites, after.whole.sites
    found = _site_changes(one, other, LARGE + 1)
    total = before.whole.split.total or 1.0
    adds = one.total, other.total
    sums = [part.touched.sum(axis=1) for part in (one, other)]
    c2, sd = [coefficient(part) for part in sums], [deviation(part) for part in sums]
    rows = []
    counts = (found.q <= _LEVEL) & (np.abs(found.log_ratio.value) >= math.log(run.settings.change_ratio))
    ends = found.log_ratio.interval()
    for site in np.flatnonzero(counts).tolist():
        interval = c2_interval(ends, site)
        if interval is None:
            continue
        rows.append(
            SiteChange(
                label=site_name(site, names).text,
                caller=caller_name(site, names),
                within0=float(one.within[site]) / total,
                within1=float(other.within[site]) / total,
                change=float(adds[1][site] - adds[0][site]) / total,
                ratio=math.exp(float(found.log_ratio.value[site])),
                interval=interval,
                q=float(found.q[site]),
                c20=_known(c2[0][site], one.n[site]),
                c21=_known(c2[1][site], other.n[site]),
                sd0_us=float(sd[0][site]),
                sd1_us=float(sd[1][site]),
            )
        )
    rows.sort(key=lambda row: (row.ratio < 1, -row.change if row.ratio > 1 else row.change, row.label))
    return rows, int(np.isfinite(found.q).sum())


def _known(c2: float, n: int) -> float | None:
    return float(c2) if n > LARGE and math.isfinite(c2) else None


def _categories(run: VarianceRun) -> tuple[list[CategoryChange], int, float | None]:
    """Common large categories whose C² changed by test."""
    before, after = run.samples
    found = _category_changes((before.groups, after.groups), (before.whole.by_group, after.whole.by_group))
    c2 = before.whole.by_group.c2, after.whole.by_group.c2
    rows = []
    ends = found.log_ratio.interval()
    for place in np.flatnonzero(np.isfinite(found.q) & (found.q <= _LEVEL)).tolist():
        g0, g1 = int(found.group0[place]), int(found.group1[place])
        graph = run.population.categories[int(found.category[place])].graph
        interval = c2_interval(ends, place)
        if interval is None:
            continue
        rows.append(
            CategoryChange(
                category=graph.key,
                root=graph.root,
                requests0=int(before.whole.by_group.n[g0]),
                requests1=int(after.whole.by_group.n[g1]),
                c20=float(c2[0][g0]),
                c21=float(c2[1][g1]),
                ratio=math.exp(float(found.log_ratio.value[place])),
                interval=interval,
                q=float(found.q[place]),
            )
        )
    rows.sort(
        key=lambda row: (
            row.ratio < 1,
            -row.interval.low if row.ratio > 1 else row.interval.high,
            row.category,
        )
    )
    return rows, int(np.isfinite(found.q).sum()), found.ks_p
