"""Measure how far two groupings of requests agree: adjusted Rand, homogeneity, completeness, Jaccard.

All take a contingency table, [groups of one, groups of the other] summed weights. A weight of 3 is three
equal requests: the figures are those of scikit-learn on repeated rows, which takes no weights there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from schemas.arrays import F8, I8


def contingency(first: I8, second: I8, weight: F8) -> F8:
    """[groups, groups] weight of what lies in a group of either; codes count from 0. O(items)."""
    shape = (int(first.max(initial=-1)) + 1, int(second.max(initial=-1)) + 1)
    cell = first * shape[1] + second
    return np.bincount(cell, weight, shape[0] * shape[1]).astype(np.float64).reshape(shape)


def adjusted_rand(table: F8) -> float:
    """Adjusted Rand index (Hubert and Arabie 1985): 1 alike, 0 as by chance.

    1 where both have one group, or only single requests, as in scikit-learn.
    """
    rows, columns, whole = table.sum(axis=1), table.sum(axis=0), table.sum()
    together = _pairs(table).sum()
    in_rows, in_columns, every = _pairs(rows).sum(), _pairs(columns).sum(), float(_pairs(whole))
    if every <= 0:
        return 1.0
    expected = in_rows * in_columns / every
    most = (in_rows + in_columns) / 2
    return 1.0 if most == expected else float((together - expected) / (most - expected))


def _pairs(count: F8) -> F8:
    return np.asarray(count * (count - 1) / 2)


class Purity(NamedTuple):
    """Rosenberg and Hirschberg 2007; both 0 to 1."""

    homogeneity: float
    """1: every group of the second holds members of one group of the first only."""
    completeness: float
    """1: all members of a group of the first are in one group of the second."""


def purity(table: F8) -> Purity:
    """Homogeneity and completeness of the second grouping by the first."""
    first, second = _entropy(table.sum(axis=1)), _entropy(table.sum(axis=0))
    both = _entropy(table.reshape(-1))
    mutual = first + second - both
    return Purity(
        1.0 if first <= 0 else min(1.0, max(0.0, float(mutual / first))),
        1.0 if second <= 0 else min(1.0, max(0.0, float(mutual / second))),
    )


def _entropy(count: F8) -> float:
    total = count.sum()
    share = count[count > 0] / total if total > 0 else np.zeros(0)
    return float(-(share * np.log(share)).sum())


def best_jaccard(table: F8) -> F8:
    """[groups of the first] largest share of members in common with a group of the second; 0 for none."""
    union = table.sum(axis=1)[:, None] + table.sum(axis=0)[None, :] - table
    with np.errstate(divide="ignore", invalid="ignore"):
        alike = np.where(union > 0, table / union, 0.0)
    return np.asarray(alike.max(axis=1, initial=0.0))
