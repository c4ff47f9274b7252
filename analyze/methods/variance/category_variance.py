"""Categories by C², with intervals, and their parts of the variance (VF §4.2; ALGORITHMS E, tier 1)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from analyze.methods.variance.request_groups import NOWHERE, Levels, RequestGroups
from analyze.methods.variance.site_variance import coefficient
from analyze.stats.jackknife import Jackknifed, jackknife
from analyze.stats.sums import totals
from schemas.arrays import F8, I8

WIDEST: Final = math.log(1e4)
"""An interval of ln C² that is wider says nothing, and is not shown."""


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


def group_variances(groups: RequestGroups, at: Levels) -> GroupVariances:
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
