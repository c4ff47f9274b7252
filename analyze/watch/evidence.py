"""How strongly series speak against ordinary times: p-values become e-values, summed while they grow
(e-CUSUM).

An e-value is on average 1 at most where nothing happened. Restarted where it falls below 1, the product of
those since passes a threshold c about once in c ticks at most (e-detectors; Shin, Ramdas and Rinaldo),
whatever the law of the values. So the threshold follows from the budget: tests in the time for which one
candidate is allowed. The last restart is the proposed change point.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from scipy import stats

from analyze.watch.baseline import Baseline, Pooled, pooled, season_at, values, whitened
from analyze.watch.series import Name, Ring
from analyze.watch.settings import WatchSettings
from schemas.arrays import B1, F8, I8

_LEAST_P: Final = 1e-12
UP, DOWN = 0, 1


def log_e_value(p: F8, is_rank: B1, kappa: float) -> F8:
    """The logarithm of an e-value of a p-value (Vovk and Wang): κ p^(κ-1) of a rank, which is as seldom as it
    says; of a law that is assumed the mixture of all κ, which has less faith in p that are not small."""
    p = np.clip(p, _LEAST_P, 1 - 1e-9)
    log = np.log(p)
    mixture = np.log((1 - p + p * log) / (p * log * log))
    found: F8 = np.where(is_rank, np.log(kappa) + (kappa - 1) * log, mixture)
    return found


def grown(sums: F8, gain: F8) -> F8:
    """Sums with the evidence of one more tick; one that falls below nothing begins anew."""
    found: F8 = np.maximum(np.maximum(sums, 0) + gain, 0)
    return found


def log_threshold(ways: float, tick_ns: int, settings: WatchSettings) -> float:
    """Of the sum: tests in the time for which the budget has one candidate."""
    ticks = settings.ns_a_false_alarm / tick_ns
    return float(np.log(max(ways * ticks / settings.candidates, 2.0)))


def tail_p(value: F8, group: Pooled, spread: F8, chosen: B1, settings: WatchSettings, sign: float) -> F8:
    """How often ordinary times go so far: by rank among those seen where they are many, else by Student's
    law."""
    df = np.minimum(group.n[chosen] - 1, settings.tail_df)
    p: F8 = stats.t.sf(value / spread, df)
    many = group.n[chosen] >= settings.ranks_from
    if many.any():
        past, v = group.past[chosen][many], sign * value[many, None]
        beyond = ((past >= v) if sign > 0 else (past <= v)).sum(axis=1)
        p[many] = (beyond + 1) / (group.n[chosen][many] + 1)
    return p


@dataclass(slots=True)
class RunningEvidence:
    """Sums by series of the ring, up and down."""

    sums: F8 = field(default_factory=lambda: np.zeros((2, 0)))
    starts: I8 = field(default_factory=lambda: np.zeros((2, 0), dtype=np.int64))
    """Tick numbers of their last restarts."""
    z: F8 = field(default_factory=lambda: np.zeros(0))
    """[series] the last value in units of what is usual; NaN where the tick had none."""

    def grow(self, n: int) -> None:
        """Make room for series."""
        more = n - self.sums.shape[1]
        if more > 0:
            self.sums = np.pad(self.sums, ((0, 0), (0, more)))
            self.starts = np.pad(self.starts, ((0, 0), (0, more)))

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

    def rising(self, since: int, least: float) -> I8:
        """Rows whose sum began at a tick or later and reached so much."""
        found: I8 = np.flatnonzero((self.most >= least) & (self.since >= since))
        return found

    def reset(self, at: int, which: I8 | slice = slice(None)) -> None:
        """Begin anew behind a tick."""
        self.sums[:, which] = 0
        self.starts[:, which] = at + 1

    def step(
        self, ring: Ring, column: int, base: Baseline, threshold: float, settings: WatchSettings
    ) -> None:
        """Take in the tick of a column."""
        self.grow(len(ring.names))
        self.z = np.full(len(ring.names), np.nan)
        at = int(ring.at[column])
        for group in base.groups:
            if (at + 1) % group.k == 0:
                self._step(ring, column, at, group, threshold, settings)

    def _step(
        self, ring: Ring, column: int, at: int, group: Pooled, threshold: float, settings: WatchSettings
    ) -> None:
        k = group.k
        first = int(np.searchsorted(ring.at, at + 1 - 2 * k))
        window = slice(first, column + 1)
        cells = ring.ticks.cells[:, :, window]
        mine: F8 = cells[:, group.rows].astype(np.float64)
        mine[0] = cells[0, np.asarray(ring.base)[group.rows]]
        pool, sums = pooled(mine, ring.at[window], k)
        x, se = values(sums, group.kinds, settings.least_events)
        left = (
            x
            - season_at(group.season, pool * k * ring.tick_ns + k * ring.tick_ns // 2)
            - group.middle[:, None]
        )
        now, error = left[:, -1], se[:, -1]
        has_before = len(pool) > 1 and pool[-2] + 1 == pool[-1]
        before = left[:, -2] if has_before else np.full(len(now), np.nan)
        chosen = np.isfinite(now)
        if not chosen.any():
            return
        rows = group.rows[chosen]
        u, allow = now[chosen], group.allow[chosen]
        if settings.whiten:
            steady = np.where(np.isfinite(before), group.allow, np.nan)
            allow = whitened(group.allow, steady, group.rho)[chosen]
            u = whitened(now, before, group.rho)[chosen]
        n = group.n[chosen]
        spread = np.maximum(np.maximum(group.spread[chosen], error[chosen]) * np.sqrt(1 + 1 / n), 1e-9)
        cap = threshold / settings.cap_ticks * k
        for way, sign in ((UP, 1.0), (DOWN, -1.0)):
            p = tail_p(sign * u - allow, group, spread, chosen, settings, sign)
            gain = np.minimum(log_e_value(p, n >= settings.ranks_from, settings.rank_kappa), cap)
            if way == DOWN:
                gain = np.where(group.both[chosen], gain, -np.inf)
            old = self.sums[way, rows]
            self.starts[way, rows] = np.where(old <= 0, at + 1 - k, self.starts[way, rows])
            self.sums[way, rows] = grown(old, gain)
        usual = np.maximum(np.maximum(group.sd[chosen], error[chosen]), group.allow[chosen] / 2 + 1e-9)
        self.z[rows] = now[chosen] / usual

    def kept(self, names: list[Name]) -> list[tuple[Name, float, float, int, int]]:
        """The sums that are more than nothing: all that has to be remembered."""
        rows = np.flatnonzero((self.sums > 0).any(axis=0))
        return [
            (
                names[row],
                float(self.sums[UP, row]),
                float(self.sums[DOWN, row]),
                int(self.starts[UP, row]),
                int(self.starts[DOWN, row]),
            )
            for row in rows.tolist()
        ]

    def restore(self, kept: Mapping[Name, tuple[float, float, int, int]], codes: Mapping[Name, int]) -> None:
        """Take up the sums that were kept, of series that are still there."""
        self.grow(len(codes))
        for name, (up, down, up_from, down_from) in kept.items():
            if name in codes:
                self.sums[:, codes[name]] = up, down
                self.starts[:, codes[name]] = up_from, down_from
