"""Nodes and edges of ordered span trees (A.6 S4), laid down by scatter: no sort, no Python per span."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stitch.canon.tree import CanonicalTree
from stitch.marks import Marks
from stitch.placed import END, POINT, START

I8 = npt.NDArray[np.int64]
I4 = npt.NDArray[np.int32]
U1 = npt.NDArray[np.uint8]
B1 = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class TreeRows:
    """Spans and synthetic spans, one row each."""

    event: I8
    """[rows] row in the event batch, or MISSING_EVENT / ROOT_EVENT."""
    flow: I8
    """[rows] flow code."""
    parent: I8
    """[rows] row of the parent; the number of rows for roots."""
    asynchronous: B1
    start_ns: I8
    end_ns: I8
    n_marks: I8 | None
    """[rows] number of marks; null where no span has any."""


@dataclass(frozen=True, slots=True)
class TreeNodes:
    """Columns of `PlacedFlows`, see there."""

    present: I8
    """Codes of the flows that have nodes."""
    first_node: I8
    first_edge: I8
    event: I8
    side: U1
    point_code: I4
    ts_ns: I8
    mate: I4
    parent: I4
    deferred: B1
    response: B1
    src: I4
    dst: I4


def lay_nodes(rows: TreeRows, tree: CanonicalTree, marks: Marks | None, n_flows: int) -> TreeNodes:
    """Nodes and edges of all flows, in canonical order. `marks.span` are rows. O(nodes + edges)."""
    n = len(rows.parent)
    root = np.flatnonzero(rows.parent == n)
    n_nodes = np.zeros(n_flows, dtype=np.int64)
    n_nodes[rows.flow[root]] = tree.size[root]
    base = np.cumsum(n_nodes) - n_nodes
    total = int(n_nodes.sum())
    end = tree.start + tree.size - 1
    offset = base[rows.flow]
    at_start, at_end = offset + tree.start, offset + end
    start_4, end_4 = tree.start.astype(np.int32), end.astype(np.int32)
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
    mate[at_start] = end_4
    mate[at_end] = start_4
    parent_of_node = np.empty(total, dtype=np.int32)
    parent_of_node[at_start] = parent
    parent_of_node[at_end] = parent
    deferred = np.zeros(total, dtype=np.bool_)
    if tree.deferred.any():
        deferred[at_start] = tree.deferred
        deferred[at_end] = tree.deferred
    response = np.zeros(total, dtype=np.bool_)
    response[at_end[root]] = True
    point_code = np.full(total, -1, dtype=np.int32)

    n_inner = tree.n_sync if rows.n_marks is None else tree.n_sync + rows.n_marks
    in_degree = np.ones(total, dtype=np.int64)
    in_degree[at_start[root]] = 0
    in_degree[at_end] = np.maximum(n_inner, 1)
    last_edge = np.cumsum(in_degree)
    n_edges = int(last_edge[-1]) if total else 0
    edge_at = last_edge - in_degree
    src = np.empty(n_edges + 1, dtype=np.int32)  # edges that do not exist are written to the last place
    into_start = edge_at[at_start]
    into_start[root] = n_edges
    src[into_start] = parent
    into_end = np.append(edge_at[at_end], n_edges)
    leaf = np.flatnonzero(n_inner == 0)
    src[into_end[leaf]] = start_4[leaf]
    into = into_end[rows.parent] + tree.sync_rank
    if rows.n_marks is not None:
        into += np.append(rows.n_marks, 0)[rows.parent]
    if tree.deferred.any():
        into[rows.asynchronous] = n_edges
    src[into] = end_4

    if marks is not None:
        n_marks = np.bincount(marks.span, minlength=n)
        rank = np.arange(len(marks.span)) - (np.cumsum(n_marks) - n_marks)[marks.span]
        position = tree.start[marks.span] + 1 + rank
        at_mark = offset[marks.span] + position
        event[at_mark] = rows.event[marks.span]
        side[at_mark] = POINT
        ts_ns[at_mark] = marks.ts_ns
        parent_of_node[at_mark] = tree.start[marks.span]
        deferred[at_mark] = tree.deferred[marks.span]
        point_code[at_mark] = marks.name
        src[edge_at[at_mark]] = tree.start[marks.span]
        src[into_end[marks.span] + rank] = position

    present = np.flatnonzero(n_nodes)
    first_node = np.append(base[present], total)
    local = np.arange(total, dtype=np.int64) - np.repeat(base[present], n_nodes[present])
    return TreeNodes(
        present=present,
        first_node=first_node,
        first_edge=np.append(edge_at, n_edges)[first_node],
        event=event,
        side=side,
        point_code=point_code,
        ts_ns=ts_ns,
        mate=mate,
        parent=parent_of_node,
        deferred=deferred,
        response=response,
        src=src[:n_edges],
        dst=np.repeat(local.astype(np.int32), in_degree),
    )
