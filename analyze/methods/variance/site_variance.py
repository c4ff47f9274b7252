"""Sites by what they add to the variance of response times (ALGORITHMS E, at the sites of L).

y_is is the time that request i waited at site s, and Σ_s y_is = T_i. So Σ_s Cov(y_s, T) = Var(T) exactly, and
with the levels of `variance_split` each site's covariance has three parts that add up to that split's:

    Cov(y_s, T) = [between root types] + [between paths] + Σ_g p_g·Cov_g(y_s, T)

The last, *within paths*, is what VarianceFinder is after: requests that did the same took unlike times.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analyze.methods.variance.request_groups import NOWHERE, Levels, RequestGroups
from analyze.methods.variance.variance_split import VarianceSplit, refuse_rest
from analyze.profile.times import AllPathTimes, at_sites
from analyze.stats.sums import totals
from schemas.arrays import B1, F8, I8


@dataclass(frozen=True, slots=True)
class SiteVariances:
    """All sites of a population, of one sample; arrays are [sites] unless told. µs and µs²."""

    n: I8
    """Requests that have the site on their critical path."""
    touched: F8
    """[sites, blocks, 3] of those: sums of weight, weight·y, weight·y²."""
    roots: F8
    paths: F8
    within: F8
    """Parts of Cov(y, T)."""
    within_blocks: F8
    """[sites, blocks] parts of `within`."""

    @property
    def total(self) -> F8:
        """Cov(y, T)."""
        return self.roots + self.paths + self.within


def site_variances(
    times: AllPathTimes,
    groups: RequestGroups,
    at: Levels,
    split: VarianceSplit,
    unmarked: tuple[B1, ...] | None = None,
) -> SiteVariances:
    """The sites' parts of a variance whose levels and split are given.

    unmarked: [categories] of [edges] that take part; `at` is then of what is left of the response times.
    Raises ValueError where the parts are not the whole. O(requests · edges).
    """
    n_sites, n_blocks = len(times.names.sites), groups.n_blocks
    n = np.zeros(n_sites, dtype=np.int64)
    touched = np.zeros((n_sites, n_blocks, 3))
    within = np.zeros((n_sites, n_blocks))
    paths, roots = np.zeros(n_sites), np.zeros(n_sites)
    around = np.zeros((groups.n_groups, n_blocks))  # Σ w (T − μ_g)
    pair_key: list[I8] = []
    pair_sum: list[F8] = []
    for number, category in enumerate(times.categories):
        group = int(groups.group[number])
        if group == NOWHERE:
            continue
        w, block = groups.weight[number], groups.block[number]
        off = w * (at.value[number] - at.group_mean[group])
        around[group] += totals(block, off, n_blocks)
        here = at_sites(category, groups.rows[number], None if unmarked is None else unmarked[number])
        if not len(here.codes):
            continue
        starts = np.flatnonzero(np.concatenate(([True], block[1:] != block[:-1])))
        cell = np.ix_(here.codes, block[starts])
        within[cell] += np.add.reduceat(here.us * off, starts, axis=1)
        weighted = here.us * w
        sums = weighted.sum(axis=1)
        for column, part in enumerate((here.on_path * w, weighted, weighted * here.us)):
            touched[..., column][cell] += np.add.reduceat(part, starts, axis=1)
        n[here.codes] += here.on_path.sum(axis=1)
        root = int(groups.root[group])
        paths[here.codes] += sums * (at.group_mean[group] - at.root_mean[root])
        roots[here.codes] += sums * (at.root_mean[root] - at.mean)
        pair_key.append(here.codes * groups.n_groups + group)
        pair_sum.append(sums)
    # Σ w (y − ȳ_g)(T − μ_g): the same in sum, and each block's own part of a covariance.
    key, place = np.unique(np.concatenate([np.zeros(0, np.int64), *pair_key]), return_inverse=True)
    mean = totals(place, np.concatenate([np.zeros(0), *pair_sum]), len(key))
    of_group = key % max(groups.n_groups, 1)
    np.add.at(
        within,
        key // max(groups.n_groups, 1),
        -(mean / at.group_weight[of_group])[:, None] * around[of_group],
    )
    found = SiteVariances(
        n,
        touched,
        roots / at.weight,
        paths / at.weight,
        within.sum(axis=1) / at.weight,
        within / at.weight,
    )
    refuse_rest(split.total, float(found.total.sum()), at.mean)
    refuse_rest(float(split.within.sum()), float(found.within.sum()), at.mean)
    return found


def coefficient(sums: F8) -> F8:
    """C² = σ²/μ² of sums [..., 3] of weight, weight·y, weight·y²; NaN where the mean is 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        found: F8 = sums[..., 0] * sums[..., 2] / sums[..., 1] ** 2 - 1.0
    return np.where(sums[..., 1] > 0, np.maximum(found, 0.0), np.nan)


def deviation(sums: F8) -> F8:
    """Standard deviation of the same."""
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = sums[..., 1] / sums[..., 0]
        found: F8 = np.sqrt(np.maximum(sums[..., 2] / sums[..., 0] - mean**2, 0.0))
    return np.nan_to_num(found)
