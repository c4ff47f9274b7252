"""The service answered as before; clients sent less (ALGORITHMS H.4): a slow-down that is not the service's.

Throughput that fell while response times stayed, with longer gaps between requests and no more in flight, has
its cause before the service.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analyze.assurance.load_change import rate_changes
from analyze.assurance.period_blocks import PeriodBlocks, PeriodRequests

I8 = npt.NDArray[np.int64]
F8 = npt.NDArray[np.float64]

FEWER = 0.9
"""A rate below this times the rate before is "less"."""
ALPHA = 0.01


@dataclass(frozen=True, slots=True)
class Arrivals:
    """How requests arrived in a period."""

    rate: float
    """Requests a second, weighted."""
    gap_us: float
    """Mean time from the end of everything before to the next start; 0 where requests overlap."""
    in_flight: float
    """Mean number of requests at work, weighted (Little's law)."""
    peak: int
    """Most recorded requests at work at once."""


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


def arrivals(requests: PeriodRequests, seconds: float) -> Arrivals:
    """Rate, gaps and requests in flight. Fewer than two requests have no gap. O(requests log requests)."""
    n = len(requests.start_ns)
    if n == 0 or seconds <= 0:
        return Arrivals(0.0, 0.0, 0.0, 0)
    order = np.argsort(requests.start_ns, kind="stable")
    start = requests.start_ns[order]
    end = start + (requests.response_us[order] * 1e3).astype(np.int64)
    gaps = np.maximum(0, start[1:] - np.maximum.accumulate(end)[:-1]) / 1e3
    busy_us = float((requests.weight * requests.response_us).sum())
    return Arrivals(
        rate=float(requests.weight.sum()) / seconds,
        gap_us=float(gaps.mean()) if len(gaps) else 0.0,
        in_flight=busy_us / 1e6 / seconds,
        peak=_peak(start, end),
    )


def _peak(start: I8, end: I8) -> int:
    """Most intervals [start, end) that hold one moment; what ends at a moment has left before it."""
    moments = np.concatenate((end, start))
    steps = np.concatenate((np.full(len(end), -1), np.ones(len(start), dtype=np.int64)))
    order = np.lexsort((steps, moments))
    return max(1, int(np.cumsum(steps[order]).max()))


def external_cause(
    requests: tuple[PeriodRequests, PeriodRequests],
    blocks: tuple[PeriodBlocks, PeriodBlocks],
    *,
    equivalent: bool,
    tau_rate: float = 0.0,
    alpha: float = ALPHA,
) -> ExternalCause:
    """Decide. equivalent: response times were shown to be as before (`Equivalence.holds`).

    tau_rate: noise of the log of a window's arrival rate, from history: traffic that follows the hour is no
    cause of anything.
    """
    before, after = (
        arrivals(side, float(sums.seconds.sum())) for side, sums in zip(requests, blocks, strict=True)
    )
    roots = [str(at) for at in range(blocks[0].weight.shape[1])]
    rate = rate_changes(*blocks, roots, tau=tau_rate, alpha=alpha)[0]
    fewer = rate.p < alpha and after.rate <= FEWER * before.rate
    waits = after.gap_us >= before.gap_us and after.in_flight <= before.in_flight * math.sqrt(1 / FEWER)
    external = equivalent and fewer and waits and after.rate > 0
    text = ""
    if external:
        text = (
            f"The service answered as before; clients sent less: {after.rate:.3g} requests a second after "
            f"{before.rate:.3g}, with {after.in_flight:.2g} in flight after {before.in_flight:.2g}."
        )
    return ExternalCause(before, after, rate.p, fewer, external, text)
