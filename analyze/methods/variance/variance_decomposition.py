"""Decompose the variance of response times: between root types, between paths, within paths; by call site.

`sample_variance` decomposes one sample: `request_groups` groups requests of the same path, `levels` computes
the means of all, of each root type and of each group; the parts are sums of squares around these means, by
block of time, for jackknife intervals. This is done for response times, and again for response times without
marked sources (`residual`).

The law of total variance splits it exactly:

    Var(T) = Σ_r p_r (μ_r − μ)²  +  Σ_g p_g (μ_g − μ_r)²  +  Σ_g p_g σ_g²

y_is is the time that request i waited at call site s, and Σ_s y_is = T_i. So Σ_s Cov(y_s, T) = Var(T)
exactly, and each site's covariance has three parts that add up to those above:

    Cov(y_s, T) = [between root types] + [between paths] + Σ_g p_g·Cov_g(y_s, T)

The last, *within paths*, is the part that VarianceFinder looks for: requests with the same work took
different times. The squared coefficient of variation C² = σ²/μ² ranks categories and sites (VarianceFinder
§4.2). Groups are categories; the rare categories of a root type are one group.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.sparse import coo_array

from analyze.methods.variance.markers import LabelRules
from analyze.population import Population
from analyze.profile.times import AllPathTimes, at_sites
from analyze.stats.jackknife import Jackknifed, jackknife
from analyze.stats.moments import LARGE, squared_variation
from analyze.stats.sums import totals
from analyze.stats.time_blocks import BLOCKS, equal_count_blocks
from schemas.arrays import B1, F8, I8

NOWHERE: Final = -1


@dataclass(frozen=True, slots=True)
class RequestGroups:
    """Requests of a sample by category, and the groups of categories for which variances are computed.

    A category of more than LARGE requests is a group. Smaller ones, in which a variance cannot be estimated,
    are pooled into one group per root type, so that none of the variance is lost.
    """

    sample: int
    rows: tuple[slice, ...]
    """Per category, the slice of its requests that belong to the sample."""
    first: I8
    """Index of each category's first request in the arrays [requests], int64[categories + 1]."""
    weight: F8
    block: I8
    """Block of time of each request, int64[requests]; all blocks have the same number of requests, and within
    a category later requests are in later blocks."""
    of: I8
    """Index of the group of each request, int64[requests]."""
    n_blocks: int
    group: I8
    """Index of the group of each category, int64[categories]; NOWHERE if the category has no requests."""
    root: I8
    """Index in `roots` of each group's root type, int64[groups]."""
    category: I8
    """Index of the single category of each group, int64[groups]; NOWHERE for a group of rare categories."""
    roots: tuple[str, ...]

    @property
    def n_groups(self) -> int:
        """Number of groups of requests."""
        return len(self.root)

    def members(self, group: int) -> list[int]:
        """Indices of the categories in a group."""
        found: list[int] = np.flatnonzero(self.group == group).tolist()
        return found

    def part(self, category: int) -> slice:
        """Slice, in the arrays [requests], of the requests of category `category`."""
        return slice(int(self.first[category]), int(self.first[category + 1]))


def request_groups(population: Population, sample: int) -> RequestGroups:
    """Group the requests of a sample by path. sample: index of the sample. O(requests log requests)."""
    categories = population.categories
    rows = tuple(category.rows(sample) for category in categories)
    sizes = np.array([part.stop - part.start for part in rows], dtype=np.int64)
    roots, root_of = population.root_types()
    large = sizes > LARGE
    group = np.full(len(categories), NOWHERE, dtype=np.int64)
    group[large] = np.arange(int(large.sum()))
    rare = (sizes > 0) & ~large
    rare_roots, place = np.unique(root_of[rare], return_inverse=True)
    group[rare] = int(large.sum()) + place
    parts = list(zip(categories, rows, strict=True))
    when = np.concatenate([np.zeros(0, np.int64), *(category.start_ns[part] for category, part in parts)])
    n_blocks = max(1, min(BLOCKS, len(when)))
    return RequestGroups(
        sample=sample,
        rows=rows,
        first=np.concatenate(([0], np.cumsum(sizes))),
        weight=np.concatenate([np.zeros(0), *(category.weight[part] for category, part in parts)]),
        # Equal starts are assigned in the order of categories: within one, blocks ascend.
        block=equal_count_blocks(when, n_blocks),
        of=np.repeat(group, sizes),
        n_blocks=n_blocks,
        group=group,
        root=np.concatenate([root_of[large], rare_roots]).astype(np.int64),
        category=np.concatenate([np.flatnonzero(large), np.full(len(rare_roots), NOWHERE)]).astype(np.int64),
        roots=roots,
    )


