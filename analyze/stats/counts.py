"""Counts of categories against history: negative binomial predictive test.

Everything is conditional on the root: of N requests of its root a category is expected to hold the share it
had. The predictive law has three sources of spread: chance, the share's own movement between windows (φ, cv²)
and the uncertainty of the share itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import betainc

from schemas.arrays import F8

COLD_DISPERSION = 0.01
"""φ with one window of history: 10 % share noise."""
PRIOR_WINDOWS = 6.0
"""d0: windows that the root's φ is worth."""
_LARGE_MEAN = 20.0
"""Mean count a window from which a category's own φ says something."""
_LEAST_LARGE = 10
"""Categories of a root of that size, or the φ of all roots is taken."""
_CLIP = 0.9


@dataclass(frozen=True, slots=True)
class CountTests:
    """One row a category, [categories]."""

    share0: F8
    """q̂: share of its root's requests in history, shrunk by half a request."""
    expected: F8
    """μ: requests expected in the problem."""
    seen: F8
    """Requests there."""
    dispersion: F8
    """φ̃: squared coefficient of variation of the share between windows."""
    spread: F8
    """a: variance of the predictive law is μ + a·μ²."""
    p_more: F8
    """Mid-p of as many or more."""
    p_fewer: F8

    @property
    def p(self) -> F8:
        """Two-sided mid-p: twice the smaller tail, at most 1."""
        return np.minimum(1.0, 2.0 * np.minimum(self.p_more, self.p_fewer))

    @property
    def sd(self) -> F8:
        """Standard deviation of the predictive law, requests."""
        return np.sqrt(self.expected + self.spread * self.expected**2)


def count_tests(
    history: F8,
    problem: F8,
    root: npt.NDArray[np.integer],
    *,
    parts: tuple[F8, F8] | None = None,
) -> CountTests:
    """Test of each category. history: [W0, categories], problem: [W1, categories] (effective) counts.

    root: [categories] code of the root. With one window of history (cold start) φ is COLD_DISPERSION or, if
    larger, what sub-windows of the two periods show: `parts`, two arrays [sub-windows, categories]. Roots
    without requests in the problem expect 0. O(windows · categories).
    """
    n_roots = int(root.max()) + 1 if len(root) else 0
    y0, y1 = history.sum(axis=0), problem.sum(axis=0)
    n_categories = np.bincount(root, minlength=n_roots).astype(np.float64)
    total0, total1 = (np.bincount(root, y, n_roots)[root] for y in (y0, y1))
    share = (y0 + 0.5) / (total0 + 0.5 * n_categories[root])
    windows = len(history)
    if windows >= 2:
        dispersion = _dispersion(history, root, n_roots, share)
    else:
        dispersion = np.full(len(root), COLD_DISPERSION)
        for period in parts or ():
            if len(period) >= 2:
                mine = period.sum(axis=0)
                base = np.bincount(root, mine, n_roots)[root]
                own = (mine + 0.5) / (base + 0.5 * n_categories[root])
                dispersion = np.maximum(dispersion, _dispersion(period, root, n_roots, own))
    expected = total1 * share
    spread = dispersion * (1 / max(len(problem), 1) + 1 / max(windows, 1)) + 1 / np.maximum(y0, 0.5)
    below, upto = _law(y1, expected, spread, 0.0), _law(y1, expected, spread, 1.0)
    fewer = (below + upto) / 2
    return CountTests(share, expected, y1, dispersion, spread, 1 - fewer, fewer)


def _law(y: F8, mean: F8, spread: F8, step: float) -> F8:
    """P(Y < y + step), Y ~ NB(mean, size 1/spread); fractions lie between their neighbours."""
    size = 1.0 / spread
    upper = y + step
    safe = np.maximum(upper, 1e-12)
    p: F8 = np.where(upper > 0, betainc(size, safe, size / (size + mean)), 0.0)
    return np.where(mean > 0, p, 1.0 if step else 0.0)


def _dispersion(counts: F8, root: npt.NDArray[np.integer], n_roots: int, share: F8) -> F8:
    """φ̃ of each category: its own moment estimate, shrunk towards its root's."""
    windows = len(counts)
    totals = np.stack([np.bincount(root, row, n_roots)[root] for row in counts])
    expected = totals * share
    there = expected > 0
    safe = np.where(there, expected, 1.0)
    excess = np.where(there, ((counts - expected) ** 2 - expected) / safe**2, 0.0)
    own = excess.sum(axis=0) / np.maximum(there.sum(axis=0) - 1, 1)
    large = expected.mean(axis=0) >= _LARGE_MEAN
    everywhere = _clipped_mean(own[large])
    base = np.full(n_roots, everywhere)
    for r in range(n_roots):
        mine = own[large & (root == r)]
        if len(mine) >= _LEAST_LARGE:
            base[r] = _clipped_mean(mine)
    own_weight = windows - 1
    mixed: F8 = (PRIOR_WINDOWS * base[root] + own_weight * np.maximum(own, 0.0)) / (
        PRIOR_WINDOWS + own_weight
    )
    return mixed


def _clipped_mean(own: F8) -> float:
    """Mean of φ̂ clipped at its 90th percentile, at least 0; 0 for none."""
    if len(own) == 0:
        return 0.0
    return max(0.0, float(np.minimum(own, np.quantile(own, _CLIP)).mean()))
