"""The largest change that the data allow: what "unchanged" is worth (ALGORITHMS B.12, H.6, L.6).

To show that nothing changed by a few percent takes more requests than most minutes have, and a tool that
cannot tell on every quiet minute is not asked again. So the user says which changes matter, and the question
is whether such a change is still possible: it is not where the 95 % interval, which contains what the system
does on its own, ends before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analyze.assurance.period_tests import PeriodNoise, PeriodTest
from analyze.report.wording import percent
from schemas.report.accounts import VisibleRow

NEARLY_ALL = 0.9
"""Share of the time, or of the requests, that a size must hold for."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Changes that matter are at least as large."""

    time: float = 1.0
    """Relative: 1 is twice as long. Of the mean response time, and of requests that pass a place."""
    share: float = 0.1
    """Points over 100: of slow and failing requests, and of those that take another path."""


@dataclass(frozen=True, slots=True)
class LargestChange:
    """Largest changes, up or down, that the data allow; None: any."""

    mean: float | None
    """Relative."""
    place: float | None
    """Change of requests that pass a place, relative; at places with nearly all of the time."""
    slow: float | None
    """Share of slow requests; None where a period has too few for the tail to be looked at."""
    errors: float | None
    path: float | None
    """Share of a path that would have been found, at root types with nearly all requests."""
    usual: bool = True
    """What was measured is no more than two ordinary periods differ by."""
    windows: int = 0
    """Ordinary windows that the problem was held against; 0: the reference alone."""

    def within(self, bounds: Bounds) -> bool:
        """Whether no change that matters is possible. A period with too few requests for a tail has none
        to show: there the mean and the places must do."""
        times = (self.mean, self.place)
        shares = (self.errors, self.path)
        return (
            all(size is not None and size <= bounds.time for size in times)
            and all(size is not None and size <= bounds.share for size in shares)
            and (self.slow is None or self.slow <= bounds.share)
        )

    def text(self) -> str:
        """One sentence; empty where any change is possible."""
        told = [
            f"{percent(size)} {what}"
            for what, size in (("of the mean", self.mean), ("of requests that pass one place", self.place))
            if size is not None
        ]
        told += [
            f"{percent(size).removesuffix('%')}points {what}"
            for what, size in (
                ("more slow requests", self.slow),
                ("more failing ones", self.errors),
                ("on another path", self.path),
            )
            if size is not None
        ]
        against = f", against {self.windows} ordinary windows" if self.windows else ""
        return f"Larger changes are excluded than {', '.join(told)}{against}." if told else ""


def largest_change(
    tests: Sequence[PeriodTest],
    visible: Sequence[VisibleRow],
    place: float | None,
    *,
    hidden_paths: float = 0.0,
    noise: PeriodNoise | None = None,
    windows: int = 0,
) -> LargestChange:
    """Out of the intervals of the whole period, of places, and of what root types would have shown.

    place: see `LargestChange`. hidden_paths: share of a path that lost events hide. noise: of ordinary
    windows, where the tests are against so many of them; a mean may differ by what they differ by (`usual`).
    """
    size = {test.measure: _largest(test) for test in reversed(tests)}  # of several tails the first
    before = next((test.before for test in tests if test.measure == "mean"), 0.0)
    mean = size.get("mean")
    path = size_for(
        [np.inf if row.share is None else row.share for row in visible],
        [row.requests0 + row.requests1 for row in visible],
    )
    return LargestChange(
        mean=None if mean is None or before <= 0 else mean / before,
        place=place,
        slow=size.get("tail"),
        errors=size.get("errors"),
        path=None if path is None else max(path, hidden_paths),
        usual=_usual(tests, noise),
        windows=windows,
    )


def _largest(test: PeriodTest) -> float | None:
    # Nothing falls by more than all of it.
    size = max(abs(max(test.low, -test.before)), abs(test.high))
    return size if np.isfinite(size) else None


def size_for(sizes: Sequence[float], weight: Sequence[float]) -> float | None:
    """The size that is enough for nearly all of the weight; None where none is. Sizes may be infinite."""
    total = float(np.sum(weight))
    if total <= 0:
        return None
    order = np.argsort(np.asarray(sizes), kind="stable")
    upto = np.cumsum(np.asarray(weight, dtype=np.float64)[order]) / total
    place = min(int(np.searchsorted(upto, NEARLY_ALL - 1e-9)), len(upto) - 1)
    size = float(np.asarray(sizes)[order[place]])
    return size if np.isfinite(size) else None


def _usual(tests: Sequence[PeriodTest], noise: PeriodNoise | None) -> bool:
    for test in tests:
        margin = test.margin
        if noise is not None and test.measure == "mean":  # of many windows, not a guess that needs a bound
            margin = max(margin, 2 * noise.tau_between * test.before)
        if test.changed or abs(test.after - test.before) > margin:
            return False
    return True
