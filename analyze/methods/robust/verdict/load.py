"""Compare the load and the mix of root types, and decide if clients sent fewer requests for reasons outside
of the service.

Load is no fault of the service, but response times depend on it. If throughput fell although no more requests
were in flight and gaps between them did not shrink, clients are the cause, unless slower responses can have
slowed them down that much. By the interactive response time law, N clients that wait for a response of time R
and then pause for Z send X = N / (R + Z) requests per second. With the same Z, a fall of the rate from X0 to
X1 requires that the mean response time rose by R1 - R0 = N (1/X1 - 1/X0).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import fdtrc

from analyze.methods.robust.period_blocks import PeriodBlocks
from analyze.methods.robust.settings import VerdictSettings
from analyze.report.wording import percent
from analyze.stats.time_blocks import mean_change
from schemas.arrays import B1, F8, I8


@dataclass(frozen=True, slots=True)
class RateChange:
    """Change of the arrival rate of all requests, or of one root type."""

    root: str
    """Name of the root type; empty for all requests."""
    rate0: float
    """Requests per second in the reference, by sampling weight."""
    rate1: float
    """Requests per second in the problem, by sampling weight."""
    p: float
    """Two-sided p of an unchanged rate, allowing for noise between windows."""
    changed: bool
    """True if the change is significant and exceeds the factor `load_floor`."""

    @property
    def ratio(self) -> float:
        """`rate1` / `rate0`; inf if `rate0` is 0."""
        return self.rate1 / self.rate0 if self.rate0 > 0 else math.inf


def rate_changes(
    before: PeriodBlocks,
    after: PeriodBlocks,
    roots: Sequence[str],
    settings: VerdictSettings,
    *,
    tau: float = 0.0,
) -> tuple[RateChange, ...]:
    """Changes of the arrival rate: of all requests first, then of each root type.

    tau: standard deviation of the log rate between windows of the history, since traffic depends on the time
    of day. The standard error is at least that of a Poisson count, even if blocks of a period scatter less.
    """
    sides = [side.arrivals() for side in (before, after)]
    found = mean_change(*sides, tau2=2 * tau**2)
    n = [np.append(side.whole().effective, side.effective_by_root) for side in (before, after)]
    with np.errstate(divide="ignore"):
        chance = 1 / n[0] + 1 / n[1]
    # A single block has no scatter between blocks.
    blocks = np.where(np.isfinite(found.sampling), found.sampling, 0.0)
    found = replace(found, sampling=np.maximum(blocks, chance))
    rates = [side.total.sum(axis=1) / np.maximum(side.weight.sum(axis=1), 1e-300) for side in sides]
    seconds = [max(float(side.seconds.sum()), 1e-300) for side in (before, after)]
    p = found.p_with_noise
    changes = []
    for at, root in enumerate(["", *roots]):
        rate0, rate1 = float(rates[0][at]), float(rates[1][at])
        one = float(p[at])
        if min(rate0, rate1) <= 0:  # probability that all requests fall into one period, two-sided
            there = 0 if rate0 > 0 else 1
            one = min(1.0, 2 * (seconds[there] / sum(seconds)) ** float(n[there][at]))
        far = rate1 >= rate0 * settings.load_floor or rate1 * settings.load_floor <= rate0
        changes.append(RateChange(root, rate0, rate1, one, one < settings.sure and far))
    return tuple(changes)


@dataclass(frozen=True, slots=True)
class MixChange:
    """Change of the mix of root types, i.e. of the share of each root type in all requests."""

    moved: float
    """Share of requests that moved to other root types, in [0, 1]: half the sum of |share1 - share0|."""
    p: float
    """p of an unchanged mix, i.e. of independence of root type and period."""
    changed: bool
    share0: F8
    """Share of each root type in the reference's requests, in [0, 1], float64[roots]."""
    share1: F8
    """Share of each root type in the problem's requests, in [0, 1], float64[roots]."""