@dataclass(frozen=True, slots=True)
class Levels:
    """Weights and weighted means of one value: of the whole sample, of each group and of each root type."""

    value: F8
    """Value of each request, float64[requests], of which the means are taken."""
    weight: float
    """Sum of the weights of the sample's requests."""
    mean: float
    """Weighted mean over all requests of the sample."""
    group_weight: F8
    """Sum of weights of each group, float64[groups]."""
    group_mean: F8
    """Weighted mean of each group, float64[groups]."""
    root_weight: F8
    """Sum of weights of each root type, float64[roots]."""
    root_mean: F8
    """Weighted mean of each root type, float64[roots]; 0 for a root type without requests."""


def levels(groups: RequestGroups, value: F8) -> Levels:
    """Compute the weighted means of a value of the requests of a sample.

    value: float64[requests]. Raises ValueError if the sum of weights is 0.
    """
    group_weight = totals(groups.of, groups.weight, groups.n_groups)
    group_sum = totals(groups.of, groups.weight * value, groups.n_groups)
    root_weight, root_sum = (
        totals(groups.root, part, len(groups.roots)) for part in (group_weight, group_sum)
    )
    weight = float(group_weight.sum())
    if not weight > 0:
        raise ValueError("a sample without a request has no variance")
    return Levels(
        value,
        weight,
        float(group_sum.sum()) / weight,
        group_weight,
        group_sum / group_weight,
        root_weight,
        np.divide(root_sum, root_weight, out=np.zeros(len(root_sum)), where=root_weight > 0),
    )


TOLERANCE: Final = 1e-9
"""Maximum rounding error when parts of a variance are added, as a share of the variance."""
WIDEST: Final = math.log(1e4)
"""Maximum width of an interval of ln C² for the interval to be shown; wider intervals are not informative."""


@dataclass(frozen=True, slots=True)
class VarianceSplit:
    """Parts of the variance of a sample's response times, µs²; they add up to `total`."""

    total: float
    roots: F8
    """Part between root types, p_r (μ_r − μ)², float64[roots]."""
    paths: F8
    """Part between the paths of a root type, p_g (μ_g − μ_r)², float64[groups]."""
    within: F8
    """Part within paths, p_g σ_g², float64[groups]."""
    block_total: F8
    """Contribution of each time block to `total`, float64[blocks]: sum of weight times squared deviation from
    the mean, divided by the sample's weight."""


def _variance_split(groups: RequestGroups, at: Levels) -> VarianceSplit:
    """Split the variance of a sample into parts (between root types, between paths, within paths).

    Raises ValueError if they do not add up. O(requests).
    """
    around_mean = groups.weight * (at.value - at.mean) ** 2
    around_group = groups.weight * (at.value - at.group_mean[groups.of]) ** 2
    block_total = totals(groups.block, around_mean, groups.n_blocks) / at.weight
    split = VarianceSplit(
        total=float(block_total.sum()),
        roots=at.root_weight * (at.root_mean - at.mean) ** 2 / at.weight,
        paths=at.group_weight * (at.group_mean - at.root_mean[groups.root]) ** 2 / at.weight,
        within=totals(groups.of, around_group, groups.n_groups) / at.weight,
        block_total=block_total,
    )
    _refuse_rest(split.total, float(split.roots.sum() + split.paths.sum() + split.within.sum()), at.mean)
    return split


