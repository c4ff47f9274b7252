"""Say what "unchanged" is worth: the largest change possible, the smallest visible, the requests that lack.

To show that nothing changed by a few percent takes more requests than most minutes have, and a tool that
cannot tell on every quiet minute is not asked again. So the user says which changes matter, and the question
is whether such a change is still possible: it is not where the interval, which contains what the system does
on its own, ends before it. Of paths it is the share of a new one that would have been found, the floor of a
known one, and what moved by more than chance and yet does not count: none of them is excluded. Every number
is one that the tests use: floors, levels and standard errors are those of the settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import ndtri

from analyze.methods.robust.period_blocks import PeriodBlocks
from analyze.methods.robust.settings import RobustSettings
from analyze.methods.robust.site_times import SiteTimes
from analyze.methods.robust.verdict.whole import Whole
from analyze.report.wording import counted, factor, percent
from analyze.stats.estimate import Estimate
from analyze.stats.proportions import smallest_new_share
from analyze.stats.time_blocks import mean_change
from schemas.arrays import F8
from schemas.report.accounts import VisibleRow

MOST_ROWS: Final = 100
"""Root types that are shown."""
_MOST_FACTOR: Final = 1e6
"""Times as many requests from which no number would do."""
_MOST_PERCENT: Final = 3.0
"""A relative change from here on is written as a factor."""
_STEPS: Final = 20
_DIGITS: Final = 2
"""Digits of a number of requests that lack: more are not known."""


@dataclass(frozen=True, slots=True)
class Paths:
    """Requests of root types, and what of their paths would have shown; arrays are [roots]."""

    n0: F8
    n1: F8
    """Effective requests."""
    weight: F8
    """Requests of both periods."""
    hidden: float
    """Share of requests whose path lost events hide, or that moved and does not count (`open_path`)."""

    def smallest(self, root: int, settings: RobustSettings, factor: float = 1.0) -> float:
        """Give the share of a path, or of an error, that the reference never had and that would be found."""
        n0, n1 = (int(n[root] * factor) for n in (self.n0, self.n1))
        if min(n0, n1) < settings.min_requests:
            return np.inf
        return smallest_new_share(
            n0,
            n1,
            p=settings.q,
            z=settings.min_z,
            least=settings.least_affected,
            floor=settings.new_floor,
            power=settings.verdict.power,
        )

    def largest(self, settings: RobustSettings, factor: float = 1.0) -> float:
        """Give the share of a path that may have moved unseen, at root types with nearly all requests."""
        if not self.weight.sum():
            return np.inf
        busiest = np.argsort(-self.weight, kind="stable")
        upto = np.cumsum(self.weight[busiest]) / self.weight.sum()
        last = busiest[int(np.searchsorted(upto, settings.verdict.nearly_all - 1e-9))]
        # A path that was known may move by its own floor unseen.
        return max(self.smallest(int(last), settings, factor), settings.pattern_floor, self.hidden)


@dataclass(frozen=True, slots=True)
class LargestChange:
    """Largest changes, up or down, that the data allow; infinite: any."""

    mean: float
    """Relative."""
    site: float
    """Change of requests that pass a call site, relative; at those with nearly all of the time."""
    slow: float | None
    """Share of slow requests; None where a period has too few for the tail to be looked at."""
    errors: float
    """Share of failed requests, or of those with a failing call."""
    path: float
    usual: bool
    """True if the measured change is no more than two ordinary periods differ by."""
    windows: int = 0
    """Ordinary windows that the problem was compared with; 0: the reference alone."""

    def within(self, settings: RobustSettings) -> bool:
        """Tell whether no change that matters is possible. A period with too few requests for a tail has none
        to show: there the mean and the call sites must do."""
        return self.usual and not self.over(settings)

    def over(self, settings: RobustSettings) -> list[str]:
        """Name what may have changed by more than matters."""
        times, share = settings.matters_time, settings.matters_share
        sizes = (
            ("the mean response time", self.mean, times),
            ("the time at a call site", self.site, times),
            ("the share of slow requests", self.slow or 0.0, share),
            ("the share of requests with a failing call", self.errors, share),
            ("the share of a path", self.path, share),
        )
        return [what for what, size, most in sizes if not size <= most]

    def text(self) -> str:
        """Say it in one sentence; empty where any change is possible."""
        shown = [
            f"{what} by {percent(size)}" if size < _MOST_PERCENT else f"{what} {factor(1 + size)}"
            for what, size in (("the mean", self.mean), ("the time at a call site", self.site))
            if np.isfinite(size)
        ]
        shown += [
            f"{what} by {percent(size).removesuffix('%')}points"
            for what, size in (
                ("slow requests", self.slow),
                ("failing ones", self.errors),
                ("those on another path", self.path),
            )
            if size is not None and np.isfinite(size)
        ]
        against = f" (against {counted(self.windows, 'ordinary window')})" if self.windows else ""
        return f"At most this may have changed unseen{against}: {', '.join(shown)}." if shown else ""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Estimates that bound the largest possible change."""

    whole: Whole
    site_times: SiteTimes
    paths: Paths
    settings: RobustSettings
    windows: int = 0

    def largest(self, factor: float = 1.0) -> LargestChange:
        """Give the largest possible changes, were there so many times as many requests like these."""
        level, measures = self.settings.verdict.level, self.whole.measures
        # Of several tails the first.
        size = {m.name: m.largest(level, m.estimate.times(factor)) for m in reversed(measures)}
        return LargestChange(
            mean=size.get("mean", np.inf),
            site=self.site_times.largest(self.settings, factor),
            slow=size.get("tail"),
            errors=max(size.get(name, np.inf) for name in ("errors", "failing")),
            path=self.paths.largest(self.settings, factor),
            usual=bool(measures) and all(measure.usual for measure in measures),
            windows=self.windows,
        )

    def decides(self, factor: float) -> bool:
        """Tell whether so many times as many requests show a change, or that none that matters is."""
        seen = any(measure.shown_by(measure.estimate.times(factor)) for measure in self.whole.measures)
        return seen or self.largest(factor).within(self.settings)

    def missing(self, n1: float) -> int | None:
        """Count the problem requests that lack, the reference growing alike, rounded up to `_DIGITS` digits;
        None: no number would tell."""
        if not self.decides(_MOST_FACTOR):
            return None
        low, high = 0.0, float(np.log(_MOST_FACTOR))
        for _ in range(_STEPS):
            middle = (low + high) / 2
            low, high = (low, middle) if self.decides(float(np.exp(middle))) else (middle, high)
        lacking = max(1, int(np.ceil(n1 * np.expm1(high))))
        unit = int(10 ** max(len(str(lacking)) - _DIGITS, 0))
        return -(-lacking // unit) * unit


def paths_of(before: PeriodBlocks, after: PeriodBlocks, hidden: float) -> Paths:
    """Count the requests that paths of each root type are shares of."""
    total = before.requests.sum(axis=0) + after.requests.sum(axis=0)
    return Paths(before.effective_by_root, after.effective_by_root, total, hidden)


def visible_rows(
    before: PeriodBlocks,
    after: PeriodBlocks,
    roots: Sequence[str],
    tau2: float,
    settings: RobustSettings,
    requests0: F8,
) -> tuple[VisibleRow, ...]:
    """Give what would have shown at each root type, the MOST_ROWS with the most requests.

    before: what the problem is compared with; requests0: [roots] of the reference.
    """
    typical = mean_change(before.log_times(), after.log_times(), tau2=tau2, of_logs=True)
    paths = paths_of(before, after, 0.0)
    counts = np.stack([requests0, after.requests.sum(axis=0)], axis=1).astype(np.int64)
    busiest = np.argsort(-paths.weight, kind="stable")[:MOST_ROWS].tolist()
    rows = [
        VisibleRow(
            root=roots[at],
            requests0=int(counts[at, 0]),
            requests1=int(counts[at, 1]),
            ratio=_ratio(typical, at + 1, paths, settings),
            share=share if np.isfinite(share := paths.smallest(at, settings)) else None,
        )
        for at in busiest
    ]
    return tuple(sorted(rows, key=lambda row: (-row.requests0 - row.requests1, row.root)))


def _ratio(typical: Estimate, at: int, paths: Paths, settings: RobustSettings) -> float | None:
    """Give the smallest factor of a typical time that is found; None: not tested."""
    if min(paths.n0[at - 1], paths.n1[at - 1]) < settings.min_requests:
        return None
    z = max(settings.min_z, float(ndtri(1 - settings.q / 2)))
    size = float(typical.take(np.array([at])).smallest_visible(z, settings.verdict.power)[0])
    return None if not np.isfinite(size) or size > 700 else max(1 + settings.time_floor, float(np.exp(size)))
