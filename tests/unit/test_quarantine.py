"""Which events of an import have an absurd time: a rule on days, whatever order they come in."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from schemas.windows import NS_PER_DAY
from stitch.columnar.runs import count_values
from stitch.drivers.refusals import BULK_SHARE, MAX_GAP_DAYS, DaysSeen, absurd_days, is_absurd


def times(days: dict[int, int], ends: dict[int, int] | None = None) -> pa.Table:
    """So many events on each day, and one without a time; `ends`: spans of day 0 that end on other days."""
    ts_ns = [day * NS_PER_DAY + n for day, count in days.items() for n in range(count)]
    start = [*ts_ns, None, *(n for count in (ends or {}).values() for n in range(count))]
    end = [None] * (len(ts_ns) + 1) + [
        day * NS_PER_DAY + n for day, count in (ends or {}).items() for n in range(count)
    ]
    return pa.table({"ts_ns": pa.array(start, pa.int64()), "end_ns": pa.array(end, pa.int64())})


def absurd(*batches: dict[int, int]) -> list[int]:
    seen = DaysSeen()
    for batch in batches:
        seen.add(times(batch))
    return absurd_days([seen]).tolist()


def test_a_clock_ten_years_ahead_and_one_that_starts_in_1970_are_absurd() -> None:
    days = {19_000: 50, 19_001: 40, 22_650: 5, 0: 4}
    assert absurd(days) == [0, 22_650]
    assert absurd({0: 4}, {22_650: 5}, {19_001: 40}, {19_000: 50}) == [0, 22_650]
    found = is_absurd(times(days), np.array([0, 22_650]))
    assert found.tolist() == [False] * 90 + [True] * 9 + [False]  # the last has no time


def test_a_day_behind_a_pause_of_a_month_and_a_long_recording_are_not() -> None:
    assert absurd({19_000: 1, 19_001: 99}) == []
    assert absurd({19_000: 1, 19_000 + MAX_GAP_DAYS: 99}) == []
    assert absurd({19_000: 1, 19_001 + MAX_GAP_DAYS: 99}) == [19_000]
    assert absurd(dict.fromkeys(range(10000, 20000, 30), 1)) == []


def test_where_there_is_no_bulk_nothing_is_far_from_it() -> None:
    assert absurd(dict.fromkeys(range(0, 20000, 100), 1)) == []
    assert absurd({0: 45, 10_000: 9, 15_000: 9, 20_000: 37}) == [10_000, 15_000]
    assert absurd({0: 50, **dict.fromkeys(range(1000, 51000, 1000), 1)}) == []


def test_the_share_of_an_island_that_belongs_to_the_bulk() -> None:
    tenth = round(100 * BULK_SHARE)
    assert absurd({0: tenth, 10_000: 100 - tenth}) == []
    assert absurd({0: tenth - 1, 10_000: 100 - tenth + 1}) == [0]


def test_each_file_is_judged_by_itself() -> None:
    january, march, wrong = 19_000, 19_060, 22_650
    files = []
    for days in ({january: 100}, {march: 2_000, wrong: 3}, {wrong - 90: 1}, {wrong: 1}):
        files.append(DaysSeen())
        files[-1].add(times(days))
    found = absurd_days(files[:3])
    assert found.tolist() == [wrong]
    assert [file.count(found) for file in files[:3]] == [0, 3, 0]
    assert absurd_days(files).tolist() == []


def test_an_end_is_judged_like_a_start_and_makes_no_bulk() -> None:
    spans = times({0: 10}, {0: 5, 1: 3, 84_000: 2, -20_000: 1})
    seen = DaysSeen()
    seen.add(spans)
    found = absurd_days([seen])
    assert found.tolist() == [-20_000, 84_000]
    assert is_absurd(spans, found).tolist() == [False] * 19 + [True] * 3
    assert seen.count(found) == 3
    assert absurd({}) == []
    most = DaysSeen()
    most.add(times({0: 1}, {84_000: 99}))
    assert absurd_days([most]).tolist() == [84_000]


def test_no_event_has_a_time() -> None:
    assert absurd({}) == []


@pytest.mark.parametrize("spread", [10, 10**12])
def test_counting_is_that_of_numpy(spread: int) -> None:
    values = np.random.default_rng(3).integers(-spread, spread, 500)
    for ours, numpys in zip(count_values(values), np.unique(values, return_counts=True), strict=True):
        assert ours.tolist() == numpys.tolist()
    assert [part.tolist() for part in count_values(np.zeros(0, np.int64))] == [[], []]
