"""Bars of one request, and the time that its response waited for."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from analyze.report.drawing.swimlane import Activity, activities, cells
from flowdiff.cli.flow_drawing import print_bars
from stitch.graph.placed import END, POINT, START


def node(
    component: str, side: int = POINT, mate: int = -1, parent: int = -1, *, deferred: bool = False
) -> dict[str, Any]:
    return {
        "component": component,
        "point": "op",
        "label": None,
        "side": side,
        "mate": mate,
        "parent": parent,
        "deferred": deferred,
    }


def flow(
    offsets_us: list[int], hosts: list[str | None] | None = None, failed: dict[int, str] | None = None
) -> dict[str, Any]:
    return {
        "offset_ns": [us * 1000 for us in offsets_us],
        "host": hosts or [None] * len(offsets_us),
        "error_position": list(failed or {}),
        "error_class": list((failed or {}).values()),
    }


def test_spans_that_follow_each_other_all_count_and_sum_to_the_response_time() -> None:
    structure = {
        "nodes": [
            node("web", START, 5),
            node("a", START, 2, 0),
            node("a", END, 1, 0),
            node("b", START, 4, 0),
            node("b", END, 3, 0),
            node("web", END, 0),
        ],
        "in_edges": [{"src": 0, "dst": 1}, {"src": 0, "dst": 3}, {"src": 2, "dst": 5}, {"src": 4, "dst": 5}],
        "responses": [5],
    }
    bars = activities(flow([0, 10, 40, 50, 90, 100]), structure)
    assert [(bar.lane, bar.depth, bar.critical_us) for bar in bars] == [
        ("web", 0, 30),
        ("a", 1, 30),
        ("b", 1, 40),
    ]
    assert sum(bar.critical_us for bar in bars) == 100


def test_of_overlapping_spans_the_last_to_end_counts() -> None:
    structure = {
        "nodes": [
            node("web", START, 5),
            node("a", START, 2, 0),
            node("a", END, 1, 0),
            node("b", START, 4, 0),
            node("b", END, 3, 0),
            node("web", END, 0),
        ],
        "in_edges": [],
        "responses": [5],
    }
    bars = activities(flow([0, 10, 40, 20, 90, 100]), structure)
    assert [bar.critical_us for bar in bars] == [30, 0, 70]


def test_deferred_work_is_drawn_and_never_waited_for() -> None:
    structure = {
        "nodes": [
            node("web", START, 1),
            node("web", END, 0),
            node("log", START, 3, 0, deferred=True),
            node("log", END, 2, 0, deferred=True),
        ],
        "in_edges": [{"src": 0, "dst": 1}, {"src": 0, "dst": 2}, {"src": 2, "dst": 3}],
        "responses": [1],
    }
    bars = activities(flow([0, 50, 40, 400]), structure)
    assert [(bar.critical_us, bar.deferred) for bar in bars] == [(50, False), (0, True)]


def test_records_are_drawn_as_runs_on_one_host_and_forks_nest() -> None:
    structure = {
        "nodes": [node("nfs"), node("nfs"), node("sn"), node("sn"), node("nfs")],
        "in_edges": [
            {"src": 0, "dst": 1},
            {"src": 1, "dst": 2},
            {"src": 1, "dst": 3},
            {"src": 2, "dst": 4},
            {"src": 3, "dst": 4},
        ],
        "responses": [4],
    }
    bars = activities(flow([0, 5, 20, 30, 42], ["n", "n", "s1", "s2", "n"]), structure)
    assert [(bar.lane, bar.depth) for bar in bars] == [("nfs@n", 0), ("sn@s1", 1), ("sn@s2", 1), ("nfs@n", 1)]
    assert [bar.critical_us for bar in bars] == pytest.approx([5, 0, 25, 12])


def test_siblings_follow_each_other_by_time_with_their_own_calls_below_them() -> None:
    structure = {
        "nodes": [
            node("web", START, 7),
            node("late", START, 4, 0),
            node("inner", START, 3, 1),
            node("inner", END, 2, 1),
            node("late", END, 1, 0),
            node("early", START, 6, 0),
            node("early", END, 5, 0),
            node("web", END, 0),
        ],
        "in_edges": [],
        "responses": [7],
    }
    bars = activities(flow([0, 50, 60, 70, 80, 10, 40, 100]), structure)
    assert [(bar.lane, bar.depth) for bar in bars] == [("web", 0), ("early", 1), ("late", 1), ("inner", 2)]


def test_strands_of_a_fork_are_followed_one_after_the_other_by_time() -> None:
    # 0 forks to 1 -> 3 and 2 -> 4, which join in 5; the second began first.
    structure = {
        "nodes": [node(name) for name in ("web", "a1", "b1", "a2", "b2", "web")],
        "in_edges": [
            {"src": src, "dst": dst} for src, dst in ((0, 1), (0, 2), (1, 3), (2, 4), (3, 5), (4, 5))
        ],
        "responses": [5],
    }
    bars = activities(flow([0, 20, 10, 30, 40, 50]), structure)
    assert [bar.lane for bar in bars] == ["web", "b1", "b2", "a1", "a2", "web"]


def test_spans_and_runs_of_records_that_failed_are_told() -> None:
    spans = {
        "nodes": [node("web", START, 3), node("a", START, 2, 0), node("a", END, 1, 0), node("web", END, 0)],
        "in_edges": [],
        "responses": [3],
    }
    bars = activities(flow([0, 1, 2, 3], failed={1: "unavailable"}), spans)
    assert [bar.failed for bar in bars] == [(), ("unavailable",)]
    records = {
        "nodes": [node("web"), node("web"), node("web")],
        "in_edges": [{"src": 0, "dst": 1}, {"src": 1, "dst": 2}],
        "responses": [2],
    }
    (run,) = activities(flow([0, 1, 2], failed={0: "full", 1: "late", 2: "full"}), records)
    assert run.failed == ("full", "late")


def bar(
    start_us: float,
    end_us: float,
    *,
    critical_us: float = 0.0,
    name: str = "op",
    failed: tuple[str, ...] = (),
) -> Activity:
    return Activity(
        "component", name, 0, start_us, end_us, critical_us, deferred=critical_us == 0, failed=failed
    )


@pytest.mark.parametrize(
    ("start", "end", "left", "length", "earlier", "later"),
    [
        (0, 100, 0, 10, False, False),
        (95, 100, 9, 1, False, False),
        (100, 100, 9, 1, False, False),
        (10, 10, 1, 1, False, False),
        (80, 2700, 8, 2, False, True),
        (500, 2700, 9, 1, False, True),
        (-40, 20, 0, 2, True, False),
        (-40, -20, 0, 1, True, False),
    ],
)
def test_bars_are_clipped_to_the_response(
    start: float, end: float, left: int, length: int, earlier: bool, later: bool
) -> None:
    at = cells(bar(start, end), 100.0, 10)
    assert (at.left, at.length, at.earlier, at.later) == (left, length, earlier, later)


def test_a_response_without_length_is_one_cell() -> None:
    assert cells(bar(0, 0), 0.0, 10).length == 1


def drawn(bars: list[Activity], response_us: float, width: int) -> list[str]:
    out = io.StringIO()
    print_bars(Console(file=out, width=width), bars, response_us)
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", [*range(60, 80, 3), 80, 120, 200])
def test_nothing_is_wider_than_the_terminal_and_no_time_is_cut(width: int) -> None:
    bars = [
        bar(0, 99_999_000, critical_us=1, name="a name that is far too long for any column " * 6),
        bar(99_998_000, 99_999_000, critical_us=1, name="名" * 80),
        bar(1, 27 * 99_999_000, name="tail"),
        bar(26 * 99_999_000, 27 * 99_999_000, name="tail"),
        bar(-5_000, 1, name="early"),
    ]
    lines = drawn(bars, 99_999_000, width)
    assert max(cell_len(line.rstrip()) for line in lines) <= width
    assert "0 … 100\u00a0s" in lines[0]
    assert "2700\u00a0s" in lines[3]
    assert lines[3].rstrip().endswith("▶")
    assert lines[4].rstrip().endswith("+2500\u00a0s ▶")
    assert "◀" in lines[5]
    told = " ".join(" ".join(lines[6:]).split())
    assert "▶ after the response: 2 bars, the last until 2700 s, 27 times the response" in told
    assert "◀ before the request: 1 bar, from 5 ms before it" in told


@pytest.mark.parametrize("width", [*range(60, 80, 3), 80, 120, 200])
def test_what_failed_is_marked_with_its_class_at_every_width(width: int) -> None:
    long = "deadline exceeded while waiting for a connection"
    bars = [
        bar(0, 99_999_000, critical_us=1, name="a name that is far too long for any column " * 6),
        bar(1, 99_999_000, name="名" * 80, failed=("io",)),
        bar(1, 27 * 99_999_000, name="tail", failed=(long,)),
        bar(1, 2, name="again", failed=(long,)),
    ]
    lines = drawn(bars, 99_999_000, width)
    assert max(cell_len(line.rstrip()) for line in lines) <= width
    assert ["✗" in line for line in lines[1:5]] == [False, True, True, True]
    assert "✗ io " in lines[2]
    assert f"✗ {long}" in " ".join(" ".join(lines[5:]).split())
    assert "0 … 100\u00a0s" in lines[0]
    assert "2700\u00a0s" in lines[3]


def test_nothing_failed_is_no_column() -> None:
    lines = drawn([bar(0, 10, critical_us=1)], 10, 80)
    assert "failed" not in lines[0]
    assert "✗" not in "".join(lines)
