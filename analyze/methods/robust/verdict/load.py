"""Compare load and workload mix, and say whether clients sent less to a service that answered as before.

Load is no fault and no finding of a service, but response times depend on it (ALGORITHMS J.2, C.2, H.4).
Throughput that fell while response times stayed, with longer gaps between requests and no more in flight, has
its cause before the service. Where the mean is known too badly to say that it stayed, it is enough that no
rise that is possible makes clients that wait for their answers send so much less: N clients that wait or
pause are N = X(R + Z) with X answers a second, R their time and Z the pause (the interactive response time
law), so that at the same Z a rate that falls by the factor X1/X0 needs R1 - R0 = N (1/X1 - 1/X0).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import fdtrc, stdtr

from analyze.methods.robust.verdict.period_blocks import PeriodBlocks, PeriodRequests
from analyze.report.wording import percent
from schemas.arrays import F8

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


FEWER = 0.9
"""A rate below this times the rate before is "less"."""
FEWER_ALPHA = 0.01
CLIENT_BLOCKS = 8
"""Blocks of a period in which clients are counted: what comes in fewer than half of them is no client."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """How requests arrived in a period."""

    rate: float
    """Requests a second, weighted."""
    in_flight: float
    """Mean number of requests at work, weighted (Little's law)."""
    gap_us: float | None
    """See `mean_gap_us`; None: not known (no requests at hand)."""


@dataclass(frozen=True, slots=True)
class ExternalCause:
    """Both periods, and what follows."""

    before: Arrivals
    after: Arrivals
    p: float
    """Of the rates."""
    fewer: bool
    """Clients sent less, by test."""
    external: bool
    text: str
    """One sentence; empty where it is not external."""


def mean_gap_us(requests: PeriodRequests) -> float | None:
    """Mean time from the end of everything before to the next start, 0 where requests overlap, µs.

    None for fewer than two requests. Of sampled requests it is the gap between those kept. O(requests log
    requests).
    """
    if len(requests.start_ns) < 2:
        return None
    order = np.argsort(requests.start_ns, kind="stable")
    start = requests.start_ns[order]
    end = start + (requests.response_us[order] * 1e3).astype(np.int64)
    gaps = np.maximum(0, start[1:] - np.maximum.accumulate(end)[:-1])
    return float(gaps.mean()) / 1e3


def least_clients(requests: PeriodRequests, blocks: int = CLIENT_BLOCKS) -> float:
    """How many clients there are at least, if each waits for its answer before it asks again.

    The median over blocks of time, of which each says: as many as were in flight at once, and no more than
    N = 1 / (1 - E[k(k-1)] / E[k]^2) of the number k in flight, which is exact for N clients alike, or than
    E[k] where requests come in crowds. So a client that asks in turn is one, though now and then many others
    come. Of sampled requests it is less. At least 1. O(requests log requests).
    """
    if not len(requests.start_ns):
        return 1.0
    start = (requests.start_ns - requests.start_ns.min()).astype(np.float64)
    end = start + np.maximum(np.floor(requests.response_us * 1e3), 1.0)
    edges = np.linspace(0.0, float(end.max()), blocks + 1)
    time = np.concatenate((start, end, edges))
    step = np.concatenate((np.ones(len(start)), -np.ones(len(end)), np.zeros(len(edges))))
    order = np.lexsort((step, time))  # of one moment ends come first
    flying: F8 = np.cumsum(step[order])[:-1]
    lasts: F8 = np.diff(time[order])
    block = np.clip(np.searchsorted(edges, time[order][:-1], side="right") - 1, 0, blocks - 1)
    most = np.zeros(blocks)
    np.maximum.at(most, block[lasts > 0], flying[lasts > 0])
    whole = float(edges[1])
    mean = np.bincount(block, lasts * flying, blocks) / whole
    pairs = np.bincount(block, lasts * flying * (flying - 1), blocks) / whole
    crowds = pairs >= mean**2
    alike = np.where(crowds, mean, mean**2 / np.where(crowds, 1.0, mean**2 - pairs))
    return max(1.0, float(np.median(np.minimum(most, alike))))


def _arrivals(side: PeriodBlocks, gap_us: float | None) -> Arrivals:
    seconds = max(float(side.seconds.sum()), 1e-300)
    return Arrivals(float(side.weight.sum()) / seconds, float(side.time_us.sum()) / 1e6 / seconds, gap_us)


def _rise_by_waiting(before: Arrivals, after: Arrivals, clients: float) -> float:
    """Rise of the mean, relative, at which clients that wait for answers send that much less; inf if none."""
    if after.rate <= 0 or before.in_flight <= 0:
        return math.inf
    return max(clients, before.in_flight) / before.in_flight * (before.rate / after.rate - 1)


def external_cause(
    reference: PeriodBlocks,
    problem: PeriodBlocks,
    *,
    equivalent: bool,
    gaps_us: tuple[float | None, float | None] = (None, None),
    clients: Callable[[], float] = lambda: 1.0,
    largest_rise: float = math.inf,
    tau_rate: float = 0.0,
) -> ExternalCause:
    """Decide. equivalent: response times were shown to be as before (`Equivalence.holds`).

    gaps_us: of `mean_gap_us`, where requests are at hand; gaps that became shorter contradict. clients:
    `least_clients` of the reference, asked where it matters. largest_rise: of the mean, relative, that is
    not excluded. tau_rate: noise of the log of a window's arrival rate, from history: traffic that follows
    the hour is no cause.
    """
    before, after = _arrivals(reference, gaps_us[0]), _arrivals(problem, gaps_us[1])
    roots = [str(at) for at in range(reference.weight.shape[1])]
    rate = rate_changes(reference, problem, roots, tau=tau_rate, alpha=FEWER_ALPHA)[0]
    fewer = rate.p < FEWER_ALPHA and after.rate <= FEWER * before.rate
    shorter = before.gap_us is not None and after.gap_us is not None and after.gap_us < before.gap_us
    idle = after.in_flight <= before.in_flight * math.sqrt(1 / FEWER) and not shorter
    text = ""
    external = False
    if fewer and idle and after.rate > 0:
        less = (
            f"{after.rate:.3g} requests a second after {before.rate:.3g}, "
            f"with {after.in_flight:.2g} in flight after {before.in_flight:.2g}"
        )
        if equivalent:
            external, text = True, f"The service answered as before; clients sent less: {less}."
        elif largest_rise < (needed := _rise_by_waiting(before, after, clients())):
            external = True
            most = percent(max(largest_rise, 0.0))
            text = (
                f"Clients sent less: {less}. If they did so only because answers took longer, the mean would "
                f"have risen by {percent(needed)} or more; it rose by {most} at most."
            )
    return ExternalCause(before, after, rate.p, fewer, external, text)
