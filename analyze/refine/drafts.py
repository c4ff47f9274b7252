"""Draft refined graphs: sibling order added to trees of spans, deferral and zoom applied to records.

Requests of one stored structure may get several refined graphs: if two different calls of one operation run
one after the other in either order, or if siblings are too rare for a consensus. The order of activity
records is explicit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analyze.numbering import Numbering
from analyze.population import GraphNode
from analyze.refine.graphs import Columns, Draft, DraftGraph, LeftOut, equal_rows, own_columns
from analyze.refine.hosts import HostLabels, split_by_hosts
from analyze.refine.settings import RefineSettings
from analyze.refine.sibling_order import (
    Family,
    SiblingRelation,
    occurrence_times,
    pair_rows,
    relations_by_trace,
    slack_ns,
)
from analyze.refine.span_tree import SpanTree
from analyze.refine.stored import StoredCategory
from schemas.arrays import F8, I8
from stitch.graph.placed import END, POINT, START
from stitch.graph.template import Template

_SECOND_FIRST = int(SiblingRelation.SECOND_FIRST)


def span_drafts(
    category: StoredCategory,
    times: I8,
    tree: SpanTree,
    families: Sequence[Family],
    left_out: tuple[LeftOut, ...],
    labels: HostLabels,
    settings: RefineSettings,
) -> Iterator[Draft]:
    """Yield all refined graphs of a stored span category.

    `times` [stored nodes, requests] is skew-corrected; `tree` is the structure after zooming, asynchrony and
    deferral. Every request is in exactly one draft.
    """
    for rows, hosts in split_by_hosts(category, labels):
        part = times if len(rows) == category.n_requests else times[:, rows]
        shapes = _shapes(tree, hosts)
        part, moved = _sort_twins(part, tree, shapes)
        choices = [_choices(part, tree, shapes, family, settings) for family in families]
        decisions = [each for c in choices for each in (*c.standing.values(), *c.decided.values())]
        first, variant = equal_rows(np.array(decisions, dtype=np.int64).reshape(-1, len(rows)))
        for number, row in enumerate(first.tolist()):
            mine = slice(None) if len(first) == 1 else np.flatnonzero(variant == number)
            own = part[:, mine]
            mean_ns = own.mean(axis=1)
            before = [pair for choice in choices for pair in choice.pairs(row, tree, mean_ns)]
            yield Draft(
                category=category,
                rows=rows[mine],
                times=own,
                graph=_graph(category.structure, tree, hosts, before, mean_ns),
                moved=None if moved is None else moved[:, mine],
                nested=True,
                left_out=left_out,
            )


def _shapes(tree: SpanTree, hosts: tuple[str, ...]) -> list[int]:
    """[units] equal numbers for interchangeable subtrees (same labels, hosts where labelled, children)."""
    known = Numbering[tuple[object, ...]]()
    shapes = [0] * tree.n_units
    for unit in range(tree.n_units - 1, -1, -1):
        key = (
            tree.operation[unit],
            hosts[tree.start[unit]],
            tree.awaited[unit],
            tree.start[unit] == tree.end[unit],
            tuple(sorted(shapes[child] for child in tree.children[unit])),
        )
        shapes[unit] = known[key]
    return shapes


def _sort_twins(times: I8, tree: SpanTree, shapes: list[int]) -> tuple[I8, Columns | None]:
    """Sort interchangeable siblings by start in every request, moving the times of whole subtrees.

    Innermost siblings first, so that a branch is sorted before it is moved. Returns (times, [columns,
    requests] original column of each); (`times` itself, None) if all are sorted already.
    """
    sorted_times = times
    moved: Columns | None = None
    for unit in range(tree.n_units - 1, -1, -1):
        by_shape: dict[int, list[int]] = {}
        for child in tree.children[unit]:
            by_shape.setdefault(shapes[child], []).append(child)
        for twins in by_shape.values():
            if len(twins) == 1:
                continue
            starts = sorted_times[[tree.start[twin] for twin in twins]]
            if (starts[1:] >= starts[:-1]).all():
                continue
            order = np.argsort(starts, axis=0, kind="stable")
            if moved is None:
                sorted_times, moved = times.copy(), own_columns(*times.shape)
            for columns in zip(*(_columns(tree, shapes, twin) for twin in twins), strict=True):
                rows = list(columns)
                sorted_times[rows] = np.take_along_axis(sorted_times[rows], order, axis=0)
                moved[rows] = np.take_along_axis(moved[rows], order, axis=0)
    return sorted_times, moved


def _columns(tree: SpanTree, shapes: list[int], top: int) -> list[int]:
    """Columns of a subtree, in an order equal for all subtrees of the same shape."""
    columns: list[int] = []
    stack = [top]
    while stack:
        unit = stack.pop()
        columns += dict.fromkeys((tree.start[unit], tree.end[unit]))  # one column of a point
        stack += sorted(tree.children[unit], key=lambda child: (shapes[child], child))
    return columns


@dataclass(frozen=True, slots=True)
class _Choices:
    """Decisions of each request about the order of one family."""

    family: Family
    standing: dict[int, I8]
    """Row -> [requests] unit in that row, if the branches of an operation differ in shape."""
    decided: dict[int, I8]
    """Pair -> [requests] relation, if there is no consensus."""

    def pairs(self, request: int, tree: SpanTree, mean_ns: F8) -> Iterator[tuple[int, int]]:
        """Yield (earlier unit, later unit) of every sequential pair, for requests that decide as `request`
        does.

        A relation that the mean starts of these requests contradict is dropped (parallel), so that the result
        follows one total order and has no cycle.
        """
        units, relation = list(self.family.children), self.family.relation.tolist()
        for row, standing in self.standing.items():
            units[row] = int(standing[request])
        for pair, decided in self.decided.items():
            relation[pair] = int(decided[request])
        rank = {unit: (mean_ns[tree.start[unit]], unit) for unit in units}
        firsts, seconds = pair_rows(len(units))
        for first, second, found in zip(firsts.tolist(), seconds.tolist(), relation, strict=True):
            if not found:
                continue
            earlier, later = units[first], units[second]
            if found == _SECOND_FIRST:
                earlier, later = later, earlier
            if rank[earlier] < rank[later]:
                yield earlier, later


def _choices(
    times: I8, tree: SpanTree, shapes: list[int], family: Family, settings: RefineSettings
) -> _Choices:
    relation = family.relation
    choices = _Choices(family, {}, {})
    firsts, seconds = pair_rows(len(family.children))
    related = {*firsts[relation != 0].tolist(), *seconds[relation != 0].tolist()} if family.groups else set()
    for group in family.groups:
        branches = [family.children[row] for row in group]
        if related.isdisjoint(group) or len({shapes[branch] for branch in branches}) == 1:
            continue
        order = np.argsort(times[[tree.start[branch] for branch in branches]], axis=0, kind="stable")
        choices.standing.update(zip(group, np.array(branches)[order], strict=True))
    open_pairs = np.flatnonzero(relation >= SiblingRelation.BY_TRACE).tolist()
    if not open_pairs:
        return choices
    starts, ends = occurrence_times(times, tree, [family])
    slack = slack_ns(times, tree, [family.parent], settings)[0]
    for pair in open_pairs:
        first, second = int(firsts[pair]), int(seconds[pair])
        if relation[pair] == SiblingRelation.SEQUENTIAL:
            is_first = starts[first] <= starts[second]
            found = np.where(is_first, SiblingRelation.FIRST_SECOND, SiblingRelation.SECOND_FIRST)
        else:
            found = relations_by_trace(starts, ends, slack, first, second)
        choices.decided[pair] = found.astype(np.int64)
    return choices


def _graph(
    structure: Template,
    tree: SpanTree,
    hosts: tuple[str, ...],
    before: list[tuple[int, int]],
    mean_ns: F8,
) -> DraftGraph:
    """Build S6's DAG. before: (earlier unit, later unit) pairs of siblings."""
    successors: dict[int, list[int]] = {}
    for earlier, later in before:
        successors.setdefault(earlier, []).append(later)
    rank = [(mean_ns[tree.start[unit]], unit) for unit in range(tree.n_units)]
    enter, leave = _walk(tree, rank)
    edges = [
        edge
        for unit in range(tree.n_units)
        if enter[unit] != leave[unit]
        for edge in (
            _inner_edges(tree, unit, successors, rank, enter, leave)
            if tree.children[unit]
            else ((enter[unit], leave[unit]),)
        )
    ]
    first, last, parent = np.array(enter), np.array(leave), np.array(tree.parent)
    is_span, awaited = first != last, np.array(tree.awaited)
    n_nodes = 1 + max(leave)
    column, side, mate = np.empty(n_nodes, dtype=np.int64), np.full(n_nodes, POINT), np.full(n_nodes, -1)
    column[first], column[last] = tree.start, tree.end
    side[first[is_span]], side[last[is_span]] = START, END
    mate[first[is_span]], mate[last[is_span]] = last[is_span], first[is_span]
    # Nothing holds the end of work that nobody waits for.
    bounds = (parent >= 0, first[parent]), ((parent >= 0) & awaited, last[parent])
    within, deferred = np.empty((n_nodes, 2), dtype=np.int64), np.empty(n_nodes, dtype=np.bool_)
    within[first] = within[last] = np.stack([np.where(has, node, -1) for has, node in bounds], axis=1)
    deferred[first] = deferred[last] = tree.deferred
    return DraftGraph(
        labels=_labels(structure, column.tolist(), side.tolist(), hosts),
        column=column,
        mate=mate,
        within=within,
        deferred=deferred,
        edges=np.array(edges, dtype=np.int64).reshape(-1, 2),
        responses=last[:1],
    )


