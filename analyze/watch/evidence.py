"""Evidence of series against normal behaviour: p-values become e-values, whose logarithms are summed
(e-CUSUM).

The mean of an e-value is at most 1 while nothing changed. Restarted whenever it falls below 1, their running
product passes a threshold c at most about once in c ticks (e-detectors; Shin, Ramdas and Rinaldo). Since
p-values of normal times are uniform whatever the distribution of the values, the rate of passing is also
known exactly (Brook and Evans), and is some twenty times lower than that bound. So the threshold follows from
the budget: candidates in the time for which one false incident is allowed. The last restart is the proposed
change point.

If the level jumps in normal times, values are not independent: until a filter has learned the new level,
successive values deviate together, and sums pass more often. So each sum also carries the size of its change
(`size_of`), by which the watch selects those worth a comparison. Sizes are relative to a large step of the
same series, because a level that the filter learns quickly leaves less evidence than one it learns slowly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import numpy as np
from scipy import special
from scipy.optimize import brentq

from analyze.stats.absorption import mean_absorption_time
from analyze.watch.baseline import MEMORY, Baseline, Pooled, errors, innovations, pooled, season_at, values
from analyze.watch.series import FAILING, Name, Ring
from analyze.watch.settings import WatchSettings
from schemas.arrays import B1, F8, I8
from schemas.config import Config

_LEAST_P: Final = 1e-12
_LEAST_SPREAD: Final = 1e-9
_STATES: Final = 60
"""Number of grid cells between 0 and the threshold in `run_length`; run lengths are then accurate to 1/20."""
_LEAST_THRESHOLD, _MOST_THRESHOLD = 1.0, 40.0
_ROUNDED: Final = 1e-9
UP, DOWN = 0, 1


def log_e_value(p: F8, kappa: float) -> F8:
    """Logarithm of the e-value of a p-value (Vovk and Wang): log κ + (κ - 1) log p."""
    found: F8 = np.log(kappa) + (kappa - 1) * np.log(np.maximum(p, _LEAST_P))
    return found


def grown(sums: F8, gain: F8) -> F8:
    """Sums after one tick with evidence `gain`; a sum that falls below 0 restarts at 0."""
    found: F8 = np.maximum(np.maximum(sums, 0) + gain, 0)
    return found


@lru_cache(maxsize=256)
def run_length(threshold: float, cap: float, kappa: float) -> float:
    """Average number of normal values until a sum passes a threshold (Brook and Evans, 1972).

    The sum is approximated by a Markov chain on `_STATES` cells; its gain is log κ + (1-κ) E, at most `cap`,
    E exponential.
    """
    edges = np.linspace(0, threshold, _STATES + 1)
    states = np.concatenate(([0.0], (edges[1:] + edges[:-1]) / 2))
    room = edges - states[:, None]
    excess = np.maximum(room - np.log(kappa), 0) / (1 - kappa)
    beyond = np.where(room > cap + _ROUNDED, 0.0, np.exp(-excess))
    falls = np.where(room[:, :1] > cap + _ROUNDED, 1.0, -np.expm1(-excess[:, :1]))
    return mean_absorption_time(np.hstack([falls, beyond[:, :-1] - beyond[:, 1:]]), beyond[:, -1])


def log_threshold(base: Baseline, tick_ns: int, settings: WatchSettings) -> float:
    """Threshold of the sums of log e-values, passed in normal times as often as the budget allows candidates.

    A natural logarithm, from `_LEAST_THRESHOLD` to `_MOST_THRESHOLD`.
    """
    allowed = settings.candidates * tick_ns / settings.ns_a_false_alarm

    def excess(threshold: float) -> float:
        """Log of the rate per tick of passing `threshold`, divided by the allowed rate; its zero is the
        threshold sought."""
        caps = {group.k: cap_of(threshold, group.k, settings) for group in base.all_groups}
        runs = {cap: run_length(threshold, cap, settings.kappa) for cap in set(caps.values())}
        passes = sum(group.ways / runs[caps[group.k]] for group in base.all_groups)
        return float(np.log(max(passes, np.finfo(float).tiny) / allowed))

    if excess(_LEAST_THRESHOLD) <= 0:
        return _LEAST_THRESHOLD
    if excess(_MOST_THRESHOLD) >= 0:
        return _MOST_THRESHOLD
    return float(brentq(excess, _LEAST_THRESHOLD, _MOST_THRESHOLD, xtol=1e-3))


def size_of(white: F8, pool: I8, signature: F8, limit: float) -> F8:
    """[..., series, pools] size of a level change that lasts up to each value, in standard deviations of its
    estimate (Willsky and Jones, 1976).

    white: [..., series, pools] innovations in units of their usual spread, winsorised at `limit`; pool:
    [pools] numbers; signature: [series, values]. Estimates use the last two, three, … values, as many as
    `signature` has, and do not span a gap; the largest one counts.
    """
    bounded = np.clip(np.nan_to_num(white), -limit, limit)
    found, left = np.full(white.shape, -np.inf), signature[:, :, None]
    total, power = bounded * left[:, 0], left[:, 0] ** 2
    for back in range(1, min(left.shape[1], len(pool))):
        total = total[..., :-1] + bounded[..., back:] * left[:, back]
        power = power + left[:, back] ** 2
        near = pool[back:] - pool[:-back] == back
        here = np.where(near, total / np.sqrt(power), -np.inf)
        found[..., back:] = np.maximum(found[..., back:], here)
    return found


def large_step(group: Pooled, settings: WatchSettings) -> F8:
    """[series] size, as by `size_of`, of a step of `always_compared` standard deviations in a series without
    noise: the unit of sizes."""
    step = settings.always_compared * np.sqrt(group.level.variance)[:, None] * group.signature
    white = step / np.maximum(group.spread, _LEAST_SPREAD)[:, None]
    sizes = size_of(white, np.arange(white.shape[1]), group.signature, settings.size_limit)
    found: F8 = np.maximum(sizes.max(axis=1), _LEAST_SPREAD)
    return found


def cap_of(threshold: float, k: int, settings: WatchSettings) -> float:
    """Maximum evidence (log e-value) of one value pooled from k ticks: the share k / `cap_ticks` of the
    threshold, but not above the threshold."""
    return min(k / settings.cap_ticks, 1.0) * threshold


def tail_p(value: F8, spread: F8, group: Pooled, settings: WatchSettings, way: int, mine: B1) -> F8:
    """[selected, ticks] one-sided p-values of innovations (prediction errors) under the baseline.

    By rank among the past innovations if there are enough, else by Student's t. For failures the smaller of
    both: they are rare, and by Student's t one failure in a few calls is never unusual, however seldom any
    failed before. value: [selected, ticks] innovations beyond the allowance, positive in direction `way` (UP
    or DOWN); mine: bool[series of the group] selected series.
    """
    df = np.minimum(group.n[mine] - 1, settings.tail_df)[:, None]
    p: F8 = special.stdtr(df, -value / spread)
    many = group.n[mine] >= settings.ranks_from
    ranked = many | np.isin(group.kinds, [*FAILING])[mine]
    if ranked.any():
        past, n, v = group.past[mine][ranked], group.n[mine][ranked][:, None], value[ranked]
        beyond = n - n_below(past, n, v) if way == UP else n_below(past, n, -v, or_same=True)
        rank = (beyond + 1) / (n + 1)
        p[ranked] = np.where(many[ranked][:, None], rank, np.minimum(rank, p[ranked]))
    return p


def n_below(past: F8, n: I8, v: F8, *, or_same: bool = False) -> I8:
    """[rows, ticks] number of values less than `v` among the first `n` values of each row of `past`,
    ascending.

    or_same: count values equal to `v`, too. O(log values) per row and tick.
    """
    rows = np.arange(len(past))[:, None]
    low, high = np.zeros(v.shape, dtype=np.int64), np.broadcast_to(n, v.shape).copy()
    for _ in range(int(n.max(initial=0)).bit_length()):
        middle = (low + high) // 2
        there = past[rows, np.minimum(middle, past.shape[1] - 1)]
        less = ((there <= v) if or_same else (there < v)) & (low < high)
        low, high = np.where(less, middle + 1, low), np.where(less, high, middle)
    return low


@dataclass(frozen=True, slots=True)
class TickEvidence:
    """Evidence of several series at the end of a tick; arrays have one entry per series in `rows`."""

    rows: I8
    start: int
    """First tick of the pool of ticks that the values cover."""
    gain: F8
    """[directions, series] log e-values: evidence for a change, up or down."""
    size: F8
    """[directions, series] size of a change that lasts to this tick, as a multiple of a large step
    (`large_step`).
    """
    z: F8
    """[series] deviations from the baseline, in normal standard deviations."""


def evidence_of(
    ring: Ring, first: int, past: int, groups: Sequence[Pooled], threshold: float, settings: WatchSettings
) -> dict[int, list[TickEvidence]]:
    """Evidence of all values whose pool of ticks ends in [first, past): tick -> evidence.

    The tick is the last one of the pool with requests; it may lie before `first`. past: end of the ticks,
    exclusive; groups: baselines, one for each pool length.
    """
    found: dict[int, list[TickEvidence]] = {}
    at = ring.at[max(int(np.searchsorted(ring.at, first)) - 1, 0) :]
    for group in groups if len(at) else ():
        k = group.k
        ends = at[np.append(at[1:], past) // k > at // k]
        ends = ends[(ends // k + 1) * k > first]
        if not len(ends):
            continue
        since = (int(ends[0]) // k + 1 - MEMORY) * k
        window = slice(int(np.searchsorted(ring.at, since)), len(ring.at))
        pool, sums = pooled(ring.sums(group.rows, window), ring.at[window], k)
        x, error = values(sums, group.kinds, settings.least_events), errors(sums, group.kinds)
        left = (
            x
            - season_at(group.season, pool * k * ring.tick_ns + k * ring.tick_ns // 2)
            - group.middle[:, None]
        )
        left[pool < (group.since // k + settings.first_values * (group.since > 0))[:, None]] = np.nan
        place = np.searchsorted(pool, ends // k)
        gain, size = _weighed(group, left, pool, error, place, cap_of(threshold, k, settings), settings)
        now = left[:, place]
        # One failure in a few calls is within its sampling error, but unusual where hardly any fails.
        drawn = np.where(np.isin(group.kinds, [*FAILING])[:, None], 0.0, error[:, place])
        usual = np.maximum(np.maximum(group.sd[:, None], drawn), group.allow[:, None] / 2 + _LEAST_SPREAD)
        z = now / usual
        there = np.isfinite(now)
        for column, end in enumerate(ends.tolist()):
            chosen = np.flatnonzero(there[:, column])
            if len(chosen):
                found.setdefault(end, []).append(
                    TickEvidence(
                        group.rows[chosen],
                        end // k * k,
                        gain[:, chosen, column],
                        size[:, chosen, column],
                        z[chosen, column],
                    )
                )
    return found


def _weighed(
    group: Pooled,
    left: F8,
    pool: I8,
    error: F8,
    place: I8 | slice,
    cap: float,
    settings: WatchSettings,
) -> tuple[F8, F8]:
    """(Evidence; size of a change that lasts to the value) of the values at `place`, float64[directions,
    series, ticks] each.

    cap: maximum evidence of one value.
    """
    white, unit, allow = innovations(left, pool, error, group.level, group.allow)
    spread = np.maximum(group.spread[:, None], error / unit) * np.sqrt(1 + 1 / group.n)[:, None]
    spread = np.maximum(spread, _LEAST_SPREAD)
    here, near, allow = white[:, place], spread[:, place], allow[:, place]
    gain = np.full((2, *here.shape), -np.inf)
    for way, sign, mine in ((UP, 1.0, np.ones(len(white), dtype=np.bool_)), (DOWN, -1.0, group.both)):
        if mine.any():
            p = tail_p((sign * here - allow)[mine], near[mine], group, settings, way, mine)
            gain[way, mine] = np.minimum(log_e_value(p, settings.kappa), cap)
    scaled = white / spread
    sizes = size_of(np.stack([scaled, -scaled]), pool, group.signature, settings.size_limit)
    return gain, sizes[:, :, place] / large_step(group, settings)[:, None]


class Kept(Config):
    """Running evidence of one series as saved in a commit; pairs are (up, down)."""

    name: Name
    sums: tuple[float, float]
    starts: tuple[int, int]
    sizes: tuple[float, float]
    lasting: tuple[int, int]
    """Number of values since the size of the change last grew, (up, down)."""
    tried: int = 0
    """Number of comparisons of this candidate that could not decide."""
    again: int = 0
    """Tick from which the candidate may be compared again."""
    held: tuple[float, float] = (0.0, 0.0)
    """Lower bounds of the sums, (up, down): see `RunningEvidence.held`."""


_REMEMBERED: Final = ("sums", "starts", "sizes", "lasting", "tried", "again", "held")
"""Fields of `Kept` that are stored per series."""


@dataclass(slots=True)
class RunningEvidence:
    """Running sums of evidence of all series; arrays are [directions, series] (direction 0: up, 1: down) or
    [series]."""

    sums: F8 = field(default_factory=lambda: np.zeros((2, 0)))
    starts: I8 = field(default_factory=lambda: np.zeros((2, 0), dtype=np.int64))
    """[directions, series] tick in which each sum last restarted."""
    sizes: F8 = field(default_factory=lambda: np.zeros((2, 0)))
    """[directions, series] size of the largest change since the sum restarted."""
    lasting: I8 = field(default_factory=lambda: np.zeros((2, 0), dtype=np.int64))
    """[directions, series] number of values since `sizes` last grew."""
    tried: I8 = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """[series] number of comparisons of the candidate that could not decide."""
    again: I8 = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """[series] tick from which the candidate may be compared once more; 0 if it never was undecided."""
    held: F8 = field(default_factory=lambda: np.zeros((2, 0)))
    """[directions, series] lower bounds of the sums: a change that a comparison found below the required
    level remains a candidate after the filter has absorbed the new level.
    """
    z: F8 = field(default_factory=lambda: np.zeros(0))
    """[series] deviation at the last tick, in normal standard deviations; NaN without a value."""

    def grow(self, n: int) -> None:
        """Extend the arrays to `n` series."""
        more = n - len(self.tried)
        for name in _REMEMBERED if more > 0 else ():
            old = getattr(self, name)
            setattr(self, name, np.pad(old, [(0, 0)] * (old.ndim - 1) + [(0, more)]))

    @property
    def most(self) -> F8:
        """[series] larger of the two directions' sums."""
        found: F8 = self.sums.max(axis=0)
        return found

    @property
    def since(self) -> I8:
        """[series] tick in which the sum `most` (the larger of both directions) last restarted."""
        found: I8 = np.where(self.sums[UP] >= self.sums[DOWN], self.starts[UP], self.starts[DOWN])
        return found

    @property
    def size(self) -> F8:
        """[series] size of the change since the sum `most` (the larger of both directions) restarted."""
        found: F8 = np.where(self.sums[UP] >= self.sums[DOWN], self.sizes[UP], self.sizes[DOWN])
        return found

    def has_grown(self, values: int) -> B1:
        """bool[series]: True where `size` grew within the last `values` values."""
        lasting = np.where(self.sums[UP] >= self.sums[DOWN], self.lasting[UP], self.lasting[DOWN])
        found: B1 = lasting < values
        return found

    def reached(self, least: float) -> B1:
        """bool[series]: True where a sum is at least `least`, up to rounding."""
        found: B1 = self.most >= least - _ROUNDED
        return found

    def rising(self, since: int, least: float) -> I8:
        """Numbers of series whose larger sum restarted at tick `since` or later and is at least `least`."""
        found: I8 = np.flatnonzero(self.reached(least) & (self.since >= since))
        return found

    def oldest(self, latest: int) -> int:
        """Earliest restart tick of the sums above 0, or `latest` if that is earlier."""
        found: int = self.starts[self.sums > 0].min(initial=latest).item()
        return found

    def rescale(self, ratio: float, nearer: float) -> None:
        """Adapt the sums to a new threshold and a new baseline.

        A tick's evidence is capped at a fraction of the threshold, so a sum keeps its ratio to the threshold.
        ratio: new threshold over old; nearer: old standard deviations over new ones.
        """
        self.sums *= ratio
        self.held *= ratio
        self.sizes *= nearer

    def reset(self, at: int, which: I8 | slice = slice(None)) -> None:
        """Set sums to 0, so that they restart after tick `at`. which: indices of the series; default all."""
        self.sums[:, which] = self.held[:, which] = 0
        self.starts[:, which] = at + 1

    def hold(self, rows: I8, confirmed: bool) -> None:
        """Set a lower bound for the larger sum of each series in `rows`: the sum's present value; if not
        `confirmed`, remove the bounds."""
        self.held[:, rows] = (
            np.where(self.sums[:, rows] >= self.most[rows], self.sums[:, rows], 0.0) * confirmed
        )

    def drop(self, at: int, rows: I8) -> None:
        """End the candidates `rows`: set their sums to 0, to restart after tick `at`, and reset their counts
        of comparisons."""
        self.reset(at, rows)
        self.tried[rows] = self.again[rows] = 0

    def step(self, n_series: int, evidence: Sequence[TickEvidence]) -> None:
        """Add the evidence of one tick to the sums of `n_series` series."""
        self.grow(n_series)
        self.z = np.full(n_series, np.nan)
        for one in evidence:
            for way in (UP, DOWN):
                old = self.sums[way, one.rows]
                self.starts[way, one.rows] = np.where(old <= 0, one.start, self.starts[way, one.rows])
                self.sums[way, one.rows] = np.maximum(grown(old, one.gain[way]), self.held[way, one.rows])
                known = np.where(old <= 0, 0.0, self.sizes[way, one.rows])
                self.sizes[way, one.rows] = np.maximum(known, one.size[way])
                grew = (old <= 0) | (one.size[way] > known)
                self.lasting[way, one.rows] = np.where(grew, 0, self.lasting[way, one.rows] + 1)
            self.z[one.rows] = one.z

    def kept(self, names: list[Name]) -> list[Kept]:
        """Evidence of all series with a sum above 0, to be saved in a commit.

        names: name of each series, by number.
        """
        rows = np.array(sorted(np.flatnonzero((self.sums > 0).any(axis=0)), key=names.__getitem__), np.int64)
        columns = [getattr(self, name)[..., rows].T.tolist() for name in _REMEMBERED]
        return [
            Kept(name=names[row], **dict(zip(_REMEMBERED, each, strict=True)))
            for row, *each in zip(rows.tolist(), *columns, strict=True)
        ]

    def restore(self, kept: Iterable[Kept], codes: Mapping[Name, int]) -> None:
        """Load saved sums; series that no longer exist are skipped. codes: name of a series -> its number."""
        self.grow(max(codes.values(), default=-1) + 1)
        for one in kept:
            if one.name in codes:
                for name in _REMEMBERED:
                    getattr(self, name)[..., codes[one.name]] = getattr(one, name)
