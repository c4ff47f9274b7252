"""Site, path and call pattern of every unit of a refined graph.

A *unit* is the thing that has own time: for spans a call, for activity records a step between two points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from analyze.population import Graph, GraphNode, LeftBehind, Nesting
from analyze.profile.names import MOST_DEPTH, NO_CALLER, NameBook, OperationName, SiteKind
from schemas.arrays import B1, F8, I4, I8
from schemas.events import EventKind
from stitch.graph.placed import END, START

_UNKNOWN_KINDS: Final = frozenset({EventKind.SPAN_UNSPECIFIED, EventKind.SPAN_INTERNAL})


@dataclass(frozen=True, slots=True)
class GraphSites:
    """Units of one graph; arrays are [units] unless said otherwise. Callers come before their callees."""

    start: I8
    """Position at which the unit begins."""
    end: I8
    above: I8
    """Unit that called this one; -1 for the root and for steps."""
    site: I8
    path: I8
    pattern: I8
    """Call pattern; for steps the one without children."""
    owner: I8
    """[edges] unit whose own time the edge is."""
    pattern_site: I8
    """[site patterns] site of each place with a call pattern: units of spans, points of records."""
    pattern_of: I8
    """[site patterns] call pattern of the place."""
    enters: B1
    """[site patterns] True if a step from this point leads to the first occurrence of an operation in the
    graph (a loop is entered there). False for calls."""
    unit_at: I8
    """[nodes] unit that begins or ends at the node; -1 for none."""

    are_calls: bool
    """True if the units are calls; else they are steps between records."""

    @property
    def n_units(self) -> int:
        """Number of units."""
        return len(self.start)

    def of_units(self, values: F8) -> F8:
        """[units, columns] sums over each unit's edges. values: [edges, columns]."""
        found = np.zeros((self.n_units, values.shape[1]))
        np.add.at(found, self.owner, values)
        return found

    def site_at(self, position: I4) -> I8:
        """Sites of nodes: the call that a node starts or ends, or the trace point itself."""
        sites: I8 = self.site[self.unit_at[position]] if self.are_calls else self.pattern_site[position]
        return sites


class RequestGroup(NamedTuple):
    """Requests of one category with equal sites and patterns."""

    category: int
    """Index into the population's categories."""
    rows: I8
    """Rows of the category that lie in a slot, ordered by slot."""
    slot: I8
    """[rows] slot of each row, ascending."""
    sites: GraphSites


def graph_sites(graph: Graph, left_behind: tuple[LeftBehind, ...], book: NameBook) -> GraphSites:
    """Units of a graph, their names numbered in `book`. O(nodes + edges)."""
    if graph.nesting is None:
        return _steps(graph, book)
    return _calls(graph, graph.nesting, left_behind, book)


def _calls(graph: Graph, nesting: Nesting, left_behind: tuple[LeftBehind, ...], book: NameBook) -> GraphSites:
    owner, parent = nesting.owner.tolist(), nesting.parent.tolist()
    unit_at = [-1] * graph.n_nodes
    start: list[int] = []
    end: list[int] = []
    above: list[int] = []
    for position, node in enumerate(graph.nodes):
        if node.side == END:
            unit = unit_at[owner[position]]
            end[unit] = position
            unit_at[position] = unit
            continue
        unit_at[position] = len(start)
        start.append(position)
        end.append(position)
        above.append(-1 if parent[position] < 0 else unit_at[parent[position]])
    # Of calls; a span event is none, and one that comes and goes must not split the pattern.
    called: list[list[int]] = [[] for _ in start]
    for unit, caller in enumerate(above):
        if caller >= 0 and end[unit] != start[unit]:
            called[caller].append(unit)
    kind = nesting.kind.tolist()
    operation = [
        book.operations[
            _operation(graph.nodes, kind[position], position, [start[child] for child in children])
        ]
        for position, children in zip(start, called, strict=True)
    ]
    left: dict[int, list[int]] = {}
    for child in left_behind:
        component, _, point = child.operation.partition("/")
        left.setdefault(unit_at[child.parent], []).append(book.operations[OperationName(component, point)])
    site: list[int] = []
    path: list[int] = []
    pattern: list[int] = []
    depth: list[int] = []
    for unit, caller in enumerate(above):
        calling = NO_CALLER if caller < 0 else operation[caller]
        site.append(book.sites[calling, operation[unit], SiteKind.CALL])
        depth.append(0 if caller < 0 else depth[caller] + 1)
        if caller < 0 or depth[unit] > MOST_DEPTH:
            path.append(book.paths[NO_CALLER, site[unit]])
        elif operation[caller] == operation[unit]:
            path.append(path[caller])
        else:
            path.append(book.paths[path[caller], site[unit]])
        awaited = [(operation[child], True) for child in called[unit]]
        pattern.append(book.pattern([*awaited, *((child, False) for child in left.get(unit, ()))]))
    # Between two events under one span the time is that span's own.
    owners = [
        unit_at[src] if graph.nodes[src].side == START else above[unit_at[src]]
        for src in graph.edges[:, 0].tolist()
    ]
    return GraphSites(
        start=np.array(start, dtype=np.int64),
        end=np.array(end, dtype=np.int64),
        above=np.array(above, dtype=np.int64),
        site=np.array(site, dtype=np.int64),
        path=np.array(path, dtype=np.int64),
        pattern=np.array(pattern, dtype=np.int64),
        owner=np.array(owners, dtype=np.int64),
        pattern_site=np.array(site, dtype=np.int64),
        pattern_of=np.array(pattern, dtype=np.int64),
        enters=np.zeros(len(pattern), dtype=np.bool_),
        unit_at=np.array(unit_at, dtype=np.int64),
        are_calls=True,
    )


def _operation(
    nodes: Sequence[GraphNode], kind: int, position: int, children: Sequence[int]
) -> OperationName:
    """Name of a span's operation. children: positions where the spans it calls start (no point events).

    The caller's side of a remote call includes the callee: client spans are called `GET` wherever they go.
    """
    node = nodes[position]
    # A root of unknown kind is where a request comes in: that it calls one other is its path, not its name.
    calls = kind == EventKind.SPAN_CLIENT or (len(children) == 1 and kind in _UNKNOWN_KINDS and position != 0)
    if not calls:
        return OperationName(node.where, node.what)
    remote = {nodes[child].component for child in children} - {node.component}
    return OperationName(node.where, node.what, "+".join(sorted(remote)))


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
