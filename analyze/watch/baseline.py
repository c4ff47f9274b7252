"""What is usual of each series: its course over the week, its level, how it scatters, and what it does by
itself.

Learned from quiet ticks only. A value is held against the usual course (medians by hour of the week, of the
day while the lake is young), against its level (the median of what is left), less what the value before it
foretold (autocorrelation of first order, drawn to a value that is assumed where little is known), less an
allowance for what the system does by itself from day to day.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from analyze.stats.histograms import BIN_LOG
from analyze.watch.series import (
    ARRIVALS,
    BOTH_WAYS,
    CALLS,
    FLOORS,
    HOUR_NS,
    LOGS,
    OPERATION,
    SHARES,
    SLOW,
    Name,
    Ring,
)
from analyze.watch.settings import WatchSettings
from schemas.arrays import B1, F8, I8

MAD: Final = 1.4826
"""Median distance from the median, of a normal law, to its standard deviation."""
HOURS_A_DAY, HOURS_A_WEEK = 24, 168
LEAST_DAYS, LEAST_WEEKS = 2.5, 15.0
"""Days from which the course of a day, and of a week, can be learned."""
LEAST_BLOCKS: Final = 3
"""Day medians that a spread is learned from; while there are fewer, those of hours."""
KNOWN: Final = 10
"""Pairs of values that weigh as much as the autocorrelation that is assumed."""
MOST_POOLED: Final = 64
"""Ticks that a value may be made of; rarer series are left to the daily comparison."""
SLOW_QUANTILE: Final = 0.9
_TINY: Final = 1e-9


def usable(names: list[Name]) -> B1:
    """[series] whether a series can raise a candidate."""
    return np.array([name.kind not in (ARRIVALS, OPERATION) for name in names], dtype=np.bool_)


def values(sums: F8, kinds: list[str], least: int) -> F8:
    """Give [series, places] values; NaN where there are too few events.

    Too few are under half of what they are to have on average.
    """
    den, num, _ = sums
    enough = den >= least / 2
    den = np.where(enough, den, np.nan)
    x: F8 = num / den
    shares, calls = (np.isin(kinds, [*which]) for which in (SHARES, {CALLS}))
    x[shares] = np.clip(x[shares], 0.0, 1.0)
    x[calls] = np.log((num[calls] + 0.5) / (den[calls] + 0.5))
    return x


def errors(sums: F8, kinds: list[str]) -> F8:
    """Give [series, places] standard errors of values by sampling; of places that have an event."""
    den, num, sq = sums
    den = np.maximum(den, 1.0)
    mean = num / den
    logs, calls = (np.isin(kinds, [*which])[:, None] for which in (LOGS, {CALLS}))
    drawn = np.clip((num + 0.5) / (den + 1), 0.0, 1.0)
    spread = np.sqrt(np.maximum(sq / den - mean * mean, BIN_LOG**2))
    counted = np.where(calls, np.sqrt(den / (num + 1)), np.sqrt(drawn * (1 - drawn)))
    found: F8 = np.where(logs, spread, counted) / np.sqrt(den)
    return found


def pooled(sums: F8, at: I8, k: int) -> tuple[I8, F8]:
    """Pools of k ticks, aligned since the epoch: (numbers, [3, series, pools] sums)."""
    if k == 1:
        return at, sums
    pool = at // k
    first = np.flatnonzero(np.concatenate(([True], pool[1:] != pool[:-1])))
    return pool[first], np.add.reduceat(sums, first, axis=2)


def medians(x: F8) -> F8:
    """[rows] medians of what is there; NaN where nothing is."""
    if not x.shape[1]:
        return np.full(len(x), np.nan)
    ordered = np.sort(x, axis=1)
    n = np.isfinite(x).sum(axis=1)
    rows, last = np.arange(len(x)), x.shape[1] - 1
    low, high = (np.clip(place, 0, last) for place in ((n - 1) // 2, n // 2))
    found: F8 = (ordered[rows, low] + ordered[rows, high]) / 2
    return np.where(n > 0, found, np.nan)


def robust_sd(x: F8) -> F8:
    """[rows] standard deviations by median distance from the median."""
    return MAD * medians(np.abs(x - medians(x)[:, None]))


@dataclass(frozen=True, slots=True)
class Pooled:
    """What is usual of the series that put k ticks together; arrays are [its series]."""

    k: int
    rows: I8
    """Codes of the ring."""
    kinds: list[str]
    middle: F8
    season: F8
    """[series, hours of the season]; empty: none."""
    sd: F8
    rho: F8
    spread: F8
    """Of what is left when the foretold is taken out."""
    allow: F8
    n: I8
    """Past values."""
    past: F8
    """[series, past values] what is left, ascending, NaN last."""
    both: B1
    """Whether it alarms downward, too."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """What is usual, as it was learned at some tick."""

    groups: tuple[Pooled, ...]
    ways: float
    """Tests a tick, of all series."""
    cuts: F8
    """[ring series] first coarse bin that is slow; NaN where nothing is known."""
    most_arrivals: float
    n_ticks: int

    @property
    def n_series(self) -> int:
        """Series that are known well enough."""
        return sum(len(group.rows) for group in self.groups)


def fit(
    ring: Ring, quiet: B1, past: int, settings: WatchSettings, anew: Mapping[Name, int] | None = None
) -> Baseline:
    """Learn from the ring's quiet ticks before tick number `past`; [ticks] quiet. Sets what is slow.

    anew: series whose ordinary times begin at a tick.
    """
    recent = (ring.at < past) & (ring.at >= past - settings.reach_ticks)
    history = np.flatnonzero(quiet & recent)[-settings.baseline_ticks :]
    usual = usable(ring.names)
    kinds = [name.kind for name in ring.names]
    cuts = _slow_cuts(ring, history, np.array([kind == SLOW for kind in kinds]))
    count_slow(ring, cuts)
    at = ring.at[history]
    sums = ring.sums(history)
    n_days, hours, hourly = _hourly(ring, past, settings)
    per_tick = sums[0].sum(axis=1) / max(len(history), 1)
    wanted = settings.least_events / np.maximum(per_tick, _TINY)
    k_of = np.exp2(np.ceil(np.log2(np.maximum(wanted, 1.0))))
    groups = []
    for k in (2**power for power in range(MOST_POOLED.bit_length())):
        rows = np.flatnonzero(usual & (k_of == k))
        if not len(rows) or not len(history):
            continue
        pool, here = pooled(sums[:, rows], at, k)
        mine = [kinds[row] for row in rows]
        x = values(here, mine, settings.least_events)
        for row, code in enumerate(rows.tolist()):
            if anew and ring.names[code] in anew:
                x[row, pool * k < anew[ring.names[code]]] = np.nan
        season = _season(hours, hourly[:, rows], mine, n_days, settings.least_events)
        x = x - season_at(season, pool * k * ring.tick_ns + k * ring.tick_ns // 2)
        n = np.isfinite(x).sum(axis=1)
        moves = _moves(x) | np.isin(mine, ["pattern", "fail", "failures", "slow", "calls"])
        known = (n >= settings.warm_ticks) & moves
        if not known.any():
            continue
        rows, x, season, n = rows[known], x[known], season[known], n[known]
        mine = [kinds[row] for row in rows]
        middle = medians(x)
        left = x - middle[:, None]
        sd = np.maximum(MAD * medians(np.abs(left)), _TINY)
        rho = autocorrelation(left / sd[:, None], settings.rho) if settings.whiten else np.zeros(len(rows))
        lagged = np.full_like(left, np.nan)
        lagged[:, 1:] = np.where(np.diff(pool) == 1, left[:, :-1], np.nan)
        white = whitened(left, lagged, rho[:, None])
        floors = np.array([FLOORS[kind] for kind in mine])
        blocks = _days(hours, hourly[:, rows], mine, season, settings.least_events)
        if blocks is None:
            blocks = _blocks(left, pool * k * ring.tick_ns // HOUR_NS)
        own = _spread(blocks)
        groups.append(
            Pooled(
                k=k,
                rows=rows,
                kinds=mine,
                middle=middle,
                season=season,
                sd=sd,
                rho=rho,
                spread=MAD * medians(np.abs(white)),
                allow=np.maximum(settings.allowance * own, settings.floor_share * floors),
                n=n,
                past=np.sort(white, axis=1),
                both=np.isin(mine, list(BOTH_WAYS)),
            )
        )
    ways = sum(float((1 + group.both).sum()) / group.k for group in groups)
    arrivals = ring.requests[history]
    return Baseline(tuple(groups), ways, cuts, float(arrivals.max(initial=0.0)), len(history))


def whitened(left: F8, before: F8, rho: F8) -> F8:
    """Values less what those before foretell, as wide as they were; over a gap nothing is foretold."""
    found: F8 = np.where(np.isfinite(before), (left - rho * before) / np.sqrt(1 - rho**2), left)
    return found


def autocorrelation(z: F8, assumed: float) -> F8:
    """[series] of first order, of values in standard deviations; drawn to what is assumed."""
    a, b = np.clip(z[:, :-1], -4, 4), np.clip(z[:, 1:], -4, 4)
    both = np.isfinite(a) & np.isfinite(b)
    a, b = np.where(both, a, 0), np.where(both, b, 0)
    raw = (a * b).sum(1) / np.maximum(np.sqrt((a * a).sum(1) * (b * b).sum(1)), _TINY)
    n = both.sum(1)
    found: F8 = np.clip((raw * n + assumed * KNOWN) / (n + KNOWN), 0, 0.9)
    return found


def _moves(x: F8) -> B1:
    low, high = (
        np.nanmin(np.where(np.isfinite(x), x, np.inf), axis=1),
        np.nanmax(np.where(np.isfinite(x), x, -np.inf), axis=1),
    )
    found: B1 = high - low > _TINY
    return found


def _slow_cuts(ring: Ring, history: I8, is_slow: B1) -> F8:
    """[series] where nine of ten calls of ordinary times end, half an octave on."""
    cuts = np.full(len(ring.names), np.nan)
    if not ring.slow or not len(history):
        return cuts
    first, past = ring.at[history[0]], ring.at[history[-1]] + 1
    parts = [part for part in ring.slow if part[1].max() >= first and part[1].min() < past]
    if not parts:
        return cuts
    series, tick, bins, n = (np.concatenate(column) for column in zip(*parts, strict=True))
    used = np.isin(tick, ring.at[history])
    width = int(bins.max(initial=0)) + 1
    table = np.bincount(series[used] * width + bins[used], n[used], len(ring.names) * width)
    grown = np.cumsum(table.reshape(-1, width), axis=1)
    total = grown[:, -1]
    cut = (grown < SLOW_QUANTILE * total[:, None]).sum(axis=1) + 1.0
    return np.where(is_slow & (total > 0), cut, np.nan)


def count_slow(ring: Ring, cuts: F8, first: int = 0) -> None:
    """Count slow calls of the ring's windows from the `first` one on, by what is slow."""
    if not ring.slow[first:]:
        return
    series, tick, bins, n = (np.concatenate(column) for column in zip(*ring.slow[first:], strict=True))
    column = np.minimum(np.searchsorted(ring.at, tick), len(ring.at) - 1)
    there = ring.at[column] == tick
    rows = np.unique(series)
    ring.ticks.cells[1, rows[:, None], np.unique(column[there])] = 0
    known = np.where(series < len(cuts), cuts[np.minimum(series, len(cuts) - 1)], np.nan)
    slow = there & (bins >= known)
    np.add.at(ring.ticks.cells[1], (series[slow], column[slow]), n[slow])