def _refuse_rest(total: float, parts: float, mean: float) -> None:
    """Raise ValueError if `parts` differs from the variance `total`.

    mean: mean of the values; a variance below its square times the precision of float64 counts as rounding.
    """
    if abs(total - parts) > TOLERANCE * total + 1e-15 * mean * mean:
        raise ValueError(f"the account of a variance does not add up: {total:g} against {parts:g}")


@dataclass(frozen=True, slots=True)
class SiteVariances:
    """Variances of the waiting times at all call sites in one sample, µs²; arrays are [sites] unless stated.

    Below, y is the time for which a request waits at the site, T the response time of the request.
    """

    n: I8
    """Number of requests whose critical path contains the site."""
    touched: F8
    """Sums over the requests counted in `n`: weight, weight·y, weight·y²; float64[sites, blocks, 3]."""
    roots: F8
    paths: F8
    within: F8
    """Part of Cov(y, T) within paths, float64[sites]; `roots`, `paths`: the parts between root types, and
    between paths of a root type."""
    within_blocks: F8
    """Parts of `within` by block of time, float64[sites, blocks]; they add up to `within`."""

    @property
    def total(self) -> F8:
        """Cov(y, T): covariance of each site's waiting time y with the response time T, µs²,
        float64[sites]."""
        return self.roots + self.paths + self.within


def _site_variances(
    times: AllPathTimes,
    groups: RequestGroups,
    at: Levels,
    split: VarianceSplit,
    unmarked: tuple[B1, ...] | None = None,
) -> SiteVariances:
    """Attribute the variance of a sample to the call sites, given its means (`at`) and its parts (`split`).

    unmarked: for each category bool[edges], True for edges that count; `at` and `split` are then of response
    times without the other edges. None: all edges count. Raises ValueError if the parts do not add up.
    O(requests · edges).
    """
    n_sites, n_blocks = len(times.names.sites), groups.n_blocks
    n = np.zeros(n_sites, dtype=np.int64)
    touched = np.zeros((n_sites, n_blocks, 3))
    within = np.zeros((n_sites, n_blocks))
    off = groups.weight * (at.value - at.group_mean[groups.of])
    cells: list[tuple[I8, I8, F8]] = [(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))]
    for number, category in enumerate(times.categories):
        if groups.group[number] == NOWHERE:
            continue
        here = at_sites(category, groups.rows[number], None if unmarked is None else unmarked[number])
        if not len(here.codes):
            continue
        mine = groups.part(number)
        w, block = groups.weight[mine], groups.block[mine]
        starts = np.flatnonzero(np.diff(block, prepend=-1))
        cell = np.ix_(here.codes, block[starts])
        weighted = here.us * w
        parts = here.us * off[mine], here.on_path * w, weighted, weighted * here.us
        for to, part in zip((within, *np.moveaxis(touched, 2, 0)), parts, strict=True):
            to[cell] += np.add.reduceat(part, starts, axis=1)
        n[here.codes] += here.on_path.sum(axis=1)
        cells.append((here.codes, np.full(len(here.codes), groups.group[number]), weighted.sum(axis=1)))
    codes, group, sums = (np.concatenate(column) for column in zip(*cells, strict=True))
    # [sites, groups] Σ w·y
    waited = coo_array((sums, (codes, group)), shape=(n_sites, groups.n_groups)).tocsr()
    root_mean = at.root_mean[groups.root]
    # Σ w (y − ȳ_g)(T − μ_g): has the same sum, and is each block's own part of the covariance.
    of_group = groups.of * n_blocks + groups.block
    around = totals(of_group, off, groups.n_groups * n_blocks).reshape(groups.n_groups, n_blocks)
    within -= waited @ (around / at.group_weight[:, None])
    found = SiteVariances(
        n,
        touched,
        waited @ (root_mean - at.mean) / at.weight,
        waited @ (at.group_mean - root_mean) / at.weight,
        within.sum(axis=1) / at.weight,
        within / at.weight,
    )
    _refuse_rest(split.total, float(found.total.sum()), at.mean)
    _refuse_rest(float(split.within.sum()), float(found.within.sum()), at.mean)
    return found


def coefficient(sums: F8) -> F8:
    """Squared coefficient of variation C² from sums [..., 3] of weight, weight·y, weight·y²; NaN if the mean
    is 0."""
    return squared_variation(sums[..., 0], sums[..., 1], sums[..., 2])


