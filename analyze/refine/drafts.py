"""Draft the refined graphs of all structures, of spans and of activity records.

The graph of a structure of spans is built from its tree and the decided order of siblings. The order of
activity records is explicit: their graph is the stored one without deferred work and, at level L3, without
work inside components. Requests of one structure may get different graphs if two calls of one operation that
differ in what they call run in either order, if siblings are too rare for a consensus, or if labels include
hosts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analyze.cache_blocks import MANY_CELLS, uneven_blocks
from analyze.refine.consensus import disordered
from analyze.refine.graphs import (
    Draft,
    DraftGraphs,
    LeftOut,
    NodeColumns,
    NodeLinks,
    equal_rows,
    own_columns,
)
from analyze.refine.hosts import HostLabels, split_by_hosts
from analyze.refine.settings import RefineSettings
from analyze.refine.sibling_order import (
    Families,
    SiblingRelation,
    decided_alone,
    deciding_alone,
)
from analyze.refine.span_trees import SpanTrees
from analyze.refine.stored import Columns, StoredCategory
from analyze.refine.structure_nodes import StructureNodes
from schemas.arrays import B1, F8, I1, I8, U8
from stitch.columnar.hashing import mix
from stitch.columnar.runs import offsets, ranges, run_starts
from stitch.graph.placed import END, POINT, START


@dataclass(frozen=True, slots=True)
class _Parts:
    """Parts of structures: a part is all requests of a structure with the same hosts in its nodes' labels."""

    structure: I8
    """int64[parts]: number of the part's structure."""
    rows: tuple[I8 | None, ...]
    """[parts]: rows of the stored category that are in the part, ascending; None: all rows."""
    words: I8
    """int64[stored nodes of all parts]: index into `HostLabels.words` of the host in the node's label."""
    first: I8
    """int64[parts]: index in `words` of the part's first node."""

    @staticmethod
    def of(
        categories: Sequence[StoredCategory], nodes: StructureNodes, structures: I8, labels: HostLabels
    ) -> _Parts:
        """Split each of `structures` (int64[n], numbers in `categories`) by the hosts in its nodes' labels.

        O(nodes · requests) of components whose labels include hosts."""
        found = [
            (number, *part)
            for number in structures.tolist()
            for part in split_by_hosts(categories[number], labels)
        ]
        structure = np.array([number for number, _, _ in found], dtype=np.int64)
        n_nodes = np.diff(nodes.first)[structure]
        words = np.concatenate([np.zeros(0, np.int64), *(words for _, _, words in found)])
        return _Parts(structure, tuple(rows for _, rows, _ in found), words, np.cumsum(n_nodes) - n_nodes)

    def word(self, part: I8, column: I8) -> I8:
        """int64[n]: index into `HostLabels.words` for stored node `column[i]` of part `part[i]`."""
        words: I8 = self.words[self.first[part] + column]
        return words


