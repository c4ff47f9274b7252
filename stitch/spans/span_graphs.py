"""Build the graphs of a batch of spans as placed flows, vectorised.

Steps: sort spans in work order (`span_columns`), merge rows of the same span (`identity`), resolve parents
and build one tree per flow (`forest`), fill missing times (from the children, else from the parent), order
canonically (`stitch.graph.order.tree`), make nodes and edges (`nodes`).

A span is two nodes, its start and its end; a mark is a point between them. Edges: parent's start to child's
start; start to mark to end; a synchronous child's end to the parent's end; start to end only if there is
neither a mark nor a synchronous child. An asynchronous child's subtree has no edge to the parent's end: it is
deferred. The response leaves at the end of the root, which may be a synthetic span `?/root` or `?/missing`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from schemas.arrays import I8, U4, U8
from schemas.config import StitchConfig
from schemas.events import EventKind
from schemas.quality import Quality
from stitch.columnar.runs import coded_words, whole
from stitch.graph.order.tree import levels_of, order_trees
from stitch.graph.placed import (
    MISSING_EVENT,
    ROOT_EVENT,
    LabelCodes,
    PlacedFlows,
    encode_labels,
    synthetic_hash,
)
from stitch.spans.forest import Forest, plant_forest, resolve_parents
from stitch.spans.identity import Identified, identify
from stitch.spans.nodes import SpanPoints, TreeRows, lay_nodes, read_marks
from stitch.spans.span_columns import UNKNOWN_NS, Spans, read_spans

_LOWEST = np.int64(-(2**63))


def _fill_times(start_ns: I8, end_ns: I8, parent: I8, levels: tuple[I8, I8]) -> tuple[I8, I8]:
    """Fill missing times: ([spans] start, [spans] end), ns, without UNKNOWN_NS. Every flow must have at least
    one known time.

    A missing start is the earliest start of the children, a missing end their latest end; times still missing
    are copied from the parent, from the root down. A root without known times of children gets the known one
    of its start and end for both. A filled end never precedes the start, nor does a filled start follow the
    end. parent, levels: as in `stitch.graph.order.tree.order_trees`. O(spans).
    """
    n = len(parent)
    rows, bounds = levels
    start = np.append(start_ns, UNKNOWN_NS)
    end = np.append(np.where(end_ns == UNKNOWN_NS, _LOWEST, end_ns), _LOWEST)
    no_start, no_end = start == UNKNOWN_NS, end == _LOWEST
    children_start = np.full(n + 1, UNKNOWN_NS)
    children_end = np.full(n + 1, _LOWEST)
    for level in range(len(bounds) - 2, -1, -1):
        here = rows[bounds[level] : bounds[level + 1]]
        start[here] = np.where(no_start[here], children_start[here], start[here])
        end[here] = np.where(no_end[here], children_end[here], end[here])
        np.minimum.at(children_start, parent[here], start[here])
        np.maximum.at(children_end, parent[here], end[here])
    for level in range(len(bounds) - 1):
        here = rows[bounds[level] : bounds[level + 1]]
        above = parent[here] if level else here
        own_start = np.where(start[here] == UNKNOWN_NS, start[above], start[here])
        own_end = np.where(end[here] == _LOWEST, end[above], end[here])
        own_start = np.where(own_start == UNKNOWN_NS, own_end, own_start)
        own_end = np.where(own_end == _LOWEST, own_start, own_end)
        end[here] = np.where(no_end[here], np.maximum(own_start, own_end), own_end)
        start[here] = np.where(no_start[here], np.minimum(own_start, end[here]), own_start)
    return start[:n], end[:n]


def place_spans(events: pa.Table, config: StitchConfig, labels: LabelCodes | None = None) -> PlacedFlows:
    """Build the flows of an event batch that contains only spans, each with `request_id` and `id`.

    events: EVENT_SCHEMA, one chunk per column. labels: `encode_labels(events)`, if already computed. Traces
    without any known time are omitted and listed in `PlacedFlows.timeless`. O(spans log spans).
    """
    labels = encode_labels(events) if labels is None else labels
    traces = coded_words(whole(events["request_id"]))
    n_flows = len(traces.dictionary)
    flow = traces.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    components = whole(labels.words["component"])
    component = components.indices.to_numpy(zero_copy_only=False).astype(np.int64)  # [label codes]
    n_components = len(components.dictionary)
    spans, timeless = _without_timeless(read_spans(events, flow, n_flows, labels))
    identified = identify(spans, events, component, n_components)
    spans, capped = _first_in_time(identified.spans, config.max_events_per_flow)
    if len(capped):
        again = identify(spans, events, component, n_components)  # renumbers the index and the shared ids
        identified = replace(identified, spans=spans, index=again.index, shared=again.shared)
    parents = resolve_parents(identified, component)
    forest = plant_forest(spans, parents, events, component, config.orphan_share)
    marks = read_marks(events, spans, config.max_events_per_flow)
    rows = _tree_rows(spans, forest, marks)
    levels = levels_of(rows.parent)
    label_hash, mark_hash = _row_hashes(spans, forest, marks, labels)
    tree = order_trees(rows.parent, label_hash, rows.asynchronous, rows.n_marks, mark_hash, levels)
    if UNKNOWN_NS in (rows.start_ns.max(initial=0), rows.end_ns.max(initial=0)):
        start_ns, end_ns = _fill_times(rows.start_ns, rows.end_ns, rows.parent, levels)
        rows = replace(rows, start_ns=start_ns, end_ns=end_ns)
    present, nodes = lay_nodes(rows, tree, marks, n_flows)
    return PlacedFlows.of_nodes(
        nodes,
        request=present,
        quality=_quality(spans, forest, identified, capped, marks)[present],
        code=flow,
        request_names=traces.dictionary,
        conflicts=identified.conflicts,
        copies=identified.copies,
        timeless=timeless,
        mark_names=marks.names,
        merged=identified.merged,
    )


def _quality(spans: Spans, forest: Forest, identified: Identified, capped: I8, marks: SpanPoints) -> U4:
    """[flow codes] quality flags found in all steps: bits of `Quality`."""
    untimed = (spans.start_ns == UNKNOWN_NS) | (spans.end_ns == UNKNOWN_NS)
    quality = forest.quality.copy()
    for bit, flagged in (
        (Quality.UNTIMED, spans.flow[untimed]),
        (Quality.CAPPED, capped),
        (Quality.CAPPED, marks.capped_flows),
        (Quality.CONFLICT, identified.conflict_flows),
    ):
        quality[flagged] |= np.uint32(bit)
    return quality


def _tree_rows(spans: Spans, forest: Forest, marks: SpanPoints) -> TreeRows:
    """Rows for all spans, followed by rows for synthetic spans, whose times are still UNKNOWN_NS."""
    n_synthetic = len(forest.synthetic)
    unknown = np.full(n_synthetic, UNKNOWN_NS)
    return TreeRows(
        event=_extended(spans.row, forest.synthetic),
        flow=_extended(spans.flow, forest.synthetic_flow),
        parent=forest.parent,
        asynchronous=forest.asynchronous,
        start_ns=_extended(spans.start_ns, unknown),
        end_ns=_extended(spans.end_ns, unknown),
        n_marks=marks.counts(len(spans) + n_synthetic),
    )


def _row_hashes(spans: Spans, forest: Forest, marks: SpanPoints, labels: LabelCodes) -> tuple[U8, U8]:
    """`([rows] hash of the label, [rows] hash of the names of the span's marks)`."""
    label_hash = labels.hashes[spans.label]
    if len(forest.synthetic):
        kind = EventKind.SPAN_UNSPECIFIED
        missing, root = synthetic_hash(MISSING_EVENT, kind), synthetic_hash(ROOT_EVENT, kind)
        made_up = np.array([missing, root], dtype=np.uint64)[
            (forest.synthetic == ROOT_EVENT).astype(np.int64)
        ]
        label_hash = np.concatenate((label_hash, made_up))
    return label_hash, marks.hashes(len(label_hash))


def _without_timeless(spans: Spans) -> tuple[Spans, I8]:
    """(spans of the traces with at least one known time, event rows of the other traces)."""
    nothing = (spans.start_ns == UNKNOWN_NS) & (spans.end_ns == UNKNOWN_NS)
    some = np.bincount(spans.flow[~nothing], minlength=spans.n_flows) > 0
    kept = some[spans.flow]
    return spans if kept.all() else spans.keep(kept), np.sort(spans.row[~kept])


def _first_in_time(spans: Spans, limit: int) -> tuple[Spans, I8]:
    """(first `limit` spans of each flow in work order, codes of the flows that have more)."""
    counts = np.bincount(spans.flow, minlength=spans.n_flows)
    capped = np.flatnonzero(counts > limit)
    if not len(capped):
        return spans, capped
    rank = np.arange(len(spans)) - (np.cumsum(counts) - counts)[spans.flow]
    return spans.keep(rank < limit), capped


def _extended(column: I8, tail: I8) -> I8:
    return np.concatenate((column, tail)) if len(tail) else column
