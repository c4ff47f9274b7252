"""Count, weighted mean and variance of response time, per category and sample (ALGORITHMS 0, E tier 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analyze.population import Category
from schemas.arrays import F8, I8
from schemas.windows import NS_PER_US

LARGE = 10
"""The papers' large categories hold more requests than this; C² is shown for them only."""


@dataclass(frozen=True, slots=True)
class SampleMoments:
    """[samples, categories] each; NaN where a category is empty."""

    count: I8
    weighted: F8
    """Sum of weights."""
    mean_us: F8
    """Weighted mean response time."""
    variance_us2: F8
    """Weighted population variance; NaN below two requests."""

    @property
    def total_us(self) -> F8:
        """[samples, categories] count times mean; 0 for an empty category."""
        return np.where(self.count > 0, self.count * self.mean_us, 0.0)

    def filled_mean_us(self, samples: tuple[int, int] = (0, 1)) -> F8:
        """[2, categories] of two samples: an empty one's mean is the other's (C.7, C.8); NaN if both are."""
        mean = self.mean_us[list(samples)]
        return np.where(self.count[list(samples)] > 0, mean, mean[::-1])


def category_moments(categories: Sequence[Category], n_samples: int) -> SampleMoments:
    """SampleMoments of every category. O(requests)."""
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
    """Moments of the union of `members`, as one category: law of total variance. Shapes [samples, 1]."""
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
