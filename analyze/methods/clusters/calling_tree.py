"""Build calling-context trees: a node is one iff its way to the root is the same (HOT §2.3).

Of spans the tree is that of calls, and a node's time is the call's own. Of activity records it is that of
trace points as they follow each other, and a node's time is the latency since the point before; at a join
that is the branch which the join waited for in most requests of its category. Every way in the tree was taken
by a request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from analyze.numbering import Numbering
from analyze.population import Category, Population
from analyze.profile.call_sites import graph_sites
from analyze.profile.names import NameBook
from analyze.profile.times import own_time_ns
from schemas.arrays import F8, I8
from schemas.windows import NS_PER_US

if TYPE_CHECKING:
    from scipy.sparse import csc_matrix


ROOT: Final = -1


class TreeName(NamedTuple):
    """What a node is called."""

    where: str
    """`[host/]component`."""
    what: str
    """Point or operation, with its label and whom it calls."""


class _Places(NamedTuple):
    """The places of one category; arrays are [places], a place comes after the one above."""

    above: Sequence[int]
    """Place; ROOT for the first."""
    names: Sequence[TreeName]
    time_us: F8
    """[places, requests]"""


@dataclass(frozen=True, slots=True)
class CallingTree:
    """The trees of all requests, one forest; matrices are [nodes, groups], summed weights of requests."""

    above: I8
    """[nodes] ROOT for a root; a node comes after the one above."""
    names: tuple[TreeName, ...]
    through: csc_matrix
    """Requests that pass the node."""
    visits: csc_matrix
    """Times that they do."""
    time_us: csc_matrix
    """Summed over visits."""
    time_squares: csc_matrix
    """The same of squares, µs²."""
    requests: F8
    """[groups]"""
    calls: bool
    """Made of spans."""

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.above)

    def summed_groups(self, matrix: csc_matrix, into: I8, n: int) -> F8:
        """[nodes, n] one of the matrices, its groups added up; into: [groups]."""
        from scipy.sparse import csr_matrix

        places = np.arange(len(into))
        together = csr_matrix((np.ones(len(into)), (places, into)), shape=(len(into), n))
        return np.asarray((matrix @ together).toarray())


@dataclass(slots=True)
class _Sums:
    """What is added up while categories are read."""

    numbers: Numbering[tuple[int, TreeName]] = field(default_factory=Numbering)
    node: list[I8] = field(default_factory=list)
    group: list[I8] = field(default_factory=list)
    values: list[F8] = field(default_factory=list)
    """[4, cells]: through, visits, time, squares of times."""

    def nodes_of(self, places: _Places) -> I8:
        """[places] nodes, numbered as they are first seen."""
        found: list[int] = []
        for above, name in zip(places.above, places.names, strict=True):
            key = (ROOT if above == ROOT else found[above], name)
            found.append(self.numbers[key])
        return np.array(found, dtype=np.int64)

    def add(self, node: I8, time_us: F8, group: I8, weight: F8) -> None:
        """Add one category; places with the same way to the root are visits of one node."""
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
    """The trees of a population; `group` [categories] of [requests] says whose sums a request is in.

    O(requests · nodes); memory: cells of (node, group) that occur.
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
    sites = graph_sites(category.graph, (), book)
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
    """[nodes] the node before each; of several the one that was reached last in most requests, by weight.

    Ties go to the lower position. ROOT for the first node.
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