def span_drafts(
    categories: Sequence[StoredCategory],
    kin: Families,
    relation: I1,
    left_out: Mapping[int, tuple[LeftOut, ...]],
    labels: HostLabels,
    settings: RefineSettings,
) -> tuple[list[Draft], DraftGraphs]:
    """(drafts of all structures of spans, their graphs); every request is in exactly one draft.

    kin: parents with their awaited children, of the pruned trees. relation: int8[pairs of `kin`], decided
    `SiblingRelation`. left_out: structure -> deferred children that were removed from its tree.
    """
    structures = np.flatnonzero(np.diff(kin.trees.first))
    parts = _Parts.of(categories, kin.trees.nodes, structures, labels)
    trees, _ = kin.trees.taken(parts.structure)
    mine, _, pair = kin.taken(parts.structure, trees)
    shapes = _shapes(trees, parts.word(trees.structure, trees.start))
    unsorted = _unsorted(trees, shapes, parts.structure, categories)
    of_pair = relation[pair]
    whole: list[Draft] = []
    for part, (number, rows) in enumerate(zip(parts.structure.tolist(), parts.rows, strict=True)):
        draft = Draft.of(categories[number], number, rows, left_out.get(number, ()))
        if unsorted[part]:
            units = slice(*trees.first[part : part + 2].tolist())
            draft = draft.moved(_sorted_twins(draft.category.node_ns, trees, units, shapes))
        whole.append(draft)
    decisions = _decisions([draft.category for draft in whole], mine, of_pair, shapes, settings)
    drafts: list[Draft] = []
    part_of: list[int] = []
    changed: list[tuple[int, int, int]] = []
    for part, draft in enumerate(whole):
        if part not in decisions:
            drafts.append(draft)
            part_of.append(part)
            continue
        places, decided = decisions[part]
        first, variant = equal_rows(decided)
        for at, row in enumerate(first.tolist()):
            of_row = zip(places.tolist(), decided[:, row].tolist(), strict=True)
            changed += ((len(drafts), place, choice) for place, choice in of_row)
            drafts.append(draft if len(first) == 1 else draft.of_rows(np.flatnonzero(variant == at)))
            part_of.append(part)
    of = np.array(part_of, dtype=np.int64)
    return drafts, _span_graphs(mine, of_pair, drafts, parts, of, changed)


def _decisions(
    categories: Sequence[StoredCategory], kin: Families, relation: I1, shapes: U8, settings: RefineSettings
) -> dict[int, tuple[I8, I8]]:
    """Structure -> (places at which each request decides, [places, requests] decisions)."""
    places = deciding_alone(kin, relation, shapes)
    if not places:
        return {}
    structures = np.array([*places])
    alone, _, pairs = kin.taken(structures, kin.trees.taken(structures)[0])
    chosen, asked = [categories[number] for number in places], [*places.values()]
    decided = decided_alone(chosen, alone, relation[pairs], asked, settings)
    return dict(zip(places, zip(asked, decided, strict=True), strict=True))


def _shapes(trees: SpanTrees, words: I8) -> U8:
    """uint64[units]: hash of the subtree; equal for subtrees with the same operations, host labels and
    children. words: int64[units], index into `HostLabels.words`."""
    own = np.stack((trees.operation, words, trees.awaited, trees.is_span))
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


def _unsorted(trees: SpanTrees, shapes: U8, structures: I8, categories: Sequence[StoredCategory]) -> B1:
    """bool[parts]: True if in any request siblings with equal shapes start in another order than their
    columns.

    structures: int64[parts], structure of each part; all requests of the structure are examined, not only
    those of the part.
    """
    order = np.lexsort((shapes, trees.parent))
    twins = ~run_starts(trees.parent[order], shapes[order])
    earlier, later = order[np.flatnonzero(twins) - 1], order[twins]
    by_structure = np.argsort(structures[trees.structure[later]], kind="stable")
    earlier, later = earlier[by_structure], later[by_structure]
    part = trees.structure[later]
    wrong = disordered(categories, structures[part], trees.start[earlier], trees.start[later])
    found = np.zeros(len(structures), dtype=np.bool_)
    found[part[wrong]] = True
    return found


def _sorted_twins(times: I8, trees: SpanTrees, units: slice, shapes: U8) -> Columns:
    """[columns, requests]: original column of each time once siblings with equal shapes, with their subtrees,
    are sorted by start in every request.

    times: int64[columns, requests], ns. units: range of the structure's units. Deepest siblings are sorted
    first, so that a subtree is sorted before it is moved.
    """
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


