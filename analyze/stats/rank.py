"""Two-sample rank tests of many samples at once: exact for small samples, ties included.

The statistic is Wilcoxon-Mann-Whitney's over midranks. If both the product of the sizes and the smaller size
are low, p is exact: the distribution of the midrank sum over all ways to pick the smaller sample from the
pooled values, with their ties (a conditional permutation test, by dynamic programming). Otherwise the normal
approximation is used, with the variance of ties and a continuity correction of half a rank. Each value counts
once, or by a fractional weight; weights have no exact test.

A request sampled with probability 1/4 has weight 4, but is evidence of one request.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from analyze.stats.sums import totals
from schemas.arrays import B1, F8, I8


def requests_per_weight(weight: F8, square: F8) -> F8:
    """Effective number of requests per unit of weight (Kish), Σw/Σw²; 1 if there are no weights.

    weight: sums of weights Σw; square: sums of squared weights Σw²; arrays of one shape. Weights with sum Σw
    count as (Σw)²/Σw² effective requests.
    """
    found: F8 = np.where(square > 0, weight / np.where(square > 0, square, 1.0), 1.0)
    return found


def effective_weights(weight: F8, group: npt.NDArray[np.integer], n_groups: int) -> F8:
    """float64[n]: weights scaled so that the weights of each group add up to the group's effective sample
    size (Kish); equal weights become 1.

    weight: float64[n]; group: [n], in 0..n_groups-1.
    """
    per_weight = requests_per_weight(totals(group, weight, n_groups), totals(group, weight**2, n_groups))
    scaled: F8 = weight * per_weight[group]
    return scaled


EXACT_PRODUCT = 1_500
"""Upper limit of the product n0·n1 of the sample sizes for the exact test."""
EXACT_SMALLER = 10
"""Upper limit of the smaller sample's size for the exact test.

