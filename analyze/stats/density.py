"""Estimate the kernel density of times on a log scale, and its modes (TR §4.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from schemas.arrays import F8

_GRID: Final = 512
PROMINENCE: Final = 0.02
"""Minimum prominence of a mode, as a share of the density's maximum; see `Mode.prominence`."""
LEAST_US: Final = 1e-3
"""Lower bound of a time before its logarithm is taken, µs (one nanosecond): shorter times, 0 included, are
raised to this bound."""
_SURE: Final = 3.0
"""Minimum height of a mode above the higher of the two saddles beside it, in standard errors of the density;
lower maxima count as chance."""
_ROUGHNESS: Final = 0.5 / np.sqrt(np.pi)
"""Roughness of the Gaussian kernel, ∫K²: the variance of a density is f·∫K²/(n·h)."""
_REACH: Final = 4.0
"""Margin of the grid beyond the smallest and the largest value, in bandwidths."""


@dataclass(frozen=True, slots=True)
class Density:
    """Kernel density of times, over log2 of µs."""

    at: F8
    """float64[512]: grid positions, log2 µs, equally spaced."""
    density: F8
    """float64[512]: probability density per octave at each grid position, >= 0; its integral is 1."""
    effective_requests: float
    """Effective sample size of the weighted requests, (Σw)²/Σw² (Kish)."""
    bandwidth: float
    """Bandwidth (standard deviation) of the Gaussian kernel, octaves."""
    rule: Literal["isj", "silverman", "resolution"]
    """Rule that chose the bandwidth: "isj" improved Sheather-Jones; "silverman", its fallback; "resolution":
    the clock's resolution, used where it is wider than both."""


@dataclass(frozen=True, slots=True)
class Mode:
    """Local maximum of a density."""

    at: float
    """Position of the maximum, log2 µs."""
    prominence: float
    """Height of the mode above the higher of the two saddles beside it, as a share of the density's
    maximum."""
    low: float
    """Position of the valley to the left of the mode, log2 µs; -inf if there is none."""
    high: float
    """Position of the valley to the right of the mode, log2 µs; inf if there is none."""


def _log_times(us: F8) -> F8:
    """float64[n]: log2 of times in µs; times below LEAST_US (1 ns), including 0, count as LEAST_US."""
    logs: F8 = np.log2(np.maximum(us, LEAST_US))
    return logs


def log_density(us: F8, weight: F8) -> Density | None:
    """Estimate the kernel density of weighted times in µs, on a log2 scale. O(n log n).

    us: float64[n], times in µs; weight: float64[n], > 0. None for fewer than two distinct times.
    """
    from KDEpy import FFTKDE

    x = _log_times(us)
    if not len(x) or x.max() - x.min() < 1e-9:
        return None
    bandwidth, rule = _bandwidth(x, weight)
    # No finer than the grid's step.
    bandwidth = max(bandwidth, (x.max() - x.min()) / _GRID)
    at = np.linspace(x.min() - _REACH * bandwidth, x.max() + _REACH * bandwidth, _GRID)
    density = FFTKDE(kernel="gaussian", bw=bandwidth).fit(x, weights=weight).evaluate(at)
    return Density(at, np.maximum(density, 0.0), _kish(weight), float(bandwidth), rule)


def _bandwidth(x: F8, weight: F8) -> tuple[float, Literal["isj", "silverman", "resolution"]]:
    found: float | None
    try:
        from KDEpy.bw_selection import improved_sheather_jones

        # For a handful of times its sums may vanish; it then returns no bandwidth.
        with np.errstate(all="ignore"):
            found = float(improved_sheather_jones(x[:, None], weights=weight))
    except ValueError:  # its fixed point was not found
        found = None
    rule: Literal["isj", "silverman"] = "isj"
    if found is None or not np.isfinite(found) or found <= 0:
        found, rule = _silverman(x, weight), "silverman"
    step = _clock_step(x, weight)
    return (step, "resolution") if step > found else (found, rule)


def _silverman(x: F8, weight: F8) -> float:
    """Silverman's bandwidth 0.9 · min(sd, IQR/1.34) · n^(-1/5), n the effective sample size (Kish)."""
    w = weight / weight.sum()
    mean = float(w @ x)
    sd = float(np.sqrt(w @ (x - mean) ** 2))
    iqr = weighted_quantile(x, weight, 0.75) - weighted_quantile(x, weight, 0.25)
    return 0.9 * (min(sd, iqr / 1.34) if iqr > 0 else sd) * float(_kish(weight) ** -0.2)


def _kish(weight: F8) -> float:
    """Effective sample size of weights, (Σw)²/Σw² (Kish)."""
    return float(weight.sum()) ** 2 / float(weight @ weight)


def _clock_step(x: F8, weight: F8) -> float:
    """Estimate the clock's resolution in the recorded times, log2 µs; 0 for fewer than two distinct times.

    It is the weighted median, over times, of the distance to the nearest different time, so that gaps between
    whole milliseconds are not valleys between modes.
    """
    values, place = np.unique(x, return_inverse=True)
    if len(values) < 2:
        return 0.0
    gaps = np.diff(values)
    nearest = np.minimum(np.append(gaps, np.inf), np.insert(gaps, 0, np.inf))
    return weighted_quantile(nearest, np.bincount(place, weight).astype(np.float64), 0.5)


def weighted_quantile(values: F8, weight: F8, q: float) -> float:
    """Weighted quantile: the smallest value such that at least a share q of the weight lies at or below it.
    Raises IndexError for an empty array."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weight[order])
    place = int(np.searchsorted(reached, q * reached[-1] * (1 - 1e-12)))
    return float(values[order][min(place, len(order) - 1)])


def modes(found: Density, most: int) -> list[Mode]:
    """Modes of a density: local maxima with at least PROMINENCE and more prominent than chance, in order of
    position.

    If there are more than `most`, the modes with the most area above their saddles (prominence times width at
    half prominence) are kept: a thin spike is higher than a broad peak of as many requests.
    """
    from scipy.signal import find_peaks, peak_widths

    top = float(found.density.max())
    padded = np.concatenate([[0.0], found.density, [0.0]])  # an end is a valley
    peaks, shape = find_peaks(padded, prominence=PROMINENCE * top)
    saddles = padded[peaks] - shape["prominences"]
    error = np.sqrt((padded[peaks] + saddles) * _ROUGHNESS / (found.effective_requests * found.bandwidth))
    sure = shape["prominences"] > _SURE * error
    peaks, prominence = peaks[sure], shape["prominences"][sure] / top
    holds = prominence * peak_widths(padded, peaks, rel_height=0.5)[0]
    kept = np.sort(np.argsort(-holds, kind="stable")[:most])
    places, prominence = peaks[kept] - 1, prominence[kept]
    bounds = [-np.inf]
    for a, b in zip(places[:-1].tolist(), places[1:].tolist(), strict=True):
        bounds.append(float(found.at[a + int(np.argmin(found.density[a : b + 1]))]))
    bounds.append(np.inf)
    return [
        Mode(float(found.at[place]), float(high), bounds[i], bounds[i + 1])
        for i, (place, high) in enumerate(zip(places.tolist(), prominence.tolist(), strict=True))
    ]