def _labels(
    structure: Template, columns: Sequence[int], sides: Sequence[int], hosts: tuple[str, ...]
) -> tuple[GraphNode, ...]:
    """Graph nodes for stored columns, with names and hosts."""
    component, point, label = structure.component, structure.point, structure.label
    return tuple(
        GraphNode(component[at], point[at], label[at], hosts[at], side)
        for at, side in zip(columns, sides, strict=True)
    )


def _walk(tree: SpanTree, rank: list[tuple[float, int]]) -> tuple[list[int], list[int]]:
    """(node of the start, node of the end) of each unit, depth first, children by rank; equal for a point."""
    enter = [0] * tree.n_units
    leave = [0] * tree.n_units
    clock = 0
    stack = [(0, False)]
    while stack:
        unit, done = stack.pop()
        if done:
            leave[unit] = clock
            clock += 1
            continue
        enter[unit] = clock
        leave[unit] = clock
        clock += 1
        if tree.start[unit] != tree.end[unit]:
            stack.append((unit, True))
        stack.extend(
            (child, False) for child in sorted(tree.children[unit], key=rank.__getitem__, reverse=True)
        )
    return enter, leave


def _inner_edges(
    tree: SpanTree,
    unit: int,
    successors: dict[int, list[int]],
    rank: list[tuple[float, int]],
    enter: list[int],
    leave: list[int],
) -> Iterator[tuple[int, int]]:
    """Edges between the start of a span, its children and its end (S6), without implied ones."""
    awaited = sorted(tree.awaited_children(unit), key=rank.__getitem__)
    place = {child: at for at, child in enumerate(awaited)}
    reach = [0] * len(awaited)  # bit sets of all later siblings
    preceded = 0
    for at in range(len(awaited) - 1, -1, -1):
        for later in sorted(place[child] for child in successors.get(awaited[at], ())):
            if reach[at] >> later & 1:
                continue
            reach[at] |= reach[later] | 1 << later
            yield leave[awaited[at]], enter[awaited[later]]
        preceded |= reach[at]
    for at, child in enumerate(awaited):
        if not preceded >> at & 1:
            yield enter[unit], enter[child]
        if not reach[at]:
            yield leave[child], leave[unit]
    if not awaited:
        yield enter[unit], leave[unit]
    for child in tree.children[unit]:
        if not tree.awaited[child]:
            yield enter[unit], enter[child]


