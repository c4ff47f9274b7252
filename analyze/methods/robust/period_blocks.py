"""Sums of a period by block of time, from which whole periods are judged.

Requests near each other in time are alike, so the error of a period's mean follows from the scatter of its
blocks, not from its number of requests. A block is a slot of a profile, or a window of the baseline with
several slots.
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
"""Length of a nanosecond in µs."""


@dataclass(frozen=True, slots=True)
class PeriodBlocks:
    """Sums of a period's requests by block; arrays are float64[blocks, roots] unless stated otherwise, 0 for
    an empty block.

    requests: number of recorded requests; weight: sum of their weights.
    """

    seconds: F8
    """Length of each block, s, float64[blocks]."""
    requests: F8
    weight: F8
    weight2: F8
    """Sum of squared weights; weight² / weight2 is Kish's effective number of requests."""
    time_us: F8
    """Sum of response times, µs, weighted."""
    square_us2: F8
    """Sum of squared response times, µs², weighted."""
    log_us: F8
    """Sum of the natural logarithms of response times in µs, weighted."""
    log_square: F8
    """Sum of the squared natural logarithms of response times in µs, weighted."""
    failed: F8
    """Number of failed requests, weighted: those whose root did not end `ok`."""
    failing: F8
    """Number of requests with a failing call, weighted: the root itself, or a call below it."""
    slow: F8
    """Number of requests slower than each of `thresholds_us`, weighted, over all roots: float64[blocks,
    thresholds]."""
    thresholds_us: tuple[float, ...]

    @property
    def n_requests(self) -> int:
        """Number of recorded requests in all blocks."""
        return int(self.requests.sum())

    @property
    def effective(self) -> F8:
        """Kish's effective number of requests of each block, float64[blocks]; 0 for an empty block."""
        return _kish(self.weight.sum(axis=1), self.weight2.sum(axis=1))

    @property
    def effective_by_root(self) -> F8:
        """Kish's effective number of requests of each root type in the whole period, float64[roots]."""
        return _kish(self.weight.sum(axis=0), self.weight2.sum(axis=0))

    def whole(self) -> PeriodBlocks:
        """Sums of the period as a single block."""
        names = [field.name for field in fields(self) if field.name != "thresholds_us"]
        return replace(self, **{name: getattr(self, name).sum(axis=0, keepdims=True) for name in names})

    def lasting(self, seconds: float) -> PeriodBlocks:
        """Scale the lengths of all blocks in proportion, so that together they last `seconds`."""
        return replace(self, seconds=self.seconds * (seconds / max(float(self.seconds.sum()), 1e-300)))

    def response_times(self) -> BlockSums:
        """Sums of response times, µs, for `mean`s: place 0 is all requests, places 1 and up are the root
        types."""
        return BlockSums(*(_with_all(v) for v in (self.time_us, self.square_us2, self.weight, self.weight2)))

    def log_times(self) -> BlockSums:
        """Sums of logarithms of response times; places as in `response_times`."""
        return BlockSums(*(_with_all(v) for v in (self.log_us, self.log_square, self.weight, self.weight2)))

    def arrivals(self) -> BlockSums:
        """Weighted requests as sums over seconds, so that a mean is an arrival rate per s; places as in
        `response_times`."""
        weight = _with_all(self.weight)
        seconds = np.broadcast_to(self.seconds, weight.shape)
        return BlockSums(weight, weight, seconds, seconds)


def counted_columns(columns: Sequence[PeriodBlocks], values: Sequence[F8]) -> tuple[F8, F8]:
    """Scale weighted counts to effective ones: (float64[rows, blocks] of `values`, float64[rows, blocks] of
    all requests).

    columns: periods, whose blocks are concatenated; values: for each period float64[blocks, rows] weighted
    counts. In sum over a block, all requests count as Kish's effective number.
    """
    n = np.concatenate([side.effective for side in columns])
    weight = np.concatenate([side.weight.sum(axis=1) for side in columns])
    x = np.concatenate(values).T * np.divide(n, weight, out=np.zeros_like(n), where=weight > 0)
    return x, np.broadcast_to(n, x.shape)


def _kish(weight: F8, square: F8) -> F8:
    return np.divide(weight**2, square, out=np.zeros_like(weight), where=square > 0)


def _with_all(value: F8) -> F8:
    """Put the sum over root types before them: float64[1 + roots, blocks] from [blocks, roots]."""
    return np.concatenate((value.sum(axis=1, keepdims=True), value), axis=1).T


def slow_thresholds(
    profile: Profile, reference: B1, levels: Sequence[float], least_slow: float
) -> tuple[float, ...]:
    """Thresholds over which a request is slow, µs: upper ends of the bins that contain the weighted quantiles
    `levels` of the response time.

    Levels with fewer than `least_slow` recorded requests above them are left out. reference: bool[slots]
    mask.
    """
    table = profile.responses
    inside = reference[table["slot"].to_numpy()]
    weights = np.bincount(table["bin"].to_numpy()[inside], table["w"].to_numpy()[inside])
    total = table["n"].to_numpy()[inside].sum()
    usable = [level for level in levels if total * (1 - level) >= least_slow * (1 - 1e-9)]
    return tuple(float(value_of(quantile_bin(weights, level) + 1.0)) * _US for level in usable)


def quantile_bin(weights: np.ndarray[tuple[int], np.dtype[np.number]], level: float) -> int:
    """Number of the bin that contains the quantile `level`; tolerates rounding of sums. weights: [bins], not
    all 0."""
    upto = np.cumsum(weights)
    return int(np.searchsorted(upto, level * upto[-1] * (1 - 1e-9)))


def each_slot(slots: B1) -> I8:
    """Make each slot in the mask `slots` a block: int64[slots], 0, 1, … for slots in the mask; -1 for the
    others."""
    return np.where(slots, np.cumsum(slots) - 1, -1).astype(np.int64)


def profile_blocks(profile: Profile, block: I8, thresholds_us: Sequence[float] = ()) -> PeriodBlocks:
    """Sum a profile by block. block: int64[slots] block number of each slot, ascending from 0; -1: not
    summed.

    A request counts as slow if its bin begins at or after a threshold (of `slow_thresholds`). Root types are
    those of the profile, in the same order. O(rows).
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
    # A bin's lower end against the upper end of another: equal but for rounding.
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
