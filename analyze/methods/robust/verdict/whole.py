"""Estimate changes of whole periods: mean response time, slow, failed and failing requests, root types.

No comparison passes a gate while one of these is significant, even if no call site is. For "significant" the
difference between normal windows is part of the error. For "as before" it is the margin, and the error is
only sampling within the periods: if it were counted twice, nothing would ever be the same. Assumed noise
between normal periods can keep a change from being significant, but never proves that nothing changed.
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
    """Noise between two normal periods, in addition to sampling within them.

    freedom: degrees of freedom of `tau`.
    """

    tau: float
    """Standard deviation between normal windows of the log of a window's mean."""
    freedom: float = np.inf
    phi: float = 1.0
    """Lower bound of the over-dispersion φ of shares, >= 1."""
    windows: tuple[int, int] = (1, 1)
    """Lengths of the two periods, as numbers of windows of the baseline."""
    assumed: bool = False
    """True if the noise is assumed, as no windows of the baseline show it."""

    @property
    def tau2(self) -> float:
        """Variance of the difference between the log means of the two periods."""
        return self.tau**2 * (1 / max(self.windows[0], 1) + 1 / max(self.windows[1], 1))

    def band(self, settings: VerdictSettings) -> float:
        """Relative difference up to which the means of two periods count as equal.

        At least `mean_floor`; at most `most_band` if there are too few windows before, as tau is then only a
        guess.
        """
        most = settings.most_band if self.windows[0] < LEAST_FOR_ENVELOPE else np.inf
        return min(max(settings.mean_floor, 2 * math.sqrt(self.tau2)), most)


def window_tau(windows: PeriodBlocks | None, settings: VerdictSettings) -> tuple[float, float]:
    """Estimate the standard deviation τ of log means between windows, and its degrees of freedom.

    windows: sums with one block per window; None: τ is assumed. The scale is robust, as a history may contain
    faults; sampling within windows is subtracted; the result is shrunk towards the assumed τ.
    """
    if windows is None:
        return settings.assumed_tau, np.inf
    value, chance = windows.response_times().log_means()
    medians = LogMedians(value[:1], chance[:1])
    noise = window_noise(medians, floor=settings.min_tau, prior_tau2=np.array([settings.assumed_tau**2]))
    known = float(noise.windows[0])
    return math.sqrt(noise.tau2[0]), SHRINKAGE_WEIGHT + known - 1 if known > 2 else np.inf


def rate_tau(windows: PeriodBlocks | None) -> float:
    """Robust standard deviation of the log arrival rate between windows (blocks); 0 for too few windows."""
    if windows is None:
        return 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(windows.weight.sum(axis=1) / windows.seconds)[None]
    logs = np.where(np.isfinite(logs), logs, np.nan)
    return math.sqrt(np.nan_to_num(window_noise(LogMedians(logs, 0 * logs), floor=0.0).raw_tau2[0]))


