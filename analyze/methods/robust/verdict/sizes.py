"""Bounds behind the outcome "unchanged": the largest possible changes, the smallest visible changes, and the
number of missing requests.

To show that nothing changed by a few percent takes more requests than most minutes have, and a tool that
answers "cannot tell" in every quiet minute is useless. So the user sets how large a change must be to matter,
and "unchanged" requires that no such change is possible: the confidence interval, normal variation included,
ends below it. For paths the bound is the largest of: the smallest new path that would have been found, the
floor for known paths, and path shifts above chance that are not significant. Floors, levels and standard
errors are those of the tests.
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
"""Maximum number of root types in the report's table of smallest visible changes."""
_MOST_FACTOR: Final = 1e6
"""Largest multiple of the present number of requests that is tried; if it does not allow a decision, no
number does."""
_MOST_PERCENT: Final = 3.0
"""Relative change (3: 300 %) from which a change is written as a factor."""
_STEPS: Final = 20
_DIGITS: Final = 2
"""Number of significant digits to which a number of missing requests is rounded up."""


@dataclass(frozen=True, slots=True)
class Paths:
    """Number of requests by root type, from which the smallest visible path changes are computed; arrays are
    float64[roots]."""

    n0: F8
    """Effective number of requests (Kish) in the reference, or in the baseline if it is compared as a
    whole."""
    n1: F8
    """Effective number of requests (Kish) in the problem."""
    weight: F8
    """Number of recorded requests in both periods together."""
    hidden: float
    """Largest share of requests, in [0, 1], whose path may have changed unseen: because of lost events, or
    because the shift is not significant (`Tested.open_path`)."""

    def smallest(self, root: int, settings: RobustSettings, factor: float = 1.0) -> float:
        """Smallest share of requests on a new path, or with a new error, that the tests would have found; inf
        for too few requests.

        root: index of the root type; factor: number of requests as a multiple of the present number.
        """
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
        """Largest share of requests whose path may have changed undetected, in [0, 1], for the root types
        with `nearly_all` requests; inf without requests."""
        if not self.weight.sum():
            return np.inf
        busiest = np.argsort(-self.weight, kind="stable")
        upto = np.cumsum(self.weight[busiest]) / self.weight.sum()
        last = busiest[int(np.searchsorted(upto, settings.verdict.nearly_all - 1e-9))]
        # A known path may move by `pattern_floor` undetected.
        return max(self.smallest(int(last), settings, factor), settings.pattern_floor, self.hidden)


@dataclass(frozen=True, slots=True)
class LargestChange:
    """Largest changes, up or down, that the data do not exclude; inf where there is no bound."""

    mean: float
    """Largest possible relative change of the mean response time (1: twice as long)."""
    site: float
    """Largest possible relative change of the response time of requests that pass a call site, for sites with
    `nearly_all` of the time (1: twice as long)."""
    slow: float | None
    """Largest possible change of the share of slow requests (0.05: 5 percentage points); None if a period has
    too few requests to determine the time above which a request is slow."""
    errors: float
    """Largest possible change of the share of failed requests, or of requests with a failing call, whichever
    is larger (0.05: 5 percentage points)."""
    path: float
    """Largest possible share, in [0, 1], of requests whose path (sequence of calls) changed."""
    usual: bool
    """True if all measured changes of whole periods are within the difference between two normal periods."""
    windows: int = 0
    """Number of baseline windows that the problem was compared with; 0 if it was compared with the reference
    only."""

    def within(self, settings: RobustSettings) -> bool:
        """True if no change as large as the user's bounds is possible; measures that are None are ignored."""
        return self.usual and not self.over(settings)

    def over(self, settings: RobustSettings) -> list[str]:
        """Phrases for the quantities that may have changed by more than the user's bounds."""
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
        """Sentence that lists all finite bounds; empty if there is none."""
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
    """Estimates from which the largest possible changes and the number of missing requests are computed."""

    whole: Whole
    site_times: SiteTimes
    paths: Paths
    settings: RobustSettings
    windows: int = 0
    """Number of baseline windows that the problem was compared with; 0 if it was compared with the reference
    only."""

    def largest(self, factor: float = 1.0) -> LargestChange:
        """Largest possible changes if both periods had `factor` times as many requests with the same
        values."""
        level, measures = self.settings.verdict.level, self.whole.measures
        # Of several tails the first one counts: reversed, it is stored last.
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
        """True if `factor` times as many requests in both periods would show a significant change, or exclude
        every change as large as the user's bounds."""
        seen = any(measure.shown_by(measure.estimate.times(factor)) for measure in self.whole.measures)
        return seen or self.largest(factor).within(self.settings)

    def missing(self, n1: float) -> int | None:
        """Number of additional requests of the problem that would allow a decision, if the reference grows in
        proportion; rounded up to two significant digits; None if no number suffices.

        n1: present effective number of requests of the problem.
        """
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
    """Number of requests by root type, for the visibility of path changes. hidden: see `Paths.hidden`."""
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
    """Rows of the smallest visible changes, one per root type, for the MOST_ROWS root types with most
    requests.

    before: sums of the baseline; tau2: variance of the difference of log means between normal periods;
    requests0: float64[roots] number of requests of the reference.
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
    """Smallest factor (> 1) of a typical response time that would be significant for a root type; None if
    there are too few requests. at: index of the root type plus 1, since element 0 of `typical` is for all
    requests."""
    if min(paths.n0[at - 1], paths.n1[at - 1]) < settings.min_requests:
        return None
    z = max(settings.min_z, float(ndtri(1 - settings.q / 2)))
    size = float(typical.take(np.array([at])).smallest_visible(z, settings.verdict.power)[0])
    return None if not np.isfinite(size) or size > 700 else max(1 + settings.time_floor, float(np.exp(size)))
