"""Estimate what changed of whole periods: mean response time, slow, failed and failing requests, root types.

A gate rests on these: no comparison passes while one of them is significant, however small
its categories are. "Significant" counts what ordinary windows differ by in the error; "as before" counts it
in the margin, and in the error only what is inside of the periods: counted twice, nothing is ever the same.
What is assumed of ordinary periods keeps a change from being significant; it makes nothing the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from scipy.special import ndtri

from analyze.methods.robust.period_blocks import PeriodBlocks, counted_columns
from analyze.methods.robust.settings import VerdictSettings
from analyze.stats.estimate import Estimate, share_change
from analyze.stats.noise import LEAST_FOR_ENVELOPE, SHRINKAGE_WEIGHT, LogMedians, window_noise
from analyze.stats.time_blocks import mean_change
from schemas.arrays import F8

Name = Literal["mean", "tail", "errors", "failing"]
"""`errors`: requests whose root failed; `failing`: with a failing call, the root or one inside of it."""


@dataclass(frozen=True, slots=True)
class Noise:
    """Difference of two ordinary periods, beyond chance inside of them."""

    tau: float
    """Standard deviation of the log of an ordinary window's mean."""
    freedom: float = np.inf
    phi: float = 1.0
    """Over-dispersion of shares that is assumed at least."""
    windows: tuple[int, int] = (1, 1)
    """Length of the periods in such windows."""
    assumed: bool = False
    """No ordinary window shows it."""

    @property
    def tau2(self) -> float:
        """Variance of a difference of log means of the periods."""
        return self.tau**2 * (1 / max(self.windows[0], 1) + 1 / max(self.windows[1], 1))

    def band(self, settings: VerdictSettings) -> float:
        """Give the relative change of a mean that ordinary periods may have.

        Bounded where one window stands for all before: many windows are no guess.
        """
        most = settings.most_band if self.windows[0] < LEAST_FOR_ENVELOPE else np.inf
        return min(max(settings.mean_floor, 2 * math.sqrt(self.tau2)), most)


def window_tau(windows: PeriodBlocks | None, settings: VerdictSettings) -> tuple[float, float]:
    """Give (τ, its degrees of freedom) of ordinary windows, a block each; the assumed one where too few tell.

    Robust, as history holds faults; less what chance does in the windows; shrunk to the assumed one.
    """
    if windows is None:
        return settings.assumed_tau, np.inf
    value, chance = windows.response_times().log_means()
    medians = LogMedians(value[:1], chance[:1])
    noise = window_noise(medians, floor=settings.min_tau, prior_tau2=np.array([settings.assumed_tau**2]))
    known = float(noise.windows[0])
    return math.sqrt(noise.tau2[0]), SHRINKAGE_WEIGHT + known - 1 if known > 2 else np.inf


def rate_tau(windows: PeriodBlocks | None) -> float:
    """Give the robust standard deviation of the log of ordinary windows' arrival rates; 0 for too few."""
    if windows is None:
        return 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(windows.weight.sum(axis=1) / windows.seconds)[None]
    logs = np.where(np.isfinite(logs), logs, np.nan)
    return math.sqrt(np.nan_to_num(window_noise(LogMedians(logs, 0 * logs), floor=0.0).raw_tau2[0]))


@dataclass(frozen=True, slots=True)
class PeriodMeasure:
    """One measure of the whole period, before and after."""

    name: Name
    estimate: Estimate
    """Estimate of one place: a logarithm of µs, or a share."""
    alpha: float
    floor: float
    """Smallest change that counts, in the estimate's unit."""
    margin: float
    """Change that two ordinary periods may have."""
    least: float = 0.0
    """Change, beyond a standard error, for which ordinary times are no excuse, in the estimate's unit."""
    noise_assumed: bool = False
    """Nothing shows how far ordinary periods differ."""

    @property
    def z(self) -> float:
        """Standard errors that are as unlikely as the level."""
        return float(ndtri(1 - self.alpha / 2))

    @property
    def before(self) -> float:
        """Mean, µs; or a share."""
        return self._shown(self.estimate.before)

    @property
    def after(self) -> float:
        """Mean, µs; or a share."""
        return self._shown(self.estimate.after)

    def _shown(self, value: F8) -> float:
        return float(np.exp(value[0]) if self.estimate.unit == "log" else value[0])

    @property
    def p(self) -> float:
        """Probability of no change, by chance alone."""
        return float(self.estimate.p[0])

    @property
    def p_usual(self) -> float:
        """Probability of no change beyond the difference of ordinary periods."""
        return float(self.estimate.p_with_noise[0])

    @property
    def changed(self) -> bool:
        """Tell whether the change is significant, the noise between windows included, and passes the
        floor."""
        return self.p < self.alpha and self.shown_by(self.estimate)

    def shown_by(self, estimate: Estimate) -> bool:
        """Tell whether an estimate clears the level and the floor."""
        return bool(estimate.clears(self.z, self.floor)[0])

    @property
    def usual(self) -> bool:
        """Tell whether what was measured is no more than chance inside of the periods makes, or than two
        ordinary periods differ by, as far as any show it."""
        within = bool(abs(self.estimate.change[0]) <= self.margin)
        if self.noise_assumed:
            return within and not self.changed and not self.plain
        return not self.changed and (within or not self.plain)

    @property
    def plain(self) -> bool:
        """Tell whether the change is over the floor, and more than chance inside of the periods makes."""
        return self.p < self.alpha and self.shown_by(self.estimate.within())

    @property
    def hidden(self) -> bool:
        """Tell whether only ordinary times keep a change from being significant for which they are no
        excuse."""
        return self.plain and not self.changed and bool(self.estimate.stands_alone(self.least)[0])

    def interval(self, level: float) -> tuple[float, float]:
        """Give the interval of after less before, µs or a share; infinite where nothing is known, or the
        interval is of another order than the values.

        A share after is between none and all, whatever the error of the one before.
        """
        low, high = (float(end[0]) for end in self.estimate.bounded_interval(level))
        if self.estimate.unit == "share":
            return max(low, 0.0 - self.before), min(high, 1.0 - self.before)
        if not np.isfinite(high):
            return -np.inf, np.inf
        return self.before * float(np.expm1(low)), self.before * float(np.expm1(high))

    def largest_rise(self, level: float) -> float:
        """Give the largest relative rise that is possible, the noise between periods included."""
        return float(np.expm1(min(float(self.estimate.interval(level)[1][0]), 700.0)))

    def largest(self, level: float, estimate: Estimate | None = None) -> float:
        """Give the largest change that is possible: relative, or a share."""
        return float((self.estimate if estimate is None else estimate).largest_ratio(level)[0])


