"""Requests of records without a request id (stitch.records.components)."""

from __future__ import annotations

from itertools import permutations
from typing import Any

from oracles.record_events import place, record, table

from schemas.quality import Quality
from stitch.records.components import assign_requests


def requests(*rows: dict[str, Any]) -> list[str]:
    """Request of every record, the same in every order of arrival."""
    found = []
    for order in permutations(range(len(rows))) if len(rows) <= 5 else [range(len(rows))]:
        assigned = assign_requests(table(*(rows[i] for i in order)))
        names = assigned.names.take(list(assigned.code)).to_pylist()
        assert len(set(assigned.names.to_pylist())) == len(assigned.names)
        found.append([name for _, name in sorted(zip(order, names, strict=True))])
    assert all(names == found[0] for names in found)
    return found[0]


def loose(crumb: str | None, kind: str = "", links: str = "", **fields: Any) -> dict[str, Any]:
    return record(crumb, "p", 0, kind, links, request=None, **fields)


def test_linked_breadcrumbs_are_one_request_named_by_the_smallest() -> None:
    assert requests(loose("M", "split", "Z"), loose("Z"), loose("Q", "join", "M"), loose("A")) == [
        "~M",
        "~M",
        "~M",
        "~A",
    ]


def test_a_linked_breadcrumb_without_records_counts() -> None:
    assert requests(loose("M", "split", "B"), loose("Z", "join", "B")) == ["~B", "~B"]


def test_only_splits_and_joins_link() -> None:
    assert requests(loose("M", "", "Z"), loose("Z", "end", "M")) == ["~M", "~Z"]


def test_ids_and_parents_link() -> None:
    assert (
        requests(loose("M", id="1"), loose("Z", parents="1"), loose(None, id="2", parents="1")) == ["~M"] * 3
    )
    assert requests(loose(None, id="7", parents="6"), loose(None, id="6")) == ["~6", "~6"]


def test_a_component_joins_the_request_it_touches() -> None:
    named = record("A", "p", 0, "split", "B", request="r")
    assert requests(named, loose("B", "split", "C"), loose("C"), loose("D")) == ["r", "r", "r", "~D"]
    assert requests(record("C", "p", 0, request="r"), loose("B", "split", "C")) == ["r", "r"]
    assert requests(record("C", "p", 0, request="r", id="1"), loose("B", parents="1")) == ["r", "r"]


def test_of_several_requests_touched_it_joins_the_smallest_and_leaves_them_apart() -> None:
    rows = (
        record("A", "p", 0, "split", "X", request="s"),
        record("B", "p", 0, "split", "X", request="r"),
        loose("X"),
    )
    assert requests(*rows) == ["s", "r", "r"]


def test_breadcrumbs_of_named_requests_do_not_link_them() -> None:
    assert requests(record("main", "p", 0, request="r"), record("main", "p", 0, request="s")) == ["r", "s"]


def test_a_real_request_of_a_component_s_name_takes_it() -> None:
    assert requests(record("Z", "p", 0, request="~A"), loose("A")) == ["~A", "~A"]


def test_events_that_name_nothing_are_one_request() -> None:
    assert requests(loose(None), loose(None), loose("")) == ["~", "~", "~"]


def test_a_flow_of_loose_records() -> None:
    rows = [
        record("A", "fork", 0, "split", "B", request=None),
        record("B", "b", 1, request=None),
        record("A", "join", 2, "join", "B", request=None),
        record("A", "out", 3, "end", request=None),
    ]
    flow = place(*rows)["~A"]
    assert (flow.order, flow.quality) == (["fork", "b", "join", "out"], Quality(0))