def _mean_ns(drafts: Sequence[Draft]) -> tuple[F8, I8]:
    """(float64[stored nodes of all drafts] mean time over the draft's requests, ns; int64[drafts] index of
    each draft's first node)."""
    sums = []
    cells = np.array([draft.category.node_ns.size for draft in drafts], dtype=np.int64)
    for part in uneven_blocks(cells, MANY_CELLS):
        matrices = [draft.category.node_ns for draft in drafts[part]]
        if len(matrices) == 1:
            sums.append(matrices[0].sum(axis=1))
            continue
        size = np.repeat([one.shape[1] for one in matrices], [len(one) for one in matrices])
        flat = np.concatenate([one.ravel() for one in matrices])
        sums.append(np.add.reduceat(flat, np.cumsum(size) - size))
    n_nodes = np.array([len(draft.category.node_ns) for draft in drafts], dtype=np.int64)
    n = np.repeat([draft.category.n_requests for draft in drafts], n_nodes)
    return np.concatenate([np.zeros(0, np.int64), *sums]) / n, np.cumsum(n_nodes) - n_nodes


def _span_graphs(
    kin: Families,
    relation: I1,
    drafts: Sequence[Draft],
    parts: _Parts,
    part_of: I8,
    changed: Sequence[tuple[int, int, int]],
) -> DraftGraphs:
    """Build the graphs of all drafts of structures of spans.

    kin: families of all parts. relation: int8[pairs of `kin`]. part_of: int64[drafts], part of each draft.
    changed: decisions of a draft's requests, as (draft, place, decision) of `decided_alone`.
    """
    trees, _ = kin.trees.taken(part_of)
    mine, _, pair_of = kin.taken(part_of, trees)
    relation, unit = relation[pair_of].copy(), mine.unit.copy()
    number = np.arange(len(drafts) + 1)
    first_row, first_pair = (
        np.searchsorted(of, number) for of in (mine.structure, mine.structure[mine.first])
    )
    for draft, place, decided in changed:
        row = first_row[draft] + place
        if row < first_row[draft + 1]:
            unit[row] = decided + trees.first[draft]
        else:
            relation[first_pair[draft] + row - first_row[draft + 1]] = decided
    mean, first_node = _mean_ns(drafts)
    mean_ns = mean[first_node[trees.structure] + trees.start]
    n_units = len(trees.parent)
    rank = np.empty(n_units, dtype=np.int64)
    by_rank = np.lexsort((np.arange(n_units), mean_ns, trees.parent))
    rank[by_rank] = np.arange(n_units)
    enter, leave, n_nodes = _walk(trees, by_rank)
    earlier, later = _sequences(mine, unit, relation, rank)
    preceded, followed = np.zeros((2, n_units), dtype=np.bool_)
    preceded[later], followed[earlier] = True, True
    earlier, later = _shortened(mine, unit, earlier, later, rank)
    child = np.flatnonzero(trees.parent >= 0)
    entered, waited = child[~preceded[child]], child[trees.awaited[child] & ~followed[child]]
    is_span = trees.is_span
    alone = is_span.copy()
    alone[trees.parent[child[trees.awaited[child]]]] = False
    above = trees.parent
    src = np.concatenate((leave[earlier], enter[above[entered]], leave[waited], enter[alone]))
    dst = np.concatenate((enter[later], enter[entered], leave[above[waited]], leave[alone]))
    of_unit = np.concatenate((earlier, entered, waited, np.flatnonzero(alone)))
    by_draft = np.argsort(trees.structure[of_unit], kind="stable")
    n_edges = np.bincount(trees.structure[of_unit], minlength=len(drafts))
    # Both sides of a span, and points.
    both = np.concatenate((enter, leave[is_span]))
    units = np.concatenate((np.arange(n_units), np.flatnonzero(is_span)))
    order = np.empty(len(both), dtype=np.int64)
    order[both] = np.arange(len(both))
    units, is_end = units[order], (np.arange(len(both)) >= n_units)[order]
    span = is_span[units]
    column = np.where(is_end, trees.end[units], trees.start[units])
    node = trees.nodes.first[parts.structure[part_of]][trees.structure[units]] + column
    has_parent = above[units] >= 0
    columns = NodeColumns(
        name=trees.nodes.name[node],
        word=parts.word(part_of[trees.structure[units]], column),
        side=np.where(span, np.where(is_end, END, START), POINT),
        kind=trees.nodes.kind[node],
        column=column,
        deferred=trees.deferred[units],
        response=is_end & ~has_parent,
    )
    links = NodeLinks(
        mate=np.where(span, np.where(is_end, enter[units], leave[units]), -1),
        below=np.where(has_parent, enter[above[units]], -1),
        # Nothing holds the end of work that nobody waits for.
        above=np.where(has_parent & trees.awaited[units], leave[above[units]], -1),
    )
    return DraftGraphs(offsets(n_nodes), columns, links, offsets(n_edges), src[by_draft], dst[by_draft])


