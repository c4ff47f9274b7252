"""Which changes of made days a daily comparison could see: a test that knows the truth decides.

It knows what no comparison knows: how ordinary days scatter (of many made ones), which services had no change
on which day, and that changes are of own times or of failures. It spends its level over the days as the slow
lane does (LORD++), each day's shared among all that it looks at (Bonferroni). What it cannot see in a day and
the days that the slow lane takes as reference, no comparison of these days is asked to find.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from oracles.watched_week import (
    CALLS,
    OWN_MS,
    ROOTS,
    SHARES,
    SPREAD,
    WINDOWS_A_DAY,
    Change,
    day_of,
    requests_of,
)
from scipy import stats

from analyze.methods.robust.settings import RobustSettings
from analyze.watch.settings import WatchSettings
from analyze.watch.slow_lane import WEEKS, Spent, after, level

ORDINARY_DAYS = 300
SLOW = 0.9
"""Quantile of ordinary own times over which a call is slow."""


def seen_daily(changes: Sequence[Change], seed: int, learned: int, days: int, requests: int) -> list[Change]:
    """List the changes that show in the days behind those that are learned."""
    spread = _spread(requests)
    drawn = [
        _statistics(
            np.random.default_rng([seed, day, 1]),
            day_of(np.random.default_rng([seed, day]), day, changes),
            requests,
        )
        for day in range(learned + days)
    ]
    found, spent = list[Change](), Spent()
    for day in range(learned, learned + days):
        share = level(spent, WatchSettings().slow_false) / spread.size
        least = dict(zip(OWN_MS, _least_p(drawn, spread, changes, day), strict=True))
        seen = [c for c in changes if c.day == day and least[c.service] <= share]
        found += seen
        spent = after(spent, bool(seen))
    return found


def is_reported(change: Change) -> bool:
    """Tell whether a comparison of its whole day reports so much at all: smaller changes are left out however
    sure they are."""
    settings = RobustSettings()
    part = (change.past - change.first) / WINDOWS_A_DAY
    slower, failing = part * (change.slower - 1), part * change.failing
    return slower >= settings.time_floor or failing >= settings.new_floor


def _least_p(
    drawn: Sequence[np.ndarray], spread: np.ndarray, changes: Sequence[Change], day: int
) -> list[float]:
    """[services] the least p of a day against the same weekday of the weeks before, else against the day
    before, by what has no change there; 1 where nothing is left."""
    same = [day - 7 * back for back in range(1, WEEKS + 1) if day >= 7 * back]
    found = []
    for row, service in enumerate(OWN_MS):
        loud = {change.day for change in changes if change.service == service}
        quiet = [one for one in same or [day - 1] if one not in loud]
        if not quiet:
            found.append(1.0)
            continue
        off = drawn[day][row] - np.mean([drawn[one][row] for one in quiet], axis=0)
        z = off / (spread[row] * np.sqrt(1 + 1 / len(quiet)))
        found.append(float(stats.norm.sf(z).min()))
    return found


@cache
def _spread(requests: int) -> np.ndarray:
    """[services, 3] standard deviations of ordinary days."""
    rng = np.random.default_rng(0)
    ordinary = [_statistics(rng, day_of(rng, 0, ()), requests) for _ in range(ORDINARY_DAYS)]
    spread: np.ndarray = np.std(ordinary, axis=0, ddof=1)
    return spread


def _statistics(
    rng: np.random.Generator, day: tuple[dict[str, np.ndarray], dict[str, np.ndarray]], requests: int
) -> np.ndarray:
    """[services, 3] of a day's calls: logarithm of the mean own time, slow and failing ones as angles."""
    levels, fails = day
    rows = []
    for service, usual_ms in OWN_MS.items():
        n = rng.poisson(requests_of(requests) * _calls(service))
        own_ms = np.exp(np.repeat(levels[service], n) + rng.normal(0, SPREAD, n.sum()))
        failing = rng.binomial(n, fails[service]).sum() / n.sum()
        slow = np.mean(own_ms > usual_ms * np.exp(SPREAD * stats.norm.ppf(SLOW)))
        rows.append([np.log(own_ms.mean()), np.arcsin(np.sqrt(slow)), np.arcsin(np.sqrt(failing))])
    return np.array(rows)


def _calls(service: str) -> float:
    """Calls of a service a request."""
    if service == "shop":
        return 1.0
    roots = sum(share for callees, share in zip(ROOTS.values(), SHARES, strict=True) if service in callees)
    return roots + sum(_calls(caller) for caller, callees in CALLS.items() if service in callees)
