"""Test many features at once by Welch's t, weighted, with missing values (DISTALYZER §3.2).

`scipy.stats.ttest_ind` has no weights; without weights and missing values the results here equal those of
that function.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import stdtr

from analyze.stats.noise import sum_freedom
from schemas.arrays import B1, F8

MOST_T: Final = 1e3
"""Upper limit of the reported |t|; also the |t| of a feature that is constant in each class, with different
values."""
_ROWS: Final = 256
"""Number of features processed at a time: 256 features of 10,000 instances are 20 MB."""


@dataclass(frozen=True, slots=True)
class WelchTests:
    """Results of Welch's t-tests of features; NaN for features with fewer than two values in a class."""

    t: F8
    """float64[features]: Welch's t statistic, within ±MOST_T; positive if the problem's mean is larger."""
    p: F8
    """float64[features]: two-sided p of Welch's test."""
    p_pooled: F8
    """float64[features]: two-sided p of the test with the variance of both classes pooled, as under the null
    hypothesis.

    If only few values are large, a small class without large values has too small a variance: in simulations
    Welch's p was below 0.05 after Bonferroni's correction in half of 100 random splits of 1,000 into 50 and
    950.
    """
    mean0: F8
    """float64[features]: weighted mean in the reference class."""
    mean1: F8
    """float64[features]: weighted mean in the problem class."""


def welch_tests(values: F8, problem: B1, weight: F8) -> WelchTests:
    """Test for each feature whether its means differ between the two classes.

    values: float64[features, instances], NaN for missing; problem: bool[instances] mask of the problem class;
    weight: [instances], > 0. Sample sizes are Kish's effective ones, (Σw)² / Σw². O(features · instances).
    """
    n = len(values)
    mean, spread, size, mass = (np.full((2, n), np.nan) for _ in range(4))
    columns = [np.flatnonzero(problem == late) for late in (False, True)]
    weights = [weight[mine] for mine in columns]
    for first in range(0, n, _ROWS):
        rows = slice(first, min(first + _ROWS, n))
        for late in (0, 1):
            part = values[rows].take(columns[late], axis=1)
            mean[late, rows], spread[late, rows], size[late, rows], mass[late, rows] = _moments(
                part, weights[late]
            )
    whole = _both(mean, spread, size, mass)
    with np.errstate(invalid="ignore", divide="ignore"):
        error = spread / size
        both = error.sum(axis=0)
        t = (mean[1] - mean[0]) / np.sqrt(both)
        freedom = sum_freedom(*zip(error, size - 1, strict=True))
        p = 2 * stdtr(freedom, -np.abs(t))
        z = (mean[1] - mean[0]) / np.sqrt(whole / size[0] + whole / size[1])
        pooled = 2 * stdtr(size.sum(axis=0) - 2, -np.abs(z))
    tested = (size > 1).all(axis=0) & ~np.isnan(both)
    constant = tested & (both <= 0)
    same = np.isclose(mean[0], mean[1], rtol=1e-12, atol=0.0)
    p = np.where(constant, np.where(same, 1.0, 0.0), p)
    pooled = np.where(same, 1.0, pooled)
    t = np.where(constant, np.where(same, 0.0, np.sign(mean[1] - mean[0]) * MOST_T), t)
    return WelchTests(
        np.where(tested, np.clip(t, -MOST_T, MOST_T), np.nan),
        np.where(tested, p, np.nan),
        np.where(tested, pooled, np.nan),
        mean[0],
        mean[1],
    )


def _moments(values: F8, weight: F8) -> tuple[F8, F8, F8, F8]:
    """Compute (weighted mean, unbiased variance, effective size, sum of weights), each float64[features].
    values: [features, instances], NaN for missing.

    A variance within rounding is 0.
    """
    missing = np.isnan(values)
    if missing.any():
        there = (~missing).astype(np.float64)
        filled = np.where(missing, 0.0, values)
        w, squares = there @ weight, there @ weight**2
    else:
        there, filled = None, values
        w = np.full(len(values), weight.sum())
        squares = np.full(len(values), (weight**2).sum())
    size = np.where(w > 0, w**2 / np.maximum(squares, 1e-300), 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = (filled @ weight) / w
        off = filled - mean[:, None]
        off *= off
        if there is not None:
            off = np.where(missing, 0.0, off)
        variance = (off @ weight) / w * (size / (size - 1))
        largest = np.abs(filled).max(axis=1, initial=0.0)
        variance = np.where(variance <= (largest * 1e-14) ** 2, 0.0, variance)
    return mean, variance, size, w


def _both(mean: F8, spread: F8, size: F8, mass: F8) -> F8:
    """float64[features]: unbiased variance of the values of both classes together.

    mean, spread (variance), size (effective sample size), mass (sum of weights): float64[classes,
    features]."""
    with np.errstate(invalid="ignore", divide="ignore"):
        total = mass.sum(axis=0)
        centre = (mass * mean).sum(axis=0) / total
        inside = spread * (size - 1) / size
        plain = (mass * (inside + (mean - centre) ** 2)).sum(axis=0) / total
        effective = total**2 / (mass**2 / size).sum(axis=0)
        return np.asarray(plain * effective / (effective - 1))
