"""Which periods may be compared with each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyze.scope import LakePeriod, refuse_overlap
from schemas.errors import PeriodError
from schemas.periods import parse_period


def period(text: str, where: str | None = None, lake: str = "lake") -> LakePeriod:
    return LakePeriod(parse_period(text, now_ns=0, where=where), Path(lake), 300 * 10**9, (), (), ())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (period("2026-11-19/1h"), period("2026-11-19/1h")),
        (period("2026-11-19/1h"), period("2026-11-19T00:59/1h")),
        (period("2026-11-19/1d"), period("2026-11-19T05:00/1m")),
        (period("2026-11-19/1h", "host = a"), period("2026-11-19/1h", "host='a'")),
        (period("2026-11-19/1h"), period("2026-11-19/1h", lake="./other/../lake")),
    ],
)
def test_a_request_would_be_in_both(one: LakePeriod, other: LakePeriod) -> None:
    for pair in ((one, other), (other, one)):
        with pytest.raises(PeriodError, match="overlap"):
            refuse_overlap(pair)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (period("2026-11-19/1h"), period("2026-11-19T01:00/1h")),
        (period("2026-11-19/1h"), period("2026-11-20/1h")),
        (period("2026-11-19/1h", "host = a"), period("2026-11-19/1h", "host = b")),
        (period("2026-11-19/1h"), period("2026-11-19/1h", "host = b")),
        (period("2026-11-19/1h"), period("2026-11-19/1h", lake="elsewhere")),
    ],
)
def test_apart_by_time_filter_or_lake(one: LakePeriod, other: LakePeriod) -> None:
    refuse_overlap([one, other])
    refuse_overlap([other, one])


def test_every_pair_of_many_is_looked_at() -> None:
    hours = [period(f"2026-11-19T0{hour}:00/1h") for hour in range(4)]
    refuse_overlap(hours)
    with pytest.raises(PeriodError, match="overlap"):
        refuse_overlap([*hours, period("2026-11-19T02:30/1m")])
