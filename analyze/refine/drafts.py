"""Draft the refined graphs of all structures, of spans and of activity records.

The graph of a structure of spans is built from its tree and the decided order of siblings. The order of
activity records is explicit: their graph is the stored one without deferred work and, at level L3, without
work inside components. Requests of one structure may get different graphs if two calls of one operation that
differ in what they call run in either order, or if siblings are too rare for a consensus.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from analyze.refine.consensus import disordered
from analyze.refine.settings import RefineSettings
from analyze.refine.sibling_order import Families, SiblingRelation, decided_alone, deciding_alone
from analyze.refine.span_trees import SpanTrees
from analyze.refine.stored import Columns, StoredCategory, equal_rows, own_columns
from analyze.refine.structure_nodes import StructureNodes
from schemas.arrays import B1, I1, I8, U8
from stitch.columnar.hashing import mix
from stitch.columnar.runs import inverse, offsets, ranges, run_starts
from stitch.graph.placed import POINT


class Edges(NamedTuple):
    """Edges of draft graphs, one array each."""

    draft: I8
    """int64[edges]: number of the draft."""
    src: I8
    """int64[edges]: index in `StructureNodes` of the node at which the edge begins."""
    dst: I8
    """int64[edges]: index of the node at which the edge ends; an edge may be implied by a path of others."""


def refined_nodes(trees: SpanTrees, settings: RefineSettings) -> StructureNodes:
    """Nodes of the stored structures as they are in the refined graphs. trees: pruned, of the structures of
    spans.

    Of activity records deferred nodes are dropped (unless `keep_deferred`), and at level L3 nodes without an
    edge to another component. Roots and responses always stay."""
    nodes = trees.nodes
    always = nodes.response.copy()
    always[nodes.first[:-1]] = True
    kept = always | (~nodes.deferred | settings.keep_deferred)
    if settings.level == "L3":
        between = nodes.component[nodes.src] != nodes.component[nodes.dst]
        always[nodes.src[between]] = always[nodes.dst[between]] = True
        kept &= always
    kept &= ~nodes.of_spans[nodes.structure]
    side, deferred, parent = nodes.side.copy(), nodes.deferred.copy(), nodes.parent.copy()
    side[trees.node[~trees.is_span]] = POINT
    parent_end = np.full(len(side), -1)
    held = trees.awaited & (trees.parent >= 0)
    for at in (trees.node, trees.end_node):
        kept[at], deferred[at] = True, trees.deferred
        parent[at] = np.where(trees.parent < 0, -1, trees.node[trees.parent])
        # Nothing holds the end of work that nobody waits for.
        parent_end[at] = np.where(held, trees.end_node[trees.parent], -1)
    return replace(nodes, side=side, deferred=deferred, parent=parent, parent_end=parent_end, kept=kept)


class Drafts(NamedTuple):
    """Requests that get the same refined graph, and the edges of these graphs: input of `assemble`, which
    merges drafts with equal graphs."""

    categories: list[StoredCategory]
    """[drafts]: stored nodes of the draft's requests; interchangeable branches of spans are in order of
    start."""
    structure: I8
    """int64[drafts]: number of the draft's structure, ascending."""
    edges: Edges


def draft_graphs(
    categories: Sequence[StoredCategory],
    kin: Families,
    relation: I1,
    nodes: StructureNodes,
    settings: RefineSettings,
) -> Drafts:
    """Draft the graphs of all structures; every request is in exactly one draft.

    kin: parents with their awaited children, of the pruned trees. relation: int8[pairs of `kin`], decided
    `SiblingRelation`. nodes: as returned by `refined_nodes`.
    """
    shapes = _shapes(kin.trees)
    unsorted = _unsorted(kin.trees, shapes, categories)
    categories = [
        one.moved(_sorted_twins(one.node_ns, kin.trees, number, shapes)) if unsorted[number] else one
        for number, one in enumerate(categories)
    ]
    places = deciding_alone(kin, relation, shapes)
    decided = decided_alone(categories, kin, relation, places, settings)
    drafts: list[StoredCategory] = []
    of_draft: list[int] = []
    changed: list[tuple[int, int, int]] = []
    for number, category in enumerate(categories):
        if number not in decided:
            drafts.append(category)
            of_draft.append(number)
            continue
        first, variant = equal_rows(decided[number])
        for at, row in enumerate(first.tolist()):
            choices = zip(places[number].tolist(), decided[number][:, row].tolist(), strict=True)
            changed += ((len(drafts), place, choice) for place, choice in choices)
            drafts.append(category if len(first) == 1 else category.of_rows(np.flatnonzero(variant == at)))
            of_draft.append(number)
    structure = np.array(of_draft, dtype=np.int64)
    of_spans = _span_edges(kin, relation, drafts, structure, changed)
    edges = map(np.concatenate, zip(of_spans, _record_edges(nodes, structure), strict=True))
    return Drafts(drafts, structure, Edges._make(edges))


