"""Build the nodes and edges of canonically ordered span trees by scattering into arrays: no sort, no Python
per span.

Marks are span events whose names the settings allow; they become points inside their span.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.arrays import B1, I4, I8, U8
from stitch.columnar.hashing import hash_word, mix
from stitch.columnar.runs import inverse, list_lengths, no_rows, whole
from stitch.graph.order.tree import CanonicalTree
from stitch.graph.placed import END, POINT, START, PlacedNodes
from stitch.spans.span_columns import Spans


@dataclass(frozen=True, slots=True)
class SpanPoints:
    """Marks of a batch (span events that become nodes), sorted by (span, name, time), as their nodes are."""

    span: I8
    """[marks] row of the span to which the mark belongs, ascending."""
    name: I8
    """[marks] index into `names` of the mark's name."""
    ts_ns: I8
    """[marks] time, ns since the epoch."""
    names: tuple[str, ...]
    """Distinct names of marks, sorted."""
    capped_flows: I8
    """Codes of flows with more marks than allowed, some of which were dropped."""

    def counts(self, n_spans: int) -> I8:
        """[spans] number of marks of each span."""
        return np.bincount(self.span, minlength=n_spans)

    def hashes(self, n_spans: int) -> U8:
        """[spans] hash, independent of order, of the names of the span's marks; 0 if it has none."""
        words = np.array([hash_word(name) for name in self.names], dtype=np.uint64)
        total = np.zeros(n_spans, dtype=np.uint64)
        np.add.at(total, self.span, mix(words ^ np.uint64(0x6D61726B))[self.name])
        return total


def read_marks(events: pa.Table, spans: Spans, max_marks_per_flow: int) -> SpanPoints:
    """Read the marks of the spans.

    Marks without time or name are omitted. In a flow with more than `max_marks_per_flow` marks, the earliest
    are kept. O(marks log marks).
    """
    lists = whole(events["marks"])
    values = pc.list_flatten(lists)
    if not len(values):
        return SpanPoints(no_rows(), no_rows(), no_rows(), (), no_rows())
    lengths = list_lengths(lists)
    span_of_row = np.full(events.num_rows, -1, dtype=np.int64)
    span_of_row[spans.row] = np.arange(len(spans))
    span = np.repeat(span_of_row, lengths)
    times, words = pc.struct_field(values, "ts_ns"), pc.struct_field(values, "name")
    usable = (span >= 0) & pc.and_(times.is_valid(), words.is_valid()).to_numpy(zero_copy_only=False)
    encoded = pc.fill_null(words, "").dictionary_encode()
    ordered = pc.sort_indices(encoded.dictionary).to_numpy()
    name = inverse(ordered)[encoded.indices.to_numpy(zero_copy_only=False)][usable]
    ts_ns = pc.fill_null(times, 0).to_numpy(zero_copy_only=False)[usable]
    span = span[usable]
    names = tuple(encoded.dictionary.take(pa.array(ordered)).to_pylist())
    capped = no_rows()
    counts = np.bincount(spans.flow[span], minlength=spans.n_flows)
    if counts.max(initial=0) > max_marks_per_flow:
        capped = np.flatnonzero(counts > max_marks_per_flow)
        order = np.lexsort((span, name, ts_ns, spans.flow[span]))
        flow = spans.flow[span[order]]
        rank_in_flow = np.arange(len(order)) - (np.cumsum(counts) - counts)[flow]
        kept = order[rank_in_flow < max_marks_per_flow]
        span, name, ts_ns = span[kept], name[kept], ts_ns[kept]
    order = np.lexsort((ts_ns, name, span))
    return SpanPoints(span[order], name[order], ts_ns[order], names, capped)


@dataclass(frozen=True, slots=True)
class TreeRows:
    """Spans and synthetic spans, one row for each."""

    event: I8
    """[rows] row in the event batch; MISSING_EVENT or ROOT_EVENT for a synthetic span."""
    flow: I8
    """[rows] code of the row's flow."""
    parent: I8
    """[rows] row of the parent; the number of rows for a root."""
    asynchronous: B1
    start_ns: I8
    end_ns: I8
    n_marks: I8
    """[rows] number of marks (span events that become nodes) in the span."""


@dataclass(frozen=True, slots=True)
class _Places:
    """Indices of the nodes that are made of each row and each mark, among the nodes of the batch."""

    root: I8
    """Rows that are roots of their flow."""
    n_nodes: I8
    """[flows] number of nodes in the flow."""
    base: I8
    """[flows] index of the flow's first node."""
    at_start: I8
    """[rows] index of the node for the span's start."""
    at_end: I8
    """[rows] index of the node for the span's end."""
    at_mark: I8
    """[marks] index of the node for the mark."""
    mark_rank: I8
    """[marks] rank of the mark among the marks of its span."""


