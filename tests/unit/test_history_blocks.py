"""A history is cut into noise samples: how long, where, and without what is compared."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from oracles.lake_script import flows_table, structures_table
from oracles.stored_lake import write_lake

from analyze.load import load_population
from analyze.profile.history import LEAST_BLOCKS, MOST_BLOCKS, History, cut_history
from analyze.refine.settings import RefineSettings
from analyze.scope import Lakes
from flowdiff.samples import asked_samples, find_samples
from schemas.errors import ConfigError, PeriodError
from schemas.ranges import parse_ranges, total_ns
from schemas.windows import NS_PER_MINUTE

START_NS = 1_793_491_200 * 10**9
"""2026-11-01."""
N_WINDOWS = 600
WINDOW_NS = 5 * NS_PER_MINUTE


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Six hundred windows from 2026-11-01 on with two requests each, the twenty from 2026-11-02 on empty."""
    folder = tmp_path_factory.mktemp("blocks") / "lake"
    starts = [
        START_NS + window * WINDOW_NS + second * 10**9
        for window in range(N_WINDOWS)
        if not 288 <= window < 308
        for second in (10, 200)
    ]
    write_lake(folder, flows_table([f"r{n}" for n in range(len(starts))], starts), structures_table())
    return str(folder)


def cut(
    lake: str, history: Sequence[str], *samples: str, most: int = MOST_BLOCKS, calendar_ns: int = 0
) -> History:
    lakes = Lakes(lake)
    compared = [lakes.ranges(parse_ranges([text], now_ns=0)) for text in samples]
    return cut_history(parse_ranges(history, now_ns=0), compared, lakes, most=most, calendar_ns=calendar_ns)


def spans(found: History) -> list[tuple[int, int]]:
    """(start, end) of every part, in windows since the beginning."""
    return [
        (
            (part.period.start_ns - START_NS) // WINDOW_NS,
            (part.period.end_ns - START_NS) // WINDOW_NS,
        )
        for block in found.blocks
        for part in block
    ]


def test_blocks_are_as_long_as_the_shorter_sample(lake: str) -> None:
    found = cut(lake, ["2026-11-01/6h"], "2026-11-02T18:00/2h", "2026-11-02T12:00/15m")
    assert spans(found) == [(at, at + 3) for at in range(0, 72, 3)]
    assert all(len(part.flows) == 3 for block in found.blocks for part in block)


def test_too_few_blocks_are_made_shorter(lake: str) -> None:
    found = cut(lake, ["2026-11-01/6h"], "2026-11-02T18:00/2h", "2026-11-02T12:00/2h")
    assert LEAST_BLOCKS <= len(found.blocks) <= 2 * LEAST_BLOCKS
    short = cut(lake, ["2026-11-01/20m"], "2026-11-02T18:00/2h", "2026-11-02T12:00/2h")
    assert spans(short) == [(0, 1), (1, 2), (2, 3), (3, 4)]


def test_a_long_history_keeps_within_the_codes_of_samples(lake: str) -> None:
    found = cut(lake, ["all"], "2026-11-02T12:00/5m")
    assert 90 <= len(found.blocks) <= MOST_BLOCKS
    told = spans(found)
    lengths = {end - start for start, end in told}
    assert max(lengths) - min(lengths) <= 2
    covered = [window for start, end in told for window in range(start, end)]
    compared = 288 + 144
    assert covered == [w for w in range(N_WINDOWS) if not 288 <= w < 308 and w != compared]


