"""Cut a period into blocks of equal time, as sums: what every test of a whole period works on (L.5).

Requests near each other in time are alike, so a period's mean is known as well as its blocks agree, not as
well as its number of requests says. Sums of blocks can be kept and added; windows of a lake can serve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from analyze.population import Population
from analyze.profile.profile import Profile
from analyze.stats.log_bins import value_of
from schemas.arrays import B1, F8, I4, I8

TAIL_LEVELS = (0.95, 0.99)
"""Quantiles of the reference above which a response counts as slow."""
LEAST_TAIL = 5.0
"""Requests expected above a quantile in the reference; a level with fewer says nothing."""


@dataclass(frozen=True, slots=True)
class PeriodRequests:
    """The requests of one sample; arrays are [requests], in no particular order."""

    start_ns: I8
    response_us: F8
    weight: F8
    failed: B1
    """The root has a status other than `ok`."""
    root: I4
    """Index into `roots` of `period_requests`."""


@dataclass(frozen=True, slots=True)
class PeriodBlocks:
    """Sums by block. [blocks, roots] where not said otherwise; a block may be empty."""

    seconds: F8
    """[blocks]"""
    requests: F8
    weight: F8
    weight2: F8
    """Sum of squared weights: Kish's effective number is weight² / weight2."""
    time_us: F8
    """Weighted sum of response times."""
    square_us2: F8
    """Weighted sum of their squares."""
    log_us: F8
    """Weighted sum of the natural logarithm of response times."""
    log_square: F8
    """Weighted sum of its square."""
    failed: F8
    """Weighted number of failing requests."""
    slow: F8
    """[blocks, levels] weighted number of requests over each threshold, all roots."""
    thresholds_us: tuple[float, ...]

    @property
    def n_requests(self) -> int:
        """Number of requests."""
        return int(self.requests.sum())


def root_types(population: Population) -> tuple[str, ...]:
    """Root types, ascending: the order of the roots in everything here."""
    return tuple(sorted({category.graph.root for category in population.categories}))


def period_requests(population: Population, sample: int) -> PeriodRequests:
    """The requests of a sample. O(requests)."""
    codes = {root: code for code, root in enumerate(root_types(population))}
    fine = population.statuses.index("ok") if "ok" in population.statuses else -1
    parts = [(category, category.rows(sample)) for category in population.categories]
    sizes = [rows.stop - rows.start for _, rows in parts]
    return PeriodRequests(
        start_ns=_joined([c.start_ns[rows] for c, rows in parts], np.int64),
        response_us=_joined([c.response_ns[rows] for c, rows in parts], np.float64) / 1e3,
        weight=_joined([c.weight[rows] for c, rows in parts], np.float64),
        failed=_joined([c.status[rows] != fine for c, rows in parts], np.bool_),
        root=np.repeat(np.array([codes[c.graph.root] for c, _ in parts], np.int32), sizes),
    )


def _joined(parts: Sequence[npt.NDArray[Any]], dtype: type[np.generic]) -> npt.NDArray[Any]:
    joined: npt.NDArray[Any] = np.concatenate([np.zeros(0, dtype), *parts])
    return joined


@dataclass(frozen=True, slots=True)
class BlockMeans:
    """Means of a period and their sampling variance, arrays of one shape; NaN where there was nothing."""

    mean: F8
    variance: F8
    """Of the mean; NaN for a single request."""
    freedom: F8
    """Degrees of freedom: blocks with requests, less one."""


