"""Dependence inside a period: blocks of time, long enough to stand for themselves (ALGORITHMS B.3).

Requests of one second are alike (a cache, a burst, a garbage collection), so n requests are worth fewer.
"""

from __future__ import annotations

import math

import numpy as np

from schemas.arrays import F8, I8

BLOCKS = 20
LEAST_BLOCKS = 8
"""A period; fewer blocks have too few ways to be shuffled."""
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


def equal_count_blocks(when: I8, blocks: int) -> I8:
    """[requests] block of each request in order of time, of one count, ±1; equal times keep their order."""
    block = np.empty(len(when), dtype=np.int64)
    counts = np.diff(equal_count_bounds(len(when), blocks))
    block[np.argsort(when, kind="stable")] = np.repeat(np.arange(blocks), counts)
    return block


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


def blocks_for(n: int, tau: float) -> int:
    """Number of blocks of n requests that are long enough, between LEAST_BLOCKS and BLOCKS."""
    return int(min(BLOCKS, max(LEAST_BLOCKS, math.floor(n / (_TIMES_AUTOCORRELATION * max(tau, 1.0))))))
