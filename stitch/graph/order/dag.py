"""Order the nodes of labelled DAGs canonically, vectorised over a batch.

Steps: contract chains to segments, find longest paths, drop transitive edges, contract again, sort segments
by (level, labels), refine the colours of flows in which segments are still tied, order the remaining tied
(interchangeable) branches by time. Segments of a flow are ordered by (level of the first node, colour,
decisions on ties), and the nodes of a segment are consecutive; this order is topological. Two flows are
isomorphic as labelled DAGs iff their canonical edge lists and labels are equal (the converse up to 64-bit
hash collisions, and to graphs beyond the bounds of `stitch.graph.order.ties`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from schemas.arrays import B1, I4, I8, U8
from stitch.columnar.hashing import mix
from stitch.columnar.runs import group_stably, offsets, ranges
from stitch.graph.order.colour_refinement import SegmentGraphs, refine
from stitch.graph.order.segments import CyclicGraphError, Segments, contract, longest_paths
from stitch.graph.order.ties import plan_ties, settle_hard, settle_plain, sort_cells
from stitch.graph.order.transitive_reduction import redundant_edges


@dataclass(frozen=True, slots=True)
class Dags:
    """Labelled DAGs of a batch, concatenated. The edges are distinct, in any order, and form no cycle."""

    first_node: I8
    """[dags + 1] index of each DAG's first node; last, the number of nodes."""
    label: U8
    """[nodes] hash of the node's label."""
    src: I8
    """[edges] source node, as an index into the nodes of the whole batch."""
    dst: I8
    """[edges] destination node, as an index into the nodes of the whole batch."""

    @property
    def node_dag(self) -> I8:
        """[nodes] index of the DAG to which each node belongs."""
        return np.repeat(np.arange(len(self.first_node) - 1, dtype=np.int64), np.diff(self.first_node))


@dataclass(frozen=True, slots=True)
class CanonicalOrder:
    """Canonical order of the nodes of each member, and the edges of each DAG. A member is a copy of a DAG
    with different times."""

    order: I8
    """[member nodes] member by member: which node of the member (0: its first) is at each canonical
    position."""
    first_edge: I8
    """[dags + 1] index of each DAG's first edge; last, the number of edges."""
    src: I4
    """[edges] canonical position of the edge's source; edges are transitively reduced, sorted by (dag, dst,
    src)."""
    dst: I4
    """[edges] canonical position of the edge's destination, greater than that of the source."""


def canonical_order(
    dags: Dags,
    ts_ns: I8,
    *,
    member: I8 | None = None,
    tie: Callable[[I8], U8] | None = None,
) -> CanonicalOrder:
    """Order the nodes of every member (a copy of a DAG with different times) canonically.

    member: [members] index of the DAG whose labels and edges the member shares; None: one member per DAG, in
    order. Every DAG needs a member. ts_ns: [member nodes] times, ns; interchangeable branches are ordered by
    the times of their first nodes. tie: function from indices of member nodes to stable hashes, which order
    branches with equal times; None: by index.

    The structure is computed once per DAG, so pass repeated DAGs once with many members. O(n log n) array
    work for n nodes and edges, in as many rounds as there are distinct levels. Raises CyclicGraphError.
    """
    if member is None:
        member = np.arange(len(dags.first_node) - 1, dtype=np.int64)
    first = offsets(np.diff(dags.first_node)[member])
    segments, graphs, keep = _contract_reduced(dags)
    cells = sort_cells(graphs, graphs.level, colour := segments.hash_labels(dags.label))
    tied = cells.tied_flows(graphs)
    if tied.any():
        colour = _refine_some(graphs, colour, tied)
        cells = sort_cells(graphs, graphs.level, colour)
        tied = cells.tied_flows(graphs)
    local = segments.nodes - dags.first_node[:-1][dags.node_dag]
    template = local[ranges(segments.first[cells.order], segments.length[cells.order])]
    order = template[ranges(dags.first_node[member], np.diff(first))]
    if tied.any():
        plan = plan_ties(graphs, cells)
        if tie is None:
            tie = _by_number
        for hard in (False, True):
            flows = np.flatnonzero((tied & (plan.hard == hard))[member])
            if not len(flows):
                continue
            copies, origin = graphs.take(member[flows])
            copy_cells = sort_cells(copies, cells.cell[origin], np.zeros(len(origin), np.uint64))
            heads = local[segments.first[origin]] + first[flows][copies.flow]
            by_head = _of_heads(tie, heads)
            if hard:
                chosen = settle_hard(copies, copy_cells, ts_ns[heads], by_head)
            else:
                chosen = settle_plain(copies, copy_cells, plan.take(origin), ts_ns[heads], by_head)
            segment = origin[chosen]
            places = ranges(first[flows], np.diff(first)[flows])
            order[places] = local[ranges(segments.first[segment], segments.length[segment])]
    return _with_edges(dags, keep, member, first, order)


