"""The service answered as before; clients sent less (ALGORITHMS H.4): a slow-down that is not the service's.

Throughput that fell while response times stayed, with longer gaps between requests and no more in flight, has
its cause before the service.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from analyze.assurance.load_change import rate_changes
from analyze.assurance.period_blocks import PeriodBlocks, PeriodRequests

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


def _arrivals(side: PeriodBlocks, gap_us: float | None) -> Arrivals:
    seconds = max(float(side.seconds.sum()), 1e-300)
    return Arrivals(float(side.weight.sum()) / seconds, float(side.time_us.sum()) / 1e6 / seconds, gap_us)


def external_cause(
    reference: PeriodBlocks,
    problem: PeriodBlocks,
    *,
    equivalent: bool,
    gaps_us: tuple[float | None, float | None] = (None, None),
    tau_rate: float = 0.0,
) -> ExternalCause:
    """Decide. equivalent: response times were shown to be as before (`Equivalence.holds`).

    gaps_us: of `mean_gap_us`, where requests are at hand; gaps that became shorter contradict. tau_rate:
    noise of the log of a window's arrival rate, from history: traffic that follows the hour is no cause.
    """
    before, after = _arrivals(reference, gaps_us[0]), _arrivals(problem, gaps_us[1])
    roots = [str(at) for at in range(reference.weight.shape[1])]
    rate = rate_changes(reference, problem, roots, tau=tau_rate, alpha=ALPHA)[0]
    fewer = rate.p < ALPHA and after.rate <= FEWER * before.rate
    shorter = before.gap_us is not None and after.gap_us is not None and after.gap_us < before.gap_us
    idle = after.in_flight <= before.in_flight * math.sqrt(1 / FEWER) and not shorter
    external = equivalent and fewer and idle and after.rate > 0
    text = ""
    if external:
        text = (
            f"The service answered as before; clients sent less: {after.rate:.3g} requests a second after "
            f"{before.rate:.3g}, with {after.in_flight:.2g} in flight after {before.in_flight:.2g}."
        )
    return ExternalCause(before, after, rate.p, fewer, external, text)
