"""Start and end of a finding within a period: estimated from the times of affected requests, and
formatted."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import numpy as np

from analyze.stats.onset import segment_of
from schemas.arrays import B1, F8, I8
from schemas.report.findings import Instant, When
from schemas.windows import NS_PER_SECOND

_FINE_NS: Final = NS_PER_SECOND
"""Length of an interval, ns, below which instants are written with milliseconds."""
_MILLISECOND_NS: Final = NS_PER_SECOND // 1000


def when_requests(start_ns: I8, hit: B1, usual: float) -> When | None:
    """Find start and end of a finding from single requests; None if unknown.

    start_ns: [requests]; hit: [requests] True for requests with the symptom; usual: share of requests with
    the symptom outside of the finding.
    """
    order = np.argsort(start_ns, kind="stable")
    at = start_ns[order]
    # The change may be anywhere between two requests: the interval begins at the earlier one.
    return when_slots(at, at, hit[order], None, usual)


def when_slots(start_ns: I8, end_ns: I8, hits: F8 | B1, requests: F8 | None, usual: float) -> When | None:
    """Find start and end of a finding from counts by time slot; None if unknown.

    start_ns, end_ns: [slots] ascending; hits: [slots] requests with the symptom; requests: [slots] all
    requests, None for one per time slot; usual: share of requests with the symptom outside of the finding.
    """
    found = segment_of(hits, usual, requests)
    if found is None:
        return None
    n = len(hits)
    goes_on = found.past_high == n
    if found.from_start and goes_on:
        return When(began=None, ended=None)

    def instant(at: int, low: int, high: int) -> Instant:
        first, best, last = (min(place, n - 1) for place in (max(low - 1, 0), at, high))
        return Instant(at_ns=int(start_ns[best]), low_ns=int(start_ns[first]), high_ns=int(end_ns[last]))

    began = instant(found.first, found.first_low, found.first_high)
    ended = instant(found.past, found.past_low, found.past_high)
    return When(began=None if found.from_start else began, ended=None if goes_on else ended)


def when_words(when: When) -> str:
    """Format start and end: `from 2026-01-05 14:02:10Z (14:01:50 to 14:02:31), until 14:40:02Z …`. A date is
    written only if it differs from the previous one.
    """
    day, began = ("", "the start") if when.began is None else _instant(when.began)
    ended = "still so at the end" if when.ended is None else f"until {_instant(when.ended, day)[1]}"
    return f"from {began}, {ended}"


def _instant(of: Instant, shown: str = "") -> tuple[str, str]:
    """(Date, text) of an instant with its interval. shown: date that was written before, and is not
    repeated."""
    fine = of.high_ns - of.low_ns < _FINE_NS
    day, at = _clock(of.at_ns, fine=fine)
    # The interval is rounded outwards.
    unit = _MILLISECOND_NS if fine else NS_PER_SECOND
    bounds = [_clock(ns, fine=fine) for ns in (of.low_ns, of.high_ns + unit - 1)]
    low, high = (clock if on == day else f"{on} {clock}" for on, clock in bounds)
    return day, f"{'' if day == shown else f'{day} '}{at}Z ({low} to {high})"


def _clock(ns: int, *, fine: bool) -> tuple[str, str]:
    """Return (date, time of day) in UTC as texts. fine: with milliseconds."""
    seconds, rest = divmod(ns, NS_PER_SECOND)
    milliseconds = f".{rest // _MILLISECOND_NS:03}" if fine else ""
    at = datetime.fromtimestamp(seconds, UTC)
    return f"{at:%Y-%m-%d}", f"{at:%H:%M:%S}{milliseconds}"
