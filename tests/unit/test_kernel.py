"""The kernel's frame: closing and carry, tables, weights, status, mixed batches."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from oracles.span_events import T0, batch, one_flow, span

from schemas.config import StitchConfig
from schemas.events import EVENT_SCHEMA, EventKind, empty_events
from schemas.lake import FLOWS_SCHEMA, PARAMS_SCHEMA, STRUCTURES_SCHEMA
from schemas.quality import Quality
from stitch.kernel import Stitched, stitch
from stitch.structures import StructureMemo

CONFIG = StitchConfig(idle_ns=100, max_age_ns=1000)


def record(
    request: str, crumb: str, at: int, kind: EventKind = EventKind.EVENT, **fields: Any
) -> dict[str, Any]:
    row: dict[str, Any] = {field.name: None for field in EVENT_SCHEMA}
    row |= {"kind": kind, "request_id": request, "breadcrumb": crumb, "ts_ns": T0 + at, "component": "app"}
    return row | {"point": f"p{at}", "shared": False, "status": "ok"} | fields


def ids(stitched: Stitched) -> list[str]:
    return sorted(stitched.flows["request_id"].to_pylist())


def test_nothing_in_nothing_out() -> None:
    s = stitch(empty_events(), CONFIG)
    assert s.flows.schema.equals(FLOWS_SCHEMA)
    assert s.structures.schema.equals(STRUCTURES_SCHEMA)
    assert s.params.schema.equals(PARAMS_SCHEMA)
    assert (s.flows.num_rows, s.structures.num_rows, s.counts["flows"]) == (0, 0, 0)


def test_tables_have_the_schemas_of_the_lake() -> None:
    s = stitch(batch(span("a", params={"k": 1.5}), span("b", "a", (1, 2), host="h")), CONFIG)
    assert s.flows.schema.equals(FLOWS_SCHEMA)
    assert s.structures.schema.equals(STRUCTURES_SCHEMA)
    assert s.params.schema.equals(PARAMS_SCHEMA)
    for table in (s.flows, s.structures, s.params):
        table.validate(full=True)
    assert one_flow(s)["host"] == [None, "h", "h", None]


def test_flows_are_sorted_by_root_category_start_and_request() -> None:
    rows = []
    for i, (name, at) in enumerate([("b", 5), ("a", 9), ("b", 1), ("a", 9), ("c", 3), ("a", 2)]):
        rows += [span(name, trace=f"t{9 - i}", at=(at, 100))]
        rows += [span("child", name, (at, 100), trace=f"t{9 - i}")] if i % 2 else []
    flows = stitch(batch(*rows), CONFIG).flows
    keys = [(r["root"], r["category"], r["start_ns"], r["request_id"]) for r in flows.to_pylist()]
    assert keys == sorted(keys)
    assert len(keys) == 6


def test_structures_are_one_row_a_category() -> None:
    rows = [span(name, trace=f"{name}{i}") for name in "ab" for i in range(3)]
    s = stitch(batch(*rows), CONFIG)
    assert s.structures["root"].to_pylist() == ["app/a", "app/b"]
    assert set(s.structures["category"].to_pylist()) == set(s.flows["category"].to_pylist())


def test_spans_and_records_of_one_id_give_two_flows() -> None:
    s = stitch(
        batch(
            record("t1", "c", 0),
            span("a", params={"k": "span"}),
            record("t1", "c", 7, EventKind.END, host="h"),
            record("r", "c", 3, EventKind.END),
        ),
        CONFIG,
    )
    assert ids(s) == ["r", "t1", "t1"]
    assert one_flow(s, "t1", "spans")["root"] == "app/a"
    assert one_flow(s, "t1", "records")["offset_ns"] == [0, 7]
    assert one_flow(s, "t1", "records")["host"] == [None, "h"]
    assert one_flow(s, "r")["kind"] == "records"
    assert [(row["request_id"], row["kind"], row["text"]) for row in s.params.to_pylist()] == [
        ("t1", "spans", "span")
    ]


def test_an_id_that_ends_like_a_mark_is_an_id() -> None:
    s = stitch(batch(span("a"), span("b", trace="t1~records"), record("t1", "c", 0)), CONFIG)
    assert one_flow(s, "t1~records")["kind"] == "spans"
    assert one_flow(s, "t1", "records")["kind"] == "records"


@pytest.mark.parametrize(
    ("rates", "weight", "known", "flag"),
    [
        ([None, None], 1.0, False, Quality(0)),
        ([0.25, 0.25], 4.0, True, Quality(0)),
        ([0.5, None], 2.0, True, Quality(0)),
        ([0.5, 0.1], 10.0, True, Quality.MIXED_RATE),
        ([1e-310, 1e-310], 2.0**56, True, Quality(0)),
    ],
)
def test_weights(rates: list[float | None], weight: float, known: bool, flag: Quality) -> None:
    s = stitch(
        batch(span("a", sample_rate=rates[0]), span("b", "a", sample_rate=rates[1]), span("z", trace="t2")),
        CONFIG,
    )
    flow = one_flow(s)
    assert (flow["weight"], flow["weight_known"], flow["quality"]) == (weight, known, flag)
    assert one_flow(s, "t2")["weight"] == 1.0


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        (["ok", "ok", "ok"], ("ok", None)),
        (["timeout", "ok", "error"], ("timeout", None)),
        (["ok", "late", "early"], ("ok", "early")),
        (["~late", "ok", "ok"], ("~late", None)),
    ],
)
def test_status_is_the_roots_and_inner_status_the_earliest_failure_below_a_root_that_is_ok(
    statuses: list[str], expected: tuple[str, str | None]
) -> None:
    s = stitch(
        batch(
            span("a", status=statuses[0]),
            span("b", "a", (20, 30), status=statuses[1]),
            span("c", "a", (10, 40), status=statuses[2]),
            span("z", trace="t2"),
        ),
        CONFIG,
    )
    assert (one_flow(s)["status"], one_flow(s)["inner_status"]) == expected
    assert (one_flow(s, "t2")["status"], one_flow(s, "t2")["inner_status"]) == ("ok", None)


def test_errors_name_every_node_that_failed_a_span_where_it_starts() -> None:
    s = stitch(
        batch(
            span("a"),
            span("b", "a", (10, 20), status="late", marks=[(15, "tick")]),
            span("c", "a", (30, 40), status="refused"),
            record("t3", "r", 0, status="broken"),
            record("t3", "r", 1),
            span("z", trace="t2"),
        ),
        CONFIG,
    )
    flow = one_flow(s)
    (structure,) = [row for row in s.structures.to_pylist() if row["category"] == flow["category"]]
    failed = [structure["nodes"][at] for at in flow["error_position"]]
    named = {
        (node["point"], node["side"]): class_
        for node, class_ in zip(failed, flow["error_class"], strict=True)
    }
    assert named == {("b", 1): "late", ("c", 1): "refused"}
    assert flow["error_position"] == sorted(flow["error_position"])
    assert (one_flow(s, "t3")["error_position"], one_flow(s, "t3")["error_class"]) == ([0], ["broken"])
    assert (one_flow(s, "t2")["error_position"], one_flow(s, "t2")["error_class"]) == ([], [])


def test_params_follow_the_flows_then_position_then_key() -> None:
    s = stitch(
        batch(
            span("b", "a", (10, 20), params={"z": 1, "y": "two"}),
            span("a", params={"x": "true"}),
            span("a", trace="t0", at=(50, 60), params={"x": 3}),
        ),
        CONFIG,
    )
    order = s.flows["request_id"].to_pylist()
    rows = [(p["request_id"], p["position"], p["key"], p["num"], p["text"]) for p in s.params.to_pylist()]
    assert rows == sorted(rows, key=lambda r: (order.index(r[0]), r[1], r[2]))
    assert set(rows) == {
        ("t1", 0, "x", None, "true"),
        ("t1", 1, "y", None, "two"),
        ("t1", 1, "z", 1.0, None),
        ("t0", 0, "x", 3.0, None),
    }


def test_lane_is_written_down() -> None:
    assert stitch(batch(span("a")), CONFIG, lane=7).flows["lane"].to_pylist() == [7]


def test_a_memo_changes_nothing_and_forgets() -> None:
    memo = StructureMemo(capacity=1)
    for name in ("a", "b", "a"):
        events = batch(span(name), span("c", name))
        assert stitch(events, CONFIG, memo=memo).structures.equals(stitch(events, CONFIG).structures)


def test_batches_in_chunks_and_with_split_dictionaries() -> None:
    rows = [span("a"), span("b", "a", (1, 2), host="h"), span("c", "b", (1, 2))]
    chunked = pa.concat_tables([batch(row) for row in rows])
    assert chunked["point"].num_chunks == 3
    assert stitch(chunked, CONFIG).flows.equals(stitch(batch(*rows), CONFIG).flows)
