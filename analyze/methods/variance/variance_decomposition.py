"""Decompose the variance of response times: between root types, between paths, within paths; by call site.

The law of total variance splits it exactly:

    Var(T) = Σ_r p_r (μ_r − μ)²  +  Σ_g p_g (μ_g − μ_r)²  +  Σ_g p_g σ_g²

y_is is the time that request i waited at call site s, and Σ_s y_is = T_i. So Σ_s Cov(y_s, T) = Var(T)
exactly, and each site's covariance has three parts that add up to those above:

    Cov(y_s, T) = [between root types] + [between paths] + Σ_g p_g·Cov_g(y_s, T)

The last, *within paths*, is what VarianceFinder is after: requests that did the same took unlike times. The
squared coefficient of variation C² = σ²/μ² ranks categories and sites (VF §4.2).
Groups are categories, the rare ones of a root type together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

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
    """One sample's requests, category by category and in groups.

    A category of more than LARGE requests is a group; smaller ones, in which a variance cannot be estimated,
    are one group a root type, so that none of the variance is lost.
    """

    sample: int
    n_blocks: int
    rows: tuple[slice, ...]
    """[categories] where the sample's requests lie."""
    weight: tuple[F8, ...]
    """[categories] of [requests]."""
    block: tuple[I8, ...]
    """[categories] of [requests]: block of time, ascending; blocks hold equally many requests."""
    group: I8
    """[categories] group; NOWHERE without a request."""
    root: I8
    """[groups] index into `roots`."""
    category: I8
    """[groups] the category that it is; NOWHERE where it is the rare ones of a root type."""
    roots: tuple[str, ...]

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return len(self.root)

    def members(self, group: int) -> list[int]:
        """Categories of a group."""
        found: list[int] = np.flatnonzero(self.group == group).tolist()
        return found


def request_groups(population: Population, sample: int) -> RequestGroups:
    """The groups of a sample. O(requests log requests)."""
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
    blocks, n_blocks = _blocks(
        [category.start_ns[part] for category, part in zip(categories, rows, strict=True)]
    )
    return RequestGroups(
        sample=sample,
        n_blocks=n_blocks,
        rows=rows,
        weight=tuple(category.weight[part] for category, part in zip(categories, rows, strict=True)),
        block=blocks,
        group=group,
        root=np.concatenate([root_of[large], rare_roots]).astype(np.int64),
        category=np.concatenate([np.flatnonzero(large), np.full(len(rare_roots), NOWHERE)]).astype(np.int64),
        roots=roots,
    )


def _blocks(starts: Sequence[I8]) -> tuple[tuple[I8, ...], int]:
    """Block of every request of every category, and how many blocks there are."""
    ends = np.cumsum([len(part) for part in starts]).tolist() if starts else []
    when = np.concatenate([np.zeros(0, np.int64), *starts])
    n_blocks = max(1, min(BLOCKS, len(when)))
    block = equal_count_blocks(when, n_blocks)
    # Equal starts are dealt in the order of categories: within one, blocks still ascend.
    return tuple(block[end - len(part) : end] for part, end in zip(starts, ends, strict=True)), n_blocks


@dataclass(frozen=True, slots=True)
class Levels:
    """Weights and weighted means of a value at every level of a sample; the value of one is [requests]."""

    value: tuple[F8, ...]
    """[categories] of [requests]."""
    weight: float
    mean: float
    group_weight: F8
    group_mean: F8
    """[groups]"""
    root_weight: F8
    root_mean: F8
    """[roots]; 0 without a request."""


def levels(groups: RequestGroups, value: tuple[F8, ...]) -> Levels:
    """Means of a value of each request of a sample. Raises ValueError without a request of weight."""
    weights = np.array([part.sum() for part in groups.weight])
    sums = np.array([w @ part for w, part in zip(groups.weight, value, strict=True)])
    used = groups.group != NOWHERE
    group_weight = totals(groups.group[used], weights[used], groups.n_groups)
    group_sum = totals(groups.group[used], sums[used], groups.n_groups)
    root_weight = totals(groups.root, group_weight, len(groups.roots))
    root_sum = totals(groups.root, group_sum, len(groups.roots))
    weight = float(group_weight.sum())
    if not weight > 0:
        raise ValueError("a sample without a request has no variance")
    with np.errstate(invalid="ignore", divide="ignore"):
        root_mean = np.nan_to_num(root_sum / root_weight)
    return Levels(
        value,
        weight,
        float(group_sum.sum()) / weight,
        group_weight,
        group_sum / group_weight,
        root_weight,
        root_mean,
    )


TOLERANCE: Final = 1e-9
"""Largest share of the variance that an account may miss."""
WIDEST: Final = math.log(1e4)
"""An interval of ln C² that is wider says nothing, and is not shown."""


@dataclass(frozen=True, slots=True)
class VarianceSplit:
    """Parts of the variance of a sample's response times, µs²."""

    total: float
    roots: F8
    """[roots] p_r (μ_r − μ)²"""
    paths: F8
    """[groups] p_g (μ_g − μ_r)²"""
    within: F8
    """[groups] p_g σ_g²"""
    block_total: F8
    """[blocks] weighted squares around the mean, over the sample's weight: their sum is `total`."""


