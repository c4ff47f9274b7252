"""Dependence inside a period: blocks of time, and what they leave of a sample's size (ALGORITHMS B.3).

Requests of one second are alike (a cache, a burst, a garbage collection), so n requests are worth fewer. κ is
the factor: `n_e / κ` is the size at which the Kolmogorov law has the 95 % quantile that shuffled blocks have.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

F8 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int64]
B1 = npt.NDArray[np.bool_]

BLOCKS = 20
LEAST_BLOCKS = 8
"""A period; fewer blocks have too few ways to be shuffled."""
KNOTS = 127
PERMUTATIONS = 199
_KOLMOGOROV_95 = 1.3581
"""95 % point of the Kolmogorov law."""
_TIMES_AUTOCORRELATION = 3.0
"""A block must be that many autocorrelation times long to stand for itself."""
_SOKAL = 5.0
"""The sum of autocorrelations ends at the first lag beyond this many times itself (Sokal 1997)."""


def equal_time_bounds(start_ns: int, end_ns: int, blocks: int) -> I8:
    """[blocks + 1] bounds of blocks of equal time, half open; integers, exact ends."""
    span = end_ns - start_ns
    return np.array([start_ns + span * i // blocks for i in range(blocks + 1)], dtype=np.int64)


def equal_count_bounds(n: int, blocks: int) -> I8:
    """[blocks + 1] positions that cut n requests in order of time into blocks of one count, ±1."""
    return np.array([n * i // blocks for i in range(blocks + 1)], dtype=np.int64)


def block_of(when: I8, bounds: I8) -> I8:
    """Block of each time or position; outside of the bounds it is the first or the last."""
    place = np.searchsorted(bounds, when, side="right") - 1
    return np.clip(place, 0, len(bounds) - 2).astype(np.int64)


def autocorrelation_time(values: F8) -> float:
    """Integrated autocorrelation time of a series, 1 + 2·Σρ, >= 1; 1 for fewer than 4 values. O(n log n)."""
    n = len(values)
    centred = values - values.mean() if n else values
    power = float((centred**2).sum())
    if n < 4 or power == 0:
        return 1.0
    width = 1 << (2 * n - 1).bit_length()
    spectrum = np.abs(np.fft.rfft(centred, width)) ** 2
    rho = np.fft.irfft(spectrum, width)[:n] / power
    tau = 1.0 + 2.0 * np.cumsum(rho[1:])
    enough = np.flatnonzero(np.arange(1, n) >= _SOKAL * tau)
    return max(1.0, float(tau[enough[0]] if len(enough) else tau[-1]))


def ranks(values: F8) -> F8:
    """Midranks, 1 to n: what the autocorrelation is taken of, so that one slow request does not rule it."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    mid: F8 = (np.cumsum(count) - (count - 1) / 2.0)[place]
    return mid


def blocks_for(n: int, tau: float, *, most: int = BLOCKS) -> int:
    """Number of blocks of n requests that are long enough, between LEAST_BLOCKS and `most`."""
    return int(min(most, max(LEAST_BLOCKS, math.floor(n / (_TIMES_AUTOCORRELATION * max(tau, 1.0))))))


def block_counts(values: F8, block: I8, n_blocks: int, *, knots: int = KNOTS) -> I8:
    """[blocks, knots + 1] counts of each block between pooled quantiles of all values."""
    if len(values) == 0:
        return np.zeros((n_blocks, knots + 1), np.int64)
    cuts = np.unique(np.quantile(values, np.arange(1, knots + 1) / (knots + 1)))
    place = np.searchsorted(cuts, values, side="left")
    width = knots + 1
    return np.bincount(block * width + place, minlength=n_blocks * width).reshape(n_blocks, width)


def block_kappa(
    counts: npt.NDArray[np.number], problem: B1, *, permutations: int = PERMUTATIONS, seed: int = 0
) -> F8:
    """κ of each test from counts of blocks over common bins, [tests, blocks, bins]; problem: [blocks].

    The labels of the blocks are shuffled `permutations` times, the same way in all tests; D is the KS
    distance of the two sides' pooled distributions; κ = max(1, n_e·Q95(D)²/1.358²). The quantile, not the
    median: dependence changes the law's shape. 1 where a side is empty.
    O(permutations · tests · blocks · bins).
    """
    n_tests, _n_blocks, _bins = counts.shape
    shuffled = np.tile(problem, (permutations, 1))
    np.random.default_rng(seed).permuted(shuffled, axis=1, out=shuffled)
    late = shuffled.astype(np.float64)
    d = np.empty((permutations, n_tests))
    for test in range(n_tests):
        mine = counts[test].astype(np.float64)
        after = np.cumsum(late @ mine, axis=1)
        before = np.cumsum(mine.sum(axis=0))[None, :] - after
        size1, size0 = after[:, -1:], before[:, -1:]
        gap = after / np.where(size1 > 0, size1, 1.0) - before / np.where(size0 > 0, size0, 1.0)
        d[:, test] = np.where((size0 > 0) & (size1 > 0), np.abs(gap).max(axis=1, keepdims=True), 0.0)[:, 0]
    total = counts.sum(axis=(1, 2), dtype=np.float64)
    n1 = counts[:, problem].sum(axis=(1, 2), dtype=np.float64)
    size = n1 * (total - n1) / np.where(total > 0, total, 1.0)
    rank = math.ceil(0.95 * (permutations + 1)) - 1  # a permutation quantile that counts the data themselves
    q95 = np.sort(d, axis=0)[min(rank, permutations - 1)]
    kappa: F8 = np.maximum(1.0, size * q95**2 / _KOLMOGOROV_95**2)
    return kappa