def deviation(sums: F8) -> F8:
    """Standard deviation from sums [..., 3] of weight, weight·y, weight·y²."""
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = sums[..., 1] / sums[..., 0]
        found: F8 = np.sqrt(np.maximum(sums[..., 2] / sums[..., 0] - mean**2, 0.0))
    return np.nan_to_num(found)


@dataclass(frozen=True, slots=True)
class GroupVariances:
    """Variances of the groups of a sample."""

    n: I8
    """Number of requests of each group, int64[groups]."""
    sums: F8
    """Sums of weight, weight·T, weight·T² of response times T in µs, float64[groups, blocks, 3]."""

    @property
    def c2(self) -> F8:
        """Squared coefficient of variation C² of each group, float64[groups]; NaN if the mean is 0."""
        return coefficient(self.sums.sum(axis=1))


def _group_variances(groups: RequestGroups, at: Levels) -> GroupVariances:
    """Sum the values of a sample by group and block. O(requests)."""
    shape = groups.n_groups, groups.n_blocks
    cell = groups.of * groups.n_blocks + groups.block
    sums = [totals(cell, groups.weight * at.value**k, shape[0] * shape[1]).reshape(shape) for k in (0, 1, 2)]
    return GroupVariances(np.bincount(groups.of, minlength=shape[0]), np.stack(sums, axis=2))


def log_coefficient(sums: F8) -> Jackknifed:
    """Natural logarithm of C² of items, from block sums [items, blocks, 3]; intervals are of a ratio, always
    above 0.

    C² of few requests is skewed; its logarithm is much less so.
    """

    def estimate(parts: F8) -> F8:
        return np.log(np.maximum(coefficient(parts), 1e-12))

    return jackknife(sums, estimate)


@dataclass(frozen=True, slots=True)
class Measured:
    """Variances of one value per request: its response time, or the response time without marked sources."""

    levels: Levels
    split: VarianceSplit
    sites: SiteVariances
    by_group: GroupVariances


@dataclass(frozen=True, slots=True)
class SampleVariance:
    """Variances of one sample, with and without marked sources."""

    groups: RequestGroups
    whole: Measured
    """Variances of all sources."""
    residual: Measured | None
    """Variances of the response times without marked sources; None if no marker matches."""

    @property
    def site_order(self) -> list[int]:
        """Indices of the call sites on critical paths, sorted by their part of the (residual) variance within
        paths."""
        ranked = (self.residual or self.whole).sites
        seen = np.flatnonzero(self.whole.sites.n > 0)
        order = np.lexsort((seen, -self.whole.sites.within[seen], -ranked.within[seen]))
        found: list[int] = seen[order].tolist()
        return found


def unmarked_edges(population: Population, times: AllPathTimes, rules: LabelRules) -> tuple[B1, ...] | None:
    """Per category bool[edges], True for edges without an accepted marker; None if no edge has one."""
    if not rules.accepted:
        return None
    found = tuple(
        rules.unmarked(category.graph, mine.site)
        for category, mine in zip(population.categories, times.categories, strict=True)
    )
    return None if all(part.all() for part in found) else found


def sample_variance(
    population: Population, times: AllPathTimes, sample: int, unmarked: tuple[B1, ...] | None
) -> SampleVariance:
    """Compute the variances of a sample, with and without marked sources.

    sample: index of the sample. O(requests · edges).
    """
    groups = request_groups(population, sample)
    residual = None if unmarked is None else _measured(times, groups, unmarked)
    return SampleVariance(groups, _measured(times, groups, None), residual)


def _measured(times: AllPathTimes, groups: RequestGroups, unmarked: tuple[B1, ...] | None) -> Measured:
    responses = times.responses(unmarked)
    of_sample = (value[rows] for value, rows in zip(responses, groups.rows, strict=True))
    at = levels(groups, np.concatenate([np.zeros(0), *of_sample]))
    split = _variance_split(groups, at)
    return Measured(
        at, split, _site_variances(times, groups, at, split, unmarked), _group_variances(groups, at)
    )