def _shapes(trees: SpanTrees) -> U8:
    """uint64[units]: hash of the subtree; equal for subtrees with the same operations, hosts in labels and
    children."""
    own = np.stack((trees.operation, trees.nodes.host[trees.node], trees.awaited, trees.is_span))
    shapes: U8 = np.zeros(own.shape[1], dtype=np.uint64)
    for column in own:
        shapes = mix(shapes + column.astype(np.uint64))
    below = np.zeros(len(shapes), dtype=np.uint64)
    for level in reversed(trees.levels):
        shapes[level] = mix(shapes[level] + below[level])
        if trees.parent[level[0]] >= 0:
            # An odd factor: the shape of a child is no sum of shapes.
            np.add.at(below, trees.parent[level], mix(shapes[level]))
    return shapes


def _unsorted(trees: SpanTrees, shapes: U8, categories: Sequence[StoredCategory]) -> B1:
    """bool[structures]: True if in any request siblings with equal shapes start in another order than their
    columns."""
    order = np.lexsort((shapes, trees.parent))
    twins = ~run_starts(trees.parent[order], shapes[order])
    earlier, later = order[np.flatnonzero(twins) - 1], order[twins]
    by_structure = np.argsort(trees.structure[later], kind="stable")
    earlier, later = earlier[by_structure], later[by_structure]
    wrong = disordered(categories, trees.structure[later], trees.start[earlier], trees.start[later])
    return np.bincount(trees.structure[later[wrong]], minlength=len(categories)) > 0


def _sorted_twins(times: I8, trees: SpanTrees, structure: int, shapes: U8) -> Columns:
    """[columns, requests]: original column of each time once siblings with equal shapes, with their subtrees,
    are sorted by start in every request.

    times: int64[columns, requests] of the structure, ns. Deepest siblings are sorted first, so that a subtree
    is sorted before it is moved.
    """
    units = trees.units(structure)
    first = units.start
    parent, shape = (trees.parent[units] - first).tolist(), shapes[units].tolist()
    start, end = trees.start[units].tolist(), trees.end[units].tolist()
    children: list[list[int]] = [[] for _ in parent]
    for unit, above in enumerate(parent[1:], start=1):
        children[above].append(unit)

    def columns(top: int) -> list[int]:
        """Stored columns of the subtree below unit `top`, in the same order for all subtrees of a shape."""
        found: list[int] = []
        stack = [top]
        while stack:
            unit = stack.pop()
            found += dict.fromkeys((start[unit], end[unit]))  # one column of a point
            stack += sorted(children[unit], key=lambda child: (shape[child], child))
        return found

    times, moved = times.copy(), own_columns(*times.shape)
    for unit in range(len(parent) - 1, -1, -1):
        by_shape: dict[int, list[int]] = {}
        for child in children[unit]:
            by_shape.setdefault(shape[child], []).append(child)
        for twins in by_shape.values():
            starts = times[[start[twin] for twin in twins]]
            if (starts[1:] >= starts[:-1]).all():
                continue
            order = np.argsort(starts, axis=0, kind="stable")
            for rows in zip(*map(columns, twins), strict=True):
                for cells in (times, moved):
                    cells[list(rows)] = np.take_along_axis(cells[list(rows)], order, axis=0)
    return moved


def _span_edges(
    kin: Families,
    relation: I1,
    drafts: Sequence[StoredCategory],
    structure: I8,
    changed: Sequence[tuple[int, int, int]],
) -> Edges:
    """Edges of the drafts of structures of spans.

    structure: int64[drafts]. relation: int8[pairs of `kin`]. changed: decisions of a draft's requests, as
    (draft, place, decision) of `decided_alone`.
    """
    trees = kin.trees.taken(structure)
    n_units = len(trees.parent)
    # Siblings are ranked by their mean start.
    mean_ns = [
        drafts[number].node_ns.sum(axis=1)[trees.start[trees.units(number)]] / drafts[number].n_requests
        for number in np.flatnonzero(trees.nodes.of_spans[structure]).tolist()
    ]
    by_rank = np.lexsort((np.arange(n_units), np.concatenate([np.zeros(0), *mean_ns]), trees.parent))
    rank = inverse(by_rank)
    earlier, later = _sequences(kin, relation, structure, trees, changed, rank)
    preceded, followed = np.zeros((2, n_units), dtype=np.bool_)
    preceded[later], followed[earlier] = True, True
    earlier, later = (by_rank[side] for side in _shortened(rank[earlier], rank[later], n_units))
    child = np.flatnonzero(trees.parent >= 0)
    awaited = child[trees.awaited[child]]
    entered, waited = child[~preceded[child]], awaited[~followed[awaited]]
    alone = trees.is_span
    alone[trees.parent[awaited]] = False
    start, end, above = trees.node, trees.end_node, trees.parent
    return Edges(
        trees.structure[np.concatenate((earlier, entered, waited, np.flatnonzero(alone)))],
        np.concatenate((end[earlier], start[above[entered]], end[waited], start[alone])),
        np.concatenate((start[later], start[entered], end[above[waited]], end[alone])),
    )


