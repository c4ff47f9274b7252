"""Cut periods into nearly independent blocks of time, and compare means by the variation between blocks.

Requests close in time are similar (a cache, a burst, a garbage collection), so n requests have a smaller
effective sample size than n.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr

from analyze.stats.estimate import Estimate
from analyze.stats.noise import envelope, sum_freedom
from schemas.arrays import F8, I8


@dataclass(frozen=True, slots=True)
class BlockSums:
    """Sums of the requests' values by place (call site, …) and block of time, for one period."""

    total: F8
    """float64[places, blocks]: sum of weight · value; 0 for an empty block."""
    square: F8
    """float64[places, blocks]: sum of weight · value²; 0 for an empty block."""
    weight: F8
    """float64[places, blocks]: sum of weights; 0 for an empty block."""
    weight2: F8
    """float64[places, blocks]: sum of squared weights; weight² / weight2 is the effective number of requests
    (Kish)."""

    def mean(self) -> tuple[F8, F8, F8, F8]:
        """(mean over all blocks, variance of the mean, degrees of freedom of this variance, effective number
        of requests), each float64[places]; NaN without requests.

        The variance is that of a ratio estimator, B/(B-1) · Σ (total_b - mean · weight_b)² / (Σ weight)²,
        over the B blocks with requests, so that it includes the correlation within a block. With a single
        block it is the variance for independent requests.
        """
        weight, blocks = self.weight.sum(axis=1), (self.weight > 0).sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            n = weight**2 / self.weight2.sum(axis=1)
            mean = self.total.sum(axis=1) / weight
            residual = ((self.total - np.nan_to_num(mean)[:, None] * self.weight) ** 2).sum(axis=1)
            single = np.maximum(self.square.sum(axis=1) / weight - mean**2, 0.0) / (n - 1)
            variance = np.where(blocks > 1, blocks / (blocks - 1.0) * residual / weight**2, single)
        variance = np.where((blocks > 1) | (n > 1 + 1e-9), variance, np.nan)
        return mean, variance, np.where(blocks > 1, blocks - 1.0, n - 1), np.nan_to_num(n)

    def log_means(self) -> tuple[F8, F8]:
        """(logarithm of the mean of each block, sampling variance of this logarithm for independent
        requests), both float64[places, blocks]."""
        with np.errstate(divide="ignore", invalid="ignore"):
            mean, n = self.total / self.weight, self.weight**2 / self.weight2
            spread = np.maximum(self.square / self.weight / mean**2 - 1, 0.0)  # rounding if all are equal
            return np.log(mean), spread / np.maximum(n - 1, 1)


def mean_change(
    before: BlockSums,
    after: BlockSums,
    *,
    tau2: F8 | float = 0.0,
    tau_freedom: float = np.inf,
    of_logs: bool = False,
) -> Estimate:
    """Estimate changes of means, as differences of their logarithms.

    tau2: variance of such a difference between normal periods, beyond the correlation within blocks;
    tau_freedom: degrees of freedom of tau2. of_logs: True if the values are logarithms already. The p of the
    result, from Student's t, allows for sampling only; the standard error includes tau2, too. A place with a
    single request gets infinite variance.
    """
    sides = [side.mean() for side in (before, after)]
    with np.errstate(divide="ignore", invalid="ignore"):
        value = [mean if of_logs else np.log(mean) for mean, *_ in sides]
        parts = [v if of_logs else v / mean**2 for mean, v, *_ in sides]
        sampling = parts[0] + parts[1]
        inner = sum_freedom(
            *((part, np.maximum(freedom, 1.0)) for part, (_, _, freedom, _) in zip(parts, sides, strict=True))
        )
        between = np.broadcast_to(np.asarray(tau2, np.float64), sampling.shape)
        freedom = sum_freedom((sampling, inner), (between, tau_freedom))
        p = 2 * stdtr(inner, -np.abs(value[1] - value[0]) / np.sqrt(sampling))
    return level_estimate(
        value[0],
        value[1],
        sampling,
        between=between,
        freedom=freedom,
        inner_freedom=inner,
        p=p,
        n=(sides[0][3], sides[1][3]),
    )


