"""Convert structures between nodes and edges, as used in memory, and nested spans, as stored in files.

The graph of a flow of spans follows from its tree (`stitch.spans`): a span consists of its start, its marks
(span events), the spans that it calls, and its end, and edges follow the nesting. So a file has each span
once, with its depth, in the order of the spans' starts; edges, mates and parents are rebuilt on reading, by
the function that built them originally. Graphs of records are stored with their edges. All steps process
whole tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.arrays import B1, I8
from schemas.lake import EDGE_TYPE, NODE_TYPE, STEP_TYPE, STORED_STRUCTURES_SCHEMA, STRUCTURES_SCHEMA
from stitch.columnar.runs import (
    group_stably,
    list_arrays,
    list_lengths,
    no_rows,
    offsets,
    ranges,
    rank_in_runs,
    run_starts,
    struct_arrays,
    whole,
)
from stitch.graph.order.tree import CanonicalTree
from stitch.graph.placed import END, START, PlacedNodes
from stitch.spans.nodes import SpanPoints, TreeRows, lay_nodes

_NAMES: Final = ("component", "point", "label", "kind")


def nested(structures: pa.Table) -> pa.Table:
    """Convert rows of STRUCTURES_SCHEMA to STORED_STRUCTURES_SCHEMA, in order. O(nodes + edges).

    A structure with sides must be the graph of a tree of spans, as `stitch.spans` builds it: then `unnested`
    restores it exactly.
    """
    nodes, in_edges = whole(structures["nodes"]), whole(structures["in_edges"])
    first, n_nodes = _bounds(nodes)
    flat = nodes.flatten()
    side, mate, parent = (flat.field(name).to_numpy() for name in ("side", "mate", "parent"))
    deferred = flat.field("deferred").to_numpy(zero_copy_only=False)
    of_spans = np.zeros(structures.num_rows, dtype=np.bool_)
    of_spans[np.repeat(np.arange(len(n_nodes)), n_nodes)[side == START]] = True

    n_edges = _bounds(in_edges)[1]
    src = in_edges.flatten().field("src").to_numpy()
    base = np.repeat(first[:-1], n_nodes)
    leads_on = np.zeros(len(side), dtype=np.bool_)
    leads_on[np.repeat(first[:-1], n_edges) + src] = True
    spans = np.flatnonzero(side == START)
    unawaited = deferred.copy()
    unawaited[spans] = ~leads_on[base[spans] + mate[spans]] & (parent[spans] >= 0)
    open_before = np.cumsum(side == START) - np.cumsum(side == END)
    depth = pa.array((open_before - 1).astype(np.int32), mask=side != START)

    kept = np.flatnonzero(side != END)
    taken = pa.array(kept)
    steps = {name: flat.field(name).take(taken) for name in _NAMES}
    steps["unawaited"] = pa.array(unawaited[kept])
    steps["depth"] = depth.take(taken)
    per_row = np.add.reduceat(side != END, first[:-1], dtype=np.int64) if len(n_nodes) else no_rows()
    written_out = pa.array(~of_spans)
    return pa.Table.from_arrays(
        [
            whole(structures["category"]),
            list_arrays(per_row, struct_arrays(STEP_TYPE, steps)),
            pc.if_else(written_out, in_edges, None),
            pc.if_else(written_out, whole(structures["responses"]), None),
        ],
        schema=STORED_STRUCTURES_SCHEMA,
    )


def unnested(stored: pa.Table, columns: Sequence[str] | None = None) -> pa.Table:
    """Convert rows as stored in files to STRUCTURES_SCHEMA, in order. columns: names of the columns to
    return; None: all.

    stored: the columns of STORED_STRUCTURES_SCHEMA. O(nodes + edges).
    """
    names = STRUCTURES_SCHEMA.names if columns is None else list(columns)
    arrays = _columns(stored)
    schema = pa.schema([STRUCTURES_SCHEMA.field(name) for name in names])
    return pa.Table.from_arrays([arrays[name].cast(schema.field(name).type) for name in names], schema=schema)


def _columns(stored: pa.Table) -> dict[str, pa.Array]:
    steps = whole(stored["nodes"])
    first_step, n_steps = _bounds(steps)
    flat = steps.flatten()
    depth = pc.fill_null(flat.field("depth"), -1).to_numpy().astype(np.int64)
    unawaited = flat.field("unawaited").to_numpy(zero_copy_only=False)
    row = np.repeat(np.arange(len(n_steps)), n_steps)
    of_spans = np.zeros(len(n_steps), dtype=np.bool_)
    of_spans[row[depth >= 0]] = True
    laid, laid_step = _laid(depth, unawaited, row, of_spans)

    n_nodes = n_steps.copy()
    n_nodes[of_spans] = np.diff(laid.first_node)
    first = offsets(n_nodes)
    tree = ranges(first[:-1][of_spans], n_nodes[of_spans])
    alone = ranges(first[:-1][~of_spans], n_nodes[~of_spans])
    step = np.empty(first[-1], dtype=np.int64)
    step[tree], step[alone] = laid_step, ranges(first_step[:-1][~of_spans], n_steps[~of_spans])
    columns = {name: flat.field(name).take(pa.array(step)) for name in _NAMES}
    for name, value, dtype in (("side", 0, np.uint8), ("mate", -1, np.int32), ("parent", -1, np.int32)):
        column = np.full(first[-1], value, dtype=dtype)
        column[tree] = getattr(laid, name)
        columns[name] = pa.array(column)
    deferred = unawaited[step]
    deferred[tree] = laid.deferred
    columns["deferred"] = pa.array(deferred)

    edges, n_edges = _merged(
        stored["in_edges"],
        of_spans,
        struct_arrays(EDGE_TYPE, {"src": pa.array(laid.src), "dst": pa.array(laid.dst)}),
        np.diff(laid.first_edge),
    )
    answers, n_answers = _merged(
        stored["responses"],
        of_spans,
        pa.array(n_nodes[of_spans] - 1, pa.int32()),
        np.ones(of_spans.sum(), np.int64),
    )
    head = pa.array(first[:-1])
    return {
        "category": whole(stored["category"]),
        "root": pc.binary_join_element_wise(
            *(columns[name].take(head) for name in ("component", "point")), "/"
        ),
        "n_nodes": pa.array(n_nodes),
        "nodes": list_arrays(n_nodes, struct_arrays(NODE_TYPE, columns)),
        "in_edges": list_arrays(n_edges, edges),
        "responses": list_arrays(n_answers, answers),
    }


def _laid(depth: I8, unawaited: B1, row: I8, of_spans: B1) -> tuple[PlacedNodes, I8]:
    """Rebuild the graphs of the rows made of spans: (their nodes and edges, [nodes] step from which the node
    was made).

    depth: [steps] depth of a span; -1 for marks and records. row: [steps] row of the table, ascending.
    """
    mine = np.flatnonzero(of_spans[row])
    span = mine[depth[mine] >= 0]
    flow = (np.cumsum(of_spans) - 1)[row[span]]
    level = depth[span]
    n = len(span)
    number = np.cumsum(depth >= 0) - 1
    marks = mine[depth[mine] < 0]
    owner = number[marks]  # a mark follows the start of its span
    n_marks = np.bincount(owner, minlength=n).astype(np.int64)
    in_order, first = group_stably(level, int(level.max(initial=-1)) + 1)
    by_level = [in_order[start:end] for start, end in pairwise(first.tolist())]
    parent = np.full(n, n, dtype=np.int64)
    for above, here in pairwise(by_level):
        parent[here] = above[np.searchsorted(above, here) - 1]
    asynchronous = unawaited[span]
    size = n_marks + 2
    deferred = asynchronous.copy()
    for here in reversed(by_level[1:]):
        np.add.at(size, parent[here], size[here])
    for here in by_level[1:]:
        deferred[here] |= deferred[parent[here]]
    # A span's start comes after all earlier steps and after the ends of earlier spans that are closed by
    # then.
    before = np.searchsorted(mine, span) + np.arange(n) - level
    starts = np.searchsorted(flow, np.arange(int(of_spans.sum())))
    start = before - before[starts][flow]
    tree = CanonicalTree(start, size, *_among_siblings(parent, asynchronous), deferred)
    no_time = np.zeros(n, dtype=np.int64)
    rows = TreeRows(span, flow, parent, asynchronous, no_time, no_time, n_marks)
    numbered = np.arange(len(marks))  # each mark its own name: they stand in order
    span_events = SpanPoints(owner, numbered, np.zeros(len(marks), np.int64), (), no_rows())
    _, laid = lay_nodes(rows, tree, span_events, len(starts))
    step = laid.event
    of_mark = laid.point_code >= 0
    step[of_mark] = marks[laid.point_code[of_mark]]
    return laid, step


def _among_siblings(parent: I8, asynchronous: B1) -> tuple[I8, I8]:
    """([spans] rank among the parent's synchronous children; [spans] number of synchronous children)."""
    n = len(parent)
    awaited = np.flatnonzero(~asynchronous & (parent < n))
    order = awaited[np.argsort(parent[awaited], kind="stable")]
    above = parent[order]
    rank = np.zeros(n, dtype=np.int64)
    rank[order] = rank_in_runs(run_starts(above))
    return rank, np.bincount(above, minlength=n + 1)[:n].astype(np.int64)


def _merged(written: pa.ChunkedArray, of_spans: B1, laid: pa.Array, n_laid: I8) -> tuple[pa.Array, I8]:
    """Merge a list column: (values as stored for rows of records, and as rebuilt for rows of spans; [rows]
    list lengths)."""
    lists = whole(written)
    lengths = list_lengths(lists)
    n_written = int(lengths.sum())
    lengths[of_spans] = n_laid
    first = offsets(lengths)
    place = np.empty(first[-1], dtype=np.int64)
    tree = ranges(first[:-1][of_spans], n_laid)
    alone = ranges(first[:-1][~of_spans], lengths[~of_spans])
    place[alone] = np.arange(n_written)
    place[tree] = np.arange(len(tree)) + n_written
    values = pa.concat_arrays([lists.flatten(), laid.cast(lists.type.value_type)])
    return values.take(pa.array(place)), lengths


def _bounds(lists: pa.ListArray) -> tuple[I8, I8]:
    """([rows + 1] offsets of the rows' values in `flatten()`; [rows] number of values)."""
    starts = lists.offsets.to_numpy().astype(np.int64)
    return starts - starts[0], np.diff(starts)
