"""Sums of a period's requests by time block, from which whole periods are compared.

Requests close in time resemble each other, so the standard error of a period's mean is computed from the
scatter of its blocks, not from its number of requests. A block is a time slot of the profile, or a window of
the baseline that consists of several time slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from analyze.profile.profile import Profile
from analyze.stats.histograms import N_BINS, value_of
from analyze.stats.time_blocks import BlockSums
from schemas.arrays import B1, F8, I8

_US = 1e-3
"""Factor from ns to µs."""


@dataclass(frozen=True, slots=True)
class PeriodBlocks:
    """Sums over a period's requests by time block and root type; arrays are float64[blocks, roots] unless
    stated otherwise, 0 where a block has no requests."""

    seconds: F8
    """Length of each block in seconds, float64[blocks]."""
    requests: F8
    """Number of recorded requests, unweighted."""
    weight: F8
    """Sum of the requests' sampling weights."""
    weight2: F8
    """Sum of the squares of the requests' sampling weights; weight² / weight2 is Kish's effective sample
    size."""
    time_us: F8
    """Sum of the requests' response times, µs, weighted by their sampling weights."""
    square_us2: F8
    """Sum of the squares of the requests' response times, µs², weighted by their sampling weights."""
    log_us: F8
    """Sum of the natural logarithms of the requests' response times in µs, weighted by their sampling
    weights."""
    log_square: F8
    """Sum of the squares of the natural logarithms of the requests' response times in µs, weighted by their
    sampling weights."""
    failed: F8
    """Number of requests whose root span did not end `ok`, weighted by their sampling weights."""
    failing: F8
    """Number of requests in which the root or any other call fails, weighted by their sampling weights."""
    slow: F8
    """Number of requests slower than each of `thresholds_us`, all root types together, weighted by their
    sampling weights; float64[blocks, thresholds]."""
    thresholds_us: tuple[float, ...]

    @property
    def n_requests(self) -> int:
        """Number of recorded requests in all blocks, unweighted."""
        return int(self.requests.sum())

    @property
    def effective(self) -> F8:
        """Effective sample size (Kish) of each block, float64[blocks]; 0 without requests."""
        return _kish(self.weight.sum(axis=1), self.weight2.sum(axis=1))

    @property
    def effective_by_root(self) -> F8:
        """Effective sample size (Kish) of each root type in the whole period, float64[roots]."""
        return _kish(self.weight.sum(axis=0), self.weight2.sum(axis=0))

    def whole(self) -> PeriodBlocks:
        """Sums over the whole period, as a single block."""
        names = [field.name for field in fields(self) if field.name != "thresholds_us"]
        return replace(self, **{name: getattr(self, name).sum(axis=0, keepdims=True) for name in names})

    def lasting(self, seconds: float) -> PeriodBlocks:
        """Copy with the blocks' lengths scaled by one factor, so that they add up to `seconds`."""
        return replace(self, seconds=self.seconds * (seconds / max(float(self.seconds.sum()), 1e-300)))

    def response_times(self) -> BlockSums:
        """Sums from which mean response times, µs, are computed; place 0 is all requests, places 1 and up are
        the root types."""
        return BlockSums(*(_with_all(v) for v in (self.time_us, self.square_us2, self.weight, self.weight2)))

    def log_times(self) -> BlockSums:
        """Sums from which means of the natural logarithm of response times (in µs) are computed; place 0 is
        all requests, places 1 and up are the root types."""
        return BlockSums(*(_with_all(v) for v in (self.log_us, self.log_square, self.weight, self.weight2)))

    def arrivals(self) -> BlockSums:
        """Sums from which arrival rates, weighted requests per second, are computed as means; place 0 is all
        requests, places 1 and up are the root types."""
        weight = _with_all(self.weight)
        seconds = np.broadcast_to(self.seconds, weight.shape)
        return BlockSums(weight, weight, seconds, seconds)


def counted_columns(columns: Sequence[PeriodBlocks], values: Sequence[F8]) -> tuple[F8, F8]:
    """Scale weighted counts to the effective sample size: (float64[rows, blocks] scaled counts, float64[rows,
    blocks] effective number of requests of the block).

    columns: periods, whose blocks are concatenated; values: for each period float64[blocks, rows] weighted
    counts.
    """
    n = np.concatenate([side.effective for side in columns])
    weight = np.concatenate([side.weight.sum(axis=1) for side in columns])
    x = np.concatenate(values).T * np.divide(n, weight, out=np.zeros_like(n), where=weight > 0)
    return x, np.broadcast_to(n, x.shape)


