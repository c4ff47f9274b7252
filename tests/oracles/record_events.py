"""Activity records written by hand, and placed flows read back by the points' names, for tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from schemas.config import StitchConfig
from schemas.events import EVENT_SCHEMA, EventKind, concat_events
from schemas.quality import Quality
from stitch.graph.placed import MISSING_EVENT, ROOT_EVENT, PlacedFlows
from stitch.records.record_graphs import place_records

KINDS = {
    "": EventKind.EVENT,
    "split": EventKind.SPLIT,
    "join": EventKind.JOIN,
    "end": EventKind.END,
}


def record(
    crumb: str | None, point: str, at: int | None, kind: str = "", links: str = "", **fields: Any
) -> dict[str, Any]:
    """One record: `at` ns, `links` separated by blanks, other columns by name (`request` for the id)."""
    row: dict[str, Any] = dict.fromkeys(EVENT_SCHEMA.names)
    row |= {
        "kind": int(KINDS[kind]),
        "request_id": fields.pop("request", "r"),
        "breadcrumb": crumb,
        "component": "c",
        "point": point,
        "ts_ns": at,
        "links": links.split() or None,
        "shared": False,
        "status": "ok",
    }
    if "parents" in fields:
        row["parents"] = fields.pop("parents").split()
    return row | fields


def table(*rows: dict[str, Any]) -> pa.Table:
    """An event batch of one chunk a column."""
    return concat_events([pa.Table.from_pylist(list(rows), schema=EVENT_SCHEMA)])


@dataclass(frozen=True)
class Flow:
    """One placed flow; nodes are named by their points, synthetic ones `?root` and `?missing`."""

    request: str
    order: list[str]
    times: list[int]
    edges: set[str]
    response: set[str]
    deferred: set[str]
    quality: Quality
    events: list[int]


def place(*rows: dict[str, Any], config: StitchConfig | None = None) -> dict[str, Flow]:
    """Flows of the records by request id."""
    events = table(*rows)
    return read(place_records(events, config or StitchConfig()), events)


def read(placed: PlacedFlows, events: pa.Table) -> dict[str, Flow]:
    """Placed flows by request id; every promise of `PlacedFlows` that can be seen from outside is checked."""
    points = events["point"].to_pylist()
    flows: dict[str, Flow] = {}
    assert placed.request_names is not None
    assert (placed.request[1:] > placed.request[:-1]).all()
    for i in range(placed.n_flows):
        nodes = range(int(placed.first_node[i]), int(placed.first_node[i + 1]))
        event = placed.event[nodes.start : nodes.stop].tolist()
        made = {ROOT_EVENT: "?root", MISSING_EVENT: "?missing"}
        names = [points[e] if e >= 0 else made[e] for e in event]
        part = slice(int(placed.first_edge[i]), int(placed.first_edge[i + 1]))
        pairs = list(zip(placed.dst[part].tolist(), placed.src[part].tolist(), strict=True))
        assert pairs == sorted(set(pairs))
        assert all(src < dst for dst, src in pairs)
        assert {dst for dst, _ in pairs} == set(range(1, len(nodes)))
        name = placed.request_names[int(placed.request[i])].as_py()
        assert name not in flows
        flows[name] = Flow(
            request=name,
            order=names,
            times=placed.ts_ns[nodes.start : nodes.stop].tolist(),
            edges={f"{names[src]} {names[dst]}" for dst, src in pairs},
            response={n for n, r in zip(names, placed.response[nodes.start : nodes.stop], strict=True) if r},
            deferred={n for n, d in zip(names, placed.deferred[nodes.start : nodes.stop], strict=True) if d},
            quality=Quality(int(placed.quality[i])),
            events=event,
        )
    return flows
