"""Find when within a period something began, and whether it ended, and say it in words.

Sought is a segment of a sequence of yes and no. The likelihood of one segment [first, past) with a share of
its own, the rest with the share of before: what a request adds to it is the logarithm of a ratio, so the best
segment is the one of the largest sum (Kadane), and a begin is as likely as the best segment from there. The
interval is of all begins whose likelihood is within `_WITHIN` of the best: of change points more than of
smooth parameters (measured: `test_onset.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import numpy as np

from schemas.arrays import B1, F8, I8
from schemas.report.findings import Instant, When
from schemas.windows import NS_PER_SECOND

_WITHIN: Final = 4.0
"""Logarithm of the ratio of likelihoods at the ends of an interval of 95 %."""
_ROUNDS: Final = 3
"""Until the segment and its share agree."""


@dataclass(frozen=True, slots=True)
class AffectedRun:
    """Positions in a sequence of n; a begin at 0 lies at its start or before, an end at n at its end or
    after."""

    first: int
    first_low: int
    first_high: int
    past: int
    past_low: int
    past_high: int

    @property
    def from_start(self) -> bool:
        """Whether it may have been so from the start."""
        return self.first_low == 0


def segment_of(hits: F8 | B1, usual: float, requests: F8 | None = None) -> AffectedRun | None:
    """Find the segment in which another share of requests is hit than usual; None where there is none.

    hits, requests [n]: those of a slot of time; None: one request each. usual: the share of before, by which
    what lies outside of the segment goes. O(n).
    """
    n = len(hits)
    requests = np.ones(n) if requests is None else requests
    if not requests.any():
        return None
    least = 0.5 / (float(requests.sum()) + 1)
    before = min(max(usual, least), 1 - least)
    first, past = 0, n
    gain = np.zeros(n)
    for _ in range(_ROUNDS):
        inside = float(requests[first:past].sum())
        share = min(max(float(hits[first:past].sum()) / max(inside, 1e-300), least), 1 - least)
        gain = hits * np.log(share / before) + (requests - hits) * np.log((1 - share) / (1 - before))
        first, past = _best(gain)
        if past <= first:
            return None
    sums = np.concatenate(([0.0], np.cumsum(gain)))
    if sums[past] - sums[first] <= _WITHIN:
        return None
    # Of a begin (an end) the best that can follow (precede) it.
    begins = sums[past] - sums[:past]
    ends = sums[first + 1 :] - sums[first]
    low, high = _within(begins)
    past_low, past_high = _within(ends)
    return AffectedRun(first, low, high, past, past_low + first + 1, past_high + first + 1)


def _best(gain: F8) -> tuple[int, int]:
    """Give the segment [first, past) of the largest sum."""
    sums = np.concatenate(([0.0], np.cumsum(gain)))
    lowest = np.minimum.accumulate(sums)
    past = int(np.argmax(sums - lowest))
    first = int(np.argmin(sums[: past + 1]))
    return first, past


def _within(likelihood: F8) -> tuple[int, int]:
    """Give the first and the last position that is nearly as likely as the best."""
    near = np.flatnonzero(likelihood >= likelihood.max() - _WITHIN)
    return int(near[0]), int(near[-1])


_FINE_NS: Final = 10 * NS_PER_SECOND
"""An instant that is known better than this is written with milliseconds."""


def when_requests(start_ns: I8, hit: B1, usual: float) -> When | None:
    """Find begin and end from requests: when each began, and whether it shows it. None: throughout, or not
    known. usual: share of those that show it where nothing happened."""
    order = np.argsort(start_ns, kind="stable")
    at = start_ns[order]
    # Between two requests the change lies anywhere: the interval begins at the earlier one.
    return _when(hit[order], None, usual, at, at)


def when_slots(start_ns: I8, end_ns: I8, hits: F8, requests: F8, usual: float) -> When | None:
    """Find the same from counts of requests by slot of time, in their order."""
    return _when(hits, requests, usual, start_ns, end_ns)


def _when(hits: F8 | B1, requests: F8 | None, usual: float, start_ns: I8, end_ns: I8) -> When | None:
    found = segment_of(hits, usual, requests)
    if found is None:
        return None
    n = len(hits)
    goes_on = found.past_high == n
    if found.from_start and goes_on:
        return None

    def instant(at: int, low: int, high: int) -> Instant:
        first, best, last = (min(place, n - 1) for place in (max(low - 1, 0), at, high))
        return Instant(at_ns=int(start_ns[best]), low_ns=int(start_ns[first]), high_ns=int(end_ns[last]))

    began = instant(found.first, found.first_low, found.first_high)
    ended = instant(found.past, found.past_low, found.past_high)
    return When(began=None if found.from_start else began, ended=None if goes_on else ended)


def when_words(when: When) -> str:
    """Say when it began and ended: `from 2026-01-05 14:02:10Z (14:01:50 to 14:02:31), until …`;
    a bound on another day has its date."""
    began = "from the start" if when.began is None else f"from {_instant(when.began)}"
    return f"{began}, " + ("still so at the end" if when.ended is None else f"until {_instant(when.ended)}")


def _instant(of: Instant) -> str:
    fine = of.high_ns - of.low_ns < _FINE_NS
    day, at = _clock(of.at_ns, fine=fine)
    bounds = [_clock(ns, fine=fine) for ns in (of.low_ns, of.high_ns)]
    low, high = (clock if on == day else f"{on} {clock}" for on, clock in bounds)
    return f"{day} {at}Z ({low} to {high})"


def _clock(ns: int, *, fine: bool) -> tuple[str, str]:
    """(date, time of that day)"""
    seconds, rest = divmod(ns, NS_PER_SECOND)
    milliseconds = f".{rest // 10**6:03}" if fine else ""
    at = datetime.fromtimestamp(seconds, UTC)
    return f"{at:%Y-%m-%d}", f"{at:%H:%M:%S}{milliseconds}"
