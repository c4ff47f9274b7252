"""Build calling-context trees: nodes are equal iff their paths to the root are equal (HotAC 2007 §2.3).

For spans the nodes are calls, with the call's own time. For activity records the nodes are successive trace
points, with the latency since the previous point; at a join, since the branch for which the join waited in
most requests of its category. Every path in the tree was taken by a request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from analyze.numbering import Numbering
from analyze.population import Category, Population
from analyze.profile.call_sites import sites_of_graphs
from analyze.profile.names import NameBook
from analyze.profile.times import own_time_ns
from schemas.arrays import F8, I8
from schemas.windows import NS_PER_US

if TYPE_CHECKING:
    from scipy.sparse import csc_matrix


ROOT: Final = -1


class TreeName(NamedTuple):
    """Name of a node of a calling-context tree."""

    where: str
    """Host and component of the node, `[host/]component`."""
    what: str
    """Point or operation of the node, with its label and callee."""


class _Places(NamedTuple):
    """Nodes of the calling-context tree of one category; arrays are [nodes], each node after its parent."""

    above: Sequence[int]
    """Index of the parent of each node; ROOT for the first node."""
    names: Sequence[TreeName]
    time_us: F8
    """Time in each node and request, µs, float64[nodes, requests]."""


@dataclass(frozen=True, slots=True)
class CallingTree:
    """Calling-context trees of all requests as one forest; matrices are [nodes, groups], sums over weighted
    requests.

    A group is a number assigned to each request by the caller of `calling_tree`.
    """

    above: I8
    """Index of each node's parent, int64[nodes]; ROOT for a root. A node comes after its parent."""
    names: tuple[TreeName, ...]
    through: csc_matrix
    """Weighted number of requests that pass each node, by group, [nodes, groups]."""
    visits: csc_matrix
    """Weighted number of visits of each node, by group, [nodes, groups]."""
    time_us: csc_matrix
    """Weighted time at each node summed over visits, µs, by group, [nodes, groups]."""
    time_squares: csc_matrix
    """Weighted squared time at each node summed over visits, µs², by group, [nodes, groups]."""
    requests: F8
    """Weighted number of requests of each group, float64[groups]."""
    calls: bool
    """True if the nodes are calls (spans), False if they are trace points (activity records)."""

    @property
    def n_nodes(self) -> int:
        """Number of nodes in the forest."""
        return len(self.above)

    def summed_groups(self, matrix: csc_matrix, into: I8, n: int) -> F8:
        """Merge groups of a matrix by summing: float64[nodes, n].

        into: int64[groups], merged group (0 to n - 1) of each group.
        """
        from scipy.sparse import csr_matrix

        places = np.arange(len(into))
        together = csr_matrix((np.ones(len(into)), (places, into)), shape=(len(into), n))
        return np.asarray((matrix @ together).toarray())


@dataclass(slots=True)
class _Sums:
    """Sums for the trees, collected category by category."""

    numbers: Numbering[tuple[int, TreeName]] = field(default_factory=Numbering)
    node: list[I8] = field(default_factory=list)
    group: list[I8] = field(default_factory=list)
    values: list[F8] = field(default_factory=list)
    """Per category float64[4, cells]: requests that pass, visits, time, squared time of each cell (node,
    group)."""

    def nodes_of(self, places: _Places) -> I8:
        """Numbers, in the forest, of the nodes of a category's tree, int64[places]; new paths get the next
        numbers."""
        found: list[int] = []
        for above, name in zip(places.above, places.names, strict=True):
            key = (ROOT if above == ROOT else found[above], name)
            found.append(self.numbers[key])
        return np.array(found, dtype=np.int64)

    def add(self, node: I8, time_us: F8, group: I8, weight: F8) -> None:
        """Add the requests of a category.

        Nodes of the category with equal paths to the root are visits of one node. node, group, weight: number
        of the forest's node of each place, group and weight of each request.
        """
        from scipy.sparse import csr_matrix

        codes, place = np.unique(group, return_inverse=True)
        held = np.bincount(place, weight, len(codes))
        rows = np.arange(len(weight))
        weighed = csr_matrix((weight, (place.reshape(-1), rows)), shape=(len(codes), len(weight)))
        nodes, visit = np.unique(node, return_inverse=True)
        times = np.bincount(visit, minlength=len(nodes)).astype(np.float64)
        time, squares = np.zeros((2, len(nodes), len(codes)))
        np.add.at(time, visit, (weighed @ time_us.T).T)
        np.add.at(squares, visit, (weighed @ (time_us * time_us).T).T)
        self.node.append(np.repeat(nodes, len(codes)))
        self.group.append(np.tile(codes.astype(np.int64), len(nodes)))
        through = np.broadcast_to(held, time.shape)
        visits = np.outer(times, held)
        self.values.append(np.stack([part.reshape(-1) for part in (through, visits, time, squares)]))


def calling_tree(population: Population, group: Sequence[I8], n_groups: int) -> CallingTree:
    """Make the calling-context trees of a population.

    group: per category, the group of each request, in 0..n_groups-1. O(requests · nodes); memory: cells of
    (node, group) that occur.
    """
    from scipy.sparse import csc_matrix

    book, sums = NameBook(), _Sums()
    requests = np.zeros(n_groups)
    spans = 0
    for category, mine in zip(population.categories, group, strict=True):
        spans += category.graph.nesting is not None
        places = _calls(category, book) if category.graph.nesting is not None else _points(category)
        requests += np.bincount(mine, category.weight, n_groups)
        sums.add(sums.nodes_of(places), places.time_us, mine, category.weight)
    none = np.zeros(0, np.int64)
    cells = np.concatenate([none, *sums.node]), np.concatenate([none, *sums.group])
    values = np.concatenate([np.zeros((4, 0)), *sums.values], axis=1)
    shape = (len(sums.numbers), n_groups)
    through, visits, time_us, squares = (csc_matrix((row, cells), shape=shape) for row in values)
    return CallingTree(
        np.array([above for above, _ in sums.numbers], dtype=np.int64),
        tuple(name for _, name in sums.numbers),
        through,
        visits,
        time_us,
        squares,
        requests,
        spans * 2 > len(population.categories),
    )


def _calls(category: Category, book: NameBook) -> _Places:
    (sites,) = sites_of_graphs([category.graph], [()], book)
    operations, known = tuple(book.operations), tuple(book.sites)
    names = []
    for site in sites.site.tolist():
        name = operations[known[site][1]]
        names.append(TreeName(name.component, name.what))
    own = own_time_ns(category.node_ns, sites, np.arange(sites.n_units, dtype=np.int64))
    return _Places(sites.above.tolist(), names, own / NS_PER_US)


def _points(category: Category) -> _Places:
    graph = category.graph
    above = awaited(category)
    times = category.node_ns
    since = times - times[np.maximum(above, 0)]
    return _Places(
        above.tolist(), [TreeName(node.where, node.what) for node in graph.nodes], since / NS_PER_US
    )


def awaited(category: Category) -> I8:
    """Predecessor for which each node waits, int64[nodes]: of several predecessors, the one that is reached
    last in most requests, by weight; ties by lowest index. ROOT for the first node.
    """
    before: dict[int, list[int]] = {}
    for src, dst in category.graph.edges.tolist():
        before.setdefault(dst, []).append(src)
    above = np.full(category.graph.n_nodes, ROOT, dtype=np.int64)
    for dst, sources in before.items():
        best = 0
        if len(sources) > 1:
            last = np.argmax(category.node_ns[sources], axis=0)
            best = int(np.argmax(np.bincount(last, category.weight, len(sources))))
        above[dst] = sources[best]
    return above
