"""Format values of a unit (durations, shares, counts of calls, ratios): single values, changes from one value
to another, differences."""

from __future__ import annotations

from analyze.report import wording
from analyze.report.wording import NBSP
from schemas.report.findings import Interval, Unit
from schemas.report.variance import C2Curve

POINTS = "points"
"""Unit of a difference of two shares, both in percent: from 1 % to 3 % is 2 points, not 200 %."""

UNKNOWN = 1e15
"""Absolute value (in µs thirty years) at which the end of an interval means that the interval is unknown."""


NO_INTERVAL = "interval not known"


def value(unit: Unit, number: float) -> str:
    """Format a value in its unit (µs, share from 0 to 1, calls, ratio): `264 ms`, `4.1 %`, `1.5 calls`,
    `×2.2`.
    """
    if unit == "us":
        return wording.duration(number)
    if unit == "share":
        return wording.percent(number)
    if unit == "ratio":
        return wording.factor(number)
    return f"{wording.significant(number)}{NBSP}{'call' if number == 1 else 'calls'}"


def moved(unit: Unit, before: float, after: float) -> str:
    """Format a change from one value to another: `12.1 ms → 264 ms`, with enough digits to distinguish the
    two.
    """
    if unit == "us":
        return wording.moved_duration(before, after)
    if unit == "share":
        return " → ".join(wording.percents(before, after))
    if unit == "calls":
        return f"{wording.significant(before)} → {value(unit, after)}"
    return f"{value(unit, before)} → {value(unit, after)}"


def shift(unit: Unit, difference: float) -> str:
    """Format a difference with its sign: `+252 ms`, `−3.9 points`, `+0.5 calls`."""
    if unit == "us":
        return wording.change(difference)
    size, word = _size(unit, abs(difference))
    return f"{_sign(difference, size)}{size}{word}"


def is_known(change: Interval) -> bool:
    """True if the ends of an interval are known; with a single block of time they are not."""
    return max(abs(change.low), abs(change.high)) < UNKNOWN


def span(unit: Unit, change: Interval) -> str:
    """Format an interval of a difference: `+238 to +266 ms`, `−0.2 to +4.1 points`; NO_INTERVAL if it is
    unknown.
    """
    if not is_known(change):
        return NO_INTERVAL
    if unit == "us":
        low, high = wording.change(change.low), wording.change(change.high)
        amount, _, scale = low.rpartition(NBSP)
        return f"{amount if scale == high.rpartition(NBSP)[2] else low} to {high}"
    (low, word), (high, _) = (_size(unit, abs(end)) for end in (change.low, change.high))
    return f"{_sign(change.low, low)}{low} to {_sign(change.high, high)}{high}{word}"


def share_span(share: Interval) -> str:
    """Format an interval of a share: `55 to 70 %`, or `83 %` if both ends read the same."""
    low, high = wording.percent(share.low), wording.percent(share.high)
    return high if low == high else f"{low.rpartition(NBSP)[0]} to {high}"


def part_span(part: Interval) -> str:
    """Format an interval of a part of a whole: `38 % to 52 %`; empty if negligible."""
    if max(abs(part.low), abs(part.high)) < wording.LEAST_PART:
        return ""
    return f"{wording.percent(part.low)} to {wording.percent(part.high)}"


def ratio_span(ratio: Interval) -> str:
    """Format an interval of a ratio or C²: `1.9 to 2.8`; empty if negligible."""
    if ratio.high < wording.LEAST_C2:
        return ""
    return f"{wording.rough(ratio.low, 2)} to {wording.rough(ratio.high, 2)}"


def c2_sentence(found: C2Curve) -> str:
    """Sentence on a C² curve: `C² below 1 in 88 % of 340 categories (95 % of their requests), at most
    50.3.`"""
    if found.below_one is None:
        return "No category has more than 10 requests."
    return (
        f"C² below 1 in {wording.percent(found.below_one)} of "
        f"{wording.counted(found.categories, 'category', 'categories')} of more than 10 requests "
        f"({wording.percent(found.requests_below_one)} of their requests), at most "
        f"{wording.significant(found.largest or 0.0)}."
    )


def _size(unit: Unit, amount: float) -> tuple[str, str]:
    """Absolute difference as texts (amount, suffix): `("3.9", " points")` for a share, `("0.5", " calls")`
    for calls."""
    if unit == "share":
        return wording.percent(amount).removesuffix(f"{NBSP}%"), f"{NBSP}{POINTS}"
    return wording.significant(amount), f"{NBSP}calls" if unit == "calls" else ""


def _sign(difference: float, size: str) -> str:
    return "" if not float(size) else "+" if difference > 0 else "−"
