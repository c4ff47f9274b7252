"""KS tests of a category's edges: critical ones one by one (`text`), all of them by name (`released`)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from analyze.methods.spectroscope.paper_settings import PaperSettings
from analyze.methods.spectroscope.timing import PROBLEM, KsTests, released_tests, text_tests
from analyze.population import Category, Graph

I8 = npt.NDArray[np.int64]
B1 = npt.NDArray[np.bool_]
INDEX = npt.NDArray[np.intp]


def critical_edge_tests(category: Category, latency_ns: I8, critical: B1, settings: PaperSettings) -> KsTests:
    """[edges] tests of each edge over the requests in which it was critical (NSDI §5.1).

    `latency_ns`, `critical`: [requests, edges].
    """
    return text_tests(latency_ns, category.sample == PROBLEM, critical, settings)


def named_edge_tests(category: Category, latency_ns: I8, settings: PaperSettings) -> KsTests:
    """[edges] tests of each edge's *name*: the latencies of all places of it in the category are one sample.

    The released tool knows an edge by the names of its ends only, and looks at all of them, critical or not
    (B.1b); so the edges of one name share their numbers here. A category a → b, b → a, a → b has the names
    a → b, with the latencies of its first and third edge, and b → a. `latency_ns`: [requests, edges].
    O(requests · log requests · edges).
    """
    problem = category.sample == PROBLEM
    of_edge, places = _names(category.graph)
    n0, n1 = np.zeros(len(places), np.int64), np.zeros(len(places), np.int64)
    d, p = np.full(len(places), np.nan), np.full(len(places), np.nan)
    changed = np.zeros(len(places), np.bool_)
    times = np.array([len(edges) for edges in places], dtype=np.int64)
    for k in np.unique(times).tolist():
        names = np.flatnonzero(times == k)
        columns = np.array([places[name] for name in names], dtype=np.intp)
        pooled = np.concatenate([latency_ns[:, columns[:, place]] for place in range(k)])
        tested = released_tests(pooled, np.tile(problem, k), settings)
        n0[names], n1[names], d[names], p[names] = tested.n0, tested.n1, tested.d, tested.p
        changed[names] = tested.changed
    return KsTests(n0[of_edge], n1[of_edge], d[of_edge], p[of_edge], changed[of_edge])


def _names(graph: Graph) -> tuple[INDEX, list[list[int]]]:
    """([edges] number of each edge's name, the edges of each name)."""
    number: dict[tuple[object, object], int] = {}
    places: list[list[int]] = []
    of_edge = np.zeros(len(graph.edges), dtype=np.intp)
    for edge, (src, dst) in enumerate(graph.edges.tolist()):
        name = number.setdefault((graph.nodes[src], graph.nodes[dst]), len(places))
        if name == len(places):
            places.append([])
        places[name].append(edge)
        of_edge[edge] = name
    return of_edge, places
