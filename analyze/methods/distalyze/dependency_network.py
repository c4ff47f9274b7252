"""Learn dependency networks: on which variables each variable depends, and how strongly (DISTALYZER §3.3).

A regression tree of a target over the other variables splits at the variables on which it depends, stronger
ones earlier. Greedy trees are nested in m, the minimum number of instances of a node that is split: a larger
m gives the same tree, pruned. So one tree per target, grown down to the smallest m, gives for every predictor
the largest m at which it is still used: the size of the largest node that it splits. No refits are needed.

All targets grow together, level by level: the sums for every cut of every predictor are one product of a
sparse indicator matrix (bin of each predictor by instance) with the targets' values. One tree per target with
a library takes 100 times as long for 200 variables of 4,000 instances.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from analyze.methods.distalyze.divergence import MOSTLY, varies
from analyze.methods.distalyze.settings import DistalyzeSettings
from analyze.stats.rank import midranks, rank_scores
from schemas.arrays import B1, F8, I4, I8

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

_BINS: Final = 64
"""Maximum number of bins of a predictor; with more distinct values it is cut at quantiles."""
_COLUMNS: Final = 48
"""Number of nodes whose cuts are searched together: 48 nodes of 200 predictors in 64 bins are 5 MB per
sum."""
_CUTS: Final = 8.0
"""Number of independent tests equivalent to the best cut of one predictor (maximally selected statistic)."""
_TRIVIAL_RHO: Final = 0.995
"""Minimum absolute rank correlation with the response time at which a variable is equivalent to it
(DISTALYZER §5.3.1)."""
_LEAST_BOTH: Final = 20
"""Minimum number of instances in which two variables both occur, for `happens_before` to be True."""
_LEAF_SHARE: Final = 0.01
"""Minimum share of all instances on either side of a split."""
_LEAST_LEAF: Final = 5
"""Minimum number of instances on either side of a split: one outlier is no dependency."""


@dataclass(frozen=True, slots=True)
class TreeRules:
    """Criteria for splitting a node of a tree."""

    least_node: int
    """Minimum number of instances of a node that is split (the m of the paper)."""
    least_leaf: int
    """Minimum number of instances on either side of a split."""
    least_gain: float = 0.0
    """Minimum share of the target's sum of squares that a split must explain, in [0, 1]."""
    chance: float = 0.0
    """Significance level of a split: chance that the best of all cuts gains as much without a dependency; 0:
    no test."""


def coded(values: F8) -> I4:
    """Code values as bins: int32[variables, instances] number of the bin, from 1; 0 for NaN (missing)."""
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


def split_sizes(values: F8, weight: F8, rules: TreeRules) -> I8:
    """Size of the largest node in each target's tree that each predictor splits, int64[predictors, targets];
    0 for none.

    values: [variables, instances], NaN missing; each variable is the target of a tree over all others, on the
    instances that have it. weight: [instances]. Ties go to the first predictor, then to the lowest cut.
    """
    from scipy.special import ndtri

    n_variables, n = values.shape
    largest = np.zeros((n_variables, n_variables), np.int64)
    if n_variables == 0 or n == 0:
        return largest
    codes = coded(values)
    search = _CutSearch.of(codes, values, weight, rules)
    # Approximate quantile, at this chance, of the squared z of the best of all cuts of all predictors.
    least_squared_z = ndtri(rules.chance / (2 * n_variables * _CUTS)) ** 2 if rules.chance > 0 else 0.0
    target, inside = np.arange(n_variables), ~np.isnan(values)
    while len(target):
        fine = inside.sum(axis=1) >= max(rules.least_node, 2 * rules.least_leaf)
        target, inside = target[fine], inside[fine]
        children: list[tuple[int, B1]] = []
        for first in range(0, len(target), _COLUMNS):
            batch = slice(first, first + _COLUMNS)
            predictor, cut = search.best(target[batch], inside[batch])
            for node in np.flatnonzero(predictor >= 0).tolist():
                j, i, mine = int(predictor[node]), int(target[first + node]), inside[first + node]
                left = mine & (codes[j] <= cut[node])
                if least_squared_z > 0 and _squared_z(search.y[i, mine], left[mine]) < least_squared_z:
                    continue
                largest[j, i] = max(largest[j, i], int(mine.sum()))
                children += [(i, left), (i, mine & ~left)]
        target = np.array([i for i, _ in children], np.int64)
        inside = np.array([mine for _, mine in children], np.bool_).reshape(len(children), n)
    return largest


