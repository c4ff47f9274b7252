"""Bound what "unchanged" means: largest possible change, smallest visible change, number of missing requests.

To show that nothing changed by a few percent takes more requests than most minutes have, and a tool that
answers "cannot tell" on every quiet minute is useless. So the user says which changes matter, and the
question is whether such a change is still possible: it is not if the interval, which includes the system's
own variation, ends before it. For paths the bound is the largest of: the smallest new path that would have
been found, the floor of a known one, and shifts above chance that are not significant. Floors, levels and
standard errors are those of the tests.
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
"""Most root types shown."""
_MOST_FACTOR: Final = 1e6
"""Largest factor of requests tried; if it does not decide, no number does."""
_MOST_PERCENT: Final = 3.0
"""Relative changes from here on are written as a factor."""
_STEPS: Final = 20
_DIGITS: Final = 2
"""Significant digits of a number of missing requests."""


@dataclass(frozen=True, slots=True)
class Paths:
    """Requests by root type, and the visibility of path changes in them; arrays are [roots]."""

    n0: F8
    n1: F8
    """Effective requests; `n0` before, `n1` after."""
    weight: F8
    """[roots] requests of both periods together."""
    hidden: float
    """Largest share of requests on paths that lost events may hide, or that moved without being significant
    (`open_path`)."""

    def smallest(self, root: int, settings: RobustSettings, factor: float = 1.0) -> float:
        """Smallest share of a new path, or of an error the reference never had, that would have been found;
        infinite with too few requests."""
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
        """Largest share of a path that may have moved undetected, at the root types that hold nearly all
        requests."""
        if not self.weight.sum():
            return np.inf
        busiest = np.argsort(-self.weight, kind="stable")
        upto = np.cumsum(self.weight[busiest]) / self.weight.sum()
        last = busiest[int(np.searchsorted(upto, settings.verdict.nearly_all - 1e-9))]
        # A path that was known may move by its own floor unseen.
        return max(self.smallest(int(last), settings, factor), settings.pattern_floor, self.hidden)


@dataclass(frozen=True, slots=True)
class LargestChange:
    """Largest changes, up or down, that the data allow; infinite: unbounded."""

    mean: float
    """Relative change of the mean."""
    site: float
    """Relative change of requests that pass a call site, at the sites with nearly all of the time."""
    slow: float | None
    """Change of the share of slow requests; None if a period has too few for the tail."""
    errors: float
    """Change of the share of failed requests, or of those with a failing call."""
    path: float
    usual: bool
    """True if the measured change is within the difference of two ordinary periods."""
    windows: int = 0
    """Number of ordinary windows compared with; 0: the reference alone."""

    def within(self, settings: RobustSettings) -> bool:
        """True if no change that matters is possible. Without a tail (too few requests), mean and call sites
        decide."""
        return self.usual and not self.over(settings)

    def over(self, settings: RobustSettings) -> list[str]:
        """Names of the quantities that may have changed by more than matters."""
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
        """Sentence with the finite bounds; empty if all are infinite."""
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
    """Estimates from which the largest possible change is computed."""

    whole: Whole
    site_times: SiteTimes
    paths: Paths
    settings: RobustSettings
    windows: int = 0

    def largest(self, factor: float = 1.0) -> LargestChange:
        """Largest possible changes with `factor` times as many requests like these."""
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
        """True if `factor` times as many requests show a change, or exclude every one that matters."""
        seen = any(measure.shown_by(measure.estimate.times(factor)) for measure in self.whole.measures)
        return seen or self.largest(factor).within(self.settings)

    def missing(self, n1: float) -> int | None:
        """Number of additional problem requests needed, if the reference grows alike, rounded up to `_DIGITS`
        digits; None: no number suffices."""
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
    """Effective requests of each root type: the denominators of its path shares."""
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
    """Smallest visible changes of each root type, the MOST_ROWS with the most requests.

    before: the baseline of the problem; requests0: [roots] requests of the reference.
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
    """Smallest factor of a typical time that would be found; None: not tested."""
    if min(paths.n0[at - 1], paths.n1[at - 1]) < settings.min_requests:
        return None
    z = max(settings.min_z, float(ndtri(1 - settings.q / 2)))
    size = float(typical.take(np.array([at])).smallest_visible(z, settings.verdict.power)[0])
    return None if not np.isfinite(size) or size > 700 else max(1 + settings.time_floor, float(np.exp(size)))
