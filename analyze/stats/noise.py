"""Estimate the normal variation of the system: the variance of log-medians between baseline windows.

Input: a log-median with its sampling variance for each site and window (NaN: no median in that window).
Output: the variance between windows beyond sampling, robust (the history contains faults), shrunk towards the
median over sites, with a floor; and the envelope (normal range): minimum and maximum over the baseline
windows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from schemas.arrays import B1, F8, I8

SHRINKAGE_WEIGHT = 6.0
"""Weight, in windows, of the median over sites when a site's variance is shrunk towards it (empirical Bayes):
about the number of windows of a history, so that both count. Not a setting: degrees of freedom depend on
it."""
SPREAD_WEIGHT = 4.0
"""Weight, in requests, of the spread over a place's other columns when shrinking the spread of one column: a
spread of fewer requests is mostly chance. Not a setting: a prior's weight, like SHRINKAGE_WEIGHT."""
LEAST_FOR_VARIANCE = 3
LEAST_FOR_ENVELOPE = 5
MAD = 1.4826
"""Ratio of the standard deviation to the median absolute deviation of a normal law."""
ODD = 4.0
"""Distance from the median, in robust standard deviations, beyond which a window counts as an outlier."""
KEPT_VARIANCE = 0.9989
"""Variance of a standard normal law truncated at ±ODD standard deviations."""


