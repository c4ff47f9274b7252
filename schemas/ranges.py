"""Several time ranges as one sample: lists of periods, unions and differences.

    RANGES = [LAKE@]RANGE { , [LAKE@]RANGE }

A named lake applies to the ranges behind it, up to the next named one. RANGE as in
`schemas.periods`, or `same-weekday`: the ranges of the other sample, a week earlier. A comma
cannot be part of a lake's name here (`--lake` takes any name).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from schemas.errors import PeriodError
from schemas.periods import Period, earlier, parse_filter, parse_period
from schemas.windows import NS_PER_DAY

MOST_RANGES: Final = 4_096
"""Maximum number of ranges in one sample: two weeks of five-minute windows, each named individually."""
SHOWN_RANGES: Final = 3
"""Maximum number of ranges listed in a text; of more, only the first and the last are listed."""


SAME_WEEKDAY: Final = "same-weekday"
_NS_PER_WEEK: Final = 7 * NS_PER_DAY


def parse_ranges(
    texts: Sequence[str],
    *,
    now_ns: int,
    where: str | None = None,
    beside: Sequence[Period] = (),
    weeks: Iterable[int] = (1,),
) -> tuple[Period, ...]:
    """Parse texts, each a list of ranges (grammar above), to periods, in order.

    where: filter of all periods; now_ns: as in `parse_period`; beside, weeks: `same-weekday` means the
    periods `beside`, moved to each of `weeks` earlier weeks. Raises PeriodError, also if `texts` has no
    range.
    """
    periods: list[Period] = []
    for text in texts:
        lake: str | None = None
        for part in text.split(","):
            if not part.strip():
                raise PeriodError(f"'{text}' has an empty range.", remedy="Write RANGE,RANGE …")
            named, _, word = part.strip().rpartition("@")
            if word.strip().lower() == SAME_WEEKDAY:
                lake = named or lake
                periods += weeks_before(beside, weeks, lake, where)
                continue
            period = parse_period(part, now_ns=now_ns, where=where)
            lake = period.lake if period.lake is not None else lake
            periods.append(replace(period, lake=lake))
    if not periods:
        raise PeriodError("No period is given.")
    if len(periods) > MOST_RANGES:
        raise PeriodError(
            f"{len(periods)} ranges are too many for one sample; {MOST_RANGES} is the most.",
            remedy="Write longer ranges.",
        )
    return tuple(periods)


def weeks_before(
    periods: Sequence[Period], weeks: Iterable[int], lake: str | None = None, where: str | None = None
) -> list[Period]:
    """Periods moved to earlier weeks, at the same hours and weekdays: by each number in `weeks`, the nearest
    week first, with filter `where`.

    lake: lake of the new periods; None: the lake of each original period. Raises PeriodError without periods,
    or for `all`.
    """
    if not periods or any(period.text == "all" for period in periods):
        raise PeriodError(
            f"'{SAME_WEEKDAY}' is a week before the problem period, and none is given that begins and ends.",
            remedy=f"Write --problem yesterday --reference {SAME_WEEKDAY}.",
        )
    kept = None if where is None else parse_filter(where)
    return [
        replace(earlier(period, week * _NS_PER_WEEK), lake=lake or period.lake, where=kept)
        for week in weeks
        for period in periods
    ]


def united(periods: Iterable[Period]) -> tuple[Period, ...]:
    """Union of periods as disjoint periods, by lake, then time.

    Only periods with equal lake and filter are merged; others may overlap.
    """
    found: list[Period] = []
    for period in sorted(periods, key=_order):
        last = found[-1] if found else None
        if last is None or _order(last)[:2] != _order(period)[:2] or last.end_ns < period.start_ns:
            found.append(period)
        elif last.end_ns < period.end_ns:
            found[-1] = replace(last, end_ns=period.end_ns)
    return tuple(found)


def _order(period: Period) -> tuple[str, str, int, int]:
    where = "" if period.where is None else repr(period.where.conditions)
    return period.lake or "", where, period.start_ns, period.end_ns


def overlap(one: Period, other: Period) -> bool:
    """True if two periods overlap in time, whatever their lakes."""
    return one.start_ns < other.end_ns and other.start_ns < one.end_ns


def total_ns(periods: Iterable[Period]) -> int:
    """Total length of disjoint periods, ns."""
    return sum(period.end_ns - period.start_ns for period in periods)


def ranges_text(periods: Sequence[Period]) -> str:
    """Text of ranges in the notation of the command line, UTC; for more than SHOWN_RANGES only the first, the
    last and the number."""
    texts = [period.text for period in periods]
    if len(texts) <= SHOWN_RANGES:
        return ", ".join(texts)
    return f"{texts[0]}, …, {texts[-1]} ({len(texts)} ranges)"