def mix_change(reference: PeriodBlocks, problem: PeriodBlocks, settings: VerdictSettings) -> MixChange:
    """Test if the mix of root types changed; root types with fewer than `mix_requests` requests are pooled.

    The test statistic is Pearson's X², divided by the over-dispersion φ between time blocks of a period; it
    has an F distribution.

    A common change of all arrival rates does not count, since only shares are compared.
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
    large = counts.sum(axis=0) >= settings.mix_requests
    merged = _merged(counts, large)
    if merged.shape[1] < 2:
        return MixChange(moved, 1.0, False, shares[0], shares[1])
    statistic, df = _chi2(merged)
    within, within_df = 0.0, 0
    for side, factor in zip(sides, scale, strict=True):
        blocks = _merged(side.weight * factor, large)
        part, part_df = _chi2(blocks[blocks.sum(axis=1) > 0])
        within, within_df = within + part, within_df + part_df
    if not within_df:  # each root type is in one period only: blocks show no scatter
        within_df = sum(int((side.weight.sum(axis=1) > 0).sum()) - 1 for side in sides)
    phi = max(1.0, within / within_df) if within_df else 1.0
    p = float(fdtrc(df, max(within_df, 1), statistic / df / phi)) if df else 1.0
    return MixChange(moved, p, p < settings.sure and moved >= settings.mix_floor, shares[0], shares[1])


def _merged(counts: F8, large: B1) -> F8:
    """Columns of root types in the mask `large`, and one column with the sum of the others: [rows, columns].
    counts: [rows, roots]; large: bool[roots]."""
    if large.all():
        return counts
    rest: F8 = np.concatenate((counts[:, large], counts[:, ~large].sum(axis=1, keepdims=True)), axis=1)
    return rest


def _chi2(table: F8) -> tuple[float, int]:
    """Pearson's X² for independence of rows and columns, and its degrees of freedom; empty columns are
    dropped."""
    table = table[:, table.sum(axis=0) > 0]
    if min(table.shape, default=0) < 2:
        return 0.0, 0
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0, keepdims=True) / table.sum()
    statistic = float(((table - expected) ** 2 / expected).sum())
    return statistic, (table.shape[0] - 1) * (table.shape[1] - 1)


def mean_gap_us(start_ns: I8, response_ns: I8) -> float | None:
    """Mean idle time before a request, µs: from the end of all earlier requests to its start, 0 if they
    overlap; None for fewer than two requests.

    If requests are sampled, gaps are between sampled requests. O(requests log requests).
    """
    if len(start_ns) < 2:
        return None
    order = np.argsort(start_ns, kind="stable")
    start = start_ns[order]
    end = start + response_ns[order]
    gaps = np.maximum(0, start[1:] - np.maximum.accumulate(end)[:-1])
    return float(gaps.mean()) / 1e3


def least_clients(start_ns: I8, response_ns: I8, blocks: int) -> float:
    """Lower bound of the number of clients, >= 1, if each client waits for a response before it sends the
    next request. O(requests log requests).

    It is the median over time blocks of a bound for each block: the largest number of requests in flight, and
    N = 1 / (1 - E[k(k-1)] / E[k]²) for the number k in flight, which is exact for N equal clients, or E[k] if
    requests come in bursts; the smaller of them. Therefore a single sequential client gives 1 even if many
    others come now and then. Sampling lowers the bound.
    """
    if not len(start_ns):
        return 1.0
    start = (start_ns - start_ns.min()).astype(np.float64)
    end = start + np.maximum(response_ns, 1)
    edges = np.linspace(0.0, float(end.max()), blocks + 1)
    time = np.concatenate((start, end, edges))
    step = np.concatenate((np.ones(len(start)), -np.ones(len(end)), np.zeros(len(edges))))
    order = np.lexsort((step, time))  # at equal times ends come first
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


def clients_sent_less(
    before: PeriodBlocks,
    after: PeriodBlocks,
    rate: RateChange,
    settings: VerdictSettings,
    *,
    largest_rise: float,
    gaps_us: tuple[float | None, float | None] = (None, None),
    clients: Callable[[], float] = lambda: 1.0,
) -> str:
    """Sentence that clients sent fewer requests, and not because responses took longer; empty if the data do
    not show it.

    rate: change of the arrival rate of all requests; largest_rise: largest relative rise of the mean response
    time within its confidence interval; gaps_us: `mean_gap_us` of (reference, problem), None for stored
    statistics; shorter gaps rule the sentence out; clients: function that computes `least_clients` of the
    reference, called only if needed.
    """
    flying0, flying1 = (
        float(side.time_us.sum()) / 1e6 / max(float(side.seconds.sum()), 1e-300) for side in (before, after)
    )
    shorter = gaps_us[0] is not None and gaps_us[1] is not None and gaps_us[1] < gaps_us[0]
    no_more = flying1 <= flying0 / math.sqrt(settings.fewer) and not shorter
    if not (rate.p < settings.alpha and 0 < rate.rate1 <= settings.fewer * rate.rate0 and no_more):
        return ""
    less = (
        f"{rate.rate1:.3g} requests a second after {rate.rate0:.3g}, "
        f"with {flying1:.2g} in flight after {flying0:.2g}"
    )
    needed = max(clients(), flying0) / flying0 * (1 / rate.ratio - 1) if flying0 > 0 else math.inf
    if largest_rise >= needed:
        return ""
    return (
        f"Clients sent less: {less}. If they did so only because answers took longer, the mean would have "
        f"risen by {percent(needed)} or more; it rose by {percent(max(largest_rise, 0.0))} at most."
    )