def _sequences(
    kin: Families,
    relation: I1,
    structure: I8,
    trees: SpanTrees,
    changed: Sequence[tuple[int, int, int]],
    rank: I8,
) -> tuple[I8, I8]:
    """(int64[n] unit that runs first, int64[n] unit that runs second) of each sequential pair of siblings.

    A pair whose mean starts contradict its relation is left out (parallel), so that the result follows one
    total order and has no cycle. trees: of the drafts. rank: int64[units], rank among siblings by mean start;
    other arguments as of `_span_edges`.
    """

    def copies(structures: I8) -> tuple[I8, I8, I8]:
        """(int64[copies] original row or pair, int64[copies] draft, int64[drafts] new - original number)."""
        first = structures.searchsorted(np.arange(kin.trees.n_structures + 1))
        begins, n = first[structure], np.diff(first)[structure]
        return ranges(begins, n), np.repeat(np.arange(len(n)), n), np.cumsum(n) - n - begins

    row, draft, row_shift = copies(kin.structure)
    pair, draft_of_pair, pair_shift = copies(kin.structure[kin.first])
    unit = kin.unit[row] + (trees.first[:-1] - kin.trees.first[structure])[draft]
    relation = relation[pair]
    for number, place, decided in changed:
        if place < len(kin.unit):
            unit[place + row_shift[number]] = decided + trees.first[number]
        else:
            relation[place - len(kin.unit) + pair_shift[number]] = decided
    first, second = (unit[side[pair] + row_shift[draft_of_pair]] for side in (kin.first, kin.second))
    swapped = relation == SiblingRelation.SECOND_FIRST
    earlier, later = np.where(swapped, second, first), np.where(swapped, first, second)
    goes = (relation != SiblingRelation.PARALLEL) & (rank[earlier] < rank[later])
    return earlier[goes], later[goes]


def _shortened(earlier: I8, later: I8, n_units: int) -> tuple[I8, I8]:
    """Leave out pairs (a, c) that are implied by (a, b) and (b, c), where b is the first unit after a.

    earlier, later: int64[n] ranks of the pairs' units. Other implied pairs remain; but for siblings that all
    run one after the other only the n - 1 pairs of neighbours remain.
    """
    reach, following = np.zeros(n_units, dtype=np.int64), np.full(n_units, n_units)
    np.maximum.at(reach, earlier, later - earlier)
    np.minimum.at(following, earlier, later)
    # A cell for each distance up to the unit's farthest pair.
    cell = offsets(reach + 1)
    joined = np.zeros(int(cell[-1]), dtype=np.bool_)
    joined[cell[earlier] + later - earlier] = True
    between = following[earlier]
    apart = later - between
    kept = (apart > reach[between]) | ~joined[cell[between] + np.minimum(apart, reach[between])]
    return earlier[kept], later[kept]


def _record_edges(nodes: StructureNodes, structure: I8) -> Edges:
    """Edges of the drafts of structures of activity records; a path through dropped nodes becomes one edge.

    structure: int64[drafts], in which each structure of records occurs once."""
    kept = nodes.kept
    draft = np.zeros(nodes.n_structures, dtype=np.int64)
    draft[structure] = np.arange(len(structure))
    of_edge = nodes.structure[nodes.src]
    shortened = np.bincount(nodes.structure, ~kept, nodes.n_structures) > 0
    whole = np.flatnonzero(~(nodes.of_spans | shortened)[of_edge])
    src, dst = [nodes.src[whole]], [nodes.dst[whole]]
    for number in np.flatnonzero(~nodes.of_spans & shortened).tolist():
        mine = slice(*nodes.first_edge[number : number + 2].tolist())
        # The kept nodes nearest before each node, looking through the dropped ones.
        before: dict[int, set[int]] = {}
        for one, other in zip(nodes.src[mine].tolist(), nodes.dst[mine].tolist(), strict=True):
            before.setdefault(other, set()).update({one} if kept[one] else before.get(one, ()))
        found = [(one, other) for other, ones in before.items() if kept[other] for one in ones]
        edges = np.array(found, dtype=np.int64).reshape(-1, 2)
        src.append(edges[:, 0])
        dst.append(edges[:, 1])
    begins = np.concatenate(src)
    return Edges(draft[nodes.structure[begins]], begins, np.concatenate(dst))
