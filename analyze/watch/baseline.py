"""Baseline of each series: its seasonal course over the week, its level, its scatter, and its normal drift.

Learned from ticks without an incident (quiet ticks) only. A value is compared with the seasonal course
(medians by hour of the week, or of the day while the lake is young) and with the level (median of the
residuals). The residuals are modelled as a level that reverts to its usual value (AR(1)) observed through
noise; a Kalman filter predicts each residual from the earlier ones (`innovations`). An allowance covers the
drift from day to day that the system shows by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

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

MEDIAN_VARIANCE: Final = float(np.pi / 2)
"""Variance of the median of normal values, as a multiple of the variance of their mean."""
HOURS_A_DAY, HOURS_A_WEEK = 24, 168
LEAST_BLOCKS: Final = 3
"""Minimum number of daily medians for an estimate of their spread; with fewer, hourly medians are used."""
KNOWN: Final = 10
"""Weight of the assumed autocorrelation (`rho`), as a number of pairs of values."""
MOST_POOLED: Final = 64
"""Maximum number of ticks pooled to one value; series that need more ticks are left to the daily comparison.
"""
BLOCK: Final = 256
"""Maximum number of series fitted at once, which bounds the memory for the arrays of past values."""
RUN: Final = 2 * MOST_POOLED
"""Number of successive ticks that a sample takes together: two values of the rarest series."""
MEMORY: Final = 16
"""Number of past values from which the filter predicts the next value."""
RECENT: Final = MEMORY * MOST_POOLED
"""Maximum number of ticks that MEMORY values can span."""
LAGS: Final = 2
"""Number of autocorrelations used to estimate the AR(1) coefficient of a level."""
MOST_PHI: Final = 0.99
"""Upper bound of the autocorrelation: at 1 a level would be a random walk, which does not revert to a usual
value."""
_TINY: Final = 1e-9


def usable(names: list[Name]) -> B1:
    """[series] True for series that get a baseline each; False for operations' call counts, and for
    instances, which share a baseline per component."""
    return np.array([name.kind != OPERATION and name.kind not in INSTANCES for name in names], dtype=np.bool_)


def values(sums: F8, kinds: list[str], least: int) -> F8:
    """Values computed from sums, float64[series, ticks or pools]: mean of logs, share, or log of calls per
    call of the caller.

    sums: float64[3, series, ticks or pools] den, num, sq. NaN where there are fewer than `least` / 2 events.
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
    """Sampling standard error of each value, float64[series, ticks or pools]; with no events, as for one
    event.

    sums: float64[3, series, ticks or pools] den, num, sq.
    """
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
    """Add up sums over each k consecutive ticks (a pool), aligned to the epoch: (pool numbers, float64[3,
    series, pools]).

    at: numbers of the ticks, ascending.
    """
    if k == 1:
        return at, sums
    pool = at // k
    first = np.flatnonzero(np.concatenate(([True], pool[1:] != pool[:-1])))
    return pool[first], np.add.reduceat(sums, first, axis=2)


def pool_of(per_tick: F8, least: int) -> F8:
    """Number of ticks to pool for each series, a power of two: the smallest that contains `least` events on
    average.

    per_tick: float64[series] mean number of events per tick.
    """
    found: F8 = np.exp2(np.ceil(np.log2(np.maximum(least / np.maximum(per_tick, _TINY), 1.0))))
    return found


def robust_sd(x: F8) -> F8:
    """[rows] standard deviations, estimated by the median absolute deviation."""
    return MAD * row_medians(np.abs(x - row_medians(x)[:, None]))


