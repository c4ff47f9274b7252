"""The account in words: one place for terminal and page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from analyze.report import measures, wording
from schemas.report.accounts import Account, AccountRow, AccountSection
from schemas.report.findings import Interval

MATERIAL: Final = 0.01
"""A place with less than this share of all that moved has no line of its own."""
PART: Final = 0.02
"""A kind of change with less than this share of all that moved is not named."""
LOAD_MOVED: Final = 1.1
"""Rates nearer than this factor are called about the same."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the waterfall: a place, the mix, or all other places together."""

    row: AccountRow | None
    """None: the mix, or the rest."""
    text: str
    """What it is called where it is no place."""
    calls: float
    structure: float
    slower: float
    total: float


def title(account: Account) -> str:
    """What is accounted for: `Mean response time`."""
    if account.measure == "mean":
        return "Mean response time"
    if account.measure == "errors":
        return "Failed requests"
    over = "" if account.threshold_us is None else f" over {wording.duration(account.threshold_us)}"
    return f"Slow requests{over}"


def moved(account: Account) -> str:
    """`86.2 ms → 205 ms`."""
    return measures.moved(account.unit, account.before, account.after)


def interval(account: Account) -> str:
    """`+110 to +124 ms`."""
    ends = _ends(account)
    return measures.UNTOLD if ends is None else measures.span(account.unit, ends)


def certainty(account: Account) -> str:
    """What stands behind an interval; empty where there is none."""
    return "" if _ends(account) is None else " with 95 % certainty"


def _ends(account: Account) -> Interval | None:
    if account.low is None or account.high is None:
        return None
    return Interval(low=account.low, high=account.high)


def verdict(account: Account) -> str:
    """`changed`, `no change by test`, or that there is no test."""
    if account.changed:
        return "changed"
    return "not testable" if _ends(account) is None else "no change by test"


def sentence(account: Account) -> str:
    """`Failed requests: 0.2 % → 4.1 % (+3.5 to +4.3 points).`"""
    told = [interval(account)] if certainty(account) else []
    told += [] if account.changed else [verdict(account)]
    return f"{title(account)}: {moved(account)} ({', '.join(told)})."


def parts(account: Account) -> str:
    """What kinds of change it is made of: `Slower calls +101 ms, more calls +18 ms, workload mix +540 µs.`"""
    named = (
        ("slower calls" if account.slower > 0 else "faster calls", account.slower),
        ("more calls" if account.calls > 0 else "fewer calls", account.calls),
        ("other paths", account.structure),
        ("workload mix", account.mix),
    )
    if account.measure == "errors":
        named = (("failing more often", account.slower), *named[1:])
    told = [
        f"{name} {part(account, amount)}"
        for name, amount in sorted(named, key=lambda pair: -abs(pair[1]))
        if part(account, amount) and abs(amount) >= PART * (account.gross_up - account.gross_down)
    ]
    text = ", ".join(told)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def lines(account: Account, most: int) -> tuple[Line, ...]:
    """The mix, at most `most` places by |total| that are worth a line, and the rest; their totals add up to
    the change."""
    least = MATERIAL * max(account.gross_up - account.gross_down, 0.0)
    shown = [row for row in account.rows[:most] if row.total and abs(row.total) >= least]
    places = [Line(row, "", row.calls, row.structure, row.slower, row.total) for row in shown]
    return (*_mix(account), *places, *_rest(account, places))


def _mix(account: Account) -> tuple[Line, ...]:
    return (Line(None, "Workload mix", 0.0, 0.0, 0.0, account.mix),) if account.mix else ()


def _rest(account: Account, places: Sequence[Line]) -> tuple[Line, ...]:
    left = account.rows_total - len(places)
    if left <= 0:
        return ()
    calls, structure, slower = (
        whole - sum(getattr(line, part) for line in places)
        for part, whole in (
            ("calls", account.calls),
            ("structure", account.structure),
            ("slower", account.slower),
        )
    )
    text = f"{wording.counted(left, 'other place')}"
    return (Line(None, text, calls, structure, slower, calls + structure + slower),)


def part(account: Account, amount: float) -> str:
    """`+99.2 ms`, `+3.4 points`; empty for nothing, or for less than is shown."""
    text = measures.shift(account.unit, amount)
    return "" if not amount or text[:1] not in "+−" else text


def load(section: AccountSection) -> str:
    """One sentence about the arrival rate."""
    before, after = section.rate0, section.rate1
    if not before or not after:
        return f"Load: {rate(before)} → {rate(after)} requests a second."
    ratio = after / before
    if 1 / LOAD_MOVED <= ratio <= LOAD_MOVED:
        return f"Load about the same: {rate(before)} → {rate(after)} requests a second."
    word = "rose" if ratio > 1 else "fell"
    return f"Load {word} {wording.factor(ratio)}: {rate(before)} → {rate(after)} requests a second."


def rate(per_second: float) -> str:
    """`8.39`."""
    return wording.significant(per_second)
