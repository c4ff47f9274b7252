"""The slow lane: every day, and every week, the full comparison, which finds small steps and creep.

Levels are spent over the days by LORD++ (Javanmard and Montanari; Ramdas and others): however many days
there are, the share of false ones among those that found something stays bounded. A day's p is the least q
of its findings.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Final, Protocol

import numpy as np

from analyze.watch.decide import CHANGED, Decide, Decision, Range, joined
from schemas.config import Config
from schemas.incidents import LaneName
from schemas.windows import NS_PER_DAY

DAY = NS_PER_DAY
WEEKS: Final = 4
"""Weeks back that a day is compared with the same weekday of."""
_GAMMA: Final = 0.07720838
"""So that the weights of all days are 1 in sum."""


class Spent(Config):
    """Levels that were spent on a sequence of tests."""

    tests: int = 0
    rejected: tuple[int, ...] = ()
    """Numbers of the tests that rejected, from 1."""


class SlowState(Config):
    """Where the slow lane is."""

    day: int | None = None
    """The last day (since the epoch) that was compared."""
    week: int | None = None
    """The last week (`week_of`)."""
    days: Spent = Spent()
    weeks: Spent = Spent()


def level(spent: Spent, alpha: float) -> float:
    """The level of the next test (LORD++), half of the wealth for tests before the first rejection."""
    t, start = spent.tests + 1, alpha / 2
    found = weight(t) * start
    for number, at in enumerate(spent.rejected):
        found += weight(t - at) * (alpha - start if number == 0 else alpha)
    return found


def weight(t: int) -> float:
    """Of the t-th test; of all tests 1 in sum."""
    return float(_GAMMA * np.log(max(t, 2)) / (t * np.exp(np.sqrt(np.log(max(t, 1))))))


def after(spent: Spent, rejected: bool) -> Spent:
    """What is spent with one more test."""
    number = spent.tests + 1
    return Spent(tests=number, rejected=(*spent.rejected, number) if rejected else spent.rejected)


def certain(decision: Decision, alpha: float) -> Decision:
    """A decision with the findings of this level only; unchanged where none of them is for the worse."""
    kept = tuple(finding for finding in decision.findings if finding.q <= alpha)
    if any(not finding.is_better for finding in kept):
        return replace(decision, findings=kept)
    return replace(decision, findings=kept, code=0) if decision.code == CHANGED else decision


WindowsOf = Callable[[int, int], Sequence[Range]]
"""Sealed windows of the lake that lie in a range."""


class Quiet(Protocol):
    """Leaves out ranges with an incident."""

    def __call__(self, ranges: Sequence[Range], *, small: Collection[LaneName] = ()) -> list[Range]:
        """Of the fast lane, and of the lanes `small`."""
        ...


SMALL: Final[tuple[LaneName, ...]] = ("daily", "weekly", "deployment")


def compared_day(day: int, windows_of: WindowsOf, quiet: Quiet, decide: Decide) -> Decision | None:
    """A day against the same weekday of the weeks before, else against the day before; None where nothing is.

    The other days of these weeks are the history, each a block where there are enough: of parts of days the
    course of the day would be noise. What the fast lane reported is left out.
    """
    problem = joined(quiet(windows_of(day * DAY, (day + 1) * DAY)))
    same = [day - 7 * back for back in range(1, WEEKS + 1)]
    used = same if _of(same, windows_of, quiet, SMALL) else [day - 1]
    reference = _of(used, windows_of, quiet, SMALL)
    if not problem or not reference:
        return None
    others = [one for one in range(day - 7 * WEEKS, day) if one not in used]
    return decide(reference, problem, _of(others, windows_of, quiet, SMALL), calendar_ns=DAY)


def week_of(day: int) -> int:
    """Number a day's week, which begins on Monday; the epoch was a Thursday."""
    return (day + 3) // 7


def days_of(week: int) -> range:
    """List the days of a week, Monday first."""
    return range(7 * week - 3, 7 * week + 4)


def compared_week(monday: int, windows_of: WindowsOf, quiet: Quiet, decide: Decide) -> Decision | None:
    """The week of a Monday against the last one of which something is left; None where nothing is.

    The weeks before these are the history. What any lane reported is left out, but for what a week reported
    and goes on: without it that could not be seen to end.
    """
    problem = _of(range(monday, monday + 7), windows_of, quiet, ("daily", "deployment"))
    for before in range(monday - 7, monday - 7 * WEEKS - 1, -7):
        reference = _of(range(before, before + 7), windows_of, quiet, SMALL)
        if problem and reference:
            history = _of(range(monday - 7 * WEEKS, before), windows_of, quiet, SMALL)
            return decide(reference, problem, history, calendar_ns=DAY)
    return None


def _of(days: Sequence[int], windows_of: WindowsOf, quiet: Quiet, small: Collection[LaneName]) -> list[Range]:
    windows = [one for day in days for one in windows_of(day * DAY, (day + 1) * DAY)]
    return joined(quiet(windows, small=small))