def level_estimate(
    before: F8,
    after: F8,
    sampling: F8,
    *,
    between: F8,
    freedom: F8,
    inner_freedom: F8,
    p: F8,
    n: tuple[F8, F8],
) -> Estimate:
    """`Estimate` of changes of logarithms without baseline blocks, and so without a normal range.

    Arguments: fields of `Estimate`, each float64[places]; n: numbers of requests (before, after). Places with
    values or variances that are not finite get infinite variance and p = 1."""
    known = np.isfinite(sampling) & np.isfinite(before) & np.isfinite(after)
    before, after = (np.where(known, value, np.nan) for value in (before, after))
    seen = np.full((len(sampling), 0), np.nan)
    return Estimate(
        "log",
        before,
        after,
        np.where(known, sampling, np.inf),
        between,
        np.where(known & np.isfinite(freedom), freedom, np.inf),
        np.where(known & np.isfinite(p), p, 1.0),
        *n,
        seen,
        *envelope(seen),
        np.zeros(len(sampling), np.bool_),
        (after, after),
        inner_freedom=np.where(known & np.isfinite(inner_freedom), inner_freedom, np.inf),
    )


BLOCKS = 20
LEAST_BLOCKS = 8
"""Minimum number of blocks of a period; fewer allow too few permutations."""
_TIMES_AUTOCORRELATION = 3.0
"""Minimum length of a nearly independent block, in multiples of the autocorrelation time."""
_SOKAL = 5.0
"""Cut-off of the sum of autocorrelations: the sum ends at the first lag that is at least this many times the
sum (Sokal 1997)."""


def equal_time_bounds(start_ns: int, end_ns: int, blocks: int) -> I8:
    """Bounds of half-open blocks of equal time from start_ns to end_ns: int64[blocks + 1], exact at both
    ends."""
    span = end_ns - start_ns
    return np.array([start_ns + span * i // blocks for i in range(blocks + 1)], dtype=np.int64)


def equal_count_bounds(n: int, blocks: int) -> I8:
    """Positions that cut n requests in time order into blocks of equal count, ±1: int64[blocks + 1]."""
    return np.array([n * i // blocks for i in range(blocks + 1)], dtype=np.int64)


def equal_count_blocks(when: I8, blocks: int) -> I8:
    """int64[requests]: number of each request's block, for blocks of equal count (±1) in time order.

    when: int64[requests], times; requests with equal times keep their order.
    """
    block = np.empty(len(when), dtype=np.int64)
    counts = np.diff(equal_count_bounds(len(when), blocks))
    block[np.argsort(when, kind="stable")] = np.repeat(np.arange(blocks), counts)
    return block


def common_blocks(lists: Sequence[I8], blocks: int) -> list[I8]:
    """Assign the requests of several lists to common blocks of equal count, in time order.

    lists: times of the requests of each list. Returns for each list the number of each request's block.
    """
    block = equal_count_blocks(np.concatenate([np.zeros(0, np.int64), *lists]), blocks)
    return np.split(block, np.cumsum([len(when) for when in lists]))[: len(lists)]


def block_of(when: I8, bounds: I8) -> I8:
    """Number of the block in which each time (or position) lies; values outside of `bounds` go to the first
    or last block."""
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


def blocks_for(n: int, tau: float) -> int:
    """Number of blocks for n requests such that each is long enough to be nearly independent, between
    LEAST_BLOCKS and BLOCKS. tau: autocorrelation time, in requests."""
    return int(min(BLOCKS, max(LEAST_BLOCKS, math.floor(n / (_TIMES_AUTOCORRELATION * max(tau, 1.0))))))
