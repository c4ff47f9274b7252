"""Learn dependency networks: what each variable depends on, and how much (DIST §3.3).

A regression tree a target over the other variables shows what the target depends on, and how early it splits
how much. Greedy trees are nested in m, the fewest instances that a node may have to be split: a larger m
gives the same tree, cut. So one tree a target, grown down to the smallest m, shows for every predictor the
largest m at which it is still used: the size of the largest node that it splits. No refits.

All targets grow together, level by level: the sums that every cut of every predictor needs are one product of
a sparse indicator matrix (which bin of which predictor an instance is in) with the targets' values. One tree
a target by a library takes 100 times as long on 200 variables of 4,000 instances.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from analyze.stats.rank import midranks, rank_scores
from schemas.arrays import B1, F8, I4, I8

_BINS: Final = 64
"""Predictors of more distinct values are cut at their quantiles."""
_COLUMNS: Final = 48
"""Nodes worked on at once: 48 nodes of 200 predictors in 64 bins are 5 MB a sum."""
_CUTS: Final = 8.0
"""Independent tests that the best cut of one predictor is worth (maximally selected statistic)."""
_TRIVIAL_RHO: Final = 0.995
"""|Spearman| with P above which a variable says what P says (DIST §5.3.1)."""
_LEAST_BOTH: Final = 20
"""Instances with both variables for one to be said to come before the other."""
_LEAF_SHARE: Final = 0.01
_LEAST_LEAF: Final = 5
"""A split leaves 5 instances and 1 % of all on either side: one outlier is no dependency."""


@dataclass(frozen=True, slots=True)
class TreeRules:
    """When a node is split."""

    least_node: int
    """m: fewest instances of a node that is split."""
    least_leaf: int
    """Fewest instances of either side."""
    least_gain: float = 0.0
    """Part of the target's sum of squares that a split must explain."""
    chance: float = 0.0
    """Level at which a split must beat the best of all cuts by chance; 0: not asked for."""


@dataclass(slots=True)
class _Open:
    """Nodes that may be split, of all targets; arrays [nodes] but for `inside`."""

    target: I8
    inside: B1
    """[nodes, instances]"""


def coded(values: F8) -> I4:
    """[variables, instances] bins of predictors, from 1 upwards; NaN is MISSING."""
    codes = np.zeros(values.shape, np.int32)
    for row, of in zip(codes, values, strict=True):
        there = ~np.isnan(of)
        distinct = np.unique(of[there])
        if len(distinct) > _BINS:
            quantiles = np.quantile(of[there], np.arange(1, _BINS) / _BINS, method="lower")
            distinct = np.unique(quantiles)
            row[there] = np.searchsorted(distinct, of[there], side="left") + 1
        else:
            row[there] = np.searchsorted(distinct, of[there]) + 1
    return codes


def split_sizes(codes: I4, targets: F8, own: I8, weight: F8, rules: TreeRules) -> I8:
    """[predictors, targets] instances of the largest node of a tree that a predictor splits; 0: none.

    codes: [predictors, instances] of `coded`; targets: [targets, instances], NaN left out of that target's
    tree; own: [targets] the predictor that is the target itself and is not used for it, -1 for none; weight:
    [instances]. Ties go to the first predictor, then to the lowest cut.
    """
    n_predictors, n = codes.shape
    largest = np.zeros((n_predictors, len(targets)), np.int64)
    if n_predictors == 0 or n == 0:
        return largest
    indicator, width = _indicator(codes)
    there = ~np.isnan(targets)
    y = np.where(there, targets, 0.0)
    mass = np.maximum(there @ weight, 1e-300)
    y = np.where(there, y - ((y @ weight) / mass)[:, None], 0.0)
    scale = np.sqrt(np.maximum((y**2 @ weight) / mass, 1e-300))
    y /= scale[:, None]
    whole = (y**2) @ weight
    least_surprise = _by_chance(rules.chance, n_predictors) if rules.chance > 0 else 0.0
    open_ = _Open(np.arange(len(targets), dtype=np.int64), there)
    while len(open_.target):
        fine = open_.inside.sum(axis=1) >= max(rules.least_node, 2 * rules.least_leaf)
        open_ = _Open(open_.target[fine], open_.inside[fine])
        children: list[_Open] = []
        for first in range(0, len(open_.target), _COLUMNS):
            batch = _Open(open_.target[first : first + _COLUMNS], open_.inside[first : first + _COLUMNS])
            split, predictor, cut = _best(batch, y, own, weight, indicator, width, n_predictors, rules, whole)
            for node in np.flatnonzero(split).tolist():
                target, inside = int(batch.target[node]), batch.inside[node]
                j = int(predictor[node])
                left = inside & (codes[j] <= cut[node])
                if least_surprise > 0 and _surprise(y[target, inside], left[inside]) < least_surprise:
                    continue
                largest[j, target] = max(largest[j, target], int(inside.sum()))
                children.append(_Open(np.array([target, target]), np.stack([left, inside & ~left])))
        open_ = _Open(
            np.concatenate([part.target for part in children]) if children else np.zeros(0, np.int64),
            np.concatenate([part.inside for part in children]) if children else np.zeros((0, n), np.bool_),
        )
    return largest


def _indicator(codes: I4) -> tuple[Any, int]:
    """[predictors · width, instances] sparse ones, and the number of bins a predictor."""
    from scipy.sparse import csr_matrix

    n_predictors, n = codes.shape
    width = int(codes.max(initial=0)) + 1
    rows = (np.arange(n_predictors, dtype=np.int64)[:, None] * width + codes).reshape(-1)
    columns = np.tile(np.arange(n, dtype=np.int64), n_predictors)
    ones = np.ones(len(rows))
    return csr_matrix((ones, (rows, columns)), shape=(n_predictors * width, n)), width


