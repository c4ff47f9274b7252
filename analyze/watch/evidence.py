"""How strongly series speak against ordinary times: p-values become e-values, summed while they grow
(e-CUSUM).

An e-value is on average 1 at most where nothing happened. Restarted where it falls below 1, the product of
those since passes a threshold c about once in c ticks at most (e-detectors; Shin, Ramdas and Rinaldo). As
p-values of ordinary times are uniform whatever the law of the values, how often it passes is known exactly,
too (Brook and Evans), and some twenty times more seldom than that bound. So the threshold follows from the
budget: candidates in the time for which one false incident is allowed. The last restart is the proposed
change point.

Ordinary times whose level jumps do depend on each other: until a filter has learned the new level, values are
off together, and sums pass more often. So each sum knows how large its change is (`size_of`), by which the
watch tells those that are worth a comparison: in parts of what a large step is of that series, as a level
that is soon learned leaves less than one that is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
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
"""Parts of the way to a threshold that a sum can be in; run lengths are right to a twentieth."""
_LEAST_THRESHOLD, _MOST_THRESHOLD = 1.0, 40.0
_ROUNDED: Final = 1e-9
UP, DOWN = 0, 1


def log_e_value(p: F8, kappa: float) -> F8:
    """The logarithm of an e-value of a p-value (Vovk and Wang): κ p^(κ-1)."""
    found: F8 = np.log(kappa) + (kappa - 1) * np.log(np.maximum(p, _LEAST_P))
    return found


def grown(sums: F8, gain: F8) -> F8:
    """Sums with the evidence of one more tick; one that falls below nothing begins anew."""
    found: F8 = np.maximum(np.maximum(sums, 0) + gain, 0)
    return found


def run_length(threshold: float, cap: float, kappa: float) -> float:
    """Average number of values until a sum of ordinary times passes a threshold (Brook and Evans, 1972).

    The sum is a Markov chain on `_STATES` parts of the way, its gain log κ + (1-κ) E, at most `cap`, where E
    is exponential.
    """
    edges = np.linspace(0, threshold, _STATES + 1)
    states = np.concatenate(([0.0], (edges[1:] + edges[:-1]) / 2))
    room = edges - states[:, None]
    excess = np.maximum(room - np.log(kappa), 0) / (1 - kappa)
    beyond = np.where(room > cap + _ROUNDED, 0.0, np.exp(-excess))
    falls = np.where(room[:, :1] > cap + _ROUNDED, 1.0, -np.expm1(-excess[:, :1]))
    return mean_absorption_time(np.hstack([falls, beyond[:, :-1] - beyond[:, 1:]]), beyond[:, -1])


def log_threshold(base: Baseline, tick_ns: int, settings: WatchSettings) -> float:
    """Threshold of the sum that ordinary times pass as often as the budget has candidates, at most
    `_MOST_THRESHOLD`."""
    allowed = settings.candidates * tick_ns / settings.ns_a_false_alarm

    def excess(threshold: float) -> float:
        """How often they pass a threshold in a tick, less how often they may, in logarithms."""
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
    """Give [series, pools] how large a change of the level is that lasts to each value, by itself and the
    values before it, in standard deviations of its estimate (Willsky and Jones, 1976).

    white: innovations in their usual spread, an odd one taken for `limit` of it (winsorised); signature:
    [series, values]. The largest of the estimates from two values to all of these; none lies across a gap.
    """
    bounded = np.clip(np.nan_to_num(white), -limit, limit)
    found, left = np.full(white.shape, -np.inf), signature[:, :, None]
    total, power = bounded * left[:, 0], left[:, 0] ** 2
    for back in range(1, min(left.shape[1], len(pool))):
        total = total[:, :-1] + bounded[:, back:] * left[:, back]
        power = power + left[:, back] ** 2
        near = pool[back:] - pool[:-back] == back
        here = np.where(near, total / np.sqrt(power), -np.inf)
        found[:, back:] = np.maximum(found[:, back:], here)
    return found


def large_step(group: Pooled, settings: WatchSettings) -> F8:
    """Give [series] the size of a step that is always compared, as it were without noise."""
    step = settings.always_compared * np.sqrt(group.level.variance)[:, None] * group.signature
    white = step / np.maximum(group.spread, _LEAST_SPREAD)[:, None]
    sizes = size_of(white, np.arange(white.shape[1]), group.signature, settings.size_limit)
    found: F8 = np.maximum(sizes.max(axis=1), _LEAST_SPREAD)
    return found


def cap_of(threshold: float, k: int, settings: WatchSettings) -> float:
    """What a value of k ticks may bring at most: a part of the threshold a tick."""
    return min(k / settings.cap_ticks, 1.0) * threshold


def tail_p(value: F8, spread: F8, group: Pooled, settings: WatchSettings, way: int, mine: B1) -> F8:
    """Give [mine, ticks] how often ordinary times go so far.

    By rank among the innovations seen where they are many, else by Student's law. Failures are rare: by that
    law one of a few calls is nothing, however seldom any failed; so of them the one that is less.

    value: innovations beyond the allowance, in the direction of `way`; mine: series of the group.
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
    """Count [rows, ticks] those of the first n values of each row, ascending, that are less than v.

    or_same: not more. O(log values) a row and tick.
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
    """What some series say at the end of a tick; arrays are [its series]."""

    rows: I8
    start: int
    """The first tick of the values."""
    gain: F8
    """[ways, series] logarithms of e-values."""
    size: F8
    """[ways, series] how large a change is that lasts to here, in parts of a large step (`large_step`)."""
    z: F8
    """Values in units of what is usual."""


def evidence_of(
    ring: Ring, first: int, past: int, groups: Sequence[Pooled], threshold: float, settings: WatchSettings
) -> dict[int, list[TickEvidence]]:
    """Weigh the pools that end in the ring's last ticks, from `first` to before `past`, by the number of
    their last tick that has a request. That may be the one before `first`."""
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
        # One failure of a few calls is within its own error, but not as usual where hardly any fails.
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
    """[ways, series, ticks] evidence of the values at some places, and sizes of changes that last to them."""
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
    sizes = [size_of(sign * scaled, pool, group.signature, settings.size_limit) for sign in (1.0, -1.0)]
    return gain, np.stack(sizes)[:, :, place] / large_step(group, settings)[:, None]


class Kept(Config):
    """The sums of one series; pairs are up and down."""

    name: Name
    sums: tuple[float, float]
    starts: tuple[int, int]
    sizes: tuple[float, float]
    lasting: tuple[int, int]
    """Values since these sizes grew."""
    tried: int = 0
    """Comparisons that could not tell."""
    again: int = 0
    """Tick of the next one."""
    held: tuple[float, float] = (0.0, 0.0)
    """Below which the sums do not fall."""


_REMEMBERED: Final = ("sums", "starts", "sizes", "lasting", "tried", "again", "held")
"""What `Kept` has of a series."""


@dataclass(slots=True)
class RunningEvidence:
    """Sums by series of the ring, up and down."""

    sums: F8 = field(default_factory=lambda: np.zeros((2, 0)))
    starts: I8 = field(default_factory=lambda: np.zeros((2, 0), dtype=np.int64))
    """Tick numbers of their last restarts."""
    sizes: F8 = field(default_factory=lambda: np.zeros((2, 0)))
    """The largest change since then."""
    lasting: I8 = field(default_factory=lambda: np.zeros((2, 0), dtype=np.int64))
    """Values since it grew."""
    tried: I8 = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """[series] comparisons that could not tell;"""
    again: I8 = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """[series] tick of the next one."""
    held: F8 = field(default_factory=lambda: np.zeros((2, 0)))
    """Below which the sums do not fall: what a comparison confirmed, if not surely enough, lasts though the
    filter has learned the new level."""
    z: F8 = field(default_factory=lambda: np.zeros(0))
    """[series] the last value in units of what is usual; NaN where the tick had none."""

    def grow(self, n: int) -> None:
        """Make room for series."""
        more = max(n - len(self.tried), 0)
        for name in _REMEMBERED:
            old = getattr(self, name)
            setattr(self, name, np.pad(old, [(0, 0)] * (old.ndim - 1) + [(0, more)]))

    @property
    def most(self) -> F8:
        """[series] the larger of the two sums."""
        found: F8 = self.sums.max(axis=0)
        return found

    @property
    def since(self) -> I8:
        """[series] where it began."""
        found: I8 = np.where(self.sums[UP] >= self.sums[DOWN], self.starts[UP], self.starts[DOWN])
        return found

    @property
    def size(self) -> F8:
        """[series] how large the change since then is."""
        found: F8 = np.where(self.sums[UP] >= self.sums[DOWN], self.sizes[UP], self.sizes[DOWN])
        return found

    def has_grown(self, values: int) -> B1:
        """[series] whether the change since then grew in so many values."""
        lasting = np.where(self.sums[UP] >= self.sums[DOWN], self.lasting[UP], self.lasting[DOWN])
        found: B1 = lasting < values
        return found

    def reached(self, least: float) -> B1:
        """[series] whether a sum is so much; parts of a threshold that add up to it are."""
        found: B1 = self.most >= least - _ROUNDED
        return found

    def rising(self, since: int, least: float) -> I8:
        """Rows whose sum began at a tick or later and reached so much."""
        found: I8 = np.flatnonzero(self.reached(least) & (self.since >= since))
        return found

    def oldest(self, latest: int) -> int:
        """Give the tick in which the oldest of the sums under way began, or `latest` if that is earlier."""
        found: int = self.starts[self.sums > 0].min(initial=latest).item()
        return found

    def rescale(self, ratio: float, nearer: float) -> None:
        """Go on under another threshold, where a large step is so many times smaller: what a tick may bring
        at most is a part of a threshold, so a sum is as near to the new one as it was to the old one."""
        self.sums *= ratio
        self.held *= ratio
        self.sizes *= nearer

    def reset(self, at: int, which: I8 | slice = slice(None)) -> None:
        """Begin anew behind a tick."""
        self.sums[:, which] = self.held[:, which] = 0
        self.starts[:, which] = at + 1

    def hold(self, rows: I8, confirmed: bool) -> None:
        """Keep the larger sum of each row from falling until another comparison; or let it."""
        self.held[:, rows] = (
            np.where(self.sums[:, rows] >= self.most[rows], self.sums[:, rows], 0.0) * confirmed
        )

    def drop(self, at: int, rows: I8) -> None:
        """Begin anew behind a tick as if they had never been compared."""
        self.reset(at, rows)
        self.tried[rows] = self.again[rows] = 0

    def step(self, n_series: int, evidence: Sequence[TickEvidence]) -> None:
        """Add the evidence of a tick."""
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
        """The sums that are more than nothing: all that has to be remembered."""
        rows = np.array(sorted(np.flatnonzero((self.sums > 0).any(axis=0)), key=names.__getitem__), np.int64)
        columns = [getattr(self, name)[..., rows].T.tolist() for name in _REMEMBERED]
        return [
            Kept(name=names[row], **dict(zip(_REMEMBERED, each, strict=True)))
            for row, *each in zip(rows.tolist(), *columns, strict=True)
        ]

    def restore(self, kept: Iterable[Kept], codes: Mapping[Name, int]) -> None:
        """Take up the sums that were kept, of series that are still there."""
        self.grow(max(codes.values(), default=-1) + 1)
        for one in kept:
            if one.name in codes:
                for name in _REMEMBERED:
                    getattr(self, name)[..., codes[one.name]] = getattr(one, name)
