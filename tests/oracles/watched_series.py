"""Windows of series without a lake: own times of call sites with autocorrelation, seasons and steps."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from analyze.watch.series import TIME, Name, WindowTicks
from schemas.windows import NS_PER_MINUTE

TICK_NS = 5 * NS_PER_MINUTE
WEEK = 2016
MONDAY = 1_760_918_400_000_000_000
EVENTS = 200
EVENT_SD = 0.5


def levels(
    rng: np.random.Generator,
    n_series: int,
    n_ticks: int,
    *,
    rho: float = 0.6,
    sd: float = 0.05,
    season: float = 0.3,
    week: float = 0.0,
    day: float = 0.0,
    df: float = 5.0,
    blips: float = 0.0,
) -> np.ndarray:
    """[series, ticks] mean logs: AR(1) with Student's noise, a course of the day and the week, levels of
    days, and single ticks (`blips` a week and series) that are 8 sd off."""
    noise = rng.standard_t(df, (n_series, n_ticks)) * sd / np.sqrt(df / (df - 2)) * np.sqrt(1 - rho**2)
    found = np.empty((n_series, n_ticks))
    last = np.zeros(n_series)
    for tick in range(n_ticks):
        last = rho * last + noise[:, tick]
        found[:, tick] = last
    hour = np.arange(n_ticks) * TICK_NS / (3600 * 10**9)
    phase = rng.uniform(0, 2 * np.pi, (n_series, 1))
    found += season * np.sin(2 * np.pi * hour / 24 + phase)
    found += week * np.sin(2 * np.pi * hour / 168 + 2 * phase)
    if day:
        found += (rng.normal(0, day, (n_series, n_ticks // 288 + 1)))[:, np.arange(n_ticks) // 288]
    if blips:
        found += 8 * sd * (rng.random((n_series, n_ticks)) < blips / WEEK)
    return found + 9.0


def names_of(n_series: int) -> tuple[Name, ...]:
    """A call site each, on ten components."""
    return tuple(
        Name(TIME, f"service-{k % 10}", f"op-{k}", f"service-{k % 10}/op-{k} < -") for k in range(n_series)
    )


def windows(logs: np.ndarray, *, start_ns: int = MONDAY, first: int = 0) -> Iterator[WindowTicks]:
    """A window a tick."""
    names, n = names_of(len(logs)), len(logs)
    series, none, ones = np.arange(n), np.zeros(0, dtype=np.int64), np.zeros(n, dtype=np.int64)
    for tick in range(first, logs.shape[1]):
        mean = logs[:, tick]
        yield WindowTicks(
            start_ns + tick * TICK_NS,
            TICK_NS,
            1,
            names,
            series,
            ones,
            np.full(n, float(EVENTS)),
            EVENTS * mean,
            EVENTS * (mean**2 + EVENT_SD**2),
            none,
            none,
            none,
            np.zeros(0),
            np.full(1, 1000.0),
        )