@dataclass(frozen=True, slots=True)
class Sample:
    """Ticks to learn a baseline from: runs of `RUN` successive ticks, evenly spaced over the baseline's span.

    The spacing doubles until at most `most` ticks remain, so the sample of a longer span is a subset of the
    sample of a shorter one, apart from the added time.
    """

    past: int
    span: int
    most: int

    def takes(self, at: I8) -> B1:
        """bool[ticks]: True for ticks in this sample, and for ticks after `past` that the same spacing would
        select."""
        stride = 1 << max(-(-self.span // self.most) - 1, 0).bit_length()
        found: B1 = (at >= self.past - self.span) & (at // RUN % stride == 0)
        return found


@dataclass(frozen=True, slots=True)
class Level:
    """AR(1) model of several series: parameters of the level, and the noise around it; arrays are
    [series]."""

    variance: F8
    share: F8
    """Share of `variance` due to the level, in [0, 1]; the rest is noise."""
    phi: F8
    """Autocorrelation of the level between successive values."""
    sampled: F8
    """Usual sampling variance of a value; it is a part of the noise."""


@dataclass(frozen=True, slots=True)
class Pooled:
    """Baselines of all series that need the same number `k` of ticks per value; arrays are [series of this
    group]."""

    k: int
    rows: I8
    """Number of each series in the ring buffer."""
    kinds: list[str]
    middle: F8
    season: F8
    """[series, hours of the week or day] deviation by season from the median; no columns if the series has no
    season."""
    sd: F8
    level: Level
    spread: F8
    """Standard deviation of the innovations (prediction errors), in units of the predicted standard
    deviation: about 1."""
    allow: F8
    n: I8
    """Number of past values of each series."""
    past: F8
    """[series, past values] standardized innovations (prediction errors), ascending, NaN last."""
    signature: F8
    """[series, values] innovations in successive values after the level has risen by 1 for good."""
    both: B1
    """[series] True for series that alarm on a decrease, too; the others alarm on an increase only."""
    since: I8
    """[series] tick in which an instance without a baseline of its own appeared (its first values are
    skipped); 0 for all other series.
    """
    many: F8
    """[series] number of series that a row represents: 1, or the mean number of present instances for a row
    that all instances of a component share."""

    @property
    def ways(self) -> float:
        """Mean number of tests per tick in this group; a series that alarms in both directions counts
        twice."""
        return float(((1 + self.both) * self.many).sum()) / self.k


@dataclass(frozen=True, slots=True)
class Typical:
    """Baseline shared by the instances of one component, for one kind of series."""

    kind: str
    component: str
    pooled: Pooled
    """Baseline of a single series that represents any instance; its `rows` is empty."""
    own: Mapping[Name, float]
    """Instance -> lasting deviation from the siblings, for instances with enough values."""
    apart: float
    """Standard deviation, over instances, of the lasting deviation from the siblings; assumed for instances
    not in `own`."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """Baselines of all series, learned at one tick."""

    groups: tuple[Pooled, ...]
    cuts: F8
    """float64[series in the ring buffer]: first coarse bin (half an octave) of own time that counts as slow;
    NaN if unknown."""
    most_arrivals: float
    n_ticks: int
    instances: tuple[Typical, ...] = ()
    """Baselines shared by the instances of each component."""

    @property
    def n_series(self) -> int:
        """Number of series with a baseline."""
        return round(sum(float(group.many.sum()) for group in self.all_groups))

    @property
    def all_groups(self) -> tuple[Pooled, ...]:
        """Groups of all series, then one per component's instances, which stands also for absent
        instances."""
        return (*self.groups, *(one.pooled for one in self.instances))

    def nearer_than(self, before: Baseline) -> float:
        """Factor by which standard deviations shrank: median over series of the one in `before` divided by
        the one here; 1 without common series."""
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
    """Learn a baseline from the quiet ticks in a sample; also recount the slow calls in `ring` by the new
    limits.

    quiet: bool[ticks], False in incidents. anew: series -> first tick of its normal behaviour; earlier values
    are ignored.
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
    """Estimate AR(1) levels from autocorrelations of the residuals.

    With white noise, the autocorrelation of an AR(1) level at lag n is `share` · `phi`^n. Both are shrunk
    towards an assumed autocorrelation where data are few; where runs are too short for the longer lags, all
    variance is attributed to the level.
    """
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


def innovations(residual: F8, pool: I8, error: F8, level: Level, allowed_shift: F8) -> tuple[F8, F8, F8]:
    """Standardized one-step prediction errors of a local-level Kalman filter, [series, pools]; NaN where a
    value is missing.

    After a gap the filter restarts. error: sampling standard errors of the values; variance beyond the usual
    is added to the noise. allowed_shift: [series] lasting shift that counts as no change. Returns the
    innovations, the predicted standard deviations (their units), and the part of the allowed shift that the
    filter has not absorbed yet, in these units.
    """
    moves = level.share * level.variance
    more = np.maximum(np.nan_to_num(error) ** 2 - level.sampled[:, None], 0.0)
    noise = (level.variance - moves)[:, None] + more
    found, units, allowed = np.full_like(residual, np.nan), np.ones_like(residual), np.zeros_like(residual)
    phi_squared, start = level.phi**2, np.zeros(len(residual))
    predicted, absorbed, uncertainty = start, start, moves
    for at in range(residual.shape[1]):
        if at and pool[at] != pool[at - 1] + 1:
            predicted, absorbed, uncertainty = start, start, moves
        unit = np.sqrt(np.maximum(uncertainty + noise[:, at], _TINY**2))
        off, left = residual[:, at] - predicted, allowed_shift - absorbed
        there = np.isfinite(off)
        found[:, at], units[:, at], allowed[:, at] = off / unit, unit, left / unit
        gain = np.where(there, uncertainty / (unit * unit), 0.0)
        predicted = level.phi * (predicted + gain * np.where(there, off, 0.0))
        absorbed = level.phi * (absorbed + gain * left)
        uncertainty = phi_squared * uncertainty * (1 - gain) + moves * (1 - phi_squared)
    return found, units, allowed


def signature_of(level: Level, n: int) -> F8:
    """[series, n] innovations in n successive values after the level has risen by 1 for good; they fall as
    the filter learns the new level."""
    step = np.zeros((len(level.phi), MEMORY + n))
    step[:, MEMORY:] = 1.0
    exact, at = np.zeros_like(step), np.arange(MEMORY + n)
    return innovations(step, at, exact, level, np.zeros(len(step)))[0][:, MEMORY:]


def spread_of(off: F8, kinds: list[str]) -> F8:
    """Standard deviation of each series of values with mean zero, float64[series].

    By the median absolute deviation, which single outliers do not affect; for shares, which are bounded and
    mostly at the median, by the root mean square. off: float64[series, values].
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
    """[series] first coarse bin that counts as slow: half an octave above quantile `level` of normal calls;
    NaN if unknown.

    history: indices of the normal ticks; is_slow: bool[series], True for series of slow calls.
    """
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
    """Recount slow calls in the ring buffer.

    cuts: first slow bin of each series; first: index of the first window, in `ring.slow`, to recount.
    """
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
    """Hourly sums before tick `past`: (number of days covered, hours since the epoch, den, num, sq as [3,
    series, hours])."""
    now = past * ring.tick_ns // HOUR_NS
    hours, sums = ring.hour_sums(now)
    used = hours >= now - settings.season_days * HOURS_A_DAY
    hours, sums = hours[used], sums[:, :, used]
    return (float(hours[-1] + 1 - hours[0]) / HOURS_A_DAY if len(hours) else 0.0), hours, sums


def _season(hours: I8, sums: F8, kinds: list[str], n_days: float, settings: WatchSettings) -> F8:
    """[series, hours of the week or day] median deviation from the series' median; no columns with too few
    days."""
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
    """[series, hours of the day or week] median of `x` by hour, shrunk by the share of the medians' variance
    that is chance.

    With few days the medians are mostly chance, and subtracting them would add noise to every value. place:
    position of each column of `x` in the period; period: its length, hours.
    """
    found = np.stack([row_medians(x[:, place == one]) for one in range(period)], axis=1)
    n = np.maximum(np.isfinite(x).sum(axis=1) / period, 1.0)
    spread = robust_sd(x - found[:, place]) ** 2 * n / np.maximum(n - 1, 0.5)
    chance = np.nan_to_num(spread * MEDIAN_VARIANCE / n)
    found = np.nan_to_num(found)
    drawn = 1 - chance / np.maximum(found.var(axis=1), _TINY)
    course: F8 = found * np.clip(drawn, 0.0, 1.0)[:, None]
    return course


def season_at(season: F8, at_ns: I8) -> F8:
    """[series, times] seasonal deviation at each time (ns since the epoch), interpolated linearly between
    hours.
    """
    period = season.shape[1]
    if not period:
        return np.zeros((len(season), len(at_ns)))
    place = at_ns / HOUR_NS - 0.5
    low = np.floor(place).astype(np.int64)
    part = place - low
    found: F8 = season[:, low % period] * (1 - part) + season[:, (low + 1) % period] * part
    return found


def _own_spread(hours: I8, sums: F8, kinds: list[str], season: F8, least: int) -> F8:
    """[series] standard deviation of daily medians (with few days, of hourly medians): the system's normal
    drift.

    0 if there are too few medians, and for shares of slow calls, which are not stored by hour.
    """
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
