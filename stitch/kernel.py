"""The stitch kernel: events in, flows out; pure, Arrow in and Arrow out (ARCHITECTURE 2).

The output depends on the set of events of each request only: not on their order, on repeated delivery, on
other requests of the batch, nor on where the input was cut (as long as a request's events come before it
closes).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from schemas.config import StitchConfig
from schemas.events import SPAN_KIND_BASE, concat_events, empty_events, with_text_ids
from schemas.quality import Quality
from schemas.rejects import Reason, Reject
from stitch.closing import close_requests
from stitch.columnar.chunks import whole
from stitch.flow_rows import categorise, flows_table, order_flows, params_table
from stitch.graph.labels import LabelCodes, encode_labels, label_nodes
from stitch.graph.placed import PlacedFlows
from stitch.records.components import request_codes
from stitch.records.record_graphs import place_records
from stitch.spans.span_graphs import place_spans
from stitch.structures import StructureMemo

I8 = npt.NDArray[np.int64]
B1 = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Stitched:
    """What the kernel makes of a batch of events."""

    flows: pa.Table
    """FLOWS_SCHEMA, sorted by (root, category, start_ns, request_id)."""
    structures: pa.Table
    """STRUCTURES_SCHEMA, one row a category of `flows`, sorted by (root, category)."""
    params: pa.Table
    """PARAMS_SCHEMA, in the order of `flows`, then position, then key."""
    carry: pa.Table
    """EVENT_SCHEMA: raw events of requests that are still open; give them to the next call."""
    rejects: list[Reject]
    """Events that could not be placed, with reasons."""
    counts: Mapping[str, int]
    """`flows`, and where the events went: `events` = placed in flows + `duplicates` + `merged` (partial
    reports) + `rejected` (`conflicts` among them) + `capped` (past `max_events_per_flow`) + `carried`."""


def stitch(
    events: pa.Table,
    config: StitchConfig,
    *,
    carry: pa.Table | None = None,
    watermark_ns: int | None = None,
    lane: int = 0,
    memo: StructureMemo | None = None,
) -> Stitched:
    """Stitch events into flows.

    events: EVENT_SCHEMA. carry: events left open by the call before. watermark_ns: no event before it is
    still to come; None is the end of the input, everything closes. lane: written into the flows. memo: keep
    one between calls to describe each structure once; it never changes the result.

    A request closes `config.idle_ns` after its last event, or at `config.max_age_ns` (then INCOMPLETE). Rows
    of span kinds become trees of spans, others graphs of records; a request id that has both gives two
    flows, told apart by their `kind`. O(events log events).
    """
    batch = concat_events([part for part in (carry, events) if part is not None and part.num_rows])
    n_events = batch.num_rows
    batch, rejects = _without_unidentified(batch)
    batch, carried, aged = _closed(batch, watermark_ns, config)
    placed, labels = place_events(batch, config)
    if aged is not None and aged.any():
        placed.quality[_flows_of(placed, aged)] |= np.uint32(Quality.INCOMPLETE)
    for rows, reason, detail in (
        (placed.conflicts, Reason.CONFLICT, "another version of this id was kept"),
        (placed.timeless, Reason.BAD_TIME, "no event of the request has a time"),
    ):
        if rows is not None:
            rejects += reject_rows(batch, rows, reason, detail)
    categorised = categorise(placed, label_nodes(placed, labels), StructureMemo() if memo is None else memo)
    order = order_flows(placed, categorised)
    merged = 0 if placed.merged is None else len(placed.merged[0])
    used_otherwise = carried.num_rows + placed.duplicates + merged + len(rejects)
    return Stitched(
        flows=flows_table(placed, batch, categorised, order, lane),
        structures=categorised.structures,
        params=params_table(placed, batch, order),
        carry=carried,
        rejects=rejects,
        counts={
            "events": n_events,
            "flows": placed.n_flows,
            "duplicates": placed.duplicates,
            "conflicts": 0 if placed.conflicts is None else len(placed.conflicts),
            "merged": merged,
            "rejected": len(rejects),
            "capped": n_events - used_otherwise - _n_placed(placed, batch.num_rows),
            "carried": carried.num_rows,
        },
    )


def _closed(
    batch: pa.Table, watermark_ns: int | None, config: StitchConfig
) -> tuple[pa.Table, pa.Table, B1 | None]:
    """Events of closed requests, events that wait, and which of the former were closed by age."""
    if watermark_ns is None or not batch.num_rows:
        return batch, empty_events(), None
    request, n_requests = request_codes(batch)
    closing = close_requests(request, n_requests, batch, watermark_ns, config)
    if closing.closed.all():
        return batch, empty_events(), closing.aged
    waiting = _with_own_words(batch.filter(pa.array(~closing.closed)))
    return concat_events([batch.filter(pa.array(closing.closed))]), waiting, closing.aged[closing.closed]


def _with_own_words(events: pa.Table) -> pa.Table:
    """The same rows with dictionaries of their own words only: what is carried on and on must not grow."""
    for i, field in enumerate(events.schema):
        if pa.types.is_dictionary(field.type):
            column = whole(events[field.name]).cast(pa.string()).dictionary_encode()
            events = events.set_column(i, field, column)
    return events


def _n_placed(placed: PlacedFlows, n_events: int) -> int:
    """Number of events that became nodes."""
    seen = np.zeros(n_events + 2, dtype=np.bool_)  # the last two places take the synthetic nodes
    seen[placed.event] = True
    return int(seen[:n_events].sum())


def place_events(events: pa.Table, config: StitchConfig) -> tuple[PlacedFlows, LabelCodes]:
    """Placed flows of a batch of records and spans (one chunk a column), and the labels of its events."""
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
    """Events without the spans that lack a trace or span id, and these as rejects."""
    if events["request_id"].null_count == 0 and events["id"].null_count == 0:
        return events, []
    anonymous = pc.and_(
        pc.greater_equal(events["kind"], SPAN_KIND_BASE),
        pc.or_(pc.is_null(events["request_id"]), pc.is_null(events["id"])),
    )
    rows = np.flatnonzero(whole(anonymous).to_numpy(zero_copy_only=False))
    if not len(rows):
        return events, []
    rejects = reject_rows(events, rows, Reason.BAD_ID, "a span needs a trace id and a span id")
    return events.filter(pc.invert(anonymous)).combine_chunks(), rejects


def _flows_of(placed: PlacedFlows, marked: B1) -> I8:
    """Flows with a node whose event is `marked` [events]."""
    nodes = np.flatnonzero(np.append(marked, [False, False])[placed.event])
    flows: I8 = np.unique(np.searchsorted(placed.first_node, nodes, side="right") - 1)
    return flows


def _join(spans: PlacedFlows, span_rows: I8, records: PlacedFlows, record_rows: I8) -> PlacedFlows:
    """One set of flows; rows of the two parts are mapped to rows of the whole batch."""
    assert spans.request_names is not None
    assert records.request_names is not None

    def rows_of(part: I8 | None, rows: I8) -> I8:
        return np.zeros(0, np.int64) if part is None else rows[part]

    def events_of(part: PlacedFlows, rows: I8) -> I8:
        return np.where(part.event >= 0, np.append(rows, [0, 0])[part.event], part.event)

    conflicts = np.concatenate((rows_of(spans.conflicts, span_rows), rows_of(records.conflicts, record_rows)))
    timeless = np.concatenate((rows_of(spans.timeless, span_rows), rows_of(records.timeless, record_rows)))
    return PlacedFlows(
        request=np.concatenate((spans.request, records.request + len(spans.request_names))),
        quality=np.concatenate((spans.quality, records.quality)),
        first_node=np.concatenate((spans.first_node, spans.first_node[-1] + records.first_node[1:])),
        first_edge=np.concatenate((spans.first_edge, spans.first_edge[-1] + records.first_edge[1:])),
        event=np.concatenate((events_of(spans, span_rows), events_of(records, record_rows))),
        side=np.concatenate((spans.side, records.side)),
        point_code=np.concatenate((spans.point_code, records.point_code)),
        ts_ns=np.concatenate((spans.ts_ns, records.ts_ns)),
        mate=np.concatenate((spans.mate, records.mate)),
        parent=np.concatenate((spans.parent, records.parent)),
        deferred=np.concatenate((spans.deferred, records.deferred)),
        response=np.concatenate((spans.response, records.response)),
        src=np.concatenate((spans.src, records.src)),
        dst=np.concatenate((spans.dst, records.dst)),
        mark_names=spans.mark_names,
        conflicts=conflicts if len(conflicts) else None,
        duplicates=spans.duplicates + records.duplicates,
        request_names=pa.concat_arrays([spans.request_names, records.request_names]),
        merged=None if spans.merged is None else (span_rows[spans.merged[0]], span_rows[spans.merged[1]]),
        timeless=timeless if len(timeless) else None,
    )


def reject_rows(events: pa.Table, rows: I8, reason: Reason, detail: str) -> list[Reject]:
    """Dead letters of event rows; `raw` is the row as one line of JSON, and rejects are sorted by it.

    So they do not depend on arrival order. Payload and item are 0: the kernel does not know the source.
    """
    taken = with_text_ids(events.take(pa.array(rows))).to_pylist()
    lines = sorted(json.dumps(row, sort_keys=True, ensure_ascii=False).encode() for row in taken)
    return [Reject(reason, detail, line) for line in lines]
