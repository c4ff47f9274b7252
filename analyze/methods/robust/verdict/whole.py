"""Estimate the changes of whole periods: mean response time, and shares of slow, failed and failing requests.

A comparison with a significant change of a whole period passes no gate, even without a finding. To be
significant, a change must exceed its standard error including the noise between normal windows. To count as
unchanged, that noise is the margin and the standard error is that of sampling within the periods; if the
noise were counted twice, nothing would ever be unchanged. Assumed noise can keep a change from being
significant, but it never proves that nothing changed.
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
"""Measure of a whole period: mean response time, share of slow requests ("tail"), share of requests whose
root failed ("errors"), share of requests with a failing call, root included ("failing")."""


@dataclass(frozen=True, slots=True)
class Noise:
    """Noise between two normal periods, in addition to sampling error within them: of means (`tau`) and of
    shares (`phi`)."""

    tau: float
    """Standard deviation of the log of a window's mean response time between normal windows."""
    freedom: float = np.inf
    """Degrees of freedom of the estimate `tau`; inf if `tau` is assumed."""
    phi: float = 1.0
    """Lower bound of the over-dispersion φ of shares, >= 1 (1: binomial)."""
    windows: tuple[int, int] = (1, 1)
    """Length of (reference, problem) as a multiple of a window of the baseline."""
    assumed: bool = False
    """True if the noise is assumed because the data have no windows to estimate it from."""

    @property
    def tau2(self) -> float:
        """Variance of the difference between the log mean response times of two normal periods of these
        lengths."""
        return self.tau**2 * (1 / max(self.windows[0], 1) + 1 / max(self.windows[1], 1))

    def band(self, settings: VerdictSettings) -> float:
        """Relative difference of two mean response times up to which they count as equal.

        It is at least `mean_floor`, and at most `most_band` if there are too few baseline windows to estimate
        `tau` well.
        """
        most = settings.most_band if self.windows[0] < LEAST_FOR_ENVELOPE else np.inf
        return min(max(settings.mean_floor, 2 * math.sqrt(self.tau2)), most)


def window_tau(windows: PeriodBlocks | None, settings: VerdictSettings) -> tuple[float, float]:
    """Standard deviation τ of log mean response times between windows, and its degrees of freedom.

    windows: sums with one block per window; None: τ is assumed. The estimate is robust, since a history may
    contain faults; sampling variance within windows is subtracted, and the result is shrunk towards the
    assumed τ.
    """
    if windows is None:
        return settings.assumed_tau, np.inf
    value, chance = windows.response_times().log_means()
    medians = LogMedians(value[:1], chance[:1])
    noise = window_noise(medians, floor=settings.min_tau, prior_tau2=np.array([settings.assumed_tau**2]))
    known = float(noise.windows[0])
    return math.sqrt(noise.tau2[0]), SHRINKAGE_WEIGHT + known - 1 if known > 2 else np.inf


def rate_tau(windows: PeriodBlocks | None) -> float:
    """Robust standard deviation of the log arrival rate between windows; 0 for too few windows. windows: sums
    with one block per window."""
    if windows is None:
        return 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(windows.weight.sum(axis=1) / windows.seconds)[None]
    logs = np.where(np.isfinite(logs), logs, np.nan)
    return math.sqrt(np.nan_to_num(window_noise(LogMedians(logs, 0 * logs), floor=0.0).raw_tau2[0]))


