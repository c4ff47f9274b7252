"""Windows in which nothing plainly happened, and pairs of stretches of them (ALGORITHMS J.3).

Windows are left out on gross signs only: a mean response time or a share of failures that lies far outside
of all others. Whoever leaves out more measures how well quiet times are chosen, not how often a finding is
false.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from analyze.profile.profile import Profile
from schemas.calibration import CalibrationSettings
from schemas.windows import Window

F8 = npt.NDArray[np.float64]
B1 = npt.NDArray[np.bool_]

FAR: Final = 5.0
"""Robust standard deviations."""
LEAST_FACTOR: Final = 1.5
"""Smallest factor of the mean response time that is gross."""
LEAST_SHARE: Final = 0.05
"""Smallest difference of the share of failures that is."""


class Level(NamedTuple):
    """What a window was like."""

    window: Window
    requests: float
    mean_ns: float
    failed: float
    """Share of requests."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Ordinary times to hold against ordinary times."""

    reference: tuple[Window, ...]
    problem: tuple[Window, ...]
    history: tuple[Window, ...]


def level_of(window: Window, profile: Profile) -> Level:
    """Sums of a window's profile."""
    rows = profile.responses
    weight, ns, failed, n = (float(np.sum(rows[name].to_numpy())) for name in ("w", "ns", "failed", "n"))
    return Level(window, n, ns / weight if weight else 0.0, failed / weight if weight else 0.0)


def steady(levels: Sequence[Level]) -> B1:
    """[windows] whether a window is like the others. Windows without a request are not."""
    if not levels:
        return np.zeros(0, dtype=np.bool_)
    there = np.array([level.requests > 0 for level in levels])
    mean = np.log(np.maximum([level.mean_ns for level in levels], 1.0))
    failed = np.array([level.failed for level in levels])
    near: B1 = there & _near(mean, there, np.log(LEAST_FACTOR)) & _near(failed, there, LEAST_SHARE)
    return near


def _near(values: F8, there: B1, least: float) -> B1:
    if not there.any():
        return there
    middle = np.median(values[there])
    spread = 1.4826 * np.median(np.abs(values[there] - middle))
    near: B1 = np.abs(values - middle) <= max(FAR * spread, least)
    return near


def choose_pairs(windows: Sequence[Window], settings: CalibrationSettings) -> list[Pair]:
    """Pairs of steady stretches, chosen by the seed; as many as were asked for, or all there are.

    windows: the steady ones, in time order. No window between reference and problem is unsteady or missing.
    O(windows · gap).
    """
    n0, n1 = settings.reference_windows, settings.problem_windows
    runs = _runs(windows)
    places = [
        (first, first + n0 + gap)
        for start, past in runs
        for first in range(start, past)
        for gap in range(settings.gap_windows + 1)
        if first + n0 + gap + n1 <= past
    ]
    rng = np.random.default_rng(settings.seed)
    order = rng.permutation(len(places))[: settings.pairs]
    found = [places[at] for at in sorted(order.tolist())]
    return [_pair(windows, first, second, settings) for first, second in found]


def _runs(windows: Sequence[Window]) -> list[tuple[int, int]]:
    """(first, past) of each run of adjacent windows."""
    if not windows:
        return []
    cuts = [at for at, (one, other) in enumerate(pairwise(windows), 1) if one.end_ns != other.start_ns]
    return [*pairwise((0, *cuts, len(windows)))]


def _pair(windows: Sequence[Window], first: int, second: int, settings: CalibrationSettings) -> Pair:
    reference = tuple(windows[first : first + settings.reference_windows])
    problem = tuple(windows[second : second + settings.problem_windows])
    taken = {*reference, *problem}
    others = [window for window in windows if window not in taken]
    others.sort(key=lambda window: abs(window.start_ns - problem[0].start_ns))
    return Pair(reference, problem, tuple(sorted(others[: settings.history_windows])))
