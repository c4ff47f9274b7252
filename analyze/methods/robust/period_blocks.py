"""Sums of a period by block of time: the input of every question about a whole period.

Requests near each other in time are alike, so the error of a period's mean follows from the scatter of its
blocks, not from its number of requests. Blocks are slots of a profile, or ordinary windows of several slots
each.
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
"""One ns in µs."""


@dataclass(frozen=True, slots=True)
class PeriodBlocks:
    """Sums by block; [blocks, roots] unless stated otherwise. A block may be empty."""

    seconds: F8
    """[blocks] length of each block."""
    requests: F8
    weight: F8
    weight2: F8
    """Sum of squared weights: Kish's effective number is weight² / weight2."""
    time_us: F8
    """Weighted sum of response times, µs."""
    square_us2: F8
    """Weighted sum of squared response times."""
    log_us: F8
    """Weighted sum of the natural logarithm of response times."""
    log_square: F8
    """Weighted sum of squared logarithms of response times."""
    failed: F8
    """Weighted number of failed requests: their root did not end `ok`."""
    failing: F8
    """Weighted number of requests with a failing call: the root, or a call inside of it."""
    slow: F8
    """[blocks, thresholds] weighted number of requests over each threshold, all roots."""
    thresholds_us: tuple[float, ...]

    @property
    def n_requests(self) -> int:
        """Number of recorded requests, all blocks."""
        return int(self.requests.sum())

    @property
    def effective(self) -> F8:
        """[blocks] Kish's effective number of requests; 0 for an empty block."""
        return _kish(self.weight.sum(axis=1), self.weight2.sum(axis=1))

    @property
    def effective_by_root(self) -> F8:
        """[roots] effective number of requests of the whole period."""
        return _kish(self.weight.sum(axis=0), self.weight2.sum(axis=0))

    def whole(self) -> PeriodBlocks:
        """Merge all blocks into one."""
        names = [field.name for field in fields(self) if field.name != "thresholds_us"]
        return replace(self, **{name: getattr(self, name).sum(axis=0, keepdims=True) for name in names})

    def lasting(self, seconds: float) -> PeriodBlocks:
        """Rescale `seconds` so that the blocks last `seconds` together, each in proportion."""
        return replace(self, seconds=self.seconds * (seconds / max(float(self.seconds.sum()), 1e-300)))

    def response_times(self) -> BlockSums:
        """Response times as block sums: all requests (place 0), then each root type (1 and on)."""
        return BlockSums(*(_with_all(v) for v in (self.time_us, self.square_us2, self.weight, self.weight2)))

    def log_times(self) -> BlockSums:
        """Logarithms of response times, places as in `response_times`."""
        return BlockSums(*(_with_all(v) for v in (self.log_us, self.log_square, self.weight, self.weight2)))

    def arrivals(self) -> BlockSums:
        """Requests over seconds, places as in `response_times`: a mean of these sums is a rate."""
        weight = _with_all(self.weight)
        seconds = np.broadcast_to(self.seconds, weight.shape)
        return BlockSums(weight, weight, seconds, seconds)


def counted_columns(columns: Sequence[PeriodBlocks], values: Sequence[F8]) -> tuple[F8, F8]:
    """Effective counts: ([rows, blocks] of `values`, [rows, blocks] of all requests).

    values: of each of the columns [blocks, rows], weighted. Scaled to Kish's effective number, so that a
    request with a large weight counts as one.
    """
    n = np.concatenate([side.effective for side in columns])
    weight = np.concatenate([side.weight.sum(axis=1) for side in columns])
    x = np.concatenate(values).T * np.divide(n, weight, out=np.zeros_like(n), where=weight > 0)
    return x, np.broadcast_to(n, x.shape)


def _kish(weight: F8, square: F8) -> F8:
    return np.divide(weight**2, square, out=np.zeros_like(weight), where=square > 0)


def _with_all(value: F8) -> F8:
    """[1 + roots, blocks] from [blocks, roots]; row 0: the sum."""
    return np.concatenate((value.sum(axis=1, keepdims=True), value), axis=1).T


def slow_thresholds(
    profile: Profile, reference: B1, levels: Sequence[float], least_slow: float
) -> tuple[float, ...]:
    """Response times over which a request is slow, µs: upper ends of the bins that hold the weighted
    quantiles.

    Only levels with at least `least_slow` recorded requests of the `reference` slots above them.
    """
    table = profile.responses
    inside = reference[table["slot"].to_numpy()]
    weights = np.bincount(table["bin"].to_numpy()[inside], table["w"].to_numpy()[inside])
    total = table["n"].to_numpy()[inside].sum()
    usable = [level for level in levels if total * (1 - level) >= least_slow * (1 - 1e-9)]
    return tuple(float(value_of(quantile_bin(weights, level) + 1.0)) * _US for level in usable)


def quantile_bin(weights: np.ndarray[tuple[int], np.dtype[np.number]], level: float) -> int:
    """Bin that holds the quantile `level`; tolerates rounding of sums. weights: [bins], not all 0."""
    upto = np.cumsum(weights)
    return int(np.searchsorted(upto, level * upto[-1] * (1 - 1e-9)))


def each_slot(slots: B1) -> I8:
    """[slots] 0, 1, … for the slots of a period, each its own block; -1 for the others."""
    return np.where(slots, np.cumsum(slots) - 1, -1).astype(np.int64)


def profile_blocks(profile: Profile, block: I8, thresholds_us: Sequence[float] = ()) -> PeriodBlocks:
    """Sum a profile by block. block: [slots] block number of each slot, ascending from 0; -1: left out.

    Requests are slow from the first bin that begins at or after a threshold (of `slow_thresholds`). Root
    types are the profile's, in its order. O(rows).
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
