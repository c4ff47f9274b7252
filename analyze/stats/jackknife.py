"""Confidence intervals of functions of sums by the delete-a-block jackknife (Künsch 1989).

Requests close in time are similar, so blocks of time are left out, not requests; dependence within a block is
then part of the standard error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import stdtr, stdtrit

from analyze.stats.noise import sum_freedom
from schemas.arrays import F8

LEAST_BLOCKS: Final = 3
"""Minimum number of non-empty blocks for a standard error."""


@dataclass(frozen=True, slots=True)
class Jackknifed:
    """Jackknife estimates of a statistic for several items; arrays are float64[items], NaN if undefined."""

    value: F8
    se: F8
    df: F8
    """float64[items]: degrees of freedom of the standard error, the number of non-empty blocks - 1."""

    def interval(self, level: float = 0.95) -> tuple[F8, F8]:
        """Two-sided Student's t interval (lower, upper), each float64[items]."""
        reach = stdtrit(np.maximum(self.df, 1.0), 0.5 + level / 2) * self.se
        return self.value - reach, self.value + reach

    def minus(self, other: Jackknifed) -> Jackknifed:
        """Difference of this statistic and `other`, which must be independent of it; degrees of freedom by
        Welch and Satterthwaite."""
        mine, theirs = self.se**2, other.se**2
        df = sum_freedom((mine, self.df), (theirs, other.df))
        least = np.minimum(self.df, other.df)
        return Jackknifed(
            self.value - other.value, np.sqrt(mine + theirs), np.where(np.isfinite(df), df, least)
        )

    @property
    def p(self) -> F8:
        """Two-sided p of "the value is 0", float64[items]; NaN without a standard error above 0."""
        with np.errstate(invalid="ignore", divide="ignore"):
            t = np.abs(self.value) / self.se
        found: F8 = 2.0 * stdtr(np.maximum(self.df, 1.0), -t)
        return np.where(self.se > 0, found, np.nan)


def jackknife(sums: F8, estimate: Callable[[F8], F8]) -> Jackknifed:
    """Estimate a function of sums over blocks, and its standard error.

    sums: float64[items, blocks, sums]. estimate: smooth function of the total sums, from [..., sums] to
    [...]. A block whose sums are all 0 for an item is not counted for that item. O(items · blocks · sums).
    """
    whole = sums.sum(axis=1)
    there = (sums != 0).any(axis=2)
    with np.errstate(invalid="ignore", divide="ignore"):
        value = estimate(whole)
        without = estimate(whole[:, None, :] - sums)
    n = there.sum(axis=1).astype(np.float64)
    safe = np.maximum(n, 1.0)
    kept = np.where(there, without, 0.0)
    mean = kept.sum(axis=1) / safe
    spread = np.where(there, (without - mean[:, None]) ** 2, 0.0).sum(axis=1)
    se = np.where(n >= LEAST_BLOCKS, np.sqrt(spread * (safe - 1) / safe), np.nan)
    return Jackknifed(value, se, n - 1)
