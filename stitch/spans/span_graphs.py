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
import pyarrow as pa

from schemas.arrays import I8, U4, U8
from schemas.config import StitchConfig
from schemas.events import EventKind
from schemas.quality import Quality
from stitch.columnar.chunks import whole
from stitch.graph.labels import LabelCodes, encode_labels, synthetic_hash
from stitch.graph.order.tree import levels_of, order_trees
from stitch.graph.placed import MISSING_EVENT, ROOT_EVENT, PlacedFlows
from stitch.spans.identity import Identified, identify
from stitch.spans.marks import Marks, read_marks
from stitch.spans.nodes import TreeRows, lay_nodes
from stitch.spans.orphans import Forest, SpanServices, plant_forest
from stitch.spans.parents import resolve_parents
from stitch.spans.span_columns import UNKNOWN_NS, Spans, read_spans
from stitch.spans.times import fill_times


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
    parents = resolve_parents(identified, component)
    forest = plant_forest(spans, parents, SpanServices(events, component), config.orphan_share)
    marks = read_marks(events, spans, config.max_events_per_flow)
    rows = _tree_rows(spans, forest, marks)
    levels = levels_of(rows.parent)
    label_hash, mark_hash = _row_hashes(spans, forest, marks, labels)
    tree = order_trees(rows.parent, label_hash, rows.asynchronous, rows.n_marks, mark_hash, levels)
    if UNKNOWN_NS in (rows.start_ns.max(initial=0), rows.end_ns.max(initial=0)):
        start_ns, end_ns = fill_times(rows.start_ns, rows.end_ns, rows.parent, levels)
        rows = replace(rows, start_ns=start_ns, end_ns=end_ns)
    nodes = lay_nodes(rows, tree, marks, n_flows)

    quality = _quality(spans, forest, identified, capped, marks)
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
        copies=identified.copies,
        code=flow,
        request_names=traces.dictionary,
        merged=identified.merged,
        timeless=timeless,
    )


def _quality(spans: Spans, forest: Forest, identified: Identified, capped: I8, marks: Marks | None) -> U4:
    """[flow codes] quality bits of all steps."""
    untimed = (spans.start_ns == UNKNOWN_NS) | (spans.end_ns == UNKNOWN_NS)
    quality = forest.quality.copy()
    for bit, flagged in (
        (Quality.UNTIMED, spans.flow[untimed]),
        (Quality.CAPPED, capped),
        (Quality.CAPPED, None if marks is None else marks.capped_flows),
        (Quality.CONFLICT, identified.conflict_flows),
    ):
        if flagged is not None:
            quality[flagged] |= np.uint32(bit)
    return quality


def _tree_rows(spans: Spans, forest: Forest, marks: Marks | None) -> TreeRows:
    """Spans, then synthetic spans; times of the latter are not known yet."""
    n_synthetic = len(forest.synthetic)
    unknown = np.full(n_synthetic, UNKNOWN_NS)
    return TreeRows(
        event=_extended(spans.row, forest.synthetic),
        flow=_extended(spans.flow, forest.synthetic_flow),
        parent=forest.parent,
        asynchronous=forest.asynchronous,
        start_ns=_extended(spans.start_ns, unknown),
        end_ns=_extended(spans.end_ns, unknown),
        n_marks=None if marks is None else marks.counts(len(spans) + n_synthetic),
    )


def _row_hashes(
    spans: Spans, forest: Forest, marks: Marks | None, labels: LabelCodes
) -> tuple[U8, U8 | None]:
    """[rows] hash of the label, and of the names of the marks (None: no span has any)."""
    label_hash = labels.hashes[spans.label]
    if len(forest.synthetic):
        kind = EventKind.SPAN_UNSPECIFIED
        missing, root = synthetic_hash(MISSING_EVENT, kind), synthetic_hash(ROOT_EVENT, kind)
        made_up = np.array([missing, root], dtype=np.uint64)[
            (forest.synthetic == ROOT_EVENT).astype(np.int64)
        ]
        label_hash = np.concatenate((label_hash, made_up))
    return label_hash, None if marks is None else marks.hashes(len(label_hash))


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