def _hourly(ring: Ring, past: int, settings: WatchSettings) -> tuple[float, I8, F8]:
    """Days that are known, hours before tick `past`, and their sums."""
    now = past * ring.tick_ns // HOUR_NS
    hours, sums = ring.hour_sums(now)
    used = hours >= now - settings.season_days * HOURS_A_DAY
    hours, sums = hours[used], sums[:, :, used]
    return (float(hours[-1] + 1 - hours[0]) / HOURS_A_DAY if len(hours) else 0.0), hours, sums


def _season(hours: I8, sums: F8, kinds: list[str], n_days: float, least: int) -> F8:
    """[series, hours of a week, or of a day] usual distance from the usual; [series, 0] while nothing is
    known."""
    if n_days < LEAST_DAYS:
        return np.zeros((len(kinds), 0))
    period = HOURS_A_WEEK if n_days >= LEAST_WEEKS else HOURS_A_DAY
    x = values(sums, kinds, least)
    x = x - medians(x)[:, None]
    season = np.stack([medians(x[:, hours % period == place]) for place in range(period)], axis=1)
    slow = np.array([kind == SLOW for kind in kinds])
    return np.where(np.isfinite(season) & ~slow[:, None], season, 0.0)


def season_at(season: F8, at_ns: I8) -> F8:
    """[series, places] the season at some times, from hour to hour in a straight line."""
    period = season.shape[1]
    if not period:
        return np.zeros((len(season), len(at_ns)))
    place = at_ns / HOUR_NS - 0.5
    low = np.floor(place).astype(np.int64)
    part = place - low
    found: F8 = season[:, low % period] * (1 - part) + season[:, (low + 1) % period] * part
    return found


