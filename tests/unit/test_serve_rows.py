"""Response times by window that the server keeps in memory."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa
import pytest

from flowdiff.serve.lake_state import Known
from flowdiff.serve.root_strips import root_strips
from flowdiff.serve.settings import ServeSettings
from flowdiff.serve.window_rows import RESPONSES as SCHEMA
from flowdiff.serve.window_rows import SITES, ResponseRows, SiteName, SiteRows
from schemas.periods import parse_period
from schemas.windows import NS_PER_MINUTE, Window
from stitch.lake.manifest import WindowEntry

LENGTH: Final = 5 * NS_PER_MINUTE


def entry(number: int, flows: int) -> WindowEntry:
    return WindowEntry(Window(number * LENGTH, LENGTH), sealed=True, flows=flows, files=1, size=flows)


def rows_of(windows: list[WindowEntry], mean_us: float = 10.0) -> pa.Table:
    plain = {"root": "shop/buy", "p50_us": 1.0, "p95_us": 2.0, "p99_us": 3.0, "failing": 0.0}
    return pa.Table.from_pylist(
        [
            {
                **plain,
                "start_ns": one.window.start_ns,
                "requests": one.flows,
                "weighted": float(one.flows),
                "mean_us": mean_us,
            }
            for one in windows
        ],
        SCHEMA,
    )


class Lake:
    """Queries on windows that a test lists."""

    def __init__(self, windows: list[WindowEntry]) -> None:
        self.windows = windows
        self.asked: list[list[int]] = []

    def known(self) -> Known:
        return Known(None, tuple(self.windows), (), str(len(self.windows)))

    @contextmanager
    def borrowed(self, _token: str, period: str, _seconds: float) -> Any:
        found = parse_period(period, now_ns=0)
        here = [one for one in self.windows if found.holds(one.window)]
        self.asked.append([one.window.start_ns // LENGTH for one in here])
        yield self
        self.here = here

    def query(self, _text: str) -> pa.Table:
        found = [self.windows[number] for number in self.asked[-1]]
        return rows_of(found)


@pytest.mark.parametrize(
    ("flows", "asked"),
    [
        ([4, 4, 4, 4], [[2, 3], [0, 1]]),
        ([1, 1, 1, 1], [[1, 2, 3], [0]]),
        ([99, 99, 1, 1], [[2, 3], [1], [0]]),
        ([], []),
    ],
)
def test_the_latest_are_read_first_in_bounded_queries(flows: list[int], asked: list[list[int]]) -> None:
    lake = Lake([entry(number, n) for number, n in enumerate(flows)])
    settings = ServeSettings(summed_windows=3, summed_requests=10)
    rows = ResponseRows(lake.known, lake, settings)  # type: ignore[arg-type]
    rows.wait()
    assert lake.asked == asked
    whole = rows.between(0, len(flows) * LENGTH)
    assert whole.missing == 0
    assert whole.rows["requests"].to_pylist() == flows


def test_a_window_that_a_repair_changed_is_read_again() -> None:
    lake = Lake([entry(0, 5), entry(1, 5)])
    rows = ResponseRows(lake.known, lake, ServeSettings())  # type: ignore[arg-type]
    rows.wait()
    lake.windows[0] = entry(0, 6)
    rows.wait()
    assert lake.asked == [[0, 1], [0]]
    assert rows.between(0, 2 * LENGTH).rows["requests"].to_pylist() == [6, 5]


def test_only_the_latest_windows_are_kept() -> None:
    lake = Lake([entry(number, 1) for number in range(3)])
    rows = ResponseRows(lake.known, lake, ServeSettings(most_windows=2))  # type: ignore[arg-type]
    rows.wait()
    lake.windows.append(entry(3, 1))
    rows.wait()
    assert rows.between(0, 9 * LENGTH).rows["start_ns"].to_pylist() == [2 * LENGTH, 3 * LENGTH]


class SiteLake(Lake):
    """The same with two call sites a window."""

    def query(self, text: str) -> pa.Table:
        assert "call_sites" in text
        numbers = dict.fromkeys((one.name for one in SITES), 1)
        words = {"component": "shop", "operation": "buy"}
        return pa.Table.from_pylist(
            [
                {**numbers, **words, "start_ns": number * LENGTH, "site": site, "caller": caller}
                for number in self.asked[-1]
                for site, caller in ((1, None), (-2, "web/page"))
            ]
        )


def test_call_sites_of_as_many_windows_as_rows_may_be_kept() -> None:
    lake = SiteLake([entry(number, 1) for number in range(6)])
    settings = ServeSettings(summed_windows=2, most_site_rows=8)
    rows = SiteRows(lake.known, lake, settings)  # type: ignore[arg-type]
    rows.wait()
    assert lake.asked == [[4, 5], [2, 3]]
    lake.windows.append(entry(6, 1))
    rows.wait()
    found = rows.between(0, 9 * LENGTH)
    assert found.missing == 0
    assert sorted({at // LENGTH for at in found.rows["start_ns"].to_pylist()}) == [3, 4, 5, 6]
    assert found.rows.num_rows == 8
    assert rows.names == {1: SiteName("shop", "buy", ""), -2: SiteName("shop", "buy", "web/page")}


class GrowingLake(Lake):
    """The same with call sites by window, of numbers of their own."""

    sites = (10, 10, 10, 1, 1, 1)

    def query(self, text: str) -> pa.Table:
        assert "call_sites" in text
        numbers = dict.fromkeys((one.name for one in SITES), 1)
        words = {"component": "shop", "operation": "buy", "caller": None}
        return pa.Table.from_pylist(
            [
                {**numbers, **words, "start_ns": number * LENGTH, "site": 100 * number + site}
                for number in self.asked[-1]
                for site in range(self.sites[number])
            ]
        )


def test_windows_of_many_call_sites_are_read_once_and_not_again_and_again() -> None:
    lake = GrowingLake([entry(number, 1) for number in range(6)])
    settings = ServeSettings(summed_windows=3, most_site_rows=8)
    rows = SiteRows(lake.known, lake, settings)  # type: ignore[arg-type]
    for _ in range(4):
        if missing := rows._missing(lake.known()):
            rows._read(lake.known(), rows._next(missing))
    assert lake.asked == [[3, 4, 5], [0, 1, 2]]
    found = rows.between(0, 9 * LENGTH)
    assert found.missing == 0
    assert found.rows["start_ns"].to_pylist() == [3 * LENGTH, 4 * LENGTH, 5 * LENGTH]
    assert sorted(rows.names) == [300, 400, 500], "words of sites without rows would grow for ever"


def test_call_sites_are_read_once_all_response_times_are_there() -> None:
    lake = Lake([entry(number, 1) for number in range(3)])
    order: list[int] = []
    rows = ResponseRows(
        lake.known,
        lake,  # type: ignore[arg-type]
        ServeSettings(summed_windows=2),
        lambda: order.append(len(lake.asked)),
    )
    rows.wait()
    assert order == [2]


def test_a_strip_is_relative_to_the_median_of_its_cells() -> None:
    windows = [entry(number, 10) for number in (0, 1, 3)]
    table = pa.concat_tables([rows_of(windows[:2], 10.0), rows_of(windows[2:], 25.0)])
    (strip,) = root_strips(table, 0, 4 * LENGTH, 4)
    assert [None if cell is None else cell.ratio for cell in strip.cells] == [1.0, 1.0, None, 2.5]
    assert strip.requests == 30
    assert strip.mean_us == pytest.approx(15.0)


def test_a_strip_of_nothing() -> None:
    assert root_strips(SCHEMA.empty_table(), 0, LENGTH, 1) == []
