"""The exact split of a variance: between root types, between paths, within paths (ALGORITHMS E, tier 1).

Var(T) = Σ_r p_r (μ_r − μ)²  +  Σ_g p_g (μ_g − μ_r)²  +  Σ_g p_g σ_g²
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from analyze.methods.variance.request_groups import NOWHERE, Levels, RequestGroups
from analyze.stats.sums import totals
from schemas.arrays import F8

TOLERANCE: Final = 1e-9
"""Largest share of the variance that an account may miss."""


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


def variance_split(groups: RequestGroups, at: Levels) -> VarianceSplit:
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
    refuse_rest(split.total, float(split.roots.sum() + split.paths.sum() + split.within.sum()), at.mean)
    return split


def refuse_rest(total: float, parts: float, mean: float) -> None:
    """Raise ValueError where the parts of a variance are not all of it.

    mean: below its square times float64's precision a variance is rounding.
    """
    if abs(total - parts) > TOLERANCE * total + 1e-15 * mean * mean:
        raise ValueError(f"the account of a variance does not add up: {total:g} against {parts:g}")
