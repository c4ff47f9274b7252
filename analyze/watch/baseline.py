"""What is usual of each series: its course over the week, its level, how it scatters, and what it does by
itself.

Learned from quiet ticks only. A value is compared with the usual course (medians by hour of the week, of the
day while the lake is young), with its level (the median of what is left), and with what the values before it
foretell: what is left is a level that returns to the usual one by and by (AR(1)), seen through noise, which a
Kalman filter takes out (`innovations`). An allowance is made for what the system does by itself from day to
day.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from analyze.stats.histograms import BIN_LOG
from analyze.stats.noise import MAD, row_medians
from analyze.watch.series import (
    BOTH_WAYS,
    CALLS,
    FLOORS,
    HOUR_NS,
    INSTANCES,
    LOGS,
    OPERATION,
    SHARES,
    SLOW,
    Name,
    Ring,
)
from analyze.watch.settings import WatchSettings
from schemas.arrays import B1, F8, I8

if TYPE_CHECKING:
    from analyze.watch.typical import Typical

MEDIAN_VARIANCE: Final = float(np.pi / 2)
"""Of a median, to that of a mean of as many."""
HOURS_A_DAY, HOURS_A_WEEK = 24, 168
LEAST_BLOCKS: Final = 3
"""Day medians that a spread is learned from; while there are fewer, those of hours."""
KNOWN: Final = 10
"""Pairs of values that weigh as much as the autocorrelation that is assumed."""
MOST_POOLED: Final = 64
"""Ticks that a value may be made of; rarer series are left to the daily comparison."""
BLOCK: Final = 256
"""Series that are learned at once: of these all past values are in memory."""
RUN: Final = 2 * MOST_POOLED
"""Ticks that are learned from together: two values of the rarest series."""
MEMORY: Final = 16
"""Values that foretell the next one."""
RECENT: Final = MEMORY * MOST_POOLED
"""Ticks back that those lie."""
LAGS: Final = 2
"""Autocorrelations that say how a level moves."""
MOST_PHI: Final = 0.99
"""Autocorrelation at most: at 1 a level would be a random walk, and have no usual value to return to."""
_TINY: Final = 1e-9


def usable(names: list[Name]) -> B1:
    """[series] whether what is usual of a series is learned of itself."""
    return np.array([name.kind != OPERATION and name.kind not in INSTANCES for name in names], dtype=np.bool_)


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
    counted = np.where(calls, np.sqrt(den / (np.maximum(num, 0.0) + 1)), np.sqrt(drawn * (1 - drawn)))
    found: F8 = np.where(logs, spread, counted) / np.sqrt(den)
    return found


def pooled(sums: F8, at: I8, k: int) -> tuple[I8, F8]:
    """Pools of k ticks, aligned since the epoch: (numbers, [3, series, pools] sums)."""
    if k == 1:
        return at, sums
    pool = at // k
    first = np.flatnonzero(np.concatenate(([True], pool[1:] != pool[:-1])))
    return pool[first], np.add.reduceat(sums, first, axis=2)


def pool_of(per_tick: F8, least: int) -> F8:
    """Give how many ticks hold so many events, a power of two."""
    found: F8 = np.exp2(np.ceil(np.log2(np.maximum(least / np.maximum(per_tick, _TINY), 1.0))))
    return found


def robust_sd(x: F8) -> F8:
    """[rows] standard deviations by median distance from the median."""
    return MAD * row_medians(np.abs(x - row_medians(x)[:, None]))


@dataclass(frozen=True, slots=True)
class Sample:
    """Ticks that are learned from: of those that the baseline spans whole runs at even distances.

    Twice as far apart where there are more than `most`, so a longer time takes no tick that a shorter one
    does not.
    """

    past: int
    span: int
    most: int

    def takes(self, at: I8) -> B1:
        """[ticks] whether one is in the sample, or may be in the next one."""
        stride = 1 << max(-(-self.span // self.most) - 1, 0).bit_length()
        found: B1 = (at >= self.past - self.span) & (at // RUN % stride == 0)
        return found


@dataclass(frozen=True, slots=True)
class Level:
    """How levels move by themselves and how noisy they are seen; arrays are [series]."""

    variance: F8
    share: F8
    """Of the variance that is the level's; the rest is noise."""
    phi: F8
    """Autocorrelation of the level, from value to value."""
    sampled: F8
    """Variance by sampling that is usual: part of the noise."""


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
    level: Level
    spread: F8
    """Of innovations in units of what they are expected to be: about 1."""
    allow: F8
    n: I8
    """Past values."""
    past: F8
    """[series, past values] innovations in these units, ascending, NaN last."""
    signature: F8
    """[series, values] what a change of the level by one leaves in its innovation and those behind it."""
    both: B1
    """Whether it alarms downward, too."""
    since: I8
    """Tick in which an instance of which nothing is known appeared: its first values are left out; else 0."""
    many: F8
    """Series that it is said of, on average: of an instance that stands for all those of its component."""

    @property
    def ways(self) -> float:
        """Tests a tick."""
        return float(((1 + self.both) * self.many).sum()) / self.k


