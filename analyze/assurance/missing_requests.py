"""How many more requests would have told: what a "cannot tell" says beside (ALGORITHMS L.6)."""

from __future__ import annotations

import math

from scipy.special import ndtri

from analyze.assurance.equivalence import NEEDED_SHARE, Equivalence
from analyze.assurance.period_tests import PeriodTest, exact_p

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