def _kish(weight: F8, square: F8) -> F8:
    return np.divide(weight**2, square, out=np.zeros_like(weight), where=square > 0)


def _with_all(value: F8) -> F8:
    """Insert the sum over root types as first row: float64[1 + roots, blocks] from float64[blocks, roots]."""
    return np.concatenate((value.sum(axis=1, keepdims=True), value), axis=1).T


def slow_thresholds(
    profile: Profile, reference: B1, levels: Sequence[float], least_slow: float
) -> tuple[float, ...]:
    """Response times, µs, above which a request is slow, one per quantile in `levels`: upper ends of the
    histogram bins that contain the weighted quantiles of the reference.

    Quantiles with fewer than `least_slow` recorded requests above them are left out. reference: bool[slots],
    mask of the reference's time slots.
    """
    table = profile.responses
    inside = reference[table["slot"].to_numpy()]
    weights = np.bincount(table["bin"].to_numpy()[inside], table["w"].to_numpy()[inside])
    total = table["n"].to_numpy()[inside].sum()
    usable = [level for level in levels if total * (1 - level) >= least_slow * (1 - 1e-9)]
    return tuple(float(value_of(quantile_bin(weights, level) + 1.0)) * _US for level in usable)


def quantile_bin(weights: np.ndarray[tuple[int], np.dtype[np.number]], level: float) -> int:
    """Index of the bin that contains the quantile `level`, in [0, 1], with a tolerance for rounding errors of
    sums. weights: [bins] weight in each bin, not all 0."""
    upto = np.cumsum(weights)
    return int(np.searchsorted(upto, level * upto[-1] * (1 - 1e-9)))


def each_slot(slots: B1) -> I8:
    """Number the time slots in the mask `slots` as blocks: int64[slots], 0, 1, … within the mask, -1
    outside."""
    return np.where(slots, np.cumsum(slots) - 1, -1).astype(np.int64)


def profile_blocks(profile: Profile, block: I8, thresholds_us: Sequence[float] = ()) -> PeriodBlocks:
    """Sum a profile's requests by block and root type; root types in the profile's order. O(rows).

    block: int64[slots] index of the block of each time slot; -1 leaves the slot out. thresholds_us: from
    `slow_thresholds`; a request is slow if its histogram bin begins at the threshold or above.
    """
    n_blocks, n_roots = int(block.max(initial=-1)) + 1, len(profile.names.roots)
    seconds = np.array([slot.seconds for slot in profile.slots], dtype=np.float64)
    table, origins = profile.responses, profile.origins
    mine = block[table["slot"].to_numpy()]
    used = mine >= 0
    at = mine[used]
    cell = at * n_roots + table["root"].to_numpy()[used]
    bins, weight = table["bin"].to_numpy()[used], table["w"].to_numpy()[used]
    every = np.arange(N_BINS)
    logs = np.log(value_of(every + 0.5) * _US)[bins]
    first_us = (value_of(every) * _US)[bins]

    def cells(cell: I8, values: F8) -> F8:
        found = np.bincount(cell, values, n_blocks * n_roots).astype(np.float64)
        return found.reshape(n_blocks, n_roots)

    def sums(name: str) -> F8:
        return cells(cell, table[name].to_numpy()[used])

    began = block[origins["slot"].to_numpy()]
    there = began >= 0
    # The threshold is the upper end of a bin: equal to the next lower end except for rounding.
    slow = [np.bincount(at, weight * (first_us > us * (1 - 1e-9)), n_blocks) for us in thresholds_us]
    return PeriodBlocks(
        seconds=np.bincount(block[block >= 0], seconds[block >= 0], n_blocks).astype(np.float64),
        requests=sums("n"),
        weight=sums("w"),
        weight2=sums("w2"),
        time_us=sums("ns") * _US,
        square_us2=sums("ns2") * _US**2,
        log_us=cells(cell, weight * logs),
        log_square=cells(cell, weight * logs**2),
        failed=sums("failed"),
        failing=cells(
            began[there] * n_roots + origins["root"].to_numpy()[there], origins["w"].to_numpy()[there]
        ),
        slow=np.stack(slow, axis=1).astype(np.float64) if slow else np.zeros((n_blocks, 0)),
        thresholds_us=tuple(thresholds_us),
    )