def sum_freedom(*parts: tuple[F8, F8 | float]) -> F8:
    """Degrees of freedom of a sum of independent variances (Welch and Satterthwaite); inf if all variances
    are known.

    parts: (variance, degrees of freedom) of each summand; inf degrees of freedom for a known variance.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        found = sum(v for v, _ in parts) ** 2 / sum(v**2 / freedom for v, freedom in parts)
    return np.where(np.isnan(found), np.inf, found)


def freedom_of_mean(n: F8) -> F8:
    """Degrees of freedom of the variance of n requests about their mean: n - 1, at least 0."""
    return np.maximum(n - 1, 0.0)


@dataclass(frozen=True, slots=True)
class LogMedians:
    """Medians (or means) of logarithms with their sampling variances; all arrays have the same shape."""

    value: F8
    """float64: median (or mean) of the logarithms; NaN if missing."""
    variance: F8
    """float64: sampling variance of `value`; NaN if missing."""
    freedom: F8 | float = np.inf
    """Degrees of freedom of `variance`, as estimated from the requests of each value; inf if the variance is
    known."""
    degrees_of_freedom_at: Callable[[F8], F8] = freedom_of_mean
    """Function from numbers of requests to the degrees of freedom of their sampling variance."""

    def change_freedom(self) -> F8:
        """float64[places]: degrees of freedom of the variance of the difference of two columns, for arrays
        [places, 2].

        The spread of each column is shrunk towards the spread of both columns with weight SPREAD_WEIGHT; the
        result is at most the sum of the degrees of freedom of both columns.
        """
        freedom_of_value = np.broadcast_to(self.freedom, self.variance.shape)
        both = ((self.variance[:, at], freedom_of_value[:, at] + SPREAD_WEIGHT) for at in (0, 1))
        freedom: F8 = np.minimum(sum_freedom(*both), freedom_of_value.sum(axis=1))
        return freedom


@dataclass(frozen=True, slots=True)
class WindowNoise:
    """Normal variation of the log-median of each call site between baseline windows."""

    tau2: F8
    """float64[sites]: variance of the log-median between windows minus the sampling variance, shrunk towards
    the median over sites; at least floor²."""
    raw_tau2: F8
    """float64[sites]: variance of the log-median between windows minus the sampling variance, before
    shrinkage and floor; NaN for fewer than LEAST_FOR_VARIANCE windows."""
    centre: F8
    """float64[sites]: median over windows of the log-medians; NaN without windows."""
    low: F8
    """float64[sites]: lower end of the normal range, the smallest log-median of the windows; -inf for fewer
    than LEAST_FOR_ENVELOPE windows."""
    high: F8
    """float64[sites]: upper end of the normal range, the largest log-median of the windows; inf for fewer
    than LEAST_FOR_ENVELOPE windows."""
    windows: I8
    """int64[sites]: number of windows that have a log-median."""

    def outside(self, log_median: F8) -> B1:
        """bool[sites]: True for log-medians outside of the normal range (`low` to `high`), and at sites where
        that range is unknown. NaN is never outside."""
        free = self.windows < LEAST_FOR_ENVELOPE
        return ~np.isnan(log_median) & (free | (log_median < self.low) | (log_median > self.high))


def window_noise(
    medians: LogMedians,
    *,
    floor: F8 | float,
    prior_tau2: F8 | None = None,
) -> WindowNoise:
    """Estimate the normal variation of call sites from the log-medians of windows.

    medians: [sites, windows]. τ̂² = max(0, `steady_variance` - median sampling variance), shrunk, with the
    weight of SHRINKAGE_WEIGHT windows, towards the median of τ̂² over sites, or towards `prior_tau2`
    (float64[sites]) if given; at least `floor`². Sites with fewer than LEAST_FOR_VARIANCE windows get the
    prior.
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
    """float64[rows]: variance of each row, robust to outliers in up to a third of the windows.

    value: float64[rows, windows], NaN if missing. sampling: float64[rows], sampling variance of a value.
    Windows further from the median than ODD standard deviations (by the median absolute deviation, MAD, or by
    sampling, if that is larger) are dropped, but at most a third of all. The variance of the remaining
    windows is divided by the variance of a normal law truncated at ±ODD. The MAD alone would be twice as
    large if a third of the windows lie far to one side, and half as precise if no window does.
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
    raw: F8, windows: I8, *, floor: F8 | float, prior_tau2: F8 | None = None, tau_estimated: B1 | None = None
) -> F8:
    """float64[sites]: variances between windows, shrunk towards their median over sites or `prior_tau2`.

    raw: float64[sites], variances, NaN for fewer than LEAST_FOR_VARIANCE windows. windows: int64[sites],
    numbers of windows. floor: minimum standard deviation. tau_estimated: bool[sites], True if `floor` bounds
    only the prior, not the result; None: False for all sites.
    """
    known = ~np.isnan(raw)
    prior = prior_tau2
    if prior is None:
        prior = np.broadcast_to(np.median(raw[known]) if known.any() else floor**2, raw.shape)
    if tau_estimated is None:
        tau_estimated = np.zeros(len(raw), np.bool_)
    prior = np.where(tau_estimated, np.maximum(prior, floor**2), prior)
    own = np.where(known, windows - 1.0, 0.0)
    shrunk = (SHRINKAGE_WEIGHT * prior + own * np.where(known, raw, 0.0)) / (SHRINKAGE_WEIGHT + own)
    tau2: F8 = np.maximum(shrunk, floor**2)
    return np.where(tau_estimated, shrunk, tau2)


def envelope(seen: F8) -> tuple[F8, F8]:
    """(smallest, largest) value of each row of `seen`, each float64[places]; (-inf, inf) for fewer than
    LEAST_FOR_ENVELOPE values. seen: float64[places, blocks], NaN if missing."""
    known = ~np.isnan(seen)
    enough = known.sum(axis=1) >= LEAST_FOR_ENVELOPE
    low, high = (
        np.where(known, seen, np.inf).min(axis=1, initial=np.inf),
        np.where(known, seen, -np.inf).max(axis=1, initial=-np.inf),
    )
    return np.where(enough, low, -np.inf), np.where(enough, high, np.inf)


def row_medians(x: F8) -> F8:
    """float64[rows]: median of each row over the values that are not NaN; NaN for a row without values."""
    if x.shape[1] == 0:
        return np.full(len(x), np.nan)
    ordered, n = np.sort(x, axis=1), (~np.isnan(x)).sum(axis=1)  # NaN go last
    rows, last = np.arange(len(x)), x.shape[1] - 1
    low, high = ordered[rows, np.clip((n - 1) // 2, 0, last)], ordered[rows, np.clip(n // 2, 0, last)]
    return np.where(n > 0, (low + high) / 2.0, np.nan)


def student_z(min_z: float, freedom: F8 | float) -> F8:
    """Quantile of Student's t, with `freedom` degrees of freedom, that has the same tail probability as the
    quantile `min_z` of a normal law; equal to `min_z` for infinite degrees of freedom."""
    from scipy.special import (
        ndtr,
        stdtrit,
    )  # takes a fifth of a second, which importing a comparison does not need

    found: F8 = -stdtrit(freedom, ndtr(-min_z))
    return found
