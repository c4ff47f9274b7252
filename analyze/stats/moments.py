"""Moments of response times: count, mean, variance and C² of categories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from analyze.population import Category
from schemas.arrays import F8, I8
from schemas.report.variance import C2Curve
from schemas.windows import NS_PER_US

LARGE = 10
"""Maximum number of requests of a category that is not "large" (as in the papers); C² is shown for large
categories only."""
HIGH: Final = 1.0
"""Squared coefficient of variation C² above which the variance is called high (VarianceFinder §4.2)."""
_MOST_POINTS: Final = 256


def squared_variation(weight: F8, total: F8, squares: F8) -> F8:
    """Squared coefficient of variation C² = σ²/μ²; NaN if the mean is 0 or the weight is 0.

    weight: sums of weights; total: sums of weight · value; squares: sums of weight · value²."""
    with np.errstate(invalid="ignore", divide="ignore"):
        found: F8 = weight * squares / total**2 - 1.0
    return np.where(total > 0, np.maximum(found, 0.0), np.nan)


@dataclass(frozen=True, slots=True)
class SampleMoments:
    """Moments of the response times of categories, by sample."""

    count: I8
    """int64[samples, categories]: number of requests, unweighted."""
    weighted: F8
    """float64[samples, categories]: sum of the requests' weights."""
    mean_us: F8
    """float64[samples, categories]: weighted mean response time, µs; NaN without requests."""
    variance_us2: F8
    """float64[samples, categories]: weighted population variance of the response time, µs²; NaN for fewer
    than two requests."""

    @property
    def c2(self) -> F8:
        """float64[samples, categories]: squared coefficient of variation of the response time; NaN if the
        mean is 0 or NaN."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return self.variance_us2 / self.mean_us**2

    @property
    def total_us(self) -> F8:
        """float64[samples, categories]: number of requests · mean response time, µs; 0 without requests."""
        return np.where(self.count > 0, self.count * self.mean_us, 0.0)

    def filled_mean_us(self) -> F8:
        """float64[2, categories]: means of the first two samples, µs; an empty category gets the mean of the
        other sample, NaN if both are empty."""
        mean = self.mean_us[:2]
        return np.where(self.count[:2] > 0, mean, mean[::-1])


def category_moments(categories: Sequence[Category], n_samples: int) -> SampleMoments:
    """Moments of the response times of every category in samples 0 to `n_samples` - 1. O(requests)."""
    shape = (n_samples, len(categories))
    count, weighted = np.zeros(shape, np.int64), np.zeros(shape)
    mean, variance = np.full(shape, np.nan), np.full(shape, np.nan)
    for c, category in enumerate(categories):
        for t in range(n_samples):
            mine = category.rows(t)
            us = category.response_ns[mine] / NS_PER_US
            w = category.weight[mine]
            count[t, c] = len(us)
            if len(us) == 0:
                continue
            weighted[t, c] = w.sum()
            mean[t, c] = (w * us).sum() / weighted[t, c]
            if len(us) > 1:
                variance[t, c] = (w * (us - mean[t, c]) ** 2).sum() / weighted[t, c]
    return SampleMoments(count, weighted, mean, variance)


def pooled(moments: SampleMoments, members: npt.NDArray[np.intp]) -> SampleMoments:
    """Moments of several categories merged into one, by the law of total variance; shapes [samples, 1].

    members: indices of the categories."""
    count = moments.count[:, members].sum(axis=1, keepdims=True)
    weight = moments.weighted[:, members]
    weighted = weight.sum(axis=1, keepdims=True)
    means = np.where(weight > 0, moments.mean_us[:, members], 0.0)
    spreads = np.where(np.isnan(moments.variance_us2[:, members]), 0.0, moments.variance_us2[:, members])
    safe = np.where(weighted > 0, weighted, np.nan)
    mean = (weight * means).sum(axis=1, keepdims=True) / safe
    inner = np.where(np.isnan(mean), 0.0, means - mean)
    variance = (weight * (spreads + inner**2)).sum(axis=1, keepdims=True) / safe
    return SampleMoments(count, weighted, mean, np.where(count > 1, variance, np.nan))


def c2_curve(name: str, c2: F8, requests: I8) -> C2Curve:
    """Cumulative distribution of C² over the categories of a sample that the caller has selected as large.

    c2: float64[categories], NaN values are left out. requests: int64[categories], numbers of requests.
    """
    known = np.isfinite(c2)
    order = np.argsort(c2[known], kind="stable")
    c2, n = c2[known][order], requests[known][order]
    low = c2 < HIGH
    places = np.unique(np.linspace(0, max(len(c2) - 1, 0), _MOST_POINTS).round().astype(int))[: len(c2)]
    return C2Curve(
        sample=name,
        categories=len(c2),
        below_one=float(low.mean()) if len(c2) else None,
        requests_below_one=float(n[low].sum() / n.sum()) if len(c2) else None,
        largest=float(c2[-1]) if len(c2) else None,
        points=tuple((float(c2[i]), (int(i) + 1) / len(c2)) for i in places),
    )