def _walk(trees: SpanTrees, by_rank: I8) -> tuple[I8, I8, I8]:
    """Number the nodes (starts and ends of units) depth first, siblings by rank.

    by_rank: int64[units], units sorted by parent, then by rank. Returns (int64[units] node of the start,
    int64[units] node of the end, the same for a point; int64[structures] number of nodes)."""
    size = 1 + trees.is_span.astype(np.int64)
    for level in reversed(trees.levels[1:]):
        np.add.at(size, trees.parent[level], size[level])
    ordered = size[by_rank]
    before = np.cumsum(ordered) - ordered
    # Nodes of earlier siblings; before a root come those of all structures before it.
    first = np.flatnonzero(run_starts(trees.parent[by_rank]))
    base = np.repeat(before[first], np.diff(np.append(first, len(by_rank))))
    offset = np.empty(len(size), dtype=np.int64)
    offset[by_rank] = before - base
    roots = trees.first[:-1]
    enter = offset
    enter[roots] = np.cumsum(size[roots]) - size[roots]
    for level in trees.levels[1:]:
        enter[level] += enter[trees.parent[level]] + 1
    return enter, np.where(trees.is_span, enter + size - 1, enter), size[roots]


def _sequences(kin: Families, unit: I8, relation: I1, rank: I8) -> tuple[I8, I8]:
    """(int64[n] unit that runs first, int64[n] unit that runs second) of each sequential pair of siblings.

    A pair whose mean starts contradict its relation is left out (parallel), so that the result follows one
    total order and has no cycle. unit: int64[rows]; relation: int8[pairs]; rank: int64[units], rank among
    siblings by mean start.
    """
    first, second = unit[kin.first], unit[kin.second]
    swapped = relation == SiblingRelation.SECOND_FIRST
    earlier, later = np.where(swapped, second, first), np.where(swapped, first, second)
    goes = (relation != SiblingRelation.PARALLEL) & (rank[earlier] < rank[later])
    return earlier[goes], later[goes]


def _shortened(kin: Families, unit: I8, earlier: I8, later: I8, rank: I8) -> tuple[I8, I8]:
    """Leave out pairs (a, c) that are implied by (a, b) and (b, c), where b is the first unit after a.

    earlier, later: int64[n] units of the pairs. Other implied pairs remain; but for siblings that all run one
    after the other only the n - 1 pairs of neighbours remain.
    """
    # Rows of the siblings by rank, a square of cells a family.
    size, first_row, family = kin.size, kin.first_row, kin.family
    first_cell = offsets(size * size)
    by_rank = np.lexsort((rank[unit], family))
    place, of = np.empty((2, len(rank)), dtype=np.int64)
    place[unit[by_rank]] = np.arange(len(unit)) - first_row[family]
    of[unit] = family
    here, a, c = of[earlier], place[earlier], place[later]
    joined = np.zeros(int(first_cell[-1]), dtype=np.bool_)
    joined[first_cell[here] + a * size[here] + c] = True
    following = np.full(len(unit), np.iinfo(np.int64).max)
    np.minimum.at(following, first_row[here] + a, c)
    b = following[first_row[here] + a]
    kept = (b == c) | ~joined[first_cell[here] + b * size[here] + c]
    return earlier[kept], later[kept]


