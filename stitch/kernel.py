"""Stitch events into flows: a pure function from Arrow tables to Arrow tables.

The output depends only on the set of events of each request: not on their order, on repeated delivery, nor
on other requests of the batch. Open requests are buffered elsewhere (`stitch.drivers.live`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.arrays import I8
from schemas.config import StitchConfig
from schemas.events import SPAN_KIND_BASE, concat_events, with_text_ids
from schemas.rejects import Reason, Reject
from stitch.columnar.runs import whole
from stitch.flow_rows import FlowOrder, categorise, flows_table, named_params, order_flows, params_of_flows
from stitch.graph.placed import LabelCodes, PlacedFlows, encode_labels, label_nodes, rows_of_nodes
from stitch.records.record_graphs import place_records
from stitch.spans.span_graphs import place_spans
from stitch.structures import StructureMemo


@dataclass(frozen=True, slots=True)
class Stitched:
    """Output of the kernel for a batch of events."""

    flows: pa.Table
    """Flows: FLOWS_SCHEMA, sorted by (root, category, start_ns, request_id)."""
    structures: pa.Table
    """Structures: STRUCTURES_SCHEMA, one row per category in `flows`, sorted by (root, category)."""
    params: pa.Table
    """Parameters: PARAMS_SCHEMA, in the order of `flows`, then by position, then by key."""
    rejects: list[Reject]
    """Events that could not be assigned to a flow, with reasons."""
    counts: Mapping[str, int]
    """Number of `flows`, and numbers of events by outcome: `events` = those in flows + `duplicates` +
    `merged` (partial reports of a span) + `rejected` (which includes `conflicts`) + `capped` (beyond
    `max_events_per_flow`)."""


def stitch(
    events: pa.Table, config: StitchConfig, *, lane: int = 0, memo: StructureMemo | None = None
) -> Stitched:
    """Stitch the events of whole requests into flows.

    events: EVENT_SCHEMA. lane: lane number written into the flows. memo: cache of structures; if all calls
    get the same one, each structure is computed once. It never changes the result.

    Rows of span kinds become trees of spans, other rows graphs of records; a request id with both gives two
    flows, distinguished by `kind`. O(events log events).
    """
    batch = concat_events([events] if events.num_rows else [])
    n_events = batch.num_rows
    batch, rejects = _without_unidentified(batch)
    placed, order, flows, structures = _stitch(batch, config, lane, memo)
    rejects += reject_rows(batch, placed.conflicts, Reason.CONFLICT)
    rejects += reject_rows(batch, placed.timeless, Reason.BAD_TIME)
    used = np.zeros(batch.num_rows + 2, dtype=np.bool_)  # the last two places take the synthetic nodes
    used[placed.event] = True
    n_placed = int(used[: batch.num_rows].sum())
    merged = len(placed.merged[0])
    return Stitched(
        flows=flows,
        structures=structures,
        params=named_params(params_of_flows(placed, batch, order), flows),
        rejects=rejects,
        counts={
            "events": n_events,
            "flows": placed.n_flows,
            "duplicates": len(placed.copies),
            "conflicts": len(placed.conflicts),
            "merged": merged,
            "rejected": len(rejects),
            "capped": n_events - n_placed - len(placed.copies) - merged - len(rejects),
        },
    )


def _stitch(
    batch: pa.Table, config: StitchConfig, lane: int, memo: StructureMemo | None
) -> tuple[PlacedFlows, FlowOrder, pa.Table, pa.Table]:
    """Stitch a batch of events of whole requests: `(placed flows, their order, table of flows, table of
    structures)`."""
    placed, labels = place_events(batch, config)
    categorised = categorise(placed, label_nodes(placed, labels), StructureMemo() if memo is None else memo)
    order = order_flows(placed, categorised)
    return placed, order, flows_table(placed, batch, categorised, order, lane), categorised.structures


def place_events(events: pa.Table, config: StitchConfig) -> tuple[PlacedFlows, LabelCodes]:
    """Build the flows of a batch of records and spans (EVENT_SCHEMA, each column in one chunk): (placed
    flows, label codes of the events)."""
    labels = encode_labels(events)
    kind = events["kind"].to_numpy()
    is_span = kind >= SPAN_KIND_BASE
    if is_span.all():
        return place_spans(events, config, labels), labels
    if not is_span.any():
        return place_records(events, config, labels), labels
    span_rows, record_rows = np.flatnonzero(is_span), np.flatnonzero(~is_span)
    span_labels = LabelCodes(labels.code[span_rows], labels.hashes, labels.words)
    record_labels = LabelCodes(labels.code[record_rows], labels.hashes, labels.words)
    spans = place_spans(events.take(pa.array(span_rows)).combine_chunks(), config, span_labels)
    records = place_records(events.take(pa.array(record_rows)).combine_chunks(), config, record_labels)
    return _join(spans, span_rows, records, record_rows), labels


def _without_unidentified(events: pa.Table) -> tuple[pa.Table, list[Reject]]:
    """Remove spans without a trace or span id: (remaining events, rejects for the removed spans)."""
    if events["request_id"].null_count == 0 and events["id"].null_count == 0:
        return events, []
    anonymous = pc.and_(
        pc.greater_equal(events["kind"], SPAN_KIND_BASE),
        pc.or_(pc.is_null(events["request_id"]), pc.is_null(events["id"])),
    )
    rows = np.flatnonzero(whole(anonymous).to_numpy(zero_copy_only=False))
    if not len(rows):
        return events, []
    rejects = reject_rows(events, rows, Reason.BAD_ID)
    return events.filter(pc.invert(anonymous)).combine_chunks(), rejects


def _join(spans: PlacedFlows, span_rows: I8, records: PlacedFlows, record_rows: I8) -> PlacedFlows:
    """Concatenate flows of spans and flows of records; row numbers are mapped to rows of the whole batch.

    span_rows: [spans] row in the batch. record_rows: [records] row in the batch.
    """
    code = np.empty(len(span_rows) + len(record_rows), dtype=np.int64)
    code[span_rows] = spans.code
    code[record_rows] = np.where(records.code < 0, -1, records.code + len(spans.request_names))
    names = ("quality", "side", "point_code", "ts_ns", "mate", "parent", "deferred", "response", "src", "dst")
    both = {name: np.concatenate((getattr(spans, name), getattr(records, name))) for name in names}
    return PlacedFlows(
        **both,
        request=np.concatenate((spans.request, records.request + len(spans.request_names))),
        first_node=np.concatenate((spans.first_node, spans.first_node[-1] + records.first_node[1:])),
        first_edge=np.concatenate((spans.first_edge, spans.first_edge[-1] + records.first_edge[1:])),
        event=np.concatenate(
            (rows_of_nodes(spans.event, span_rows), rows_of_nodes(records.event, record_rows))
        ),
        code=code,
        request_names=pa.concat_arrays([spans.request_names, records.request_names]),
        conflicts=np.concatenate((span_rows[spans.conflicts], record_rows[records.conflicts])),
        copies=np.concatenate((span_rows[spans.copies], record_rows[records.copies])),
        timeless=np.concatenate((span_rows[spans.timeless], record_rows[records.timeless])),
        mark_names=spans.mark_names,
        merged=(span_rows[spans.merged[0]], span_rows[spans.merged[1]]),
    )


_DETAILS: Final = {
    Reason.CONFLICT: "another version of this id was kept",
    Reason.BAD_TIME: "no event of the request has a time",
    Reason.BAD_ID: "a span needs a trace id and a span id",
}
"""Reason -> default text of the kernel's rejects for this reason."""


def reject_rows(events: pa.Table, rows: I8, reason: Reason, detail: str = "") -> list[Reject]:
    """Make rejects of the rows `rows` of `events` (EVENT_SCHEMA). detail: text; empty: the kernel's text for
    the reason.

    `raw` is the row as one line of JSON, and rejects are sorted by it, so they do not depend on arrival
    order. Payload and item are 0: the kernel does not know the source.
    """
    if not len(rows):
        return []
    taken = with_text_ids(events.take(pa.array(rows))).to_pylist()
    lines = sorted(json.dumps(row, sort_keys=True, ensure_ascii=False).encode() for row in taken)
    return [Reject(reason, detail or _DETAILS[reason], line) for line in lines]
