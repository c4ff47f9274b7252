"""Load and workload mix of two periods: arrival rates and shares of root types (ALGORITHMS J.2, C.2).

Load is no fault and no finding of a service, but response times depend on it: a report says so first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import fdtrc, stdtr

from analyze.assurance.period_blocks import PeriodBlocks

F8 = npt.NDArray[np.float64]

ALPHA = 0.001
LOAD_FLOOR = 1.2
"""Factor of an arrival rate that is worth a word."""
MIX_FLOOR = 0.05
"""Share of the requests that moved to other root types."""

_LEAST_COUNT = 10.0
"""Requests of a root type in both periods together: five expected in each."""


@dataclass(frozen=True, slots=True)
class RateChange:
    """Arrival rate of a root type, or of all."""

    root: str
    """Empty for all."""
    rate0: float
    rate1: float
    """Requests a second, weighted."""
    p: float
    changed: bool

    @property
    def ratio(self) -> float:
        """Rate after over rate before; inf where there was none before."""
        return self.rate1 / self.rate0 if self.rate0 > 0 else math.inf


@dataclass(frozen=True, slots=True)
class MixChange:
    """Shares of root types among all requests."""

    moved: float
    """Half the sum of |share after - share before|: what moved to other root types."""
    p: float
    changed: bool
    share0: F8
    share1: F8
    """[roots]"""


def rate_changes(
    reference: PeriodBlocks,
    problem: PeriodBlocks,
    roots: Sequence[str],
    *,
    tau: float = 0.0,
    alpha: float = ALPHA,
) -> tuple[RateChange, ...]:
    """Of all requests first, then of each root type. tau: noise of the log of a window's rate, from history.

    Quasi-Poisson: the log of a rate has variance φ/n, φ >= 1 from the counts of blocks, at least that of half
    a request; Student's law with the blocks' degrees of freedom.
    """
    sides = [_with_total(reference), _with_total(problem)]
    seconds = [reference.seconds, problem.seconds]
    found = []
    for at, root in enumerate(["", *roots]):
        rates = [
            _rate(weight[:, at], square[:, at], time)
            for (weight, square), time in zip(sides, seconds, strict=True)
        ]
        before, after = rates
        if before.n > 0 and after.n > 0:
            error = math.sqrt(before.log_error**2 + after.log_error**2 + 2 * tau**2)
            change = math.log(after.rate / before.rate)
            p = float(2 * stdtr(before.freedom + after.freedom, -abs(change) / error))
        else:
            p = _none_p(before, after)
        factor = after.rate / before.rate if before.n > 0 else math.inf
        far = not 1 / LOAD_FLOOR < factor < LOAD_FLOOR
        found.append(RateChange(root, before.rate, after.rate, p, p < alpha and far))
    return tuple(found)


def _with_total(side: PeriodBlocks) -> tuple[F8, F8]:
    """(weight, squared weight) [blocks, 1 + roots]: all requests first."""
    weight, square = side.weight, side.weight2
    return (
        np.concatenate((weight.sum(axis=1, keepdims=True), weight), axis=1),
        np.concatenate((square.sum(axis=1, keepdims=True), square), axis=1),
    )


@dataclass(frozen=True, slots=True)
class _Rate:
    rate: float
    log_error: float
    freedom: int
    n: float
    """Effective requests."""
    seconds: float


def _rate(weight: F8, square: F8, seconds: F8) -> _Rate:
    """Arrival rate from sums of blocks."""
    total, time, freedom = float(weight.sum()), float(seconds.sum()), max(len(weight) - 1, 1)
    if total <= 0:
        return _Rate(0.0, math.inf, freedom, 0.0, time)
    n = total**2 / float(square.sum())
    expected = n * seconds / time
    phi = max(1.0, float(((weight * (n / total) - expected) ** 2 / expected).sum()) / freedom)
    return _Rate(total / time, math.sqrt(phi / n), freedom, n, time)


def _none_p(before: _Rate, after: _Rate) -> float:
    """Chance that all requests fall into one of the two periods, two-sided; 1 for no requests."""
    there, absent = (before, after) if before.n > 0 else (after, before)
    chance: float = (there.seconds / (there.seconds + absent.seconds)) ** there.n
    return min(1.0, 2 * chance)


def mix_change(reference: PeriodBlocks, problem: PeriodBlocks) -> MixChange:
    """χ² test of root types × periods, over φ from blocks (F law); root types of under five are put together.

    Rates may have changed alike: only shares are looked at.
    """
    sides = (reference, problem)
    totals = np.stack([side.weight.sum(axis=0) for side in sides])
    if totals.shape[1] < 2 or not all(totals.sum(axis=1) > 0):
        shares = totals / np.maximum(totals.sum(axis=1, keepdims=True), 1e-300)
        return MixChange(0.0, 1.0, False, shares[0], shares[1])
    shares = totals / totals.sum(axis=1, keepdims=True)
    moved = float(np.abs(shares[1] - shares[0]).sum()) / 2
    scale = np.array([side.weight.sum() / side.weight2.sum() for side in sides])
    counts = totals * scale[:, None]
    large = counts.sum(axis=0) >= _LEAST_COUNT
    merged = _merged(counts, large)
    if merged.shape[1] < 2:
        return MixChange(moved, 1.0, False, shares[0], shares[1])
    statistic, df = _chi2(merged)
    within, within_df = 0.0, 0
    for side, factor in zip(sides, scale, strict=True):
        blocks = _merged(side.weight * factor, large)
        part, part_df = _chi2(blocks[blocks.sum(axis=1) > 0])
        within, within_df = within + part, within_df + part_df
    if not within_df:  # root types that one period has alone: no block had a choice to differ by
        within_df = sum(int((side.weight.sum(axis=1) > 0).sum()) - 1 for side in sides)
    phi = max(1.0, within / within_df) if within_df else 1.0
    p = float(fdtrc(df, max(within_df, 1), statistic / df / phi)) if df else 1.0
    return MixChange(moved, p, p < ALPHA and moved >= MIX_FLOOR, shares[0], shares[1])


def _merged(counts: F8, large: npt.NDArray[np.bool_]) -> F8:
    """Columns of large root types, and one of all others."""
    if large.all():
        return counts
    rest: F8 = np.concatenate((counts[:, large], counts[:, ~large].sum(axis=1, keepdims=True)), axis=1)
    return rest


def _chi2(table: F8) -> tuple[float, int]:
    """(X², degrees of freedom) of independence; empty rows and columns are not there."""
    table = table[:, table.sum(axis=0) > 0]
    if min(table.shape, default=0) < 2:
        return 0.0, 0
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0, keepdims=True) / table.sum()
    statistic = float(((table - expected) ** 2 / expected).sum())
    return statistic, (table.shape[0] - 1) * (table.shape[1] - 1)
