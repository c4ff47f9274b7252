"""Test what became more variable from one sample to the other, with intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from analyze.methods.variance.request_groups import NOWHERE, RequestGroups
from analyze.methods.variance.variance_decomposition import (
    GroupVariances,
    SiteVariances,
    VarianceSplit,
    log_coefficient,
)
from analyze.stats.jackknife import Jackknifed, jackknife
from analyze.stats.multiple import q_values
from schemas.arrays import F8, I8

_ROUNDING: Final = 1e-12
"""Part of the squared mean below which a variance is rounding."""


@dataclass(frozen=True, slots=True)
class SiteChanges:
    """Arrays are [sites]."""

    log_ratio: Jackknifed
    """ln of the variance of the time that requests wait for it, after over before: what is tested. Its sums
    are of one place; those of what a place adds to all hold every long request, and tell little in small
    samples."""
    q: F8
    """NaN where not testable."""


def site_changes(before: SiteVariances, after: SiteVariances, least_requests: int) -> SiteChanges:
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


def category_changes(
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


def total_change(before: VarianceSplit, after: VarianceSplit) -> Jackknifed:
    """ln of the variance of all response times after over that before, one item."""

    def log_mean(sums: F8) -> F8:
        return np.log(np.maximum(sums[..., 0] / np.maximum(sums[..., 1], 1e-300), 1e-300))

    def of(split: VarianceSplit) -> Jackknifed:
        n = len(split.block_total)
        return jackknife(np.stack([split.block_total, np.full(n, 1 / n)], axis=1)[None], log_mean)

    return of(after).minus(of(before))