def test_blocks_of_six_hours_or_longer_are_whole_quarters_of_a_day(tmp_path: Path) -> None:
    """By which sums are kept: but for the ends of the history no block holds a part of one."""
    hour_ns, n_hours = 60 * NS_PER_MINUTE, 9 * 24
    starts = [START_NS + hour * hour_ns for hour in range(n_hours)]
    lake = str(tmp_path / "lake")
    write_lake(Path(lake), flows_table([f"r{at}" for at in starts], starts), structures_table(), hour_ns)

    def bounds(history: str, problem: str, most: int = 32) -> list[tuple[int, int]]:
        blocks = cut(lake, [history], f"2026-11-09/{problem}", most=most).blocks
        parts = [part.period for block in blocks for part in block]
        return [((p.start_ns - START_NS) // hour_ns, (p.end_ns - START_NS) // hour_ns) for p in parts]

    assert bounds("2026-11-01/8d", "1h") == [(at, at + 6) for at in range(0, 192, 6)]
    found = bounds("2026-11-01T01:00/181h", "7h")
    assert all(at % 6 == 0 for _, at in found[:-1])
    assert {end - start for start, end in found[1:-1]} == {6}
    assert len(found) >= 181 // 6
    assert {end - start for start, end in bounds("2026-11-01/8d", "13h")} == {12}
    assert {end - start for start, end in bounds("2026-11-01/8d", "7h", most=20)} == {12}
    # Shorter ones are as long as what is compared, or as there are codes for.
    assert bounds("2026-11-01/1d", "1h") == [(at, at + 1) for at in range(24)]
    assert any(at % 6 for at, _ in bounds("2026-11-01/4d", "1h"))


def test_parts_of_the_calendar_are_blocks_where_half_is_left_of_enough_of_them(lake: str) -> None:
    """Of two hours, 24 windows: of the third a piece is compared, the nineteenth is; the thirteenth has 4."""
    two_hours, compared = 120 * NS_PER_MINUTE, ("2026-11-01T05:00/10m", "2026-11-02T12:00/2h")
    found = cut(lake, ["all"], *compared, calendar_ns=two_hours)
    assert [len(block) for block in found.blocks] == [1, 1, 2, *[1] * 20]
    whole = [(at, at + 24) for at in range(0, 600, 24) if at not in (48, 288, 432)]
    assert spans(found) == sorted([*whole, (48, 60), (62, 72)])
    fewer = ["2026-11-01/22h"]
    assert cut(lake, fewer, *compared, calendar_ns=two_hours).blocks == cut(lake, fewer, *compared).blocks


def test_more_ranges_than_blocks_share_them(lake: str) -> None:
    ranges = [f"2026-11-01T{hour:02}:{minute:02}/3m" for hour in range(20) for minute in range(0, 60, 20)]
    found = cut(lake, [",".join(ranges)], "2026-11-02T12:00/5m", most=20)
    assert [len(block) for block in found.blocks] == [3] * 20
    assert total_ns(part.period for block in found.blocks for part in block) == 60 * 3 * NS_PER_MINUTE


def test_a_short_range_is_one_block_wherever_windows_end(lake: str) -> None:
    found = cut(lake, ["2026-11-01T10:03/4m", "2026-11-01T10:41/1m"], "2026-11-02T12:00/3m")
    assert [part.period.text for block in found.blocks for part in block] == [
        "2026-11-01T10:03Z/2026-11-01T10:07Z",
        "2026-11-01T10:41Z/2026-11-01T10:42Z",
    ]


def test_what_is_compared_is_no_history(lake: str) -> None:
    found = cut(lake, ["2026-11-01/1h"], "2026-11-01T00:12/3m", "2026-11-01T00:30/10m")
    assert spans(found) == [(0, 1), (1, 2), (3, 4), (4, 5), (5, 6), (8, 9), (9, 10), (10, 11), (11, 12)]
    assert [period.text for period in found.left_out] == [
        "2026-11-01T00:12Z/2026-11-01T00:15Z",
        "2026-11-01T00:30Z/2026-11-01T00:40Z",
    ]
    # A range that only touches the same window was meant as it was written.
    beside = cut(lake, ["2026-11-01T00:10/2m"], "2026-11-01T00:12/3m")
    assert [part.period.text for (part,) in beside.blocks] == ["2026-11-01T00:10Z/2026-11-01T00:12Z"]
    with pytest.raises(PeriodError, match="Nothing of the history is left"):
        cut(lake, ["2026-11-01T00:30/10m"], "2026-11-01T00:30/20m")
    with pytest.raises(PeriodError, match="holds no window"):
        cut(lake, ["2026-11-02/30m"], "2026-11-01/1h")


def test_a_sample_of_several_ranges_counts_nothing_twice(lake: str) -> None:
    asked = asked_samples(
        ["2026-11-01/20m,2026-11-01T00:10/20m", "2026-11-01T02:00/1m,2026-11-01T02:03/1m"],
        ["2026-11-02T12:00/5m"],
        [],
    )
    found = find_samples(asked, ["2026-11-02"], now_ns=0, lake=lake)
    loaded = load_population(found.compared, RefineSettings(), history=found.history)
    (category,) = loaded.population.categories
    assert category.rows(0).stop == 2 * 6 + 2
    reference, problem = loaded.population.samples
    assert reference.length_ns == 32 * NS_PER_MINUTE
    assert len(reference.ranges) == 3
    assert problem.length_ns == 5 * NS_PER_MINUTE
    assert loaded.history is not None
    assert sum(c.n_requests for c in loaded.history.categories) == 2 * (268 - 1)
    assert found.notes == (
        "Left out of the history, as they are compared: 2026-11-02T12:00Z/2026-11-02T12:05Z.",
    )


def test_one_lake_by_two_names_is_one_lake(lake: str) -> None:
    other = str(Path(lake).parent / "." / ".." / Path(lake).parent.name / "lake")
    asked = asked_samples(
        [f"{lake}@2026-11-01/10m,{other}@2026-11-01T00:05/10m"], ["2026-11-01T01:00/5m"], []
    )
    found = find_samples(asked, [f"{other}@2026-11-01/2h"], now_ns=0, lake=lake)
    assert [part.period.text for part in found.compared[0][1]] == ["2026-11-01/2026-11-01T00:15Z"]
    assert len(found.history) == 24 - 3 - 1
    with pytest.raises(PeriodError, match="overlap"):
        find_samples(asked_samples([f"{lake}@2026-11-01/10m"], [f"{other}@2026-11-01/5m"], []), [], now_ns=0)


def test_a_sample_named_twice_has_both_periods() -> None:
    assert asked_samples([], [], ["a=x", "b=y", "a=z"]) == {"a": ["x", "z"], "b": ["y"]}
    with pytest.raises(ConfigError, match="not both"):
        asked_samples(["x"], [], ["a=y"])
    with pytest.raises(ConfigError, match="NAME=PERIOD"):
        asked_samples([], [], ["x"])
    with pytest.raises(ConfigError, match="no --problem"):
        find_samples({"a": ["all"]}, [], now_ns=0, own_where={"problem": "host = a"})