def _variance_split(groups: RequestGroups, at: Levels) -> VarianceSplit:
    """The split. Raises ValueError where it does not add up. O(requests)."""
    squares = np.zeros(groups.n_blocks)
    within = np.zeros(groups.n_groups)
    for number, value in enumerate(at.value):
        group = int(groups.group[number])
        if group == NOWHERE:
            continue
        w = groups.weight[number]
        squares += totals(groups.block[number], w * (value - at.mean) ** 2, groups.n_blocks)
        within[group] += float(w @ (value - at.group_mean[group]) ** 2)
    split = VarianceSplit(
        total=float(squares.sum()) / at.weight,
        roots=at.root_weight * (at.root_mean - at.mean) ** 2 / at.weight,
        paths=at.group_weight * (at.group_mean - at.root_mean[groups.root]) ** 2 / at.weight,
        within=within / at.weight,
        block_total=squares / at.weight,
    )
    _refuse_rest(split.total, float(split.roots.sum() + split.paths.sum() + split.within.sum()), at.mean)
    return split


def _refuse_rest(total: float, parts: float, mean: float) -> None:
    """Raise ValueError where the parts of a variance are not all of it.

    mean: below its square times float64's precision a variance is rounding.
    """
    if abs(total - parts) > TOLERANCE * total + 1e-15 * mean * mean:
        raise ValueError(f"the account of a variance does not add up: {total:g} against {parts:g}")


@dataclass(frozen=True, slots=True)
class SiteVariances:
    """All sites of a population, of one sample; arrays are [sites] unless stated. µs and µs²."""

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


def _site_variances(
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
    _refuse_rest(split.total, float(found.total.sum()), at.mean)
    _refuse_rest(float(split.within.sum()), float(found.within.sum()), at.mean)
    return found


def coefficient(sums: F8) -> F8:
    """C² of sums [..., 3] of weight, weight·y, weight·y²; NaN where the mean is 0."""
    return squared_variation(sums[..., 0], sums[..., 1], sums[..., 2])


def deviation(sums: F8) -> F8:
    """Standard deviation of the same."""
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = sums[..., 1] / sums[..., 0]
        found: F8 = np.sqrt(np.maximum(sums[..., 2] / sums[..., 0] - mean**2, 0.0))
    return np.nan_to_num(found)


@dataclass(frozen=True, slots=True)
class GroupVariances:
    """Groups of a sample; arrays are [groups]."""

    n: I8
    sums: F8
    """[groups, blocks, 3] sums of weight, weight·T, weight·T²; µs."""

    @property
    def c2(self) -> F8:
        """Squared coefficients of variation; NaN where the mean is 0."""
        return coefficient(self.sums.sum(axis=1))


def _group_variances(groups: RequestGroups, at: Levels) -> GroupVariances:
    """Sums by group and block. O(requests)."""
    sums = np.zeros((groups.n_groups, groups.n_blocks, 3))
    n = np.zeros(groups.n_groups, dtype=np.int64)
    for number, value in enumerate(at.value):
        group = int(groups.group[number])
        if group == NOWHERE:
            continue
        w, block = groups.weight[number], groups.block[number]
        n[group] += len(value)
        for column, part in enumerate((w, w * value, w * value * value)):
            sums[group, :, column] += totals(block, part, groups.n_blocks)
    return GroupVariances(n, sums)


def log_coefficient(sums: F8) -> Jackknifed:
    """ln C² of items by their block sums [items, blocks, 3]: its interval is one of a ratio, and above 0.

    C² of few requests is skewed; its logarithm is far less so.
    """

    def estimate(parts: F8) -> F8:
        return np.log(np.maximum(coefficient(parts), 1e-12))

    return jackknife(sums, estimate)


@dataclass(frozen=True, slots=True)
class Measured:
    """Variances of one value of each request: its response time, or what is left of it."""

    at: Levels
    split: VarianceSplit
    sites: SiteVariances
    by_group: GroupVariances

    def part_within(self, site: int) -> float:
        """Part of the variance that a site adds within paths; 0 where nothing varies."""
        return float(self.sites.within[site]) / self.split.total if self.split.total > 0 else 0.0


@dataclass(frozen=True, slots=True)
class SampleVariance:
    """One sample."""

    groups: RequestGroups
    whole: Measured
    residual: Measured | None
    """Without marked sources; None where no marker that holds means anything."""

    @property
    def site_order(self) -> list[int]:
        """Sites that requests wait for, by what they add to the variance within paths that is left."""
        ranked = (self.residual or self.whole).sites
        seen = np.flatnonzero(self.whole.sites.n > 0)
        order = np.lexsort((seen, -self.whole.sites.within[seen], -ranked.within[seen]))
        found: list[int] = seen[order].tolist()
        return found


def unmarked_edges(population: Population, times: AllPathTimes, rules: LabelRules) -> tuple[B1, ...] | None:
    """[categories] of [edges] without a marker; None where all are."""
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
    """A sample's variances. O(requests · edges)."""
    groups = request_groups(population, sample)
    residual = None if unmarked is None else _measured(times, groups, unmarked)
    return SampleVariance(groups, _measured(times, groups, None), residual)


def _measured(times: AllPathTimes, groups: RequestGroups, unmarked: tuple[B1, ...] | None) -> Measured:
    responses = times.responses(unmarked)
    at = levels(groups, tuple(value[rows] for value, rows in zip(responses, groups.rows, strict=True)))
    split = _variance_split(groups, at)
    return Measured(
        at, split, _site_variances(times, groups, at, split, unmarked), _group_variances(groups, at)
    )
