"""Site, calling path and call pattern of every unit of a refined graph.

A *unit* is the part of a graph that self time is measured for: for spans a call, for activity records a step
from one point to the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Final, NamedTuple

import numpy as np

from analyze.numbering import Numbering, first_numbered
from analyze.population import Graph, GraphNode, LeftBehind
from analyze.profile.names import MOST_DEPTH, NO_CALLER, NameBook, OperationName, SiteKind
from schemas.arrays import B1, I4, I8
from schemas.events import EventKind
from stitch.columnar.hashing import mix
from stitch.columnar.runs import group_stably, offsets, tree_levels
from stitch.graph.placed import END, START

_UNKNOWN_KINDS: Final = frozenset({EventKind.SPAN_UNSPECIFIED, EventKind.SPAN_INTERNAL})


@dataclass(frozen=True, slots=True)
class GraphSites:
    """Units of one graph (calls, or steps between activity records), callers before callees.

    A *patterned place* is a place with a call pattern: a unit, or a point of activity records."""

    start: I8
    """int64[units]: node at which the call or step begins."""
    end: I8
    """int64[units]: node at which the call or step ends."""
    above: I8
    """int64[units]: calling unit of each call; -1 for the root and for steps."""
    site: I8
    """int64[units]: number, in the `NameBook`, of the site of the call or step."""
    path: I8
    """int64[units]: number, in the `NameBook`, of the calling path of the call or step."""
    pattern: I8
    """int64[units]: number, in the `NameBook`, of the call's pattern; for steps the pattern without
    children."""
    owner: I8
    """int64[edges]: unit (call or step) to whose self time the edge belongs."""
    pattern_site: I8
    """int64[patterned places]: number, in the `NameBook`, of the site of the call or point."""
    pattern_of: I8
    """int64[patterned places]: number, in the `NameBook`, of the call pattern of the call or point."""
    enters: B1
    """bool[patterned places]: True for a point of activity records with an edge to a node that is the
    first of its operation in the graph: true of the point before a loop, but not of the point that ends a
    round if only the next round follows. False for calls."""
    unit_at: I8
    """int64[nodes]: call (unit) that begins or ends at the node; -1 for activity records."""

    are_calls: bool
    """True if the units are calls, False if they are steps between activity records."""

    @property
    def n_units(self) -> int:
        """Number of units (calls or steps) in the graph."""
        return len(self.start)

    def site_at(self, position: I4) -> I8:
        """int64[n]: number of the site at each node: of the call that starts or ends there, or of the point.

        position: int32[n], nodes."""
        sites: I8 = self.site[self.unit_at[position]] if self.are_calls else self.pattern_site[position]
        return sites


class RequestGroup(NamedTuple):
    """Requests of one category with equal sites and call patterns."""

    category: int
    """Index into `Population.categories`."""
    rows: I8
    """int64[requests]: row of each request in the category, ordered by slot."""
    slot: I8
    """int64[requests]: index of the slot of time that each request lies in, ascending."""
    sites: GraphSites


def sites_of_graphs(
    graphs: Sequence[Graph], left_behind: Sequence[tuple[LeftBehind, ...]], book: NameBook
) -> list[GraphSites]:
    """Units of each graph; numbers their names in `book`. O(nodes + edges).

    left_behind: for each graph the deferred children that were left out of it.
    """
    found: list[GraphSites] = []
    for of_spans, run in groupby(
        zip(graphs, left_behind, strict=True), lambda one: one[0].nesting is not None
    ):
        mine = [*run]
        found += _calls(mine, book) if of_spans else [_steps(graph, book) for graph, _ in mine]
    return found


class _Calls(NamedTuple):
    """Units (spans, and points inside spans) of many graphs, with one numbering of all units."""

    graph: I8
    """int64[units]: index of the graph of the span or point."""
    label: I8
    """int64[units]: index into `labels` of the node at which the span begins, or of the point."""
    labels: tuple[GraphNode, ...]
    kind: I8
    """int64[units]: `EventKind` of the span or point."""
    above: I8
    """int64[units]: index (unit) of the parent span; -1 for a root."""
    is_call: B1
    """bool[units]: True for a span, False for a point inside a span."""

    @property
    def called(self) -> I8:
        """int64[n]: indices (units) of the spans that have a parent, ascending; no points."""
        return np.flatnonzero(self.is_call & (self.above >= 0))


def _calls(graphs: Sequence[tuple[Graph, tuple[LeftBehind, ...]]], book: NameBook) -> list[GraphSites]:
    n_nodes = np.array([graph.n_nodes for graph, _ in graphs])
    first = np.cumsum(n_nodes) - n_nodes
    node_graph = np.repeat(np.arange(len(graphs)), n_nodes)
    numbering = Numbering[GraphNode]()
    label = np.array([numbering[node] for graph, _ in graphs for node in graph.nodes], dtype=np.int64)
    side = np.array([node.side for node in numbering], dtype=np.int64)[label]
    nestings = [graph.nesting for graph, _ in graphs if graph.nesting is not None]
    owner, parent, kind = (
        np.concatenate([getattr(one, name) for one in nestings]).astype(np.int64)
        for name in ("owner", "parent", "kind")
    )
    begins = np.flatnonzero(side != END)
    unit_at = np.cumsum(side != END) - 1
    ends = np.flatnonzero(side == END)
    unit_at[ends] = unit_at[owner[ends] + first[node_graph[ends]]]
    end = begins.copy()
    end[unit_at[ends]] = ends
    graph = node_graph[begins]
    above = np.where(parent[begins] < 0, -1, unit_at[parent[begins] + first[graph]])
    units = _Calls(graph, label[begins], tuple(numbering), kind[begins], above, end != begins)
    first_unit = np.searchsorted(graph, np.arange(len(graphs)))
    left = [
        (int(unit_at[first[at] + child.parent]), child.operation)
        for at, (_, children) in enumerate(graphs)
        for child in children
    ]
    operation, left_operation = _operations(units, begins == first[graph], left, book)
    caller = np.where(above < 0, NO_CALLER, operation[above])
    site_number, at = first_numbered((caller - NO_CALLER) * len(book.operations) + operation)
    sites = zip(caller[at].tolist(), operation[at].tolist(), strict=True)
    site = np.array([book.sites[calling, called, SiteKind.CALL] for calling, called in sites])[site_number]
    path = _paths(units, operation, site, book)
    pattern = _patterns(
        units, operation, [(unit, op) for (unit, _), op in zip(left, left_operation, strict=True)], book
    )
    n_edges = np.array([len(graph.edges) for graph, _ in graphs])
    src = np.concatenate([graph.edges[:, 0] for graph, _ in graphs]) + np.repeat(first, n_edges)
    # Between two events under one span the time is that span's own.
    owners = np.where(side[src] == START, unit_at[src], above[unit_at[src]]) - np.repeat(first_unit, n_edges)
    start, end = begins - first[graph], end - first[graph]
    above = np.where(above < 0, -1, above - first_unit[graph])
    unit_at -= first_unit[node_graph]
    n_units = np.bincount(graph, minlength=len(graphs))
    bounds = (pairwise(offsets(of).tolist()) for of in (n_units, n_edges, n_nodes))
    return [
        GraphSites(
            start=start[begin:past],
            end=end[begin:past],
            above=above[begin:past],
            site=site[begin:past],
            path=path[begin:past],
            pattern=pattern[begin:past],
            owner=owners[first_edge:past_edge],
            pattern_site=site[begin:past],
            pattern_of=pattern[begin:past],
            enters=np.zeros(past - begin, dtype=np.bool_),
            unit_at=unit_at[first_node:past_node],
            are_calls=True,
        )
        for (begin, past), (first_edge, past_edge), (first_node, past_node) in zip(*bounds, strict=True)
    ]


def _operations(
    units: _Calls, is_root: B1, left: Sequence[tuple[int, str]], book: NameBook
) -> tuple[I8, list[int]]:
    """(int64[units] number of the unit's operation, number of the operation of each entry of `left`).

    The operation of the client side of a remote call includes the callee, as client spans have the same name
    (`GET`) for all callees. left: (unit, `component/point` of a deferred child that was left out of its
    graph).
    """
    components = Numbering[str]()
    component = np.array([components[node.component] for node in units.labels], dtype=np.int64)[units.label]
    called = units.called
    n_called = np.bincount(units.above[called], minlength=len(units.above))
    # A root of unknown kind is where a request comes in: that it calls one other is its path, not its name.
    alone = (n_called == 1) & np.isin(units.kind, [*_UNKNOWN_KINDS]) & ~is_root
    names_callee = (units.kind == EventKind.SPAN_CLIENT) | alone
    caller = units.above[called]
    remote = names_callee[caller] & (component[called] != component[caller])
    callees: dict[int, set[str]] = {}
    words = tuple(components)
    for unit, callee in zip(caller[remote].tolist(), component[called[remote]].tolist(), strict=True):
        callees.setdefault(unit, set()).add(words[callee])
    texts = Numbering[str]()
    callee = np.full(len(units.above), texts[""], dtype=np.int64)
    for unit, mine in callees.items():
        callee[unit] = texts["+".join(sorted(mine))]
    number, at = first_numbered(units.label * len(texts) + callee)
    text_of, graph_of = tuple(texts), units.graph.tolist()
    asked: list[tuple[tuple[int, bool, int], OperationName]] = []
    for unit, label, text in zip(at.tolist(), units.label[at].tolist(), callee[at].tolist(), strict=True):
        node = units.labels[label]
        asked.append(((graph_of[unit], False, unit), OperationName(node.where, node.what, text_of[text])))
    for place, (unit, operation) in enumerate(left):
        component_, _, point = operation.partition("/")
        asked.append(((graph_of[unit], True, place), OperationName(component_, point)))
    found = {key: book.operations[name] for key, name in sorted(asked, key=lambda one: one[0])}
    of_number = np.array([found[graph_of[unit], False, unit] for unit in at.tolist()], dtype=np.int64)
    return of_number[number], [found[graph_of[unit], True, place] for place, (unit, _) in enumerate(left)]


def _paths(units: _Calls, operation: I8, site: I8, book: NameBook) -> I8:
    """int64[units]: number of the unit's path.

    A path is (the caller's path, the unit's site); below MOST_DEPTH it is the site alone. A unit with the
    operation of its caller (recursion) has the caller's path."""
    above = units.above
    path = np.full(len(above), -1, dtype=np.int64)
    known = Numbering[tuple[int, int]]()
    for depth, level in enumerate(tree_levels(above)):
        caller = np.where((above[level] < 0) | (depth > MOST_DEPTH), NO_CALLER, path[above[level]])
        again = (caller != NO_CALLER) & (operation[level] == operation[above[level]])
        new = level[~again]
        number, at = first_numbered((caller[~again] - NO_CALLER) * (int(site.max()) + 1) + site[new])
        keys = zip(caller[~again][at].tolist(), site[new[at]].tolist(), strict=True)
        path[level[again]] = caller[again]
        path[new] = np.array([known[key] for key in keys], dtype=np.int64)[number]
    number, at = first_numbered(path)
    keys_of, found = tuple(known), {NO_CALLER: NO_CALLER}
    for one in path[at].tolist():
        caller_path, its_site = keys_of[one]
        found[one] = book.paths[found[caller_path], its_site]
    return np.array([found[one] for one in path[at].tolist()], dtype=np.int64)[number]


def _patterns(units: _Calls, operation: I8, left: Sequence[tuple[int, int]], book: NameBook) -> I8:
    """int64[units]: number of the call pattern: awaited calls, and deferred calls left out of the graph.

    Points inside spans do not count: an event that occurs in some requests only must not split a pattern.
    left: (unit, operation number) of each deferred call."""
    called = units.called
    unit = np.concatenate((units.above[called], np.array([at for at, _ in left], dtype=np.int64)))
    child = np.concatenate((2 * operation[called], np.array([2 * op + 1 for _, op in left], dtype=np.int64)))
    # Equal sums of hashes: equal children, in any order.
    sums = np.zeros(len(units.above), dtype=np.uint64)
    np.add.at(sums, unit, mix(mix(child.astype(np.uint64))))
    number, at = first_numbered(sums.view(np.int64))
    order, first = group_stably(unit, len(units.above))
    found = []
    for one in at.tolist():
        children = child[order[first[one] : first[one + 1]]].tolist()
        found.append(book.pattern([(code >> 1, not code & 1) for code in children]))
    return np.array(found, dtype=np.int64)[number]


def _steps(graph: Graph, book: NameBook) -> GraphSites:
    operation = [book.operations[OperationName(node.where, node.what)] for node in graph.nodes]
    root = book.paths[NO_CALLER, book.sites[NO_CALLER, operation[0], SiteKind.POINT]]
    empty = book.pattern([])
    site: list[int] = []
    path: list[int] = []
    following: list[list[tuple[int, bool]]] = [[] for _ in graph.nodes]
    first = {name: at for at, name in reversed([*enumerate(operation)])}
    enters = np.zeros(graph.n_nodes, dtype=np.bool_)
    for src, dst in graph.edges.tolist():
        site.append(book.sites[operation[src], operation[dst], SiteKind.STEP])
        path.append(book.paths[root, site[-1]])
        following[src].append((operation[dst], True))
        enters[src] |= first[operation[dst]] == dst
    n_units = len(graph.edges)
    return GraphSites(
        start=graph.edges[:, 0].astype(np.int64),
        end=graph.edges[:, 1].astype(np.int64),
        above=np.full(n_units, -1, dtype=np.int64),
        site=np.array(site, dtype=np.int64),
        path=np.array(path, dtype=np.int64),
        pattern=np.full(n_units, empty, dtype=np.int64),
        owner=np.arange(n_units, dtype=np.int64),
        pattern_site=np.array([book.sites[NO_CALLER, name, SiteKind.POINT] for name in operation], np.int64),
        pattern_of=np.array([book.pattern(after) for after in following], dtype=np.int64),
        enters=enters,
        unit_at=np.full(graph.n_nodes, -1, dtype=np.int64),
        are_calls=False,
    )