def lay_nodes(rows: TreeRows, tree: CanonicalTree, marks: SpanPoints, n_flows: int) -> tuple[I8, PlacedNodes]:
    """Build nodes and edges: `(codes of the flows that have nodes, their nodes and edges in canonical
    order)`.

    In `marks`, `span` is an index into `rows`. O(nodes + edges).
    """
    places = _places(rows, tree, marks, n_flows)
    at_start, at_end = places.at_start, places.at_end
    total = int(places.n_nodes.sum())
    start_4 = tree.start.astype(np.int32)
    parent = np.append(start_4, np.int32(-1))[rows.parent]
    event = np.empty(total, dtype=np.int64)
    event[at_start] = rows.event
    event[at_end] = rows.event
    side = np.full(total, END, dtype=np.uint8)
    side[at_start] = START
    ts_ns = np.empty(total, dtype=np.int64)
    ts_ns[at_start] = rows.start_ns
    ts_ns[at_end] = rows.end_ns
    mate = np.full(total, -1, dtype=np.int32)
    mate[at_start] = (tree.start + tree.size - 1).astype(np.int32)
    mate[at_end] = start_4
    parent_of_node = np.empty(total, dtype=np.int32)
    parent_of_node[at_start] = parent
    parent_of_node[at_end] = parent
    deferred = np.zeros(total, dtype=np.bool_)
    deferred[at_start] = tree.deferred
    deferred[at_end] = tree.deferred
    response = np.zeros(total, dtype=np.bool_)
    response[at_end[places.root]] = True
    point_code = np.full(total, -1, dtype=np.int32)
    event[places.at_mark] = rows.event[marks.span]
    side[places.at_mark] = POINT
    ts_ns[places.at_mark] = marks.ts_ns
    parent_of_node[places.at_mark] = start_4[marks.span]
    deferred[places.at_mark] = tree.deferred[marks.span]
    point_code[places.at_mark] = marks.name
    present = np.flatnonzero(places.n_nodes)
    first_node = np.append(places.base[present], total)
    src, dst, edge_at = _edges(rows, tree, marks, places, total)
    return present, PlacedNodes(
        first_node=first_node,
        first_edge=edge_at[first_node],
        event=event,
        side=side,
        point_code=point_code,
        ts_ns=ts_ns,
        mate=mate,
        parent=parent_of_node,
        deferred=deferred,
        response=response,
        src=src,
        dst=dst,
    )


def _places(rows: TreeRows, tree: CanonicalTree, marks: SpanPoints, n_flows: int) -> _Places:
    root = np.flatnonzero(rows.parent == len(rows.parent))
    n_nodes = np.zeros(n_flows, dtype=np.int64)
    n_nodes[rows.flow[root]] = tree.size[root]
    base = np.cumsum(n_nodes) - n_nodes
    at_start = base[rows.flow] + tree.start
    mark_rank = np.arange(len(marks.span)) - (np.cumsum(rows.n_marks) - rows.n_marks)[marks.span]
    at_mark = at_start[marks.span] + 1 + mark_rank
    return _Places(root, n_nodes, base, at_start, at_start + tree.size - 1, at_mark, mark_rank)


def _edges(
    rows: TreeRows, tree: CanonicalTree, marks: SpanPoints, places: _Places, total: int
) -> tuple[I4, I4, I8]:
    """Build edges: ([edges] source, [edges] destination, [nodes + 1] index of each node's first in-edge).

    Edges are sorted by (flow, destination, source). A start has an in-edge from the parent's start, a mark
    from the start of its span. An end has in-edges from the marks of its span, in order, and then from the
    ends of the synchronous children, in order; if there are none, from the start of its span.
    """
    n_inner = tree.n_sync + rows.n_marks
    in_degree = np.ones(total, dtype=np.int64)
    in_degree[places.at_start[places.root]] = 0
    in_degree[places.at_end] = np.maximum(n_inner, 1)
    edge_at = np.zeros(total + 1, dtype=np.int64)
    np.cumsum(in_degree, out=edge_at[1:])
    n_edges = int(edge_at[-1])
    src = np.empty(n_edges + 1, dtype=np.int32)  # edges that do not exist are written to the last place
    start = np.append(tree.start.astype(np.int32), np.int32(-1))
    into_start = edge_at[places.at_start]
    into_start[places.root] = n_edges
    src[into_start] = start[rows.parent]
    into_end = np.append(edge_at[places.at_end], n_edges)
    leaf = np.flatnonzero(n_inner == 0)
    src[into_end[leaf]] = start[leaf]
    into = into_end[rows.parent] + tree.sync_rank + np.append(rows.n_marks, 0)[rows.parent]
    into[rows.asynchronous] = n_edges
    src[into] = tree.start + tree.size - 1
    src[edge_at[places.at_mark]] = start[marks.span]
    src[into_end[marks.span] + places.mark_rank] = start[marks.span] + 1 + places.mark_rank
    position = np.arange(total, dtype=np.int64) - np.repeat(places.base, places.n_nodes)
    return src[:n_edges], np.repeat(position.astype(np.int32), in_degree), edge_at
