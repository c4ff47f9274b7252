"""Event batches of spans written by hand, and flows read back as plain Python, for tests."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from schemas.events import EVENT_SCHEMA, EventKind
from stitch.kernel import Stitched

T0 = 1_763_600_000_000_000_000

KINDS = {
    "internal": EventKind.SPAN_INTERNAL,
    "server": EventKind.SPAN_SERVER,
    "client": EventKind.SPAN_CLIENT,
    "producer": EventKind.SPAN_PRODUCER,
    "consumer": EventKind.SPAN_CONSUMER,
    "": EventKind.SPAN_UNSPECIFIED,
}


def span_id(name: str) -> str:
    """A 16-digit hexadecimal id that sorts as its name."""
    return name.encode().hex().ljust(16, "0")[:16]


def span(
    name: str,
    parent: str | None = None,
    at: tuple[int | None, int | None] = (0, 100),
    **fields: Any,
) -> dict[str, Any]:
    """One span as a row: `name` is id and point, `at` (start, end) in ns after T0, other columns by name."""
    start, end = at
    row: dict[str, Any] = {field.name: None for field in EVENT_SCHEMA}
    row |= {
        "kind": KINDS[fields.pop("kind", "internal")],
        "request_id": fields.pop("trace", "t1"),
        "id": span_id(fields.pop("id", name)),
        "parents": None if parent is None else [span_id(p) for p in parent.split()],
        "ts_ns": None if start is None else T0 + start,
        "end_ns": None if end is None else T0 + end,
        "component": "app",
        "point": name,
        "shared": False,
        "status": "ok",
    }
    if "follows" in fields:
        row["follows"] = [span_id(p) for p in fields.pop("follows").split()]
    if "marks" in fields:
        row["marks"] = [{"ts_ns": T0 + ts, "name": mark} for ts, mark in fields.pop("marks")]
    if "params" in fields:
        row["params"] = [
            {
                "key": k,
                "num": None if isinstance(v, str) else float(v),
                "text": v if isinstance(v, str) else None,
            }
            for k, v in sorted(fields.pop("params").items())
        ]
    assert fields.keys() <= row.keys(), f"no such column: {fields.keys() - row.keys()}"
    return row | fields


def batch(*rows: dict[str, Any]) -> pa.Table:
    """An event batch of rows, in the order given."""
    return pa.Table.from_pylist(list(rows), schema=EVENT_SCHEMA).unify_dictionaries().combine_chunks()


def nested(stitched: Stitched, request_id: str = "t1") -> str:
    """The canonical order of one flow of spans as text: `a( b c~ )`, `~` deferred, `.m` a mark."""
    flow = one_flow(stitched, request_id)
    rows = {row["category"]: row for row in stitched.structures.to_pylist()}
    words: list[str] = []
    for node in rows[flow["category"]]["nodes"]:
        name = node["point"] + ("~" if node["deferred"] else "")
        words.append(")" if node["side"] == 2 else "." + name if node["side"] == 0 else name + "(")
    return " ".join(words)


def edges(stitched: Stitched, request_id: str = "t1") -> set[str]:
    """The edges of one flow of spans, as `a> b>`."""
    flow = one_flow(stitched, request_id)
    row = next(r for r in stitched.structures.to_pylist() if r["category"] == flow["category"])
    names = [node["point"] + ("", ">", "<")[node["side"]] for node in row["nodes"]]
    return {f"{names[e['src']]} {names[e['dst']]}" for e in row["in_edges"]}


def times(stitched: Stitched, request_id: str = "t1") -> dict[str, int]:
    """Node times of one flow in ns after T0, by `a>`; for names that occur once."""
    flow = one_flow(stitched, request_id)
    row = next(r for r in stitched.structures.to_pylist() if r["category"] == flow["category"])
    names = [node["point"] + ("", ">", "<")[node["side"]] for node in row["nodes"]]
    return {n: flow["start_ns"] + o - T0 for n, o in zip(names, flow["offset_ns"], strict=True)}


def one_flow(stitched: Stitched, request_id: str = "t1", kind: str | None = None) -> dict[str, Any]:
    """The row of one flow, the only one of the id if no kind is asked for."""
    rows = [
        row
        for row in stitched.flows.to_pylist()
        if row["request_id"] == request_id and kind in (None, row["kind"])
    ]
    assert len(rows) == 1, f"{len(rows)} flows of {request_id}"
    return rows[0]