@dataclass(frozen=True, slots=True)
class PeriodMeasure:
    """Estimate of one measure of the whole period, with the criteria of its test.

    alpha: level of the test.
    """

    name: Name
    estimate: Estimate
    """Estimate with a single element: log of the mean response time in µs, or a share."""
    alpha: float
    floor: float
    """Smallest change that counts, in the unit of the estimate."""
    margin: float
    """Largest change that two normal periods may show, in the unit of the estimate."""
    least: float = 0.0
    """Change, in the unit of the estimate and in excess of a standard error, that is too large to be normal
    variation."""
    noise_assumed: bool = False
    """True if the difference between normal periods is assumed, as no data show it."""

    @property
    def z(self) -> float:
        """Number of standard errors required by a two-sided test at level alpha."""
        return float(ndtri(1 - self.alpha / 2))

    @property
    def before(self) -> float:
        """Value before: mean response time in µs, or a share."""
        return self._shown(self.estimate.before)

    @property
    def after(self) -> float:
        """Value after: mean response time in µs, or a share."""
        return self._shown(self.estimate.after)

    def _shown(self, value: F8) -> float:
        return float(np.exp(value[0]) if self.estimate.unit == "log" else value[0])

    @property
    def p(self) -> float:
        """Two-sided p of no change, allowing for sampling within the periods only."""
        return float(self.estimate.p[0])

    @property
    def p_usual(self) -> float:
        """Two-sided p of no change beyond the difference between normal periods."""
        return float(self.estimate.p_with_noise[0])

    @property
    def changed(self) -> bool:
        """True if the change is significant, with the noise between windows, and above the floor."""
        return self.p < self.alpha and self.shown_by(self.estimate)

    def shown_by(self, estimate: Estimate) -> bool:
        """True if the change in `estimate` exceeds the critical value and the floor of this measure."""
        return bool(estimate.clears(self.z, self.floor)[0])

    @property
    def usual(self) -> bool:
        """True if the change is within sampling error, or within the difference between two normal
        periods."""
        within = bool(abs(self.estimate.change[0]) <= self.margin)
        if self.noise_assumed:
            return within and not self.changed and not self.plain
        return not self.changed and (within or not self.plain)

    @property
    def plain(self) -> bool:
        """True if the change exceeds the floor, and sampling error within the periods."""
        return self.p < self.alpha and self.shown_by(self.estimate.within())

    @property
    def hidden(self) -> bool:
        """True if only normal variation keeps the change from being significant, although the change is too
        large to be normal variation."""
        return self.plain and not self.changed and bool(self.estimate.stands_alone(self.least)[0])

    def interval(self, level: float) -> tuple[float, float]:
        """Confidence interval of after - before, in µs or as a share; infinite if unknown, or not
        informative.

        For a share, after is cut to [0, 1].
        """
        low, high = (float(end[0]) for end in self.estimate.bounded_interval(level))
        if self.estimate.unit == "share":
            return max(low, 0.0 - self.before), min(high, 1.0 - self.before)
        if not np.isfinite(high):
            return -np.inf, np.inf
        return self.before * float(np.expm1(low)), self.before * float(np.expm1(high))

    def largest_rise(self, level: float) -> float:
        """Largest relative rise within the interval, noise between periods included."""
        return float(np.expm1(min(float(self.estimate.interval(level)[1][0]), 700.0)))

    def largest(self, level: float, estimate: Estimate | None = None) -> float:
        """Largest change within the interval: relative, or the difference of a share. estimate: used instead
        of the measured one."""
        return float((self.estimate if estimate is None else estimate).largest_ratio(level)[0])


@dataclass(frozen=True)
class Whole:
    """Estimates of the changes of two periods as wholes.

    band: as `Noise.band`.
    """

    measures: tuple[PeriodMeasure, ...]
    """Mean, share of slow requests at each threshold, shares of failed and failing requests; empty if a
    period has no requests."""
    responses: Estimate
    """Change of log mean response times: of all requests (element 0), then of each root type."""
    noise: Noise
    band: float
    time_share: F8
    """Share of each root type in the response time, in [0, 1], float64[roots]; both periods have equal
    weight."""

    def of(self, name: Name) -> PeriodMeasure | None:
        """First measure with a name, e.g. the tail at its lowest threshold; None if there is none."""
        return next((measure for measure in self.measures if measure.name == name), None)

    @property
    def changed(self) -> tuple[PeriodMeasure, ...]:
        """Measures of whole periods that changed significantly."""
        return tuple(measure for measure in self.measures if measure.changed)

    @cached_property
    def equivalent_share(self) -> float:
        """Share of the response time in root types whose mean is equivalent to before (TOST), in [0, 1]."""
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
    """Estimate all changes of whole periods; all blocks must have the same roots and thresholds.

    windows: baseline with one block per window, None: blocks of `before`; least: relative change of the mean,
    and change of the share of slow requests, that are too large to be normal variation.
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
    """Estimate the shares of slow requests at each threshold, of failed ones, and of those with a failing
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