def _best(
    batch: _Open,
    y: F8,
    own: I8,
    weight: F8,
    indicator: Any,
    width: int,
    n_predictors: int,
    rules: TreeRules,
    whole: F8,
) -> tuple[B1, I8, I8]:
    """[nodes] whether to split, at which predictor, and the last bin of the left side."""
    inside = batch.inside.astype(np.float64)
    k = len(batch.target)
    shape = (n_predictors, width, k)
    counted = np.cumsum((indicator @ inside.T).reshape(shape), axis=1)
    plain = bool((weight == weight[0]).all())
    masses = (
        counted * weight[0] if plain else np.cumsum((indicator @ (inside * weight).T).reshape(shape), axis=1)
    )
    inside_y = y[batch.target] * inside
    sums = np.cumsum((indicator @ (inside_y * weight).T).reshape(shape), axis=1)
    n, mass, total = counted[0, -1], masses[0, -1], sums[0, -1]
    allowed = (counted >= rules.least_leaf) & (n - counted >= rules.least_leaf)
    with np.errstate(invalid="ignore", divide="ignore"):
        gain = sums**2 / masses + (total - sums) ** 2 / (mass - masses)
    gain = np.where(allowed, gain - total**2 / np.maximum(mass, 1e-300), -1.0)
    mine = own[batch.target]
    of_self = np.flatnonzero(mine >= 0)
    gain[mine[of_self], :, of_self] = -1.0
    flat = gain.reshape(n_predictors * width, k)
    # Equal splits differ in their last digits: the first within rounding is taken.
    top = flat.max(axis=0)
    place = np.argmax(flat >= top - 1e-9 * np.maximum(np.abs(top), 1e-300), axis=0)
    split = (top > 1e-12 * np.maximum(whole[batch.target], 1e-300)) & (
        top >= rules.least_gain * whole[batch.target]
    )
    return np.asarray(split), (place // width).astype(np.int64), (place % width).astype(np.int64)


def _surprise(values: F8, left: B1) -> float:
    """Squared z of the difference of two sides in normal scores of the values.

    Scores and not values: with values, one outlier in a small leaf beats every bound.
    """
    from scipy.special import ndtri

    n, n_left = len(values), int(left.sum())
    scores = ndtri((midranks(values) - 0.5) / n)
    spread = float(scores.var())
    if spread <= 0:
        return 0.0
    off = float(scores[left].mean() - scores[~left].mean())
    return off * off / (spread * (1 / n_left + 1 / (n - n_left)))


def _by_chance(level: float, n_predictors: int) -> float:
    """Squared z that the best of all cuts of all predictors exceeds with this chance, about."""
    from scipy.special import ndtri

    return float(ndtri(level / (2 * n_predictors * _CUTS)) ** 2)


@dataclass(frozen=True, slots=True)
class Network:
    """The dependencies of one class; P is the last node."""

    weight: F8
    """[nodes, nodes] symmetric: m of the stronger direction over the number of instances, 0 for no edge."""
    instances: int

    @property
    def performance(self) -> int:
        """Node of P."""
        return len(self.weight) - 1


def network_of(values: F8, performance: F8, usable: B1, weight: F8, rules: TreeRules) -> Network:
    """The network of a class.

    values: [variables, instances], NaN missing; performance: [instances]; usable: [variables], the others
    get no edge. O(variables² · instances) a level of the trees.
    """
    n_variables, n = values.shape
    kept = np.flatnonzero(usable)
    nodes = np.concatenate([values[kept], performance[None, :]])
    own = np.arange(len(nodes), dtype=np.int64)
    sizes = split_sizes(coded(nodes), nodes, own, weight, rules)
    strength = np.maximum(sizes, sizes.T) / max(n, 1)
    full = np.zeros((n_variables + 1, n_variables + 1))
    places = np.append(kept, n_variables)
    full[np.ix_(places, places)] = strength
    return Network(full, n)


def rules_for(n: int, share: float, least_gain: float, chance: float) -> TreeRules:
    """Rules of a class of n instances."""
    return TreeRules(
        max(2, int(np.ceil(share * n))), max(_LEAST_LEAF, int(_LEAF_SHARE * n)), least_gain, chance
    )


def trivial(values: F8, performance: F8, problem: B1) -> B1:
    """[variables] whether a variable says in both classes what P says: rank correlation, or P itself."""
    found = np.ones(len(values), np.bool_)
    for late in (False, True):
        mine = problem == late
        found &= np.abs(_spearman(values[:, mine], performance[mine])) > _TRIVIAL_RHO
    return found


def _spearman(values: F8, performance: F8) -> F8:
    """[variables] rank correlation with P over the instances that have the variable; 0 for constants."""
    rho = np.zeros(len(values))
    there = ~np.isnan(values)
    full = there.all(axis=1)
    if full.any():
        rho[full] = rank_scores(values[full]) @ rank_scores(performance[None])[0]
    for row in np.flatnonzero(~full & (there.sum(axis=1) >= 3)).tolist():
        of_variable, of_p = rank_scores(np.stack([values[row], performance])[:, there[row]])
        rho[row] = of_variable @ of_p
    return rho


def happens_before(a: F8, b: F8) -> bool:
    """Whether `a` comes before `b` in all instances that have both, of which there are enough."""
    both = ~(np.isnan(a) | np.isnan(b))
    return int(both.sum()) >= _LEAST_BOTH and bool((a[both] < b[both]).all())
