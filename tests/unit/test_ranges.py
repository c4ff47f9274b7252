"""Lists of ranges: text in, periods that share no instant out."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import PeriodError
from schemas.periods import Period, parse_filter, parse_period
from schemas.ranges import MOST_RANGES, overlap, parse_ranges, ranges_text, total_ns, united


def texts(periods: tuple[Period, ...]) -> list[str]:
    return [f"{period.lake or ''}@{period.text}" for period in periods]


def test_ranges_are_repeated_and_listed() -> None:
    found = parse_ranges(["2026-11-01/30d", "2026-12-24T10:00/1h, 2026-12-25"], now_ns=0)
    assert texts(found) == [
        "@2026-11-01/2026-12-01",
        "@2026-12-24T10:00Z/2026-12-24T11:00Z",
        "@2026-12-25/2026-12-26",
    ]


def test_a_lake_holds_for_the_ranges_behind_it() -> None:
    given_texts = ["2026-11-01,a@2026-11-02,2026-11-03,b@2026-11-04", "2026-11-05"]
    assert [period.lake for period in parse_ranges(given_texts, now_ns=0)] == [None, "a", "a", "b", None]


def test_every_range_has_the_filter() -> None:
    found = parse_ranges(["2026-11-01,2026-11-02"], now_ns=0, where="host = a")
    assert [period.where for period in found] == [parse_filter("host = a")] * 2


@given(st.datetimes(datetime(1990, 1, 1), datetime(2200, 1, 1)), st.integers(1, 10**7), st.integers(1, 5))
def test_same_weekday_is_the_same_hours_of_the_same_weekday(now: datetime, seconds: int, weeks: int) -> None:
    problem = parse_ranges([f"{now.isoformat()}/{seconds}s"], now_ns=0)
    (found,) = parse_ranges(["x@Same-Weekday"], now_ns=0, where="host = a", beside=problem, weeks=[weeks])
    (wanted,) = parse_ranges(
        [f"x@{(now - timedelta(weeks=weeks)).isoformat()}/{seconds}s"], now_ns=0, where="host = a"
    )
    assert found == wanted


def test_same_weekday_follows_every_range_and_lake_of_the_problem() -> None:
    problem = parse_ranges(["a@2026-11-20/2h,2026-11-19"], now_ns=0, where="host = a")
    assert texts(parse_ranges(["same-weekday,2026-11-01"], now_ns=0, beside=problem)) == [
        "a@2026-11-13/2026-11-13T02:00Z",
        "a@2026-11-12/2026-11-13",
        "@2026-11-01/2026-11-02",
    ]


@pytest.mark.parametrize("problem", [[], ["all"], ["1677-09-22/1d"]])
def test_same_weekday_of_nothing_is_refused(problem: list[str]) -> None:
    beside = parse_ranges(problem, now_ns=0) if problem else ()
    with pytest.raises(PeriodError, match="before"):
        parse_ranges(["same-weekday"], now_ns=0, beside=beside)


@pytest.mark.parametrize("given_texts", [[], ["2026-11-01,"], [",2026-11-01"], ["2026-11-01,x"], [""]])
def test_what_is_no_list_is_refused(given_texts: list[str]) -> None:
    with pytest.raises(PeriodError):
        parse_ranges(given_texts, now_ns=0)


def test_too_many_ranges_are_refused() -> None:
    with pytest.raises(PeriodError, match=f"{MOST_RANGES + 1} ranges"):
        parse_ranges(["2026-11-01"] * (MOST_RANGES + 1), now_ns=0)


RANGES = st.lists(
    st.builds(
        lambda lake, where, start, length: Period(lake, start, start + length, where),
        st.sampled_from([None, "a", "b"]),
        st.sampled_from([None, parse_filter("host = a")]),
        st.integers(0, 30),
        st.integers(1, 8),
    ),
    max_size=12,
)


def instants(periods: tuple[Period, ...] | list[Period]) -> list[tuple[str | None, object, int]]:
    return [(p.lake, p.where, ns) for p in periods for ns in range(p.start_ns, p.end_ns)]


@given(RANGES)
def test_the_union_has_every_instant_once(periods: list[Period]) -> None:
    found = united(periods)
    assert len(instants(found)) == len(set(instants(found))) == total_ns(found)
    assert set(instants(found)) == set(instants(periods))
    assert united(found) == found
    for one in found:
        for other in found:
            alike = one != other and (one.lake, one.where) == (other.lake, other.where)
            assert not (alike and (overlap(one, other) or one.end_ns == other.start_ns))


def test_many_ranges_are_told_by_the_first_and_the_last() -> None:
    days = [parse_period(f"2026-11-0{day}", now_ns=0) for day in range(1, 6)]
    assert ranges_text(days[:2]) == "2026-11-01/2026-11-02, 2026-11-02/2026-11-03"
    assert ranges_text(days) == "2026-11-01/2026-11-02, …, 2026-11-05/2026-11-06 (5 ranges)"