@dataclass(frozen=True)
class Whole:
    """Two periods as wholes."""

    measures: tuple[PeriodMeasure, ...]
    """The mean, slow requests at each threshold, failed and failing ones; none where a period is empty."""
    responses: Estimate
    """Mean response times, logarithms: of all requests, then of each root type."""
    noise: Noise
    band: float
    time_share: F8
    """[roots] of the time, each period counting the same."""

    def of(self, name: Name) -> PeriodMeasure | None:
        """Find the first measure of a name."""
        return next((measure for measure in self.measures if measure.name == name), None)

    @property
    def changed(self) -> tuple[PeriodMeasure, ...]:
        """The measures that changed by test."""
        return tuple(measure for measure in self.measures if measure.changed)

    @cached_property
    def equivalent_share(self) -> float:
        """Share of the time in root types whose mean is shown to be the same (TOST)."""
        return float(self.time_share @ self.responses.within().equivalent(float(np.log1p(self.band)))[1:])


def whole_change(
    before: PeriodBlocks,
    after: PeriodBlocks,
    windows: PeriodBlocks | None,
    noise: Noise,
    settings: VerdictSettings,
    *,
    least: tuple[float, float] = (0.0, 0.0),
) -> Whole:
    """Estimate everything of two periods. All blocks have the same roots and thresholds; least: relative
    change of the mean, and of the share of slow requests, for which ordinary times are no excuse."""
    band = noise.band(settings)
    responses = mean_change(
        before.response_times(), after.response_times(), tau2=noise.tau2, tau_freedom=noise.freedom
    )
    time = np.stack([side.time_us.sum(axis=0) / max(side.time_us.sum(), 1e-300) for side in (before, after)])
    measures: list[PeriodMeasure] = []
    if before.n_requests and after.n_requests:
        floor, margin = float(np.log1p(settings.mean_floor)), float(np.log1p(band))
        measures = [
            PeriodMeasure(
                "mean",
                responses.take(np.array([0])),
                settings.alpha,
                floor,
                margin,
                least=float(np.log1p(least[0])),
                noise_assumed=noise.assumed,
            ),
            *_shares(before, after, windows, noise, settings, least[1]),
        ]
    return Whole(tuple(measures), responses, noise, band, time.mean(axis=0))


def _shares(
    before: PeriodBlocks,
    after: PeriodBlocks,
    windows: PeriodBlocks | None,
    noise: Noise,
    settings: VerdictSettings,
    least_slow: float,
) -> list[PeriodMeasure]:
    """Estimate slow requests at each threshold, failed ones, and those with a failing call."""
    columns = [before.whole(), after.whole(), before if windows is None else windows]
    held = [np.column_stack((one.slow, one.failed.sum(axis=1), one.failing.sum(axis=1))) for one in columns]
    found = share_change(*counted_columns(columns, held), prior_phi=noise.phi)
    n_limits = len(before.thresholds_us)
    slow = settings.slow_least, settings.slow_floor
    failed = settings.failed_least, settings.failed_floor
    rows: list[tuple[Name, float, tuple[float, float]]] = [
        *(("tail", settings.alpha / n_limits, slow) for _ in range(n_limits)),
        ("errors", settings.alpha, failed),
        ("failing", settings.alpha, failed),
    ]
    return [
        PeriodMeasure(
            name,
            found.take(np.array([at])),
            alpha,
            # A share that doubles counts, and one that is halved: the same, the other way round.
            float(np.clip(min(found.before[at], found.after[at]), *floors)),
            floors[1],
            least=least_slow if name == "tail" else 0.0,
        )
        for at, (name, alpha, floors) in enumerate(rows)
    ]
