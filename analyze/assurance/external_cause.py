"""The service answered as before; clients sent less (ALGORITHMS H.4): a slow-down that is not the service's.

Throughput that fell while response times stayed, with longer gaps between requests and no more in flight, has
its cause before the service. Where the mean is known too badly to say that it stayed, it is enough that no
rise that is possible makes clients that wait for their answers send so much less: N clients that wait or
pause are N = X(R + Z) with X answers a second, R their time and Z the pause (the interactive response time
law), so that at the same Z a rate that falls by the factor X1/X0 needs R1 - R0 = N (1/X1 - 1/X0).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from analyze.assurance.load_change import rate_changes
from analyze.assurance.period_blocks import PeriodBlocks, PeriodRequests
from analyze.report.wording import percent

FEWER = 0.9
"""A rate below this times the rate before is "less"."""
ALPHA = 0.01


@dataclass(frozen=True, slots=True)
class Arrivals:
    """How requests arrived in a period."""

    rate: float
    """Requests a second, weighted."""
    in_flight: float
    """Mean number of requests at work, weighted (Little's law)."""
    gap_us: float | None
    """See `mean_gap_us`; None: not known (no requests at hand)."""
    clients: float | None = None
    """See `least_clients`; None: not known."""


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


def least_clients(requests: PeriodRequests) -> float | None:
    """How many clients there are at least, if each waits for its answer before it asks again.

    As many as were ever in flight at once; and no more than N = 1 / (1 - E[k(k-1)] / E[k]^2) of the number k
    in flight, which is exact for N clients alike and is the same of sampled requests: so one client that asks
    in turn is one, though now and then four others come. None for no request. O(requests log requests).
    """
    if not len(requests.start_ns):
        return None
    start = requests.start_ns
    time = np.concatenate((start, start + np.maximum((requests.response_us * 1e3).astype(np.int64), 1)))
    step = np.repeat((1, -1), len(start))
    order = np.lexsort((step, time))  # of one moment ends come first
    flying = np.cumsum(step[order])[:-1].astype(np.float64)
    lasts = np.diff(time[order]).astype(np.float64)
    whole = float(lasts.sum())
    mean = float((flying * lasts).sum()) / whole
    pairs = float((flying * (flying - 1) * lasts).sum()) / whole
    alike = mean**2 / (mean**2 - pairs) if pairs < mean**2 else math.inf
    return max(1.0, min(float(flying.max()), alike))


def _arrivals(side: PeriodBlocks, gap_us: float | None, clients: float | None) -> Arrivals:
    seconds = max(float(side.seconds.sum()), 1e-300)
    in_flight = float(side.time_us.sum()) / 1e6 / seconds
    return Arrivals(float(side.weight.sum()) / seconds, in_flight, gap_us, clients)


def _rise_by_waiting(before: Arrivals, after: Arrivals) -> float:
    """Rise of the mean, relative, at which clients that wait for answers send that much less; inf if none."""
    if after.rate <= 0 or before.in_flight <= 0:
        return math.inf
    clients = max(before.clients or 1.0, before.in_flight)
    return clients / before.in_flight * (before.rate / after.rate - 1)


def external_cause(
    reference: PeriodBlocks,
    problem: PeriodBlocks,
    *,
    equivalent: bool,
    gaps_us: tuple[float | None, float | None] = (None, None),
    clients: float | None = None,
    largest_rise: float = math.inf,
    tau_rate: float = 0.0,
) -> ExternalCause:
    """Decide. equivalent: response times were shown to be as before (`Equivalence.holds`).

    gaps_us: of `mean_gap_us`, where requests are at hand; gaps that became shorter contradict. clients: of
    `least_clients`, of the reference. largest_rise: of the mean, relative, that is not excluded. tau_rate:
    noise of the log of a window's arrival rate, from history: traffic that follows the hour is no cause.
    """
    before, after = _arrivals(reference, gaps_us[0], clients), _arrivals(problem, gaps_us[1], None)
    roots = [str(at) for at in range(reference.weight.shape[1])]
    rate = rate_changes(reference, problem, roots, tau=tau_rate, alpha=ALPHA)[0]
    fewer = rate.p < ALPHA and after.rate <= FEWER * before.rate
    shorter = before.gap_us is not None and after.gap_us is not None and after.gap_us < before.gap_us
    idle = after.in_flight <= before.in_flight * math.sqrt(1 / FEWER) and not shorter
    needed = _rise_by_waiting(before, after)
    external = fewer and idle and after.rate > 0 and (equivalent or largest_rise < needed)
    text = ""
    if external:
        less = (
            f"{after.rate:.3g} requests a second after {before.rate:.3g}, "
            f"with {after.in_flight:.2g} in flight after {before.in_flight:.2g}"
        )
        text = (
            f"The service answered as before; clients sent less: {less}."
            if equivalent
            else f"Clients sent less: {less}. For clients that only wait for answers the mean would be up by "
            f"{percent(needed)} at least; by more than {percent(max(largest_rise, 0.0))} it is not."
        )
    return ExternalCause(before, after, rate.p, fewer, external, text)
