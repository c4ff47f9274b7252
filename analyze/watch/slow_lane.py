"""Slow lane of the watch: a full comparison every day and every week, which finds small steps and slow drift.

Significance levels are spent over the days by LORD++ (Javanmard and Montanari; Ramdas and others): over any
number of days, the false discovery rate among the days with findings stays bounded. A day's p is the smallest
q of its findings.
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
"""Number of preceding weeks whose same weekday a day is compared with."""
_GAMMA: Final = 0.07720838
"""Normalizing constant of `weight`, by which the weights of all tests sum to 1."""


class Spent(Config):
    """State of one sequence of tests: the tests made until now, which determine the significance level of the
    next one."""

    tests: int = 0
    rejected: tuple[int, ...] = ()
    """Numbers, from 1, of the tests that rejected, ascending."""


class SlowState(Config):
    """Last day and week that were compared, and the tests made so far."""

    day: int | None = None
    """Last day that was compared, days since the epoch; None before the first window."""
    week: int | None = None
    """Last week that was compared, numbered by `week_of`; None before the first window."""
    days: Spent = Spent()
    weeks: Spent = Spent()


def level(spent: Spent, alpha: float) -> float:
    """Significance level of the next test (LORD++).

    Half of the total level `alpha` is for tests before the first rejection. spent: the tests made so far.
    """
    t, start = spent.tests + 1, alpha / 2
    found = weight(t) * start
    for number, at in enumerate(spent.rejected):
        found += weight(t - at) * (alpha - start if number == 0 else alpha)
    return found


def weight(t: int) -> float:
    """Weight γ_t of test number t, from 1; the weights of all tests sum to 1."""
    return float(_GAMMA * np.log(max(t, 2)) / (t * np.exp(np.sqrt(np.log(max(t, 1))))))


def after(spent: Spent, rejected: bool) -> Spent:
    """Copy of `spent` with one more test. rejected: True if that test was significant."""
    number = spent.tests + 1
    return Spent(tests=number, rejected=(*spent.rejected, number) if rejected else spent.rejected)


def certain(decision: Decision, alpha: float) -> Decision:
    """Copy of a decision with only the findings significant at `alpha`; code 0 (unchanged) if no regression
    remains."""
    kept = tuple(finding for finding in decision.findings if finding.q <= alpha)
    if any(not finding.is_better for finding in kept):
        return replace(decision, findings=kept)
    return replace(decision, findings=kept, code=0) if decision.code == CHANGED else decision


WindowsOf = Callable[[int, int], Sequence[Range]]
"""Function (start, end), ns since the epoch -> sealed windows of the lake in that range."""


class Quiet(Protocol):
    """Function that removes ranges with an incident."""

    def __call__(self, ranges: Sequence[Range], *, small: Collection[LaneName] = ()) -> list[Range]:
        """Ranges of time, out of `ranges`, that overlap no incident of the fast lane nor of the lanes in
        `small`."""
        ...


SMALL: Final[tuple[LaneName, ...]] = ("daily", "weekly", "deployment")


def compared_day(day: int, windows_of: WindowsOf, quiet: Quiet, decide: Decide) -> Decision | None:
    """Compare a day with the same weekday of the preceding weeks, else with the day before; None without
    data.

    The other days of the preceding weeks are the history, whole days as blocks if there are enough: with
    parts of days the daily cycle would count as noise. Incidents of the fast lane are left out.
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
    """Number of the week of a day (days since the epoch); weeks begin on Monday."""
    return (day + 3) // 7


def days_of(week: int) -> range:
    """Days, since the epoch, of a week that is numbered by `week_of`; Monday first."""
    return range(7 * week - 3, 7 * week + 4)


def compared_week(monday: int, windows_of: WindowsOf, quiet: Quiet, decide: Decide) -> Decision | None:
    """Compare the week of a Monday with the last week that has quiet windows; None without data.

    Earlier weeks are the history. Incidents of all lanes are left out, except open ones of the weekly lane in
    the week itself: otherwise their end could not be detected.
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
