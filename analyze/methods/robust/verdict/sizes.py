"""Say what "unchanged" is worth: the largest change possible, the smallest visible, the requests that lack.

To show that nothing changed by a few percent takes more requests than most minutes have, and a tool that
cannot tell on every quiet minute is not asked again. So the user says which changes matter, and the question
is whether such a change is still possible: it is not where the 95 % interval, which contains what the system
does on its own, ends before it (B.12, H.6, L.6).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv, ndtri

from analyze.methods.robust.verdict.period_blocks import PeriodBlocks
from analyze.methods.robust.verdict.period_tests import (
    NEEDED_SHARE,
    Equivalence,
    PeriodNoise,
    PeriodTest,
)
from analyze.report.wording import percent
from analyze.stats.proportions import exact_p
from schemas.arrays import F8
from schemas.report.accounts import VisibleRow

POWER = 0.9
LEAST_REQUESTS = 4
"""A side (L.4); fewer are not tested."""
TIME_FLOOR = 0.10
"""Relative change of a time that counts (L.9 item 5)."""
SHARE_FLOOR = 0.01
LEAST_NEW = 3
"""Requests in which a share must show (L.3)."""

MOST_ROWS = 100
"""Root types that are told of."""


def smallest_ratio(log_sd: float, n0: float, n1: float, noise: PeriodNoise, *, alpha: float) -> float | None:
    """Factor of a time that is found with 90 % power at level α (two-sided); None: not tested.

    exp((z(1-α/2) + z(0.9)) · √(τ²(1/W0+1/W1) + σ²·(1/n0+1/n1))), at least 1 + the floor. log_sd: σ, of the
    log of single values; n: effective requests.
    """
    if min(n0, n1) < LEAST_REQUESTS:
        return None
    error = math.sqrt(noise.tau_between**2 + log_sd**2 * (1 / n0 + 1 / n1))
    reach = float(ndtri(POWER) - ndtri(alpha / 2)) * error
    return max(1.0 + TIME_FLOOR, math.exp(reach))


def smallest_share(n0: int, n1: int, *, alpha: float) -> float | None:
    """Share of a path or an error that the reference never had and that is found with 90 % power.

    None: not even all requests would do, or too few to be tested. Exact: the least count that Fisher's test
    finds against none, and the share that gives as many with that power.
    """
    if min(n0, n1) < LEAST_REQUESTS:
        return None
    least = least_new(n0, n1, alpha=alpha)
    if least is None:
        return None
    least = max(least, LEAST_NEW)
    # P(Bin(n, s) >= k) = P(Beta(k, n-k+1) <= s)
    return max(SHARE_FLOOR, float(betaincinv(least, n1 - least + 1, POWER)))


def least_new(n0: int, n1: int, *, alpha: float) -> int | None:
    """Fewest of n1 against 0 of n0 with one-sided p <= α; None: there is none. O(log n1 · that many)."""
    low, high = 1, n1
    if exact_p(0, n0, n1, n1) / 2 > alpha:
        return None
    while low < high:
        middle = (low + high) // 2
        # Twice the smaller tail: against none, that is the upper one.
        if exact_p(0, n0, middle, n1) / 2 <= alpha:
            high = middle
        else:
            low = middle + 1
    return low


def visible_rows(
    reference: PeriodBlocks,
    problem: PeriodBlocks,
    log_sd: F8,
    roots: Sequence[str],
    noise: PeriodNoise,
    *,
    alpha: float,
) -> tuple[VisibleRow, ...]:
    """A row for each root type, the MOST_ROWS with the most requests. log_sd: [roots], of `log_spread`."""
    counts = [side.requests.sum(axis=0) for side in (reference, problem)]
    effective = [_kish(side) for side in (reference, problem)]
    busiest = np.argsort(-(counts[0] + counts[1]), kind="stable")[:MOST_ROWS].tolist()
    rows = [
        VisibleRow(
            root=roots[at],
            requests0=int(counts[0][at]),
            requests1=int(counts[1][at]),
            ratio=smallest_ratio(
                float(log_sd[at]), float(effective[0][at]), float(effective[1][at]), noise, alpha=alpha
            ),
            share=smallest_share(int(effective[0][at]), int(effective[1][at]), alpha=alpha),
        )
        for at in busiest
    ]
    return tuple(sorted(rows, key=lambda row: (-row.requests0 - row.requests1, row.root)))


def _kish(side: PeriodBlocks) -> F8:
    weight, square = side.weight.sum(axis=0), side.weight2.sum(axis=0)
    return np.where(square > 0, weight**2 / np.where(square > 0, square, 1.0), 0.0)


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


_MOST_FACTOR = 1e6


def missing_for_share(k0: int, n0: int, k1: int, n1: int, *, alpha: float) -> int | None:
    """Problem requests that lack until these shares, kept up, differ at level α; 0: they do already.

    Both periods grow alike: 1 of 14 against 0 of 14 becomes 2 of 28 against 0 of 28, and so on. None: the
    shares are equal, or no number would do. Exact, by bisection of the factor.
    """
    if n0 == 0 or n1 == 0 or k0 * n1 == k1 * n0:
        return None

    def enough(factor: float) -> bool:
        sizes = round(n0 * factor), round(n1 * factor)
        counts = min(round(k0 * factor), sizes[0]), min(round(k1 * factor), sizes[1])
        return exact_p(counts[0], sizes[0], counts[1], sizes[1]) < alpha

    if enough(1.0):
        return 0
    high = 2.0
    while not enough(high):
        high *= 2
        if high > _MOST_FACTOR:
            return None
    low = high / 2
    while round(n1 * high) > round(n1 * low) + 1:
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return round(n1 * high) - n1


def missing_for_test(test: PeriodTest, *, alpha: float) -> int | None:
    """Problem requests that an open test lacks; None: not open, or nothing to go by.

    What was seen may turn out to be a change or none: the smaller number of the two. A change of a mean shows
    when its interval at level α is as short as the change; noise between windows is in that interval, and
    stays however many requests there are. No change shows when the interval fits into the margin.
    """
    if not test.open:
        return None
    known = [more for more in (_to_show(test, alpha), _to_settle(test)) if more is not None]
    return max(1, min(known)) if known else None


def _to_show(test: PeriodTest, alpha: float) -> int | None:
    change = abs(test.after - test.before)
    if change < test.floor:
        return None  # however sure, it would not count
    if test.measure != "mean":
        sizes = round(test.n0), round(test.n1)
        counts = round(test.before * sizes[0]), round(test.after * sizes[1])
        # 0: the exact test is content and blocks disagree; longer periods, not more requests, would tell.
        return missing_for_share(counts[0], sizes[0], counts[1], sizes[1], alpha=alpha) or None
    reach = (test.high - test.low) / 2 * float(ndtri(alpha / 2) / ndtri(0.025))
    return _more(test.n1, reach, change)


def _to_settle(test: PeriodTest) -> int | None:
    return _more(test.n1, test.reach, test.margin - abs(test.after - test.before))


def _more(n: float, reach: float, room: float) -> int | None:
    """Requests beside n that shorten an interval from `reach` to `room`; None: none would do."""
    if not math.isfinite(reach) or room <= 0:
        return None
    return max(0, math.ceil(n * ((reach / room) ** 2 - 1)))


def missing_for_equivalence(found: Equivalence, n1: float) -> int | None:
    """Problem requests that lack until root types with nearly all of the time are shown to be equivalent.

    As many as the hardest of the root types needs that would do, times as many of each. None: it holds, or
    requests would not help (a mean lies outside of the band, or a root type is in one period only).
    """
    if found.holds:
        return None
    share, factor = found.share, None
    rest = [root for root in found.roots if not root.equivalent and root.missing_factor is not None]
    for root in sorted(rest, key=lambda root: root.missing_factor or 0.0):
        share += root.time_share
        factor = root.missing_factor
        if share >= NEEDED_SHARE:
            return math.ceil(n1 * max(0.0, (factor or 1.0) - 1))
    return None