def block_means(side: PeriodBlocks, *, by_root: bool, logs: bool = False) -> BlockMeans:
    """Mean response time, µs: of each root type [roots], or of all requests []. logs: of its logarithm.

    The variance is that of a ratio estimator, B/(B-1) · Σ (time_b - mean · weight_b)² / (Σ weight)², over the
    B blocks that hold requests. It contains whatever requests of a block share. Where one block holds all (a
    period that is one window of history long), it is that of independent requests.
    """

    def column(sums: F8) -> F8:
        return sums if by_root else sums.sum(axis=1)

    total, weight = column(side.log_us if logs else side.time_us), column(side.weight)
    squares = side.log_square if logs else side.square_us2
    sums = weight.sum(axis=0)
    there = (weight > 0).sum(axis=0)
    safe = np.where(sums > 0, sums, np.nan)
    mean = total.sum(axis=0) / safe
    residual = ((total - np.where(np.isnan(mean), 0.0, mean) * weight) ** 2).sum(axis=0)
    # Kish's number of requests.
    n = safe**2 / np.where(sums > 0, column(side.weight2).sum(axis=0), np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        single = np.maximum(column(squares).sum(axis=0) / safe - mean**2, 0.0) / (n - 1.0)
        variance = np.where(there > 1, there / (there - 1.0) * residual / safe**2, single)
    variance = np.where((there > 1) | (n > 1 + 1e-9), variance, np.nan)
    return BlockMeans(mean, variance, np.where(there > 1, there - 1.0, n - 1.0))


_US = 1e-3
_LEAST_US = 1e-3
"""1 ns: what a time of 0 is raised to before its logarithm is taken."""


def profile_thresholds(
    profile: Profile, reference: npt.NDArray[np.bool_], levels: Sequence[float] = TAIL_LEVELS
) -> tuple[float, ...]:
    """Response times over which a request is slow, µs: upper ends of the bins that hold the weighted
    quantiles.

    Of levels that enough recorded requests of the reference lie above. reference: [slots] which are its.
    """
    table = profile.responses
    inside = reference[table["slot"].to_numpy()]
    weights = np.bincount(table["bin"].to_numpy()[inside], table["w"].to_numpy()[inside])
    total = table["n"].to_numpy()[inside].sum()
    usable = [level for level in levels if total * (1 - level) >= LEAST_TAIL * (1 - 1e-9)]
    return tuple(float(value_of(quantile_bin(weights, level) + 1.0)) * _US for level in usable)


def quantile_bin(weights: npt.NDArray[np.number], level: float) -> int:
    """The bin that holds a quantile, in whatever order weights were added up. weights: [bins], not all 0."""
    upto = np.cumsum(weights)
    return int(np.searchsorted(upto, level * upto[-1] * (1 - 1e-9)))


def profile_blocks(profile: Profile, block: I8, thresholds_us: Sequence[float] = ()) -> PeriodBlocks:
    """Sums over blocks of slots. block: [slots] number of each slot's block, -1 for none; ascending from 0.

    Requests count as slow from the bin on that begins at a threshold (of `profile_thresholds`) or after it.
    Root types are the profile's, in its order. O(rows).
    """
    n_blocks, n_roots = int(block.max(initial=-1)) + 1, len(profile.names.roots)
    seconds = np.zeros(n_blocks)
    for slot, number in zip(profile.slots, block.tolist(), strict=True):
        if number >= 0:
            seconds[number] += slot.seconds
    table = profile.responses
    mine = block[table["slot"].to_numpy()]
    used = mine >= 0
    at = mine[used]
    cell = at * n_roots + table["root"].to_numpy()[used]

    def sums(name: str) -> F8:
        values = table[name].to_numpy()[used]
        found: F8 = (
            np.bincount(cell, values, n_blocks * n_roots).reshape(n_blocks, n_roots).astype(np.float64)
        )
        return found

    first_us = value_of(table["bin"].to_numpy()[used]) * _US
    weight = table["w"].to_numpy()[used]
    # A bin's lower end against the upper end of another: equal but for rounding.
    slow = [
        np.bincount(at, weight * (first_us > limit * (1 - 1e-9)), n_blocks).astype(np.float64)
        for limit in thresholds_us
    ]
    logs = np.log(value_of(table["bin"].to_numpy()[used] + 0.5) * _US)

    def placed(values: F8) -> F8:
        return np.bincount(cell, values, n_blocks * n_roots).reshape(n_blocks, n_roots).astype(np.float64)

    return PeriodBlocks(
        seconds=seconds,
        requests=sums("n"),
        weight=sums("w"),
        weight2=sums("w2"),
        time_us=sums("ns") * _US,
        square_us2=sums("ns2") * _US**2,
        log_us=placed(weight * logs),
        log_square=placed(weight * logs**2),
        failed=sums("failed"),
        slow=np.stack(slow, axis=1) if slow else np.zeros((n_blocks, 0)),
        thresholds_us=tuple(thresholds_us),
    )


def profile_log_spread(profile: Profile, used: npt.NDArray[np.bool_]) -> F8:
    """[roots] `log_spread` of the response times of some slots, [slots], to the width of a bin."""
    table = profile.responses
    inside = used[table["slot"].to_numpy()]
    middle = value_of(table["bin"].to_numpy()[inside] + 0.5) * _US
    return log_spread(
        middle, table["w"].to_numpy()[inside], table["root"].to_numpy()[inside], len(profile.names.roots)
    )


def log_spread(value: F8, weight: F8, root: npt.NDArray[np.integer], n_roots: int) -> F8:
    """[roots] standard deviation of the natural log of response times; 0 for none. All arrays are [values].

    Values may be those of requests, or of a profile's bins with the bins' weights.
    """
    logs = np.log(np.maximum(value, _LEAST_US))
    total = np.maximum(np.bincount(root, weight, n_roots), 1e-300)
    mean = np.bincount(root, weight * logs, n_roots) / total
    spread: F8 = np.sqrt(np.bincount(root, weight * (logs - mean[root]) ** 2, n_roots) / total)
    return spread
