"""What the system does on its own: how log-medians differ between ordinary windows.

Per site and window a log-median with its sampling variance; from those the variance between windows beyond
sampling, robust (history contains faults), shrunk towards the median over sites, with a floor; and the
envelope, which an ordinary window does not leave. NaN: no median in that window.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analyze.stats.rank import as_requests
from schemas.arrays import B1, F8, I8

SHRINKAGE_WEIGHT = 6.0
"""Windows that the median over sites is worth."""
FLOOR_WITH_HISTORY = 0.05
"""Least τ (log units, a standard deviation)."""
TRIM = 0.1
"""Share of windows left out of the envelope at each end."""
LEAST_FOR_VARIANCE = 3
LEAST_FOR_ENVELOPE = 5
_MAD = 1.4826
"""Median absolute deviation to standard deviation, normal law."""
_MEDIAN_SE = 1.2533
"""√(π/2): standard error of a median over that of a mean."""
_IQR = 1.349
"""Quartile distance of a normal law, in standard deviations."""
_LEAST_SPREAD = 0.02
"""A sample of equal values is not without error: clocks have ticks."""


@dataclass(frozen=True, slots=True)
class LogMedians:
    """Log-medians and the variance of their sampling error, one shape; NaN where there was nothing."""

    value: F8
    variance: F8


def log_medians(
    values: F8, group: npt.NDArray[np.integer], n_groups: int, *, least: float, weight: F8 | None = None
) -> LogMedians:
    """Natural log of the median of each group, [groups]. values, group: [n]; values are raised to `least`.

    The variance is (1.2533·s)²/n with s from the quartiles of the logs, at least 0.02. Weights, [n] and over
    0, count as the requests that they are worth (`as_requests`): each value stands in the middle of its own
    stretch of a line, and quantiles lie between the first and the last. O(n log n).
    """
    if len(values) == 0:
        return LogMedians(np.full(n_groups, np.nan), np.full(n_groups, np.nan))
    order = np.lexsort((values, group))
    x = np.log(np.maximum(values[order], least))
    g = group[order]
    worth = np.ones(len(x)) if weight is None else as_requests(weight[order], g, n_groups)
    past = np.cumsum(worth)
    place = past - (worth + 1) / 2  # 0, 1, 2, … of equal weights
    first, after = (np.searchsorted(g, np.arange(n_groups), side=side) for side in ("left", "right"))
    ends = np.concatenate(([0.0], past))
    start, n = ends[first], ends[after] - ends[first]
    first, last = np.minimum(first, len(x) - 1), np.maximum(after - 1, 0)

    def quantile(q: float) -> F8:
        wanted = start + q * np.maximum(n - 1, 0)
        low = np.clip(np.searchsorted(place, wanted, side="right") - 1, first, np.maximum(last, first))
        high = np.minimum(low + 1, np.maximum(last, low))
        between = np.where(high > low, place[high] - place[low], 1.0)
        part: F8 = x[low] + np.clip((wanted - place[low]) / between, 0.0, 1.0) * (x[high] - x[low])
        return part

    return _with_error(quantile(0.5), quantile(0.25), quantile(0.75), n)


def _with_error(median: F8, low: F8, high: F8, n: F8) -> LogMedians:
    there = n > 0
    spread = np.maximum((high - low) / _IQR, _LEAST_SPREAD)
    return LogMedians(
        np.where(there, median, np.nan),
        np.where(there, (_MEDIAN_SE * spread) ** 2 / np.where(there, n, 1.0), np.nan),
    )


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
    """Envelope, trimmed; -inf and inf for fewer than 5 windows."""
    windows: I8

    def outside(self, log_median: F8) -> B1:
        """Which values leave the envelope, [sites]; all where there is none: it has no veto then.

        NaN is outside of nothing.
        """
        free = self.windows < LEAST_FOR_ENVELOPE
        return ~np.isnan(log_median) & (free | (log_median < self.low) | (log_median > self.high))

    def variance_of_change(self, sampling0: F8, sampling1: F8, windows0: int = 1, windows1: int = 1) -> F8:
        """Variance of a difference of log-medians of periods of so many windows, sampling included."""
        total: F8 = sampling0 + sampling1 + self.tau2 * (1 / windows0 + 1 / windows1)
        return total


def window_noise(
    medians: LogMedians,
    *,
    floor: float = FLOOR_WITH_HISTORY,
    trim: float = TRIM,
    prior_tau2: F8 | None = None,
) -> WindowNoise:
    """Noise of sites from their windows' log-medians, [sites, windows].

    τ̂² = max(0, (1.4826·MAD)² - median sampling variance); shrunk with SHRINKAGE_WEIGHT windows towards its
    median
    over sites (or `prior_tau2`, [sites], for example of the same operation kind); at least floor². Sites with
    fewer than 3 windows take what they are shrunk to.
    """
    value = np.where(np.isnan(medians.variance), np.nan, medians.value)
    windows = (~np.isnan(value)).sum(axis=1)
    ordered = np.sort(value, axis=1)  # NaN go last
    centre = _row_median(ordered, windows)
    mad = _row_median(np.sort(np.abs(value - centre[:, None]), axis=1), windows)
    sampling = _row_median(np.sort(np.where(np.isnan(value), np.nan, medians.variance), axis=1), windows)
    known = windows >= LEAST_FOR_VARIANCE
    raw = np.where(known, np.maximum(0.0, (_MAD * mad) ** 2 - sampling), np.nan)
    low, high = _envelope(ordered, windows, trim)
    tau2 = shrunk_tau2(raw, windows, floor=floor, prior_tau2=prior_tau2)
    return WindowNoise(tau2, raw, centre, low, high, windows.astype(np.int64))


def shrunk_tau2(raw: F8, windows: I8, *, floor: float, prior_tau2: F8 | None = None) -> F8:
    """Shrink variances between windows, see `window_noise`; raw: NaN for fewer than 3 windows."""
    known = ~np.isnan(raw)
    prior = prior_tau2
    if prior is None:
        prior = np.full(len(raw), float(np.median(raw[known])) if known.any() else floor**2)
    own = np.where(known, windows - 1.0, 0.0)
    shrunk = (SHRINKAGE_WEIGHT * prior + own * np.where(known, raw, 0.0)) / (SHRINKAGE_WEIGHT + own)
    tau2: F8 = np.maximum(shrunk, floor**2)
    return tau2


def _envelope(ordered: F8, windows: I8, trim: float) -> tuple[F8, F8]:
    """Lowest and highest after trimming, of sorted rows with NaN last."""
    if ordered.shape[1] == 0:
        return np.full(len(ordered), -math.inf), np.full(len(ordered), math.inf)
    cut = np.floor(windows * trim + 1e-9).astype(np.int64)
    last = np.maximum(windows - 1 - cut, 0)
    rows = np.arange(len(ordered))
    enough = windows >= LEAST_FOR_ENVELOPE
    low = np.where(enough, ordered[rows, np.minimum(cut, ordered.shape[1] - 1)], -math.inf)
    high = np.where(enough, ordered[rows, last], math.inf)
    return low, high


def _row_median(ordered: F8, n: I8) -> F8:
    """Median of the first n of each sorted row; NaN for none."""
    if ordered.shape[1] == 0:
        return np.full(len(ordered), np.nan)
    rows, last = np.arange(len(ordered)), ordered.shape[1] - 1
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