def record_drafts(
    categories: Sequence[StoredCategory],
    nodes: StructureNodes,
    structures: I8,
    labels: HostLabels,
    settings: RefineSettings,
) -> tuple[list[Draft], DraftGraphs]:
    """(drafts of structures of activity records, their graphs); one draft per structure and set of host
    labels. O(nodes + edges).

    structures: int64[n], numbers of the structures of activity records.
    """
    kept = _kept(nodes, settings)
    shortened = np.bincount(nodes.structure, ~kept, nodes.n_structures) > 0
    edges = [_edges(nodes, kept, number, shortened=bool(shortened[number])) for number in structures.tolist()]
    parts = _Parts.of(categories, nodes, structures, labels)
    of = np.searchsorted(structures, parts.structure)  # index into `edges`
    place = np.cumsum(kept) - 1
    first_kept = np.append(0, np.cumsum(kept))[nodes.first]
    node = np.flatnonzero(kept)
    n_nodes = np.diff(first_kept)[parts.structure]
    node = node[ranges(first_kept[parts.structure], n_nodes)]
    part = np.repeat(np.arange(len(n_nodes)), n_nodes)
    first = offsets(n_nodes)
    shift = first[:-1] - first_kept[parts.structure]
    column = node - nodes.first[parts.structure][part]
    mate = nodes.mate[node]
    columns = NodeColumns(
        name=nodes.name[node],
        word=parts.word(part, column),
        side=nodes.side[node],
        kind=nodes.kind[node],
        column=column,
        deferred=nodes.deferred[node],
        response=nodes.response[node],
    )
    none = np.full(len(node), -1)
    links = NodeLinks(np.where((mate < 0) | ~kept[mate], -1, place[mate] + shift[part]), none, none)
    n_edges = np.array([len(edges[at]) for at in of.tolist()], dtype=np.int64)
    every = np.concatenate([np.zeros((0, 2), np.int64), *(edges[at] for at in of.tolist())])
    ends = place[every] + np.repeat(shift, n_edges)[:, None]
    label = (columns.name * len(labels.words) + columns.word) * (END + 1) + columns.side
    drafts = [
        Draft.of(
            categories[number],
            number,
            rows,
            nested=False,
            # Branches that differed in what was dropped may be interchangeable now.
            twins_by_row=bool(shortened[number])
            and len(np.unique(label[first[at] : first[at + 1]])) < n_nodes[at],
        )
        for at, (number, rows) in enumerate(zip(parts.structure.tolist(), parts.rows, strict=True))
    ]
    return drafts, DraftGraphs(first, columns, links, offsets(n_edges), ends[:, 0], ends[:, 1])


def _kept(nodes: StructureNodes, settings: RefineSettings) -> B1:
    """bool[nodes]: True for nodes that stay in the graph.

    Deferred nodes are dropped (unless `keep_deferred`), and at level L3 nodes without an edge to another
    component. Roots and responses always stay."""
    always = nodes.response.copy()
    always[nodes.first[:-1]] = True
    kept = always | (~nodes.deferred | settings.keep_deferred)
    if settings.level == "L3":
        boundary = always.copy()
        between = nodes.component[nodes.src] != nodes.component[nodes.dst]
        boundary[nodes.src[between]] = boundary[nodes.dst[between]] = True
        kept &= boundary
    return kept


def _edges(nodes: StructureNodes, kept: B1, structure: int, *, shortened: bool) -> I8:
    """int64[edges, 2]: edges between the kept nodes of a structure; a path through dropped nodes becomes one
    edge.

    kept: bool[nodes]. shortened: True if any node of the structure is dropped."""
    mine = slice(*nodes.first_edge[structure : structure + 2].tolist())
    edges = np.stack((nodes.src[mine], nodes.dst[mine]), axis=1)
    if not shortened:
        return edges
    # The kept nodes nearest before each node, looking through the dropped ones.
    before: dict[int, set[int]] = {}
    for src, dst in edges.tolist():
        before.setdefault(dst, set()).update({src} if kept[src] else before.get(src, ()))
    found = [(src, dst) for dst, sources in before.items() if kept[dst] for src in sources]
    return np.array(found, dtype=np.int64).reshape(-1, 2)
