"""Requests of a period, drawn: response times that share what happens in their second, failures, roots."""

from __future__ import annotations

import numpy as np
from oracles.blocks_of_requests import PeriodRequests, period_blocks, tail_thresholds

from analyze.methods.robust.period_blocks import PeriodBlocks

MINUTE_NS = 60 * 10**9
PERIOD = (0, 5 * MINUTE_NS)


def drawn(
    rng: np.random.Generator,
    n: int,
    *,
    mean_us: float = 1_000.0,
    sigma: float = 0.5,
    burst: float = 0.0,
    failing: float = 0.0,
    roots: int = 1,
    weight: float = 1.0,
) -> PeriodRequests:
    """Log-normal response times; `burst` is the sd of what all requests of one second share (log units)."""
    start = rng.integers(*PERIOD, n)
    second = start // 10**9
    shared = rng.normal(0, burst, 301)[second] if burst else 0.0
    logs = rng.normal(0, sigma, n) + shared
    return PeriodRequests(
        start_ns=start,
        response_us=mean_us * np.exp(logs),
        weight=np.full(n, weight),
        failed=rng.random(n) < failing,
        root=rng.integers(0, roots, n).astype(np.int32),
    )


def blocks_of(
    reference: PeriodRequests, problem: PeriodRequests, roots: int = 1
) -> tuple[PeriodBlocks, PeriodBlocks]:
    """Both periods, with the reference's thresholds."""
    limits = tail_thresholds(reference)
    return period_blocks(reference, roots, [PERIOD], limits), period_blocks(problem, roots, [PERIOD], limits)
