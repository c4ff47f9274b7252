"""A slow, obvious stitcher in plain Python: what `stitch.kernel` must agree with.

Written from the documented rules, not from the fast code. It takes all events at once, in any
order, and works on dictionaries and sets, one request after another. Its speed (10^5 events a second) is the
baseline of the kernel benchmark.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

import pyarrow as pa
from oracles.plain_flow import Event, Node, PlainFlow
from oracles.plain_records import group_requests, stitch_request
from oracles.plain_spans import stitch_trace

from schemas.config import StitchConfig
from schemas.events import SPAN_KIND_BASE, with_text_ids
from schemas.quality import Quality
from stitch.columnar.hashing import hash_rows


@dataclass
class PlainResult:
    flows: list[PlainFlow] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    """`duplicates` and `conflicts`, in rows."""

    def by_request(self) -> dict[tuple[str, str], PlainFlow]:
        """By request id and kind: an id with spans and records is two flows."""
        return {(flow.request_id, flow.kind): flow for flow in self.flows}


def read_events(table: pa.Table) -> list[Event]:
    """Rows as dictionaries. The content hash is taken over: which of two contradicting rows wins, where
    nothing else decides, is arbitrary but fixed, and an oracle cannot guess it."""
    contents = hash_rows(table.combine_chunks()).tolist() if table.num_rows else []
    rows = with_text_ids(table).to_pylist()
    return [{**row, "content": content} for row, content in zip(rows, contents, strict=True)]


def stitch_plainly(events: list[Event], config: StitchConfig) -> PlainResult:
    """Every request of `events`, closed."""
    result = PlainResult()
    traces: dict[str, list[Event]] = defaultdict(list)
    records = []
    for event in events:
        if event["kind"] >= SPAN_KIND_BASE:
            traces[event["request_id"]].append(event)
        else:
            records.append(event)
    for request_id, rows in traces.items():
        _keep(result, *stitch_trace(request_id, rows, config))
    for request_id, rows in group_requests(records).items():
        _keep(result, *stitch_request(request_id, rows, config))
    return result


def _keep(result: PlainResult, flow: PlainFlow | None, n_duplicates: int, conflicts: list[Event]) -> None:
    result.counts["duplicates"] += n_duplicates
    result.counts["conflicts"] += len(conflicts)
    if flow is None:
        return
    rates = {
        node.event["sample_rate"]
        for node in flow.nodes
        if node.event is not None and node.event["sample_rate"] is not None
    }
    if rates:
        flow.weight, flow.weight_known = 1.0 / min(rates), True
    if len(rates) > 1:
        flow.quality |= Quality.MIXED_RATE
    if any(_runs_backwards(flow.nodes[src], flow.nodes[dst]) for src, dst in flow.edges):
        flow.quality |= Quality.NEGATIVE
    result.flows.append(flow)


def _runs_backwards(src: Node, dst: Node) -> bool:
    """Time decreases along the edge on one host; the sides of one event are on one host, named or not."""
    one_host = (
        src.host == dst.host if src.host is not None else src.event is dst.event and src.event is not None
    )
    return one_host and dst.ts_ns < src.ts_ns