@dataclass(frozen=True, slots=True)
class PeriodMeasure:
    """Estimate of one measure of whole periods, with the thresholds of its test."""

    name: Name
    estimate: Estimate
    """Change of the measure, as an estimate with one element: log of the mean response time in µs, or a
    share."""
    alpha: float
    """Significance level of the test."""
    floor: float
    """Smallest change that counts, in the unit of `estimate` (log, or share)."""
    margin: float
    """Largest difference between two normal periods, in the unit of `estimate` (log, or share)."""
    least: float = 0.0
    """Change that is too large to be normal variation, after subtracting one standard error, in the unit of
    `estimate` (log, or share)."""
    noise_assumed: bool = False
    """True if the noise between normal periods is assumed because the data do not show it."""

    @property
    def z(self) -> float:
        """Normal quantile of a two-sided test at level `alpha`: required number of standard errors."""
        return float(ndtri(1 - self.alpha / 2))

    @property
    def before(self) -> float:
        """Value in the reference: mean response time in µs, or a share in [0, 1]."""
        return self._shown(self.estimate.before)

    @property
    def after(self) -> float:
        """Value in the problem: mean response time in µs, or a share in [0, 1]."""
        return self._shown(self.estimate.after)

    def _shown(self, value: F8) -> float:
        return float(np.exp(value[0]) if self.estimate.unit == "log" else value[0])

    @property
    def p(self) -> float:
        """Two-sided p of no change, allowing only for sampling error within the periods."""
        return float(self.estimate.p[0])

    @property
    def p_usual(self) -> float:
        """Two-sided p of no change, allowing also for the noise between normal periods."""
        return float(self.estimate.p_with_noise[0])

    @property
    def changed(self) -> bool:
        """True if the change is significant, noise between normal periods included, and exceeds `floor`."""
        return self.p < self.alpha and self.shown_by(self.estimate)

    def shown_by(self, estimate: Estimate) -> bool:
        """True if the change in `estimate` exceeds the required standard errors, and `floor`."""
        return bool(estimate.clears(self.z, self.floor)[0])

    @property
    def usual(self) -> bool:
        """True if the change is within sampling error, or within the difference between two normal periods.
        Assumed noise does not suffice: then both must hold."""
        within = bool(abs(self.estimate.change[0]) <= self.margin)
        if self.noise_assumed:
            return within and not self.changed and not self.plain
        return not self.changed and (within or not self.plain)

    @property
    def plain(self) -> bool:
        """True if the change exceeds `floor` and sampling error within the periods, noise between periods
        ignored."""
        return self.p < self.alpha and self.shown_by(self.estimate.within())

    @property
    def hidden(self) -> bool:
        """True if the change is significant without the noise between normal periods, but not with it,
        although it is too large to be normal variation."""
        return self.plain and not self.changed and bool(self.estimate.stands_alone(self.least)[0])

    def interval(self, level: float) -> tuple[float, float]:
        """Confidence interval of value after minus value before, in µs or as a share; (-inf, inf) if it is
        unknown or too wide to be informative.

        The interval of a share is limited so that the value after lies in [0, 1].
        """
        low, high = (float(end[0]) for end in self.estimate.bounded_interval(level))
        if self.estimate.unit == "share":
            return max(low, 0.0 - self.before), min(high, 1.0 - self.before)
        if not np.isfinite(high):
            return -np.inf, np.inf
        return self.before * float(np.expm1(low)), self.before * float(np.expm1(high))

    def largest_rise(self, level: float) -> float:
        """Upper end of the confidence interval, noise between periods included, as a relative rise."""
        return float(np.expm1(min(float(self.estimate.interval(level)[1][0]), 700.0)))

    def largest(self, level: float, estimate: Estimate | None = None) -> float:
        """Largest absolute change within the confidence interval: relative for the mean, difference for a
        share. estimate: None uses the measured one."""
        return float((self.estimate if estimate is None else estimate).largest_ratio(level)[0])


@dataclass(frozen=True)
class Whole:
    """Estimates of the changes of all measures of whole periods."""

    measures: tuple[PeriodMeasure, ...]
    """Mean response time, share of slow requests at each threshold, shares of failed requests and of requests
    with a failing call; empty if a period has no requests."""
    responses: Estimate
    """Change of the log mean response time: element 0 of all requests, elements 1 and up of each root
    type."""
    noise: Noise
    band: float
    """Relative difference of two mean response times up to which they count as equal (see `Noise.band`)."""
    time_share: F8
    """Share of each root type in the sum of response times, in [0, 1], float64[roots]; the mean of the shares
    in both periods."""

    def of(self, name: Name) -> PeriodMeasure | None:
        """First measure with the name `name`, for the tail that of the lowest threshold; None if there is
        none."""
        return next((measure for measure in self.measures if measure.name == name), None)

    @property
    def changed(self) -> tuple[PeriodMeasure, ...]:
        """Measures whose change is significant, noise between normal periods included."""
        return tuple(measure for measure in self.measures if measure.changed)

    @cached_property
    def equivalent_share(self) -> float:
        """Share of the response time, in [0, 1], in root types whose mean is equivalent to before: two
        one-sided tests (TOST) with the margin `band`."""
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
    """Estimate the changes of all measures of whole periods. `before`, `after` and `windows` must have the
    same root types and thresholds.

    windows: sums of the baseline with one block per window; None uses the blocks of `before`. least:
    (relative change of the mean, change of the share of slow requests) that is too large to be normal
    variation.
    """
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
    """Estimate the changes of three shares: of slow requests at each threshold, of failed requests, and of
    requests with a failing call."""
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
            # A share that halves counts like one that doubles.
            float(np.clip(min(found.before[at], found.after[at]), *floors)),
            floors[1],
            least=least_slow if name == "tail" else 0.0,
        )
        for at, (name, alpha, floors) in enumerate(rows)
    ]