@dataclass(frozen=True, slots=True)
class Baseline:
    """What is usual, as it was learned at some tick."""

    groups: tuple[Pooled, ...]
    cuts: F8
    """[ring series] first coarse bin that is slow; NaN where nothing is known."""
    most_arrivals: float
    n_ticks: int
    instances: tuple[Typical, ...] = ()
    """What is usual of those of each component."""

    @property
    def n_series(self) -> int:
        """Series that are known well enough."""
        return round(sum(float(group.many.sum()) for group in self.all_groups))

    @property
    def all_groups(self) -> tuple[Pooled, ...]:
        """Those of series, and of instances, which stand for those that are there."""
        return (*self.groups, *(one.pooled for one in self.instances))

    def nearer_than(self, before: Baseline) -> float:
        """Give how many times as far as now series deviated before: the median of those that both know."""
        was, now = (
            {
                row: variance
                for group in one.groups
                for row, variance in zip(group.rows.tolist(), group.level.variance.tolist(), strict=True)
            }
            for one in (before, self)
        )
        ratios = [was[row] / now[row] for row in was.keys() & now.keys()]
        return float(np.sqrt(np.median(ratios))) if ratios else 1.0


def fit(
    ring: Ring, quiet: B1, sample: Sample, settings: WatchSettings, anew: Mapping[Name, int] | None = None
) -> Baseline:
    """Learn from a sample of the ring's quiet ticks; [ticks] quiet. Sets what is slow.

    anew: series whose ordinary times begin at a tick.
    """
    history = np.flatnonzero(quiet & sample.takes(ring.at) & (ring.at < sample.past))
    usual = usable(ring.names)
    kinds = [name.kind for name in ring.names]
    cuts = _slow_cuts(ring, history, np.array([kind == SLOW for kind in kinds]), settings.slow_level)
    count_slow(ring, cuts)
    at = ring.at[history]
    n_days, hours, hourly = _hourly(ring, sample.past, settings)
    per_tick = ring.events(history) / max(len(history), 1)
    k_of = pool_of(per_tick, settings.least_events)
    groups = []
    of_one_k = (np.flatnonzero(usual & (k_of == 2**power)) for power in range(MOST_POOLED.bit_length()))
    for rows in (alike[n : n + BLOCK] for alike in of_one_k for n in range(0, len(alike), BLOCK)):
        if not len(history):
            break
        k = int(k_of[rows[0]])
        pool, here = pooled(ring.sums(rows, history), at, k)
        mine = [kinds[row] for row in rows]
        x = values(here, mine, settings.least_events)
        for row, code in enumerate(rows.tolist()):
            if anew and ring.names[code] in anew:
                x[row, pool * k < anew[ring.names[code]]] = np.nan
        season = _season(hours, hourly[:, rows], mine, n_days, settings)
        x = x - season_at(season, pool * k * ring.tick_ns + k * ring.tick_ns // 2)
        n = np.isfinite(x).sum(axis=1)
        moves = _moves(x) | np.isin(mine, ["pattern", "fail", "failures", "slow", "calls"])
        known = (n >= settings.warm_ticks) & moves
        if not known.any():
            continue
        rows, x, season, n = rows[known], x[known], season[known], n[known]
        mine = [kinds[row] for row in rows]
        middle = row_medians(x)
        left = x - middle[:, None]
        sd = np.maximum(spread_of(left, mine), _TINY)
        error = errors(here[:, known], mine)
        level = level_of(left, pool, sd, error, settings)
        floors = np.array([FLOORS[kind] for kind in mine])
        own = _own_spread(hours, hourly[:, rows], mine, season, settings.least_events)
        allow = np.maximum(settings.allowance * own, settings.floor_share * floors)
        white = innovations(left, pool, error, level, allow)[0]
        groups.append(
            Pooled(
                k=k,
                rows=rows,
                kinds=mine,
                middle=middle,
                season=season,
                sd=sd,
                level=level,
                spread=spread_of(white, mine),
                allow=allow,
                n=n,
                past=np.sort(white, axis=1),
                signature=signature_of(level, settings.size_values),
                both=np.isin(mine, list(BOTH_WAYS)),
                since=np.zeros(len(rows), dtype=np.int64),
                many=np.ones(len(rows)),
            )
        )
    arrivals = ring.requests[history]
    return Baseline(tuple(groups), cuts, float(arrivals.max(initial=0.0)), len(history))


def level_of(left: F8, pool: I8, sd: F8, error: F8, settings: WatchSettings) -> Level:
    """Learn how levels move, by autocorrelations: those of a level seen through noise fall from its share of
    the variance on, by the same part each. Drawn to one that is assumed where little is known; where runs
    are too short for the longer lags, all is taken for level."""
    z = np.clip(left / sd[:, None], -4, 4)
    lags = range(1, LAGS + 2)
    rows = [_autocorrelation(z, pool, lag, settings.rho) for lag in lags]
    near, far = np.sum(rows[:-1], axis=0), np.sum(rows[1:], axis=0)
    has_all = all((pool[lag:] - pool[:-lag] == lag).any() for lag in lags)
    phi = np.clip(far / np.maximum(near, _TINY) if has_all else rows[0], 0.0, MOST_PHI)
    share = np.clip(rows[0] / np.maximum(phi, _TINY), 0.0, 1.0) * settings.whiten
    sampled = row_medians(np.where(np.isfinite(left), error, np.nan)) ** 2
    return Level(np.maximum(sd * sd, sampled), share, phi, sampled)


def _autocorrelation(z: F8, pool: I8, lag: int, assumed: float) -> F8:
    a, b = z[:, :-lag], z[:, lag:]
    both = np.isfinite(a) & np.isfinite(b) & (pool[lag:] - pool[:-lag] == lag)
    a, b = np.where(both, a, 0), np.where(both, b, 0)
    raw = (a * b).sum(1) / np.maximum(np.sqrt((a * a).sum(1) * (b * b).sum(1)), _TINY)
    n = both.sum(1)
    found: F8 = (raw * n + assumed**lag * KNOWN) / (n + KNOWN)
    return found


def innovations(left: F8, pool: I8, error: F8, level: Level, allow: F8) -> tuple[F8, F8, F8]:
    """Give [series, pools] what each value has that those before it did not foretell (Kalman filter), in
    units of what is expected of it; over a gap nothing is foretold. NaN where no value is.

    error: standard errors of values by sampling; what is more than usual is more noise. allow: [series] a
    shift for good. Beside the innovations: the units, and what of the shift is left in each, in these.
    """
    moves = level.share * level.variance
    more = np.maximum(np.nan_to_num(error) ** 2 - level.sampled[:, None], 0.0)
    noise = (level.variance - moves)[:, None] + more
    found, units, allowed = np.full_like(left, np.nan), np.ones_like(left), np.zeros_like(left)
    start = np.zeros((2, len(left)))
    foretold, doubt = start, moves
    for at in range(left.shape[1]):
        if at and pool[at] != pool[at - 1] + 1:
            foretold, doubt = start, moves
        unit = np.sqrt(np.maximum(doubt + noise[:, at], _TINY**2))
        off = left[:, at] - foretold[0]
        there = np.isfinite(off)
        found[:, at], units[:, at], allowed[:, at] = off / unit, unit, (allow - foretold[1]) / unit
        gain = np.where(there, doubt / (unit * unit), 0.0)
        seen = np.stack([np.where(there, off, 0.0), allow - foretold[1]])
        foretold = level.phi * (foretold + gain * seen)
        doubt = level.phi**2 * doubt * (1 - gain) + moves * (1 - level.phi**2)
    return found, units, allowed


def signature_of(level: Level, n: int) -> F8:
    """Give [series, n] the innovations of a level that changes by one for good: the filter learns it by and
    by."""
    step = np.zeros((len(level.phi), MEMORY + n))
    step[:, MEMORY:] = 1.0
    exact, at = np.zeros_like(step), np.arange(MEMORY + n)
    return innovations(step, at, exact, level, np.zeros(len(step)))[0][:, MEMORY:]


def spread_of(off: F8, kinds: list[str]) -> F8:
    """[series] standard deviations of what is off by nothing on average.

    By medians where one odd value could carry them away. A share is bounded, and its median distance is
    nothing where most ticks have none.
    """
    n = np.maximum(np.isfinite(off).sum(axis=1), 1)
    plain = np.sqrt(np.nansum(off * off, axis=1) / n)
    return np.where(np.isin(kinds, [*SHARES]), plain, MAD * row_medians(np.abs(off)))


def _moves(x: F8) -> B1:
    low, high = (
        np.nanmin(np.where(np.isfinite(x), x, np.inf), axis=1),
        np.nanmax(np.where(np.isfinite(x), x, -np.inf), axis=1),
    )
    found: B1 = high - low > _TINY
    return found


def _slow_cuts(ring: Ring, history: I8, is_slow: B1, level: float) -> F8:
    """[series] where this part of the calls of ordinary times ends, half an octave on."""
    cuts = np.full(len(ring.names), np.nan)
    if not ring.slow or not len(history):
        return cuts
    first, past = ring.at[history[0]], ring.at[history[-1]] + 1
    parts = [one for one in ring.slow if one["tick"].max() >= first and one["tick"].min() < past]
    if not parts:
        return cuts
    slow = np.concatenate(parts)
    width = int(slow["bin"].max(initial=0)) + 1
    slow = slow[np.isin(slow["tick"], ring.at[history])]
    table = np.bincount(slow["series"] * width + slow["bin"], slow["num"], len(ring.names) * width)
    grown = np.cumsum(table.reshape(-1, width), axis=1)
    total = grown[:, -1]
    cut = (grown < level * total[:, None]).sum(axis=1) + 1.0
    return np.where(is_slow & (total > 0), cut, np.nan)


def count_slow(ring: Ring, cuts: F8, first: int = 0) -> None:
    """Count slow calls of the ring's windows from the `first` one on, by what is slow."""
    if not ring.slow[first:]:
        return
    calls = np.concatenate(ring.slow[first:])
    series, tick = calls["series"], calls["tick"]
    column = np.minimum(np.searchsorted(ring.at, tick), len(ring.at) - 1)
    there = ring.at[column] == tick
    rows = np.unique(series)
    ring.ticks.cells[1, rows[:, None], np.unique(column[there])] = 0
    known = np.where(series < len(cuts), cuts[np.minimum(series, len(cuts) - 1)], np.nan)
    slow = there & (calls["bin"] >= known)
    np.add.at(ring.ticks.cells[1], (series[slow], column[slow]), calls["num"][slow])


def _hourly(ring: Ring, past: int, settings: WatchSettings) -> tuple[float, I8, F8]:
    """Days that are known, hours before tick `past`, and their sums."""
    now = past * ring.tick_ns // HOUR_NS
    hours, sums = ring.hour_sums(now)
    used = hours >= now - settings.season_days * HOURS_A_DAY
    hours, sums = hours[used], sums[:, :, used]
    return (float(hours[-1] + 1 - hours[0]) / HOURS_A_DAY if len(hours) else 0.0), hours, sums


def _season(hours: I8, sums: F8, kinds: list[str], n_days: float, settings: WatchSettings) -> F8:
    """[series, hours of a week, or of a day] usual distance from the usual; [series, 0] while nothing is
    known."""
    if n_days < settings.season_periods:
        return np.zeros((len(kinds), 0))
    x = values(sums, kinds, settings.least_events)
    x = x - row_medians(x)[:, None]
    season = _course(x, hours % HOURS_A_DAY, HOURS_A_DAY)
    days = HOURS_A_WEEK // HOURS_A_DAY
    if n_days >= settings.season_periods * days:
        left = x - season[:, hours % HOURS_A_DAY]
        season = np.tile(season, days) + _course(left, hours % HOURS_A_WEEK, HOURS_A_WEEK)
    slow = np.array([kind == SLOW for kind in kinds])
    return np.where(slow[:, None], 0.0, season)


def _course(x: F8, place: I8, period: int) -> F8:
    """[series, places] medians by place in a period, drawn to nothing by the part of their variance that
    chance gives them: of few days they are mostly chance, which would be taken out of every value."""
    found = np.stack([row_medians(x[:, place == one]) for one in range(period)], axis=1)
    n = np.maximum(np.isfinite(x).sum(axis=1) / period, 1.0)
    spread = robust_sd(x - found[:, place]) ** 2 * n / np.maximum(n - 1, 0.5)
    chance = np.nan_to_num(spread * MEDIAN_VARIANCE / n)
    found = np.nan_to_num(found)
    drawn = 1 - chance / np.maximum(found.var(axis=1), _TINY)
    course: F8 = found * np.clip(drawn, 0.0, 1.0)[:, None]
    return course


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


def _own_spread(hours: I8, sums: F8, kinds: list[str], season: F8, least: int) -> F8:
    """[series] spread of the medians of days, of hours while there are few days: what a system does by
    itself; 0 while there are few of these, and of what is slow, which is not known of hours."""
    x = values(sums, kinds, least)
    if season.shape[1]:
        x = x - season[:, hours % season.shape[1]]
    day = hours // HOURS_A_DAY
    days = np.unique(day)
    if len(days) >= LEAST_BLOCKS:
        x = np.stack([row_medians(x[:, day == one]) for one in days], axis=1)
    spread = robust_sd(x) if x.shape[1] else np.zeros(len(x))
    known = (np.isfinite(x).sum(axis=1) >= LEAST_BLOCKS) & [kind != SLOW for kind in kinds]
    return np.where(known, spread, 0.0)
