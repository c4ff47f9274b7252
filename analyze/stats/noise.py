"""What the system does on its own: how log-medians differ between ordinary windows.

Per site and window a log-median with its sampling variance; from those the variance between windows beyond
sampling, robust (history contains faults), shrunk towards the median over sites, with a floor; and the
envelope, which an ordinary window does not leave. NaN: no median in that window.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from schemas.arrays import B1, F8, I8

SHRINKAGE_WEIGHT = 6.0
"""Windows that the median over sites is worth: a prior's weight (empirical Bayes), about the windows
that a history has, so that neither drowns the other. No setting: degrees of freedom are counted by it."""
SPREAD_WEIGHT = 4.0
"""Requests that the spread of a place's other columns is worth beside that of one column: with fewer of its
own a column's spread is mostly chance. No setting: a prior's weight, as the one above."""
LEAST_FOR_VARIANCE = 3
LEAST_FOR_ENVELOPE = 5
MAD = 1.4826
"""Median absolute deviation to standard deviation, normal law."""
ODD = 4.0
"""Robust standard deviations from the median from which a window tells nothing of how the others differ."""
KEPT_VARIANCE = 0.9989
"""Variance of a normal law within ODD standard deviations."""


def sum_freedom(*parts: tuple[F8, F8 | float]) -> F8:
    """Give the degrees of freedom of a sum of independent variances, (variance, its own) each: Welch and
    Satterthwaite; infinite where nothing is estimated."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = sum(v for v, _ in parts) ** 2 / sum(v**2 / freedom for v, freedom in parts)
    return np.where(np.isnan(found), np.inf, found)


def known_of_mean(n: F8) -> F8:
    """Give the degrees of freedom of the spread of n requests about their mean."""
    return np.maximum(n - 1, 0.0)


@dataclass(frozen=True, slots=True)
class LogMedians:
    """Log-medians and the variance of their sampling error, one shape; NaN where there was nothing."""

    value: F8
    variance: F8
    known: F8 | float = np.inf
    """Degrees of freedom that its own values give that variance; infinite where it is no estimate."""
    known_of: Callable[[F8], F8] = known_of_mean
    """Those by the number of requests."""

    def change_freedom(self) -> F8:
        """Give the degrees of freedom of the variance of [places, 2] values' difference.

        A spread is shrunk to that of its place, which is worth SPREAD_WEIGHT; but what both have in common is
        no more sure than all their values make it.
        """
        known = np.broadcast_to(self.known, self.variance.shape)
        both = ((self.variance[:, at], known[:, at] + SPREAD_WEIGHT) for at in (0, 1))
        freedom: F8 = np.minimum(sum_freedom(*both), known.sum(axis=1))
        return freedom


@dataclass(frozen=True, slots=True)
class WindowNoise:
    """Noise of each site, [sites]."""

    tau2: F8
    """Variance of the log-median between windows beyond sampling, shrunk, at least the floor."""
    raw_tau2: F8
    """Before shrinkage and floor; NaN for fewer than 3 windows."""
    centre: F8
    """Median of the windows' log-medians; NaN without windows."""
    low: F8
    high: F8
    """Envelope; -inf and inf for fewer than 5 windows."""
    windows: I8

    def outside(self, log_median: F8) -> B1:
        """Which values leave the envelope, [sites]; all where there is none: it has no veto then.

        NaN is outside of nothing.
        """
        free = self.windows < LEAST_FOR_ENVELOPE
        return ~np.isnan(log_median) & (free | (log_median < self.low) | (log_median > self.high))


def window_noise(
    medians: LogMedians,
    *,
    floor: F8 | float,
    prior_tau2: F8 | None = None,
) -> WindowNoise:
    """Noise of sites from their windows' log-medians, [sites, windows].

    τ̂² = max(0, `steady_variance` - median sampling variance); shrunk with SHRINKAGE_WEIGHT windows to its
    median over sites (or `prior_tau2`, [sites], for example of the same operation kind); at least floor².
    Sites with fewer than 3 windows take what they are shrunk to.
    """
    value = np.where(np.isnan(medians.variance), np.nan, medians.value)
    windows = (~np.isnan(value)).sum(axis=1)
    centre = row_medians(value)
    sampling = row_medians(np.where(np.isnan(value), np.nan, medians.variance))
    known = windows >= LEAST_FOR_VARIANCE
    raw = np.where(known, np.maximum(0.0, steady_variance(value, sampling) - sampling), np.nan)
    low, high = envelope(value)
    tau2 = shrunk_tau2(raw, windows, floor=floor, prior_tau2=prior_tau2)
    return WindowNoise(tau2, raw, centre, low, high, windows.astype(np.int64))


