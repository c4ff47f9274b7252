"""Estimate the kernel density of times on a log scale, and its modes (TR §4.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from schemas.arrays import F8

_GRID: Final = 512
PROMINENCE: Final = 0.02
"""Of the highest point; a maximum that rises less above the saddles beside it is none."""
LEAST_US: Final = 1e-3
"""Shorter times (0) stand at one nanosecond."""
_SURE: Final = 3.0
"""Standard errors of the density by which a maximum must rise, else it may be chance."""
_ROUGHNESS: Final = 0.5 / np.sqrt(np.pi)
"""Of the Gaussian kernel, ∫K²: the variance of a density is f·∫K²/(n·h)."""
_REACH: Final = 4.0
"""The grid goes on for so many bandwidths beyond the data."""


@dataclass(frozen=True, slots=True)
class Density:
    """A density over log2 of µs."""

    at: F8
    """[GRID] log2 µs, equally spaced."""
    density: F8
    """[GRID] >= 0, per octave: its integral is 1."""
    worth: float
    """Requests, equally weighted ones that tell as much (Kish)."""
    bandwidth: float
    """In octaves."""
    rule: Literal["isj", "silverman", "resolution"]
    """How the bandwidth was found: improved Sheather-Jones; its fallback; or the step of the clock, which
    is wider."""


@dataclass(frozen=True, slots=True)
class Mode:
    """A local maximum of a density."""

    at: float
    """Where, log2 µs."""
    prominence: float
    """Height above the higher of the two saddles, over the highest point of the density."""
    low: float
    high: float
    """The valleys beside it, log2 µs; infinite at the ends."""


def _log_times(us: F8) -> F8:
    """log2 of times in µs; 0 is taken for a nanosecond."""
    logs: F8 = np.log2(np.maximum(us, LEAST_US))
    return logs


def log_density(us: F8, weight: F8) -> Density | None:
    """The density of times, µs. O(n log n).

    us, weight: [n], weights > 0. None where there are fewer than two distinct times: no spread, no density.
    """
    from KDEpy import FFTKDE

    x = _log_times(us)
    if not len(x) or x.max() - x.min() < 1e-9:
        return None
    bandwidth, rule = _bandwidth(x, weight)
    # Not finer than the grid shows.
    bandwidth = max(bandwidth, (x.max() - x.min()) / _GRID)
    at = np.linspace(x.min() - _REACH * bandwidth, x.max() + _REACH * bandwidth, _GRID)
    density = FFTKDE(kernel="gaussian", bw=bandwidth).fit(x, weights=weight).evaluate(at)
    return Density(at, np.maximum(density, 0.0), _kish(weight), float(bandwidth), rule)


def _bandwidth(x: F8, weight: F8) -> tuple[float, Literal["isj", "silverman", "resolution"]]:
    found: float | None
    try:
        from KDEpy.bw_selection import improved_sheather_jones

        # Of a handful of times its sums may vanish; then it gives none.
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
    """0.9 · min(sd, IQR/1.34) · n^(-1/5), n being what the weights are worth (Kish)."""
    w = weight / weight.sum()
    mean = float(w @ x)
    sd = float(np.sqrt(w @ (x - mean) ** 2))
    iqr = weighted_quantile(x, weight, 0.75) - weighted_quantile(x, weight, 0.25)
    return 0.9 * (min(sd, iqr / 1.34) if iqr > 0 else sd) * float(_kish(weight) ** -0.2)


def _kish(weight: F8) -> float:
    """How many equally weighted requests tell as much."""
    return float(weight.sum()) ** 2 / float(weight @ weight)


def _clock_step(x: F8, weight: F8) -> float:
    """How far apart the times lie that a clock distinguishes.

    The weighted median, over times, of the distance to the nearest other time: between whole milliseconds
    there is nothing, which is no valley between modes.
    """
    values, place = np.unique(x, return_inverse=True)
    if len(values) < 2:
        return 0.0
    gaps = np.diff(values)
    nearest = np.minimum(np.append(gaps, np.inf), np.insert(gaps, 0, np.inf))
    return weighted_quantile(nearest, np.bincount(place, weight).astype(np.float64), 0.5)


def weighted_quantile(values: F8, weight: F8, q: float) -> float:
    """The least value up to which a share q of the weight lies. Raises IndexError without a value."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weight[order])
    place = int(np.searchsorted(reached, q * reached[-1] * (1 - 1e-12)))
    return float(values[order][min(place, len(order) - 1)])


def modes(found: Density, most: int) -> list[Mode]:
    """Local maxima that rise by at least PROMINENCE, and by more than chance, by place.

    Of more than `most` those that hold the most above their saddles (prominence times the width at half of
    it): a thin spike is higher than a broad hump of as many requests.
    """
    from scipy.signal import find_peaks, peak_widths

    top = float(found.density.max())
    padded = np.concatenate([[0.0], found.density, [0.0]])  # an end is a valley
    peaks, shape = find_peaks(padded, prominence=PROMINENCE * top)
    saddles = padded[peaks] - shape["prominences"]
    error = np.sqrt((padded[peaks] + saddles) * _ROUGHNESS / (found.worth * found.bandwidth))
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
