"""Spans to placed flows (A.6 S1, S2, S4), vectorised over a batch.

The steps, each in its own module: work order (`spans`), identity (`span_identity`), parents (`span_parents`),
one tree a flow (`orphans`), times (`span_times`), canonical order (`canon.tree`), nodes and edges
(`span_nodes`).

A span is two nodes, its start and its end; a mark is a point between them. Edges: parent's start to child's
start; start to mark to end; a synchronous child's end to the parent's end; start to end only where nothing of
these lies between. An asynchronous child's subtree has no edge back: it is deferred. The response leaves at
the end of the root, `?/root` and `?/missing` included: these are spans over their children.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from schemas.config import StitchConfig
from schemas.events import EventKind
from schemas.quality import Quality
from stitch.canon.tree import levels_of, order_trees
from stitch.columns import whole
from stitch.labels import SYNTHETIC_POINTS, LabelCodes, encode_labels, synthetic_hash
from stitch.marks import read_marks
from stitch.orphans import SpanServices, plant_forest
from stitch.placed import PlacedFlows
from stitch.span_identity import identify
from stitch.span_nodes import TreeRows, lay_nodes
from stitch.span_parents import resolve_parents
from stitch.span_times import fill_times
from stitch.spans import UNKNOWN_NS, Spans, read_spans

I8 = npt.NDArray[np.int64]
U4 = npt.NDArray[np.uint32]


def place_spans(events: pa.Table, config: StitchConfig, labels: LabelCodes | None = None) -> PlacedFlows:
    """Placed flows of an event batch that holds spans only, each with `request_id` and `id`.

    events: EVENT_SCHEMA, one chunk a column. labels: `encode_labels(events)`, if at hand. Traces without a
    single known time are left out and listed in `PlacedFlows.timeless`. O(spans log spans).
    """
    labels = encode_labels(events) if labels is None else labels
    traces = whole(events["request_id"]).dictionary_encode()
    n_flows = len(traces.dictionary)
    flow = traces.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    component, n_components = _component_codes(labels)

    spans, timeless = _without_timeless(read_spans(events, flow, n_flows, labels))
    identified = identify(spans, events, component, n_components)
    spans, capped = _first_in_time(identified.spans, config.max_events_per_flow)
    if len(capped):
        again = identify(spans, events, component, n_components)  # renumbers the index and the shared ids
        identified = replace(identified, spans=spans, index=again.index, shared=again.shared)
    spans = identified.spans
    parents = resolve_parents(identified, component)
    services = SpanServices(events, component)
    forest = plant_forest(spans, parents, services, config.orphan_share)
    marks = read_marks(events, spans, config.max_events_per_flow)

    untimed = (spans.start_ns == UNKNOWN_NS) | (spans.end_ns == UNKNOWN_NS)
    quality = forest.quality
    quality[spans.flow[untimed]] |= np.uint32(Quality.UNTIMED)
    quality[capped] |= np.uint32(Quality.CAPPED)
    if marks is not None:
        quality[marks.capped_flows] |= np.uint32(Quality.CAPPED)
    if identified.conflict_flows is not None:
        quality[identified.conflict_flows] |= np.uint32(Quality.CONFLICT)

    n_synthetic = len(forest.synthetic)
    n_rows = len(spans) + n_synthetic
    unknown = np.full(n_synthetic, UNKNOWN_NS)
    rows = TreeRows(
        event=_extended(spans.row, forest.synthetic),
        flow=_extended(spans.flow, forest.synthetic_flow),
        parent=forest.parent,
        asynchronous=forest.asynchronous,
        start_ns=_extended(spans.start_ns, unknown),
        end_ns=_extended(spans.end_ns, unknown),
        n_marks=None if marks is None else marks.counts(n_rows),
    )
    label_hash = labels.hashes[spans.label]
    if n_synthetic:
        words = {event: synthetic_hash(event, EventKind.SPAN_UNSPECIFIED) for event in SYNTHETIC_POINTS}
        tail = np.array([words[int(event)] for event in forest.synthetic], dtype=np.uint64)
        label_hash = np.concatenate((label_hash, tail))
    levels = levels_of(rows.parent)
    mark_hash = None if marks is None else marks.hashes(n_rows)
    tree = order_trees(rows.parent, label_hash, rows.asynchronous, rows.n_marks, mark_hash, levels)
    if n_synthetic or untimed.any():
        start_ns, end_ns = fill_times(rows.start_ns, rows.end_ns, rows.parent, levels)
        rows = replace(rows, start_ns=start_ns, end_ns=end_ns)
    nodes = lay_nodes(rows, tree, marks, n_flows)
    return PlacedFlows(
        request=nodes.present,
        quality=quality[nodes.present],
        first_node=nodes.first_node,
        first_edge=nodes.first_edge,
        event=nodes.event,
        side=nodes.side,
        point_code=nodes.point_code,
        ts_ns=nodes.ts_ns,
        mate=nodes.mate,
        parent=nodes.parent,
        deferred=nodes.deferred,
        response=nodes.response,
        src=nodes.src,
        dst=nodes.dst,
        mark_names=() if marks is None else marks.names,
        conflicts=identified.conflicts,
        duplicates=identified.duplicates,
        request_names=traces.dictionary,
        merged=identified.merged,
        timeless=timeless,
    )


def _component_codes(labels: LabelCodes) -> tuple[I8, int]:
    """[label codes] code of the label's component, and the number of components."""
    words = whole(labels.words["component"])
    return words.indices.to_numpy(zero_copy_only=False).astype(np.int64), len(words.dictionary)


def _without_timeless(spans: Spans) -> tuple[Spans, I8 | None]:
    """Spans of traces with some time, and the event rows of the others (None: there are none)."""
    nothing = (spans.start_ns == UNKNOWN_NS) & (spans.end_ns == UNKNOWN_NS)
    if not nothing.any():
        return spans, None
    some = np.bincount(spans.flow[~nothing], minlength=spans.n_flows) > 0
    kept = some[spans.flow]
    return (spans, None) if kept.all() else (spans.keep(kept), np.sort(spans.row[~kept]))


def _first_in_time(spans: Spans, limit: int) -> tuple[Spans, I8]:
    """At most `limit` spans a flow, the first in work order; and the codes of the flows that were cut."""
    counts = np.bincount(spans.flow, minlength=spans.n_flows)
    capped = np.flatnonzero(counts > limit)
    if not len(capped):
        return spans, capped
    rank = np.arange(len(spans)) - (np.cumsum(counts) - counts)[spans.flow]
    return spans.keep(rank < limit), capped


def _extended(column: I8, tail: I8) -> I8:
    return np.concatenate((column, tail)) if len(tail) else column