def steady_variance(value: F8, sampling: F8) -> F8:
    """Give the variance of each row's windows, which a third of them cannot move: [rows, windows], NaN for
    none.

    One step from the median absolute deviation: of a third of the windows those further from the median than
    ODD of its standard deviations, or of the sampling's ([rows]), are left out; of the others the variance is
    taken, over what a normal law leaves there. That deviation alone is twice as large where a third of the
    windows lie far to one side, and half as sure where none does.
    """
    centre = row_medians(value)
    away = np.abs(value - centre[:, None])
    scale = np.maximum(MAD * row_medians(away), np.sqrt(np.nan_to_num(sampling)))
    known = ~np.isnan(value)
    near = np.argsort(np.argsort(away, axis=1, kind="stable"), axis=1, kind="stable")  # NaN go last
    windows = known.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        kept = known & ((away <= ODD * scale[:, None]) | (near < (windows - windows // 3)[:, None]))
        n = kept.sum(axis=1)
        mean = np.where(kept, value, 0.0).sum(axis=1) / n
        square = np.where(kept, (value - mean[:, None]) ** 2, 0.0).sum(axis=1)
        return np.asarray(square / np.maximum(n - 1, 1) / KEPT_VARIANCE)


def shrunk_tau2(
    raw: F8, windows: I8, *, floor: F8 | float, prior_tau2: F8 | None = None, told: B1 | None = None
) -> F8:
    """Shrink variances between windows, see `window_noise`; raw: NaN for fewer than 3 windows.

    told: [sites] where the floor is no more than what it is shrunk to at least.
    """
    known = ~np.isnan(raw)
    prior = prior_tau2
    if prior is None:
        prior = np.broadcast_to(np.median(raw[known]) if known.any() else floor**2, raw.shape)
    if told is None:
        told = np.zeros(len(raw), np.bool_)
    prior = np.where(told, np.maximum(prior, floor**2), prior)
    own = np.where(known, windows - 1.0, 0.0)
    shrunk = (SHRINKAGE_WEIGHT * prior + own * np.where(known, raw, 0.0)) / (SHRINKAGE_WEIGHT + own)
    tau2: F8 = np.maximum(shrunk, floor**2)
    return np.where(told, shrunk, tau2)


def envelope(seen: F8) -> tuple[F8, F8]:
    """Give the ([places] least, largest) value of [places, blocks], NaN for none; infinite for fewer than
    five."""
    known = ~np.isnan(seen)
    enough = known.sum(axis=1) >= LEAST_FOR_ENVELOPE
    low, high = (
        np.where(known, seen, np.inf).min(axis=1, initial=np.inf),
        np.where(known, seen, -np.inf).max(axis=1, initial=-np.inf),
    )
    return np.where(enough, low, -np.inf), np.where(enough, high, np.inf)


def row_medians(x: F8) -> F8:
    """Give [rows] medians of what is there; NaN where nothing is."""
    if x.shape[1] == 0:
        return np.full(len(x), np.nan)
    ordered, n = np.sort(x, axis=1), (~np.isnan(x)).sum(axis=1)  # NaN go last
    rows, last = np.arange(len(x)), x.shape[1] - 1
    low, high = ordered[rows, np.clip((n - 1) // 2, 0, last)], ordered[rows, np.clip(n // 2, 0, last)]
    return np.where(n > 0, (low + high) / 2.0, np.nan)


def enough_errors(min_z: float, freedom: F8 | float) -> F8:
    """How many standard errors are as unlikely as `min_z` of a normal law, they being an estimate of so many
    degrees of freedom (Student's law; infinite: known)."""
    from scipy.special import (
        ndtr,
        stdtrit,
    )  # a fifth of a second, which the import of a comparison does not need

    found: F8 = -stdtrit(freedom, ndtr(-min_z))
    return found
