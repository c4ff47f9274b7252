"""Estimate changes of whole periods: mean response time, slow, failed and failing requests, root types.

Gates rest on these: no comparison passes while one of them is significant, however small its categories are.
For "significant" the difference of ordinary windows is part of the error; for "as before" it is the margin,
and the error is only chance inside of the periods: counted in both, nothing would ever be the same. Assumed
noise of ordinary periods can keep a change from being significant, but never proves that nothing changed.
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
"""`errors`: requests whose root failed; `failing`: requests with a failing call, root included."""


@dataclass(frozen=True, slots=True)
class Noise:
    """Noise between two ordinary periods, beyond chance inside of them."""

    tau: float
    """Standard deviation of the log of an ordinary window's mean."""
    freedom: float = np.inf
    phi: float = 1.0
    """Lower bound of the over-dispersion of shares."""
    windows: tuple[int, int] = (1, 1)
    """Lengths of the two periods, in ordinary windows."""
    assumed: bool = False
    """True if no ordinary window shows the noise."""

    @property
    def tau2(self) -> float:
        """Variance of the difference of the periods' log means."""
        return self.tau**2 * (1 / max(self.windows[0], 1) + 1 / max(self.windows[1], 1))

    def band(self, settings: VerdictSettings) -> float:
        """Relative difference of the means of two ordinary periods.

        Bounded by `most_band` if there are too few windows before: only then is it a guess.
        """
        most = settings.most_band if self.windows[0] < LEAST_FOR_ENVELOPE else np.inf
        return min(max(settings.mean_floor, 2 * math.sqrt(self.tau2)), most)


def window_tau(windows: PeriodBlocks | None, settings: VerdictSettings) -> tuple[float, float]:
    """(τ, its degrees of freedom) of ordinary windows, a block each; with too few windows, the assumed τ.

    A robust scale, as a history holds faults; minus the chance inside of windows; shrunk to the assumed τ.
    """
    if windows is None:
        return settings.assumed_tau, np.inf
    value, chance = windows.response_times().log_means()
    medians = LogMedians(value[:1], chance[:1])
    noise = window_noise(medians, floor=settings.min_tau, prior_tau2=np.array([settings.assumed_tau**2]))
    known = float(noise.windows[0])
    return math.sqrt(noise.tau2[0]), SHRINKAGE_WEIGHT + known - 1 if known > 2 else np.inf


def rate_tau(windows: PeriodBlocks | None) -> float:
    """Robust standard deviation of the log of ordinary windows' arrival rates; 0 with too few windows."""
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
    """Estimate with a single place: the log of the mean in µs, or a share."""
    alpha: float
    floor: float
    """Smallest change that counts, in the estimate's unit."""
    margin: float
    """Largest change that two ordinary periods may show."""
    least: float = 0.0
    """Change, in the estimate's unit and beyond a standard error, that ordinary variation does not excuse."""
    noise_assumed: bool = False
    """True if no data show how far ordinary periods differ."""

    @property
    def z(self) -> float:
        """Critical value: standard errors of a two-sided test at level alpha."""
        return float(ndtri(1 - self.alpha / 2))

    @property
    def before(self) -> float:
        """Mean before, µs; or a share."""
        return self._shown(self.estimate.before)

    @property
    def after(self) -> float:
        """Mean after, µs; or a share."""
        return self._shown(self.estimate.after)

    def _shown(self, value: F8) -> float:
        return float(np.exp(value[0]) if self.estimate.unit == "log" else value[0])

    @property
    def p(self) -> float:
        """p of no change, by chance inside of the periods alone."""
        return float(self.estimate.p[0])

    @property
    def p_usual(self) -> float:
        """p of no change beyond the difference of ordinary periods."""
        return float(self.estimate.p_with_noise[0])

    @property
    def changed(self) -> bool:
        """True if the change is significant, noise between windows included, and above the floor."""
        return self.p < self.alpha and self.shown_by(self.estimate)

    def shown_by(self, estimate: Estimate) -> bool:
        """True if `estimate` clears level and floor of this measure."""
        return bool(estimate.clears(self.z, self.floor)[0])

    @property
    def usual(self) -> bool:
        """True if the change is within chance inside of the periods, or within the difference of two ordinary
        periods."""
        within = bool(abs(self.estimate.change[0]) <= self.margin)
        if self.noise_assumed:
            return within and not self.changed and not self.plain
        return not self.changed and (within or not self.plain)

    @property
    def plain(self) -> bool:
        """True if the change is above the floor, and above chance inside of the periods."""
        return self.p < self.alpha and self.shown_by(self.estimate.within())

    @property
    def hidden(self) -> bool:
        """True if only ordinary variation keeps the change from being significant, though it is too large for
        that excuse."""
        return self.plain and not self.changed and bool(self.estimate.stands_alone(self.least)[0])

    def interval(self, level: float) -> tuple[float, float]:
        """Interval of after - before, µs or a share; infinite if unknown, or of another order than the
        values.

        For a share, after is clipped to 0 to 1.
        """
        low, high = (float(end[0]) for end in self.estimate.bounded_interval(level))
        if self.estimate.unit == "share":
            return max(low, 0.0 - self.before), min(high, 1.0 - self.before)
        if not np.isfinite(high):
            return -np.inf, np.inf
        return self.before * float(np.expm1(low)), self.before * float(np.expm1(high))

    def largest_rise(self, level: float) -> float:
        """Largest possible relative rise, noise between periods included."""
        return float(np.expm1(min(float(self.estimate.interval(level)[1][0]), 700.0)))

    def largest(self, level: float, estimate: Estimate | None = None) -> float:
        """Largest possible change: relative, or of a share. estimate: used instead of the measured one."""
        return float((self.estimate if estimate is None else estimate).largest_ratio(level)[0])


@dataclass(frozen=True)
class Whole:
    """Estimates of two periods as wholes."""

    measures: tuple[PeriodMeasure, ...]
    """Mean, slow requests at each threshold, failed and failing ones; empty if a period has no request."""
    responses: Estimate
    """Change of log mean response times: of all requests (place 0), then of each root type."""
    noise: Noise
    band: float
    time_share: F8
    """[roots] share of the time, both periods weighted equally."""

    def of(self, name: Name) -> PeriodMeasure | None:
        """First measure of a name; None without one."""
        return next((measure for measure in self.measures if measure.name == name), None)

    @property
    def changed(self) -> tuple[PeriodMeasure, ...]:
        """Measures that changed significantly."""
        return tuple(measure for measure in self.measures if measure.changed)

    @cached_property
    def equivalent_share(self) -> float:
        """Share of the time in root types whose mean is equivalent (TOST)."""
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
    change of the mean, and change of the share of slow requests, that ordinary variation does not excuse."""
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
    """Estimate shares of slow requests at each threshold, of failed ones, and of those with a failing
    call."""
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
