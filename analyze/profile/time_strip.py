"""Response times and failures of two samples over time, for the time strip at the top of a report page.

Time is divided into *ticks*: intervals of equal length, at most `MOST_TICKS` per sample."""

from __future__ import annotations

from typing import Final

import numpy as np

from analyze.population import Population
from analyze.profile.samples import PAIR_SIZE, ComparedSamples
from schemas.arrays import F8, I8
from schemas.report.time_strip import Course, TimeStrip
from schemas.windows import NS_PER_DAY, NS_PER_MINUTE, NS_PER_SECOND, NS_PER_US

MOST_TICKS: Final = 48
"""Maximum number of ticks (time intervals) per sample: about as many as a phone's screen can show."""
_TICKS_NS: Final = (
    *(n * NS_PER_SECOND // 1000 for n in (1, 2, 5, 10, 20, 50, 100, 200, 500)),
    *(n * NS_PER_SECOND for n in (1, 2, 5, 10, 15, 30)),
    *(n * NS_PER_MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * 60 * NS_PER_MINUTE for n in (1, 2, 3, 6, 12)),
)
"""Possible lengths of a tick (time interval) below a day, ns; ticks begin at multiples of their length."""
_PERCENTILE: Final = 0.95


def time_strip(compared: ComparedSamples) -> TimeStrip | None:
    """Time courses of two samples. None if there are not two samples, if they are statistics without
    requests, or if a sample has no request."""
    if compared.kept is not None or len(compared.samples) != PAIR_SIZE:
        return None
    courses = [_course(compared.population, sample) for sample in range(PAIR_SIZE)]
    if courses[0] is None or courses[1] is None:
        return None
    return TimeStrip(before=courses[0], after=courses[1])


def _course(population: Population, sample: int) -> Course | None:
    """Time course of one sample, from its first to its last request; None without requests. O(requests log
    requests)."""
    start_ns, response_ns, weight = population.columns(sample, "start_ns", "response_ns", "weight")
    if not len(start_ns):
        return None
    failed = np.concatenate(
        [population.failed(one, one.rows(sample)) for one in population.categories]
    ).astype(np.float64)
    tick_ns = tick_of(int(start_ns.min()), int(start_ns.max()))
    first = int(start_ns.min()) // tick_ns
    tick = start_ns // tick_ns - first
    n = int(tick.max()) + 1
    requests = np.bincount(tick, minlength=n)
    weights = np.bincount(tick, weight, minlength=n)
    p95_us = percentiles(tick, response_ns / NS_PER_US, requests)

    def told(values: F8) -> tuple[float | None, ...]:
        return tuple(float(value) if there else None for value, there in zip(values, requests, strict=True))

    def mean(of: F8) -> F8:
        sums = np.bincount(tick, of * weight, minlength=n)
        return np.divide(sums, weights, out=np.zeros(n), where=weights > 0)

    return Course(
        start_ns=first * tick_ns,
        tick_ns=tick_ns,
        requests=tuple(requests.tolist()),
        mean_us=told(mean(response_ns / NS_PER_US)),
        p95_us=told(p95_us),
        failed_share=told(mean(failed)),
    )


def tick_of(first_ns: int, last_ns: int) -> int:
    """Length of a tick, ns: the shortest that divides `[first_ns, last_ns]` into at most `MOST_TICKS`
    ticks."""
    for tick_ns in _TICKS_NS:
        if last_ns // tick_ns - first_ns // tick_ns < MOST_TICKS:
            return tick_ns
    days = (last_ns - first_ns) // NS_PER_DAY // (MOST_TICKS - 1) + 1
    return days * NS_PER_DAY


def percentiles(tick: I8, values: F8, requests: I8) -> F8:
    """float64[ticks]: 95th percentile (nearest rank) of the values in each tick; 0 for a tick without values.

    tick: int64[values], tick of each value. requests: int64[ticks], number of values in each tick.
    """
    ordered = values[np.lexsort((values, tick))]
    past = np.cumsum(requests)
    rank = np.ceil(_PERCENTILE * requests).astype(np.int64)
    found = np.zeros(len(requests))
    there = requests > 0
    found[there] = ordered[(past - requests + rank - 1)[there]]
    return found
