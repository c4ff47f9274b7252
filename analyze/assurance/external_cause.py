"""The service answered as before; clients sent less (ALGORITHMS H.4): a slow-down that is not the service's.

Throughput that fell while response times stayed, with longer gaps between requests and no more in flight, has
its cause before the service. Where the mean is known too badly to say that it stayed, it is enough that no
rise that is possible makes clients that wait for their answers send so much less: N clients that wait or
pause are N = X(R + Z) with X answers a second, R their time and Z the pause (the interactive response time
law), so that at the same Z a rate that falls by the factor X1/X0 needs R1 - R0 = N (1/X1 - 1/X0).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analyze.assurance.load_change import rate_changes
from analyze.assurance.period_blocks import PeriodBlocks, PeriodRequests
from analyze.report.wording import percent

F8 = npt.NDArray[np.float64]

FEWER = 0.9
"""A rate below this times the rate before is "less"."""
ALPHA = 0.01
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
    rate = rate_changes(reference, problem, roots, tau=tau_rate, alpha=ALPHA)[0]
    fewer = rate.p < ALPHA and after.rate <= FEWER * before.rate
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
