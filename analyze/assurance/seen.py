"""What a quiet comparison would have seen: "unchanged" is worth as much as this is small (ALGORITHMS B.12,
L.6).

To show that nothing changed by a few percent takes more requests than most minutes have, and a tool that
cannot tell on every quiet minute is not asked again. So the question is turned round: which change would
have been found, with 90 % power? If it is smaller than what the user says matters, and what was measured is
no more than ordinary times differ by, nothing that matters changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from analyze.assurance.period_tests import ALPHA, PeriodTest
from analyze.report.wording import percent
from schemas.report.accounts import VisibleRow

POWER = 0.9
NEARLY_ALL = 0.9
"""Share of the time, or of the requests, that a visible size must hold for."""
_Z95 = 1.959964


@dataclass(frozen=True, slots=True)
class Bounds:
    """Changes that matter: from these sizes on they must be seen."""

    time: float = 1.0
    """Relative: 1 is twice as long. Of the mean response time, and of the requests that
    pass a place that got slow."""
    share: float = 0.1
    """Points over 100: of slow and failing requests, and of those that take another path."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Smallest changes that would have been found with 90 % power; None: none would."""

    mean: float | None
    """Relative."""
    place: float | None
    """How much longer it makes the requests that pass, relative; at places with nearly all of the time."""
    slow: float | None
    """Share of slow requests; None where a period has too few for the tail to be looked at."""
    errors: float | None
    path: float | None
    """Share of a path, at root types with nearly all requests."""

    def within(self, bounds: Bounds) -> bool:
        """Whether all that matters would have been seen. A tail that has no requests says nothing: the mean
        and the places must do."""
        times = (self.mean, self.place)
        shares = (self.errors, self.path)
        return (
            all(size is not None and size <= bounds.time for size in times)
            and all(size is not None and size <= bounds.share for size in shares)
            and (self.slow is None or self.slow <= bounds.share)
        )

    def text(self) -> str:
        """One sentence; empty where nothing would have been seen."""
        told = [
            f"{what} {percent(size, sign=True)}"
            for what, size in (
                ("a mean of", self.mean),
                ("a place that makes its requests longer by", self.place),
            )
            if size is not None
        ]
        told += [
            f"{percent(size).removesuffix('%')}points {what}"
            for what, size in (
                ("of slow requests", self.slow),
                ("of failing ones", self.errors),
                ("of another path", self.path),
            )
            if size is not None
        ]
        return f"Would have been seen: {', '.join(told)}." if told else ""


def seen(
    tests: Sequence[PeriodTest],
    visible: Sequence[VisibleRow],
    place: float | None,
    *,
    hidden_paths: float = 0.0,
    alpha: float = ALPHA,
) -> Seen:
    """Out of the tests of the whole period, of root types, and of places.

    place: relative change that places with nearly all of the time would show. hidden_paths: share that lost
    events hide.
    """
    size = {test.measure: _visible(test, alpha) for test in reversed(tests)}
    before = next((test.before for test in tests if test.measure == "mean"), 0.0)
    mean = size.get("mean")
    path = _for_nearly_all(visible)
    return Seen(
        mean=None if mean is None or before <= 0 else mean / before,
        place=place,
        slow=size.get("tail"),
        errors=size.get("errors"),
        path=None if path is None else max(path, hidden_paths),
    )


def _visible(test: PeriodTest, alpha: float) -> float | None:
    half = (test.high - test.low) / 2
    if not np.isfinite(half):
        return None
    reach = float(stats.norm.isf(alpha / 2) + stats.norm.ppf(POWER)) / _Z95
    return max(test.floor, half * reach)


def _for_nearly_all(visible: Sequence[VisibleRow]) -> float | None:
    """Share that root types with nearly all requests would show."""
    sized = sorted(
        ((np.inf if row.share is None else row.share, row.requests0 + row.requests1) for row in visible),
    )
    return size_for([size for size, _ in sized], [float(n) for _, n in sized])


def size_for(sizes: Sequence[float], weight: Sequence[float]) -> float | None:
    """The size that is enough for nearly all of the weight; None where none is. Sizes may be infinite."""
    order = np.argsort(np.asarray(sizes), kind="stable")
    total = float(np.sum(weight))
    if total <= 0:
        return None
    upto = np.cumsum(np.asarray(weight, dtype=np.float64)[order]) / total
    size = float(np.asarray(sizes)[order[min(int(np.searchsorted(upto, NEARLY_ALL - 1e-9)), len(upto) - 1)]])
    return size if np.isfinite(size) else None


def ordinary(tests: Sequence[PeriodTest]) -> bool:
    """Whether what was measured is no more than two ordinary periods differ by."""
    return all(not test.changed and abs(test.after - test.before) <= test.margin for test in tests)