def record_drafts(
    category: StoredCategory, times: I8, labels: HostLabels, settings: RefineSettings
) -> Iterator[Draft]:
    """Yield the graph of a stored record category, once per set of host labels. O(nodes + edges) a graph.

    times: [stored nodes, requests] after skew correction.
    """
    structure = category.structure
    kept, edges = _kept(structure, settings)
    place = np.full(structure.n_nodes + 1, -1)  # the last entry is that of no node, -1
    place[kept] = np.arange(len(kept))
    shortened = len(kept) < structure.n_nodes
    sides = [structure.side[position] for position in kept]
    graph = DraftGraph(
        labels=(),
        column=np.array(kept),
        mate=place[np.array(structure.mate)[kept]],
        within=np.full((len(kept), 2), -1),
        deferred=np.array(structure.deferred)[kept],
        edges=place[np.array(edges, dtype=np.int64).reshape(-1, 2)],
        responses=place[list(structure.responses)],
    )
    for rows, hosts in split_by_hosts(category, labels):
        named = _labels(structure, kept, sides, hosts)
        yield Draft(
            category=category,
            rows=rows,
            times=times if len(rows) == category.n_requests else times[:, rows],
            graph=replace(graph, labels=named),
            # Branches that differed in what was dropped may be interchangeable now.
            twins_by_row=shortened and len(set(named)) < len(named),
        )


def _kept(structure: Template, settings: RefineSettings) -> tuple[list[int], Sequence[tuple[int, int]]]:
    """Positions that remain after deferral and zoom, and edges between them, implied ones included."""
    keep = [settings.keep_deferred or not deferred for deferred in structure.deferred]
    keep[0] = True
    for position in structure.responses:
        keep[position] = True
    if settings.level == "L3":
        boundary = {0, *structure.responses}
        for src, dst in structure.edges:
            if structure.component[src] != structure.component[dst]:
                boundary |= {src, dst}
        keep = [stays and position in boundary for position, stays in enumerate(keep)]
    kept = [position for position, stays in enumerate(keep) if stays]
    if len(kept) == structure.n_nodes:
        return kept, structure.edges
    # The kept nodes nearest before each node, looking through the dropped ones.
    before: list[set[int]] = [set() for _ in range(structure.n_nodes)]
    for src, dst in structure.edges:
        before[dst] |= {src} if keep[src] else before[src]
    return kept, [(src, dst) for dst in kept for src in before[dst]]
