"""Windows of series without a lake: own times of call sites with autocorrelation, seasons and steps."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.signal import lfilter

from analyze.watch.series import FAIL, TIME, Name, WindowTicks, rows_of
from schemas.windows import NS_PER_MINUTE

WINDOW_NS = 5 * NS_PER_MINUTE
WEEK = 2016
"""Windows."""
MONDAY = 1_760_918_400_000_000_000
EVENTS = 200
"""Of a series in a window."""
EVENT_SD = 0.5


def levels(
    rng: np.random.Generator,
    n_series: int,
    n_windows: int,
    *,
    ticks: int = 1,
    rho: float = 0.6,
    sd: float = 0.05,
    season: float = 0.3,
    week: float = 0.0,
    day: float = 0.0,
    df: float = 5.0,
    blips: float = 0.0,
) -> np.ndarray:
    """[series, ticks] mean logs, `ticks` of them in a window: AR(1) with Student's noise (`rho` from window
    to window), what the mean of a tick's events is off, a course of the day and the week, levels of days,
    and single ticks (`blips` a week and series) that are 8 sd off."""
    n_ticks, step = n_windows * ticks, rho ** (1 / ticks)
    noise = rng.standard_t(df, (n_series, n_ticks)) * sd / np.sqrt(df / (df - 2)) * np.sqrt(1 - step**2)
    found = lfilter([1.0], [1.0, -step], noise, axis=1)
    found += rng.normal(0, EVENT_SD / np.sqrt(EVENTS / ticks), (n_series, n_ticks))
    hour = np.arange(n_ticks) / ticks * WINDOW_NS / (3600 * 10**9)
    phase = rng.uniform(0, 2 * np.pi, (n_series, 1))
    found += season * np.sin(2 * np.pi * hour / 24 + phase)
    found += week * np.sin(2 * np.pi * hour / 168 + 2 * phase)
    if day:
        found += (rng.normal(0, day, (n_series, n_windows // 288 + 1)))[:, np.arange(n_ticks) // ticks // 288]
    if blips:
        found += 8 * sd * (rng.random((n_series, n_ticks)) < blips / (WEEK * ticks))
    return found + 9.0


def names_of(n_series: int) -> tuple[Name, ...]:
    """A call site each, on ten components."""
    return tuple(
        Name(TIME, f"service-{k % 10}", f"op-{k}", f"service-{k % 10}/op-{k} < -") for k in range(n_series)
    )


def windows(logs: np.ndarray, *, ticks: int = 1, first: int = 0) -> Iterator[WindowTicks]:
    """Windows of so many ticks, from a number on."""
    names, n = names_of(len(logs)), len(logs)
    series, tick = np.divmod(np.arange(n * ticks), ticks)
    events = np.full(n * ticks, EVENTS / ticks)
    for number in range(first, logs.shape[1] // ticks):
        mean = logs[:, number * ticks : (number + 1) * ticks].reshape(-1)
        yield WindowTicks(
            MONDAY + number * WINDOW_NS,
            WINDOW_NS // ticks,
            ticks,
            names,
            rows_of(series, tick, events, events * mean, events * (mean**2 + EVENT_SD**2)),
            np.full(ticks, 1000.0 / ticks),
        )


def failing_windows(rng: np.random.Generator, shares: np.ndarray, calls: float) -> Iterator[WindowTicks]:
    """Windows of a tick in which so many calls of each call site come on average, of which these shares
    [series, windows] fail."""
    names = tuple(name._replace(kind=FAIL) for name in names_of(len(shares)))
    for number, share in enumerate(shares.T):
        called = np.maximum(rng.poisson(calls, len(shares)), 1)
        failed = rng.binomial(called, share).astype(np.float64)
        rows = rows_of(np.arange(len(shares)), np.zeros(len(shares), np.int64), called, failed, failed)
        yield WindowTicks(MONDAY + number * WINDOW_NS, WINDOW_NS, 1, names, rows, np.full(1, 1000.0))