With EXACT_PRODUCT it allows at most C(160, 10) = 2e15 ways, which a float64 counts without rounding (< 2^53),
in about 2 ms.
"""
EXACT_WORK = 1e9
"""Maximum number of additions in all exact tests together, about a second of CPU. If all would take more,
only tests with the smallest approximate p are made exact, as all other tests are far from significance."""


def midranks(values: npt.NDArray[np.number]) -> F8:
    """float64[n]: rank of each value, from 1; equal values get their mean rank. O(n log n)."""
    _, group, size = np.unique(values, return_inverse=True, return_counts=True)
    ranks: F8 = (np.cumsum(size) - (size - 1) / 2)[group]
    return ranks


def rank_scores(values: npt.NDArray[np.number]) -> F8:
    """float64[rows, n]: ranks of the values within each row, centred and scaled to length 1, so that the dot
    product of two rows is Spearman's ρ.

    A constant row becomes 0. O(rows · n log n).
    """
    found = np.stack([midranks(row) for row in values])
    found -= found.mean(axis=1, keepdims=True)
    length = np.sqrt((found * found).sum(axis=1, keepdims=True))
    scores: F8 = np.divide(found, length, out=np.zeros_like(found), where=length > 0)
    return scores


def rank_p_of_groups(test: I8, c0: F8, c1: F8, n_tests: int) -> F8:
    """float64[tests]: two-sided p of rank tests, twice the smaller tail; 1 for tests with an empty sample.

    Input are groups of equal values, sorted by (test, value). test: int64[groups], index of the test; c0, c1:
    float64[groups], number of values in the reference and in the problem. O(groups), plus the exact tests.
    """
    n0, n1, ties = (totals(test, part, n_tests) for part in (c0, c1, (c0 + c1) ** 3 - (c0 + c1)))
    begin = np.searchsorted(test, np.arange(n_tests + 1))
    below = np.cumsum(c0) - c0
    before = below - np.append(below, 0.0)[begin[:-1]][test]  # reference values below, within the test
    twice_u = totals(test, c1 * (2 * before + c0), n_tests)
    pairs, total = n0 * n1, n0 + n1
    with np.errstate(invalid="ignore", divide="ignore"):
        variance = pairs / 12.0 * (total + 1 - ties / (total * (total - 1.0)))
    flat = (pairs == 0) | ~(variance > 0)
    from scipy.special import ndtr  # see analyze.stats.noise

    off = np.abs(twice_u - pairs) / 2.0
    p = np.where(flat, 1.0, np.minimum(1.0, 2 * ndtr((0.5 - off) / np.sqrt(np.where(flat, 1.0, variance)))))
    exact = _exact_tests(n0, n1, p) & _whole(test, c0, c1, n_tests)
    for i in np.flatnonzero(exact & ~flat).tolist():
        rows = slice(int(begin[i]), int(begin[i + 1]))
        p[i] = _exact(*(np.rint(c[rows]).astype(np.int64) for c in (c0, c1)))
    return p


def _exact_tests(n0: F8, n1: F8, p: F8) -> B1:
    """bool[tests]: True for tests whose p is to be computed exactly: tests of small samples, as many as take
    up to EXACT_WORK additions in total.

    n0, n1: float64[tests], sample sizes; p: float64[tests], approximate p."""
    smaller, total = np.minimum(n0, n1), n0 + n1
    small: B1 = (n0 * n1 <= EXACT_PRODUCT) & (smaller <= EXACT_SMALLER) & (smaller > 0)
    order = np.argsort(p, kind="stable")
    work = np.where(small, 2 * total * total * smaller * smaller, 0.0)[order]
    within = np.zeros(len(p), dtype=np.bool_)
    within[order] = np.cumsum(work) <= EXACT_WORK
    return small & within


def _whole(test: I8, c0: F8, c1: F8, n_tests: int) -> B1:
    """bool[tests]: True if all counts of a test are whole numbers."""
    broken = (np.abs(c0 - np.rint(c0)) > 1e-6) | (np.abs(c1 - np.rint(c1)) > 1e-6)
    whole: B1 = np.bincount(test, broken, n_tests) == 0
    return whole


def _exact(c0: I8, c1: I8) -> float:
    """Exact two-sided p of a rank test: twice the smaller tail of the rank sum, at most 1.

    c0, c1: int64[groups], numbers of values of reference and problem in groups of equal values, ascending."""
    size = c0 + c1
    small = c0 if c1.sum() > c0.sum() else c1
    # Twice the midrank, less 1: 0 for the lowest value, so that rank sums stay small integers.
    score = 2 * (np.cumsum(size) - size) + size - 1
    seen = int((small * score).sum())
    law = _law(tuple(size.tolist()), int(small.sum()))
    return min(1.0, 2 * float(min(law[seen:].sum(), law[: seen + 1].sum())))


@lru_cache(maxsize=512)
def _law(sizes: tuple[int, ...], picked: int) -> F8:
    """float64[sums]: probability of each sum of scores, over all ways to pick `picked` of the pooled values.

    sizes: number of values in each group of equal values, ascending by value.
    """
    width = _largest(sizes, picked) + 1
    ways = np.zeros((picked + 1, width))
    ways[0, 0] = 1.0
    below = 0
    for size in sizes:
        score = 2 * below + size - 1
        for _ in range(size):  # value by value: each is taken or not
            if score < width:
                ways[1:, score:] += ways[:-1, : width - score]
        below += size
    law: F8 = ways[picked] / ways[picked].sum()
    law.flags.writeable = False
    return law


def _largest(sizes: tuple[int, ...], picked: int) -> int:
    """Largest possible sum of scores of `picked` values: the sum of the highest scores."""
    above, left, total = sum(sizes), picked, 0
    for size in reversed(sizes):
        taken = min(left, size)
        total += taken * (2 * (above - size) + size - 1)
        above, left = above - size, left - taken
    return total