@dataclass(frozen=True, slots=True)
class _CutSearch:
    """Search for the best cut (predictor, and bin at which to split) of each of many tree nodes at once; the
    nodes may belong to trees of different targets."""

    indicator: csr_matrix
    """Sparse matrix [predictors · width, instances]: 1 if the instance is in the bin of the predictor."""
    width: int
    """Number of bins per predictor, the bin for missing values included."""
    y: F8
    """Values of the targets, scaled to mean 0 and variance 1, float64[targets, instances]; 0 where
    missing."""
    whole: F8
    """Sum of squares of all values of each target, float64[targets]."""
    weight: F8
    rules: TreeRules

    @classmethod
    def of(cls, codes: I4, values: F8, weight: F8, rules: TreeRules) -> _CutSearch:
        """Encode the bins of the predictors and the values of the targets.

        codes: int32[variables, instances] from `coded`.
        """
        from scipy.sparse import csr_matrix

        n_predictors, n = codes.shape
        width = int(codes.max(initial=0)) + 1
        rows = (np.arange(n_predictors, dtype=np.int64)[:, None] * width + codes).reshape(-1)
        columns = np.tile(np.arange(n, dtype=np.int64), n_predictors)
        indicator = csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(n_predictors * width, n))
        there = ~np.isnan(values)
        y = np.where(there, values, 0.0)
        mass = np.maximum(there @ weight, 1e-300)
        y = np.where(there, y - ((y @ weight) / mass)[:, None], 0.0)
        y /= np.sqrt(np.maximum((y**2 @ weight) / mass, 1e-300))[:, None]
        return cls(indicator, width, y, (y**2) @ weight, weight, rules)

    def best(self, target: I8, inside: B1) -> tuple[I8, I8]:
        """Find the best cut of each node: (predictor to split at, -1 for none; last bin of the left side),
        int64[nodes] each.

        target: [nodes] index of the node's target; inside: bool[nodes, instances], instances in the node.
        """
        held = inside.astype(np.float64)
        counted = self._up_to(held)
        plain = bool((self.weight == self.weight[0]).all())
        masses = counted * self.weight[0] if plain else self._up_to(held * self.weight)
        sums = self._up_to(self.y[target] * held * self.weight)
        n, mass, total = counted[0, -1], masses[0, -1], sums[0, -1]
        allowed = (counted >= self.rules.least_leaf) & (n - counted >= self.rules.least_leaf)
        with np.errstate(invalid="ignore", divide="ignore"):
            gain = sums**2 / masses + (total - sums) ** 2 / (mass - masses)
        gain = np.where(allowed, gain - total**2 / np.maximum(mass, 1e-300), -1.0)
        gain[target, :, np.arange(len(target))] = -1.0
        flat = gain.reshape(-1, len(target))
        # Equal splits differ in their last digits: the first within rounding is taken.
        top = flat.max(axis=0)
        place = np.argmax(flat >= top - 1e-9 * np.maximum(np.abs(top), 1e-300), axis=0)
        whole = self.whole[target]
        split = (top > 1e-12 * np.maximum(whole, 1e-300)) & (top >= self.rules.least_gain * whole)
        return np.where(split, place // self.width, -1), place % self.width

    def _up_to(self, values: F8) -> F8:
        """Cumulative sums of `values`, float64[nodes, instances], over the bins of each predictor:
        float64[predictors, bins, nodes]."""
        sums = np.asarray(self.indicator @ values.T).reshape(-1, self.width, len(values))
        return np.cumsum(sums, axis=1)


def _squared_z(values: F8, left: B1) -> float:
    """Squared z of the difference in mean normal score (rank-based) between the two sides of a split. left:
    mask.

    With raw values, one outlier in a small leaf would exceed every bound.
    """
    from scipy.special import ndtri

    n, n_left = len(values), int(left.sum())
    scores = ndtri((midranks(values) - 0.5) / n)
    spread = float(scores.var())
    if spread <= 0:
        return 0.0
    off = float(scores[left].mean() - scores[~left].mean())
    return off * off / (spread * (1 / n_left + 1 / (n - n_left)))


@dataclass(frozen=True, slots=True)
class Network:
    """Dependency network of one class; nodes are the variables, then the response time."""

    weight: F8
    """Strength of each edge, float64[nodes, nodes], symmetric: number of instances at the largest tree node
    that is split, in the stronger direction, as a share of all instances; 0 for no edge."""
    instances: int

    @property
    def performance(self) -> int:
        """Node of the response time, the last one."""
        return len(self.weight) - 1


def network_of(values: F8, performance: F8, wanted: B1, weight: F8, settings: DistalyzeSettings) -> Network:
    """Learn the dependency network of a class.

    values: float64[variables, instances], NaN for missing; performance: float64[instances] response times;
    weight: [instances]; wanted: bool[variables]. Variables that are not wanted, are constant, or are missing
    in most instances get no edge. O(variables² · instances) a level of the trees.
    """
    n_variables, n = values.shape
    kept = np.flatnonzero(wanted & ((~np.isnan(values)).mean(axis=1) >= MOSTLY) & varies(values))
    rules = TreeRules(
        max(2, int(np.ceil(settings.node_share * n))),
        max(_LEAST_LEAF, int(_LEAF_SHARE * n)),
        settings.least_gain,
        settings.chance,
    )
    sizes = split_sizes(np.concatenate([values[kept], performance[None, :]]), weight, rules)
    full = np.zeros((n_variables + 1, n_variables + 1))
    places = np.append(kept, n_variables)
    full[np.ix_(places, places)] = np.maximum(sizes, sizes.T) / max(n, 1)
    return Network(full, n)


def trivial(values: F8, performance: F8, problem: B1) -> B1:
    """bool[variables]: True for variables equivalent to the response time in both classes, by rank
    correlation."""
    found = np.ones(len(values), np.bool_)
    for late in (False, True):
        mine = problem == late
        found &= np.abs(_spearman(values[:, mine], performance[mine])) > _TRIVIAL_RHO
    return found


def _spearman(values: F8, performance: F8) -> F8:
    """Rank correlation of each variable with the response time, over the instances that have the variable,
    float64[variables]; 0 for constants."""
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
    """True if time `a` precedes time `b` in all instances that have both, and there are at least _LEAST_BOTH
    such instances."""
    both = ~(np.isnan(a) | np.isnan(b))
    return int(both.sum()) >= _LEAST_BOTH and bool((a[both] < b[both]).all())
