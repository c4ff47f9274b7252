"""Tail mutations: do more requests than before take very long (ALGORITHMS B.8)?

KS does not see tails: 1 % of the requests ten times as slow, at 10,000 a side, it misses.
Exceedances are counted over quantiles of the pooled sample; how many of them fall into the
problem is a binomial question.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import betainc

F8 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int64]

LEVELS = (0.95, 0.99, 0.999)
LEAST_EXPECTED = 5.0
"""Exceedances expected a period for a level to be tested."""


@dataclass(frozen=True, slots=True)
class Exceedances:
    """P-values of exceedance counts, arrays of the inputs' shape; mid-p."""

    p_more: F8
    p_fewer: F8

    @property
    def p(self) -> F8:
        """Two-sided: twice the smaller tail, at most 1."""
        return np.minimum(1.0, 2.0 * np.minimum(self.p_more, self.p_fewer))


def exceedance_tests(k0: F8, n0: F8, k1: F8, n1: F8, dispersion: F8 | float = 1.0) -> Exceedances:
    """k0 exceedances of n0 against k1 of n1: k1 | k0 + k1 ~ Bin(k0 + k1, n1/(n0 + n1)), variance times φ.

    A count with variance φ is worth k/φ independent ones: the binomial of the divided counts, whose tails are
    those of the beta law, between integers as at them. Mid-p. 1 where there is no exceedance. φ >= 1.
    """
    total = (k0 + k1) / dispersion
    hit = k1 / dispersion
    share = n1 / (n0 + n1)

    def at_least(x: F8) -> F8:
        a = np.maximum(x, 1e-12)
        b = np.maximum(total - x + 1.0, 1e-12)
        p: F8 = np.where(x <= 0, 1.0, np.where(x > total, 0.0, betainc(a, b, share)))
        return p

    more = (at_least(hit) + at_least(hit + 1.0)) / 2
    none = total <= 0
    return Exceedances(np.where(none, 1.0, more), np.where(none, 1.0, 1.0 - more))


def block_dispersion(counts: F8, trials: F8) -> F8:
    """φ of exceedance counts over the blocks of one period, >= 1: Pearson's X² over its degrees of freedom.

    counts, trials: [..., blocks]; the rate is the period's own. 1 for fewer than 2 blocks.
    """
    total = trials.sum(axis=-1, keepdims=True)
    rate = counts.sum(axis=-1, keepdims=True) / np.where(total > 0, total, 1.0)
    expected = trials * rate
    x2 = np.where(expected > 0, (counts - expected) ** 2 / np.where(expected > 0, expected, 1.0), 0.0)
    blocks = (trials > 0).sum(axis=-1)
    phi: F8 = np.maximum(1.0, x2.sum(axis=-1) / np.maximum(blocks - 1, 1))
    return phi


@dataclass(frozen=True, slots=True)
class TailTest:
    """The tail of one sample against another."""

    p: float
    """Least p of the levels times their number; 1 where none could be tested."""
    level: float | None
    """Quantile level of the pooled sample at which it is least."""
    threshold: float | None
    """Its value."""
    share0: float
    share1: float
    """Shares above it."""


def tail_test(
    reference: F8, problem: F8, block0: I8, block1: I8, n_blocks: int, *, levels: Sequence[float] = LEVELS
) -> TailTest:
    """Exceedance tests of two samples at quantiles of the pooled one; blocks give the dispersion. O(n log n).

    reference, problem: values, [n0], [n1]; block0, block1: block of each, in 0..n_blocks-1.
    """
    n0, n1 = len(reference), len(problem)
    none = TailTest(1.0, None, None, 0.0, 0.0)
    if n0 == 0 or n1 == 0:
        return none
    pooled = np.concatenate([reference, problem])
    trials = [np.bincount(b, minlength=n_blocks).astype(np.float64) for b in (block0, block1)]
    found: list[TailTest] = []
    for level in levels:
        if (1 - level) * min(n0, n1) < LEAST_EXPECTED * (1 - 1e-9):
            continue
        threshold = float(np.quantile(pooled, level, method="higher"))
        over = [reference > threshold, problem > threshold]
        per_block = [
            np.bincount(b[o], minlength=n_blocks).astype(np.float64)
            for b, o in zip((block0, block1), over, strict=True)
        ]
        phi = max(float(block_dispersion(c, t)) for c, t in zip(per_block, trials, strict=True))
        k0, k1 = (np.array(float(o.sum())) for o in over)
        test = exceedance_tests(k0, np.array(float(n0)), k1, np.array(float(n1)), phi)
        found.append(TailTest(float(test.p), level, threshold, float(k0) / n0, float(k1) / n1))
    if not found:
        return none
    best = min(found, key=lambda t: t.p)
    return TailTest(min(1.0, best.p * len(found)), best.level, best.threshold, best.share0, best.share1)