def _by_number(nodes: I8) -> U8:
    return nodes.astype(np.uint64)


def _of_heads(tie: Callable[[I8], U8], heads: I8) -> Callable[[I8], U8]:
    return lambda segments: tie(heads[segments])


def _contract_reduced(dags: Dags) -> tuple[Segments, SegmentGraphs, B1]:
    """Contract the DAGs after transitive reduction: (their segments, graphs of these segments, [edges] True
    if the reduction keeps the edge)."""
    n = len(dags.label)
    node_dag = dags.node_dag
    keep = np.ones(len(dags.src), dtype=np.bool_)
    segments = contract(n, dags.src, dags.dst)
    level, rounds = longest_paths(segments.length, segments.src, segments.dst)
    if (rounds < 0).any():
        dag = int(node_dag[segments.head[rounds < 0][0]])
        raise CyclicGraphError(f"DAG {dag} of the batch has a cycle")
    redundant = redundant_edges(node_dag[segments.head], rounds, segments.src, segments.dst)
    if redundant.any():
        # The reduction has the same longest paths; only its chains are longer.
        node_level = np.empty(n, dtype=np.int64)
        node_level[segments.nodes] = ranges(level, segments.length)
        keep[np.flatnonzero(~segments.inner)[redundant]] = False
        segments = contract(n, dags.src[keep], dags.dst[keep])
        level = node_level[segments.head]
    n_dags = len(dags.first_node) - 1
    flow = node_dag[segments.head]
    first = offsets(np.bincount(flow, minlength=n_dags))
    by_flow, first_edge = group_stably(flow[segments.src], n_dags)
    shift = first[:-1][flow[segments.src[by_flow]]]
    graphs = SegmentGraphs(
        first,
        level,
        segments.length,
        first_edge,
        segments.src[by_flow] - shift,
        segments.dst[by_flow] - shift,
    )
    return segments, graphs, keep


def _refine_some(graphs: SegmentGraphs, colour: U8, flows: B1) -> U8:
    """Refine the colours of the flows selected by `flows` [flows]: [segments] new colours, starting from a
    hash of colour and level; colours of the other flows are unchanged."""
    part, segments = graphs.take(np.flatnonzero(flows))
    seed = mix(colour[segments] ^ mix(part.level.astype(np.uint64)))
    refined = colour.copy()
    refined[segments] = refine(part, seed)
    return refined


def _with_edges(dags: Dags, keep: B1, member: I8, first: I8, order: I8) -> CanonicalOrder:
    """Build the result: `order` and the remaining edges of each DAG, in the canonical positions of its first
    member."""
    n_dags = len(dags.first_node) - 1
    shown = np.full(n_dags, -1, dtype=np.int64)
    shown[member[::-1]] = np.arange(len(member) - 1, -1, -1)
    if n_dags and shown.min() < 0:
        raise ValueError(f"DAG {int(shown.argmin())} has no member")
    node_dag = dags.node_dag
    base = dags.first_node[:-1]
    place = np.arange(len(node_dag), dtype=np.int64) - base[node_dag]
    position = np.empty(len(node_dag), dtype=np.int64)
    position[base[node_dag] + order[first[shown][node_dag] + place]] = place
    src, dst = dags.src[keep], dags.dst[keep]
    dag = node_dag[src]
    src, dst = position[src], position[dst]
    by = np.lexsort((src, dst, dag))
    return CanonicalOrder(
        order,
        offsets(np.bincount(dag, minlength=n_dags)),
        src[by].astype(np.int32),
        dst[by].astype(np.int32),
    )
