"""Convert periods given as dates and times to the grammar of `schemas.periods`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta

from schemas.errors import PeriodError

Moment = date | datetime
"""A date or datetime (UTC without a zone), or an object of a subclass such as a timestamp of pandas or
polars.
"""
Period = str | date | tuple[Moment, Moment | timedelta]
"""Text as on the command line, a day, or a range (start, end) or (start, duration)."""
Periods = Period | Sequence[Period]
"""One period, or several periods that together form one sample."""


def period_texts(periods: Periods) -> list[str]:
    """Convert periods to texts in the notation of the command line. Raises PeriodError for an invalid one."""
    is_range = isinstance(periods, tuple) and len(periods) == 2 and isinstance(periods[0], date)
    if isinstance(periods, list | tuple) and not is_range:
        return [_text(period) for period in periods]
    return [_text(periods)]


def _text(period: object) -> str:
    match period:
        case str():
            return period
        case (date() as start, timedelta() as length):
            return f"{instant_text(start)}/{instant_text(_aware(start) + length)}"
        case (date() as start, date() as end):
            return f"{instant_text(start)}/{instant_text(end)}"
        case date() if not isinstance(period, datetime):
            return period.isoformat()
    raise PeriodError(
        f"{period!r} is no period.", remedy="Give a text, a date, or (start, end), (start, duration)."
    )


def _aware(moment: Moment) -> datetime:
    if not isinstance(moment, datetime):
        return datetime(moment.year, moment.month, moment.day, tzinfo=UTC)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def instant_text(moment: Moment) -> str:
    """Moment as ISO 8601 text in UTC."""
    # pandas keeps nanoseconds, both in `isoformat` and in arithmetic.
    return _aware(moment).astimezone(UTC).isoformat().replace("+00:00", "Z")
