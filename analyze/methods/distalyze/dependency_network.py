"""Dependency networks of one class: what each variable depends on, and how much (DIST §3.3; G.5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from analyze.methods.distalyze.nested_trees import TreeRules, coded, split_sizes
from schemas.arrays import B1, F8

TRIVIAL_RHO: Final = 0.995
"""|Spearman| with P above which a variable says what P says (DIST §5.3.1)."""
LEAST_BOTH: Final = 20
"""Instances with both variables for one to be told to come before the other."""
LEAF_SHARE: Final = 0.01
LEAST_LEAF: Final = 5
"""A split leaves 5 instances and 1 % of all on either side: one outlier is no dependency."""


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
        max(2, int(np.ceil(share * n))), max(LEAST_LEAF, int(LEAF_SHARE * n)), least_gain, chance
    )


def trivial(values: F8, performance: F8, problem: B1) -> B1:
    """[variables] whether a variable says in both classes what P says: rank correlation, or P itself."""
    found = np.ones(len(values), np.bool_)
    for late in (False, True):
        mine = problem == late
        found &= np.abs(_spearman(values[:, mine], performance[mine])) > TRIVIAL_RHO
    return found


def _spearman(values: F8, performance: F8) -> F8:
    """[variables] rank correlation with P over the instances that have the variable; 0 for constants."""
    from scipy.stats import rankdata

    rho = np.zeros(len(values))
    if values.shape[1] < 3:
        return rho
    there = ~np.isnan(values)
    full = there.all(axis=1)
    if full.any():
        rho[full] = _correlation(rankdata(values[full], axis=1), rankdata(performance)[None, :])
    for row in np.flatnonzero(~full & (there.sum(axis=1) >= 3)).tolist():
        mine = there[row]
        ranks = rankdata(values[row, mine])[None, :]
        rho[row] = _correlation(ranks, rankdata(performance[mine])[None, :])[0]
    return rho


def _correlation(a: F8, b: F8) -> F8:
    a = a - a.mean(axis=1, keepdims=True)
    b = b - b.mean(axis=1, keepdims=True)
    both = np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1))
    return np.asarray(np.where(both > 0, (a * b).sum(axis=1) / np.where(both > 0, both, 1.0), 0.0))


def happens_before(a: F8, b: F8) -> bool:
    """Whether `a` comes before `b` in all instances that have both, of which there are enough."""
    both = ~(np.isnan(a) | np.isnan(b))
    return int(both.sum()) >= LEAST_BOTH and bool((a[both] < b[both]).all())