def _days(hours: I8, sums: F8, kinds: list[str], season: F8, least: int) -> F8 | None:
    """[series, days] medians of days; None while there are few."""
    day = hours // HOURS_A_DAY
    days = np.unique(day)
    if len(days) < LEAST_BLOCKS:
        return None
    x = values(sums, kinds, least)
    if season.shape[1]:
        x = x - season[:, hours % season.shape[1]]
    slow = np.array([kind == SLOW for kind in kinds])
    x = np.where(slow[:, None], np.nan, x)  # what is slow is not known of hours
    return np.stack([medians(x[:, day == one]) for one in days], axis=1)


def _blocks(left: F8, hour: I8) -> F8:
    """[series, hours] medians of quiet hours."""
    hours, n = np.unique(hour, return_counts=True)
    hours = hours[n >= LEAST_BLOCKS]
    return np.stack([medians(left[:, hour == one]) for one in hours], axis=1) if len(hours) else left[:, :0]


def _spread(blocks: F8) -> F8:
    """[series] spread of medians: what a system does by itself; 0 while there are few."""
    if blocks.shape[1] < LEAST_BLOCKS:
        return np.zeros(len(blocks))
    spread = robust_sd(blocks)
    enough = np.isfinite(blocks).sum(axis=1) >= LEAST_BLOCKS
    return np.where(enough & np.isfinite(spread), spread, 0.0)
