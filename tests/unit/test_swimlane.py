"""Bars of one request, and the time that its response waited for."""

from __future__ import annotations

from typing import Any

import pytest

from analyze.report.drawing.swimlane import activities
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


def flow(offsets_us: list[int], hosts: list[str | None] | None = None) -> dict[str, Any]:
    return {"offset_ns": [us * 1000 for us in offsets_us], "host": hosts or [None] * len(offsets_us)}


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
