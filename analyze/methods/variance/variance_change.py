"""Changes of variance from the first sample to the second: tests and intervals, for the report."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from analyze.methods.variance.rows import MOST_SITES, c2_interval, known_c2
from analyze.methods.variance.variance_decomposition import (
    NOWHERE,
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
from schemas.arrays import F8
from schemas.report.findings import Interval
from schemas.report.variance import CategoryChange, SiteChange, VarianceChangeSection

_ROUNDING: Final = 1e-12
"""Variance, as a share of the squared mean, below which it counts as a rounding error."""
_LEVEL: Final = 0.01
"""False discovery rate of listed changes: stricter than elsewhere, as jackknife intervals of heavy tails are
too short (86 % instead of 95 %)."""


def _log_variance(sums: F8) -> F8:
    """Natural logarithm of the variance, from sums [..., 3] of weight, weight·y, weight·y²; NaN for a
    constant."""
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = sums[..., 1] / sums[..., 0]
        variance = sums[..., 2] / sums[..., 0] - mean**2
        found: F8 = np.log(np.where(variance > _ROUNDING * mean**2, variance, np.nan))
    return found


def _total_change(before: VarianceSplit, after: VarianceSplit) -> Jackknifed:
    """Natural logarithm of the ratio of the total variances, after / before, with jackknife interval; a
    single item."""

    def log_mean(sums: F8) -> F8:
        return np.log(np.maximum(sums[..., 0] / np.maximum(sums[..., 1], 1e-300), 1e-300))

    def of(split: VarianceSplit) -> Jackknifed:
        n = len(split.block_total)
        return jackknife(np.stack([split.block_total, np.full(n, 1 / n)], axis=1)[None], log_mean)

    return of(after).minus(of(before))


def change_section(run: VarianceRun) -> VarianceChangeSection:
    """Fill the section that compares the variances of the second sample with the variances of the first."""
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
    """Share of the change of the variance that lies between paths or root types.

    Above 1 if the variance within paths changed in the other direction; None if the change is not significant
    (interval).
    """
    if interval is None or interval.low <= 1 <= interval.high:
        return None
    within = float(after.within.sum() - before.within.sum())
    return 1 - within / (after.total - before.total)


def _sites(run: VarianceRun) -> tuple[list[SiteChange], int]:
    """Find call sites whose variance changed significantly and by more than the floor: (rows, number of sites
    tested).

    Rows are sorted by the change of the site's total contribution: its contributions within and between paths
    shift if times grow with the path (a loop of slow calls).
    """
    before, after = run.samples
    names = run.times.names
    one, other = before.whole.sites, after.whole.sites
    # Test the variance of the time that requests wait for the site: its sums contain that site only. Sums of
    # a site's covariance with the response time contain every long request, and are noisy in small samples.
    log_ratio = jackknife(other.touched, _log_variance).minus(jackknife(one.touched, _log_variance))
    p = np.where(np.minimum(one.n, other.n) > LARGE, log_ratio.p, np.nan)
    changed, tested = _changed(log_ratio, p, run.settings.change_ratio)
    total = before.whole.split.total or 1.0
    adds = one.total, other.total
    sums = [part.touched.sum(axis=1) for part in (one, other)]
    c2, sd = [coefficient(part) for part in sums], [deviation(part) for part in sums]
    rows = []
    for site, found in changed:
        rows.append(
            SiteChange(
                label=site_name(site, names).text,
                caller=caller_name(site, names),
                within0=float(one.within[site]) / total,
                within1=float(other.within[site]) / total,
                change=float(adds[1][site] - adds[0][site]) / total,
                c20=known_c2(c2[0][site], one.n[site]),
                c21=known_c2(c2[1][site], other.n[site]),
                sd0_us=float(sd[0][site]),
                sd1_us=float(sd[1][site]),
                **found,
            )
        )
    rows.sort(key=lambda row: (row.ratio < 1, -row.change if row.ratio > 1 else row.change, row.label))
    return rows, tested


def _changed(log_ratio: Jackknifed, p: F8, least: float) -> tuple[list[tuple[int, dict[str, Any]]], int]:
    """Find significant changes by a factor of at least `least`: (list of (index, fields of the row), number
    of tests).

    log_ratio: log ratios of the variances; p: p-value of each change. Changes without an informative interval
    are dropped.
    """
    q, ends = q_values(p), log_ratio.interval()
    found = []
    for place in np.flatnonzero((q <= _LEVEL) & (np.abs(log_ratio.value) >= math.log(least))).tolist():
        if (interval := c2_interval(ends, place)) is not None:
            ratio = math.exp(float(log_ratio.value[place]))
            found.append((place, {"ratio": ratio, "interval": interval, "q": float(q[place])}))
    return found, int(np.isfinite(q).sum())


def _categories(run: VarianceRun) -> tuple[list[CategoryChange], int, float | None]:
    """Find large categories in both samples whose C² changed significantly: (rows, number tested, p of the
    papers' check).

    The check is a KS test between the variances of large categories before and after (NSDI §8.7); None for
    fewer than 2.
    """
    before, after = run.samples
    large = [sample.groups.category != NOWHERE for sample in run.samples]
    common = np.intersect1d(before.groups.category[large[0]], after.groups.category[large[1]])
    group0, group1 = before.groups.group[common], after.groups.group[common]
    sums0, sums1 = before.whole.by_group.sums, after.whole.by_group.sums
    log_ratio = log_coefficient(sums1[group1]).minus(log_coefficient(sums0[group0]))
    changed, tested = _changed(log_ratio, log_ratio.p, 1.0)
    c2 = before.whole.by_group.c2, after.whole.by_group.c2
    rows = []
    for place, found in changed:
        g0, g1 = int(group0[place]), int(group1[place])
        graph = run.population.categories[int(common[place])].graph
        rows.append(
            CategoryChange(
                category=graph.key,
                root=graph.root,
                requests0=int(before.whole.by_group.n[g0]),
                requests1=int(after.whole.by_group.n[g1]),
                c20=float(c2[0][g0]),
                c21=float(c2[1][g1]),
                **found,
            )
        )
    rows.sort(
        key=lambda row: (
            row.ratio < 1,
            -row.interval.low if row.ratio > 1 else row.interval.high,
            row.category,
        )
    )
    spreads = [deviation(sums[of].sum(axis=1)) for sums, of in zip((sums0, sums1), large, strict=True)]
    ks_p = None
    if min(map(len, spreads)) >= 2:
        # Imported here: scipy.stats takes a second, and a single sample does not need it. Deviations rank as
        # variances.
        from scipy.stats import ks_2samp

        ks_p = float(ks_2samp(*spreads).pvalue)
    return rows, tested, ks_p
