"""Find response-time mutations: KS tests of response times and edges, by both variants of paper mode.

Edges are tested one by one on the requests in which they are critical (`text`), or all edges by name
(`released`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Final

import numpy as np
import numpy.typing as npt

from analyze.methods.paper.settings import PaperSettings
from analyze.population import Category, Graph
from analyze.stats.ks import KsColumns, ks_columns, p_one_sided, p_two_sided
from schemas.arrays import B1, F8, I8

_INDEX = npt.NDArray[np.intp]

_PROBLEM: Final = 1
"""Index of the sample that is tested for a change."""
_NS_PER_MS: Final = 1_000_000
_RELEASED_LEAST_SIZE: Final = 4.0
"""Minimum of n0·n1/(n0 + n1 + _RELEASED_SIZE_MARGIN) for which the released source runs a test."""
_RELEASED_SIZE_MARGIN: Final = 0.0001
"""Term added to the denominator of the size compared with _RELEASED_LEAST_SIZE: it excludes samples whose
size would otherwise be exactly 4, i.e. of (8,8), (6,12) and (5,20) values."""


@dataclass(frozen=True, slots=True)
class KsTests:
    """Results of KS tests, one element per test; `d` and `p` are NaN where the test was not run."""

    n0: I8
    """Number of values of the reference."""
    n1: I8
    """Number of values of the problem."""
    d: F8
    p: F8
    changed: B1
    """True if the test rejects at p < alpha."""

    def at(self, places: _INDEX) -> KsTests:
        """Results of the tests with indices `places`."""
        return KsTests(*(getattr(self, field.name)[places] for field in fields(self)))

    @classmethod
    def joined(cls, parts: Iterable[KsTests]) -> KsTests:
        """Concatenate results of several calls."""
        none = np.zeros(0)
        every = [cls(none.astype(np.int64), none.astype(np.int64), none, none, none > 0), *parts]
        return cls(*(np.concatenate([getattr(part, field.name) for part in every]) for field in fields(cls)))


def response_time_tests(categories: Sequence[Category], settings: PaperSettings) -> KsTests:
    """KS test of the response times of each category, by the rules of the variant."""
    tests = released_tests if settings.variant == "released" else text_tests
    return KsTests.joined(
        tests(category.response_ns[:, None], category.sample == _PROBLEM, settings) for category in categories
    )


def text_tests(values_ns: I8, problem: B1, settings: PaperSettings, critical: B1 | None = None) -> KsTests:
    """Test each column on the values with `critical` set (None: all), as described in the papers.

    The test is two-sided, on times in ns, and is run if both periods have more than `min_requests` values.
    """
    if np.minimum(*_sizes(problem)) <= settings.min_requests:
        return _untested(np.ones(values_ns.shape, np.bool_) if critical is None else critical, problem)
    tested = ks_columns(values_ns, problem, critical)
    run = np.minimum(tested.n0, tested.n1) > settings.min_requests
    return _decide(tested, tested.d, p_two_sided(tested.d, tested.n0, tested.n1), run, settings)


def released_tests(values_ns: I8, problem: B1, settings: PaperSettings) -> KsTests:
    """Test each column as the released source does.

    Zeros are dropped. The test is run if enough values remain (`_RELEASED_LEAST_SIZE`), so that an edge in
    one period only is never significant. Values are rounded half up to whole ms. The test is one-sided
    (slower).
    """
    if not _released_enough(*_sizes(problem)).any():
        return _untested(values_ns > 0, problem)
    tested = ks_columns((values_ns + _NS_PER_MS // 2) // _NS_PER_MS, problem, values_ns > 0)
    p = p_one_sided(tested.d_slower, tested.n0, tested.n1)
    return _decide(tested, tested.d_slower, p, _released_enough(tested.n0, tested.n1), settings)


def _released_enough(n0: I8, n1: I8) -> B1:
    size: F8 = n0.astype(np.float64) * n1 / (n0 + n1 + _RELEASED_SIZE_MARGIN)
    enough: B1 = size >= _RELEASED_LEAST_SIZE
    return enough


def _sizes(problem: B1) -> tuple[I8, I8]:
    """Number of rows in each period, int64[1] each: upper bounds of the sizes of all columns."""
    n1 = np.array([np.count_nonzero(problem)], dtype=np.int64)
    return len(problem) - n1, n1


def _untested(include: B1, problem: B1) -> KsTests:
    """Results with NaN, for columns with too few values to test."""
    n1 = (include & problem[:, None]).sum(axis=0, dtype=np.int64)
    none = np.full(include.shape[1], np.nan)
    return KsTests(include.sum(axis=0, dtype=np.int64) - n1, n1, none, none, np.zeros(len(none), np.bool_))


def _decide(tested: KsColumns, d: F8, p: F8, run: B1, settings: PaperSettings) -> KsTests:
    p = np.where(run, p, np.nan)
    return KsTests(tested.n0, tested.n1, np.where(run, d, np.nan), p, run & (p < settings.alpha))


def named_edge_tests(category: Category, latency_ns: I8, settings: PaperSettings) -> KsTests:
    """Test edges by name: the latencies of all edges with the same name in the category are pooled. One
    result per edge.

    The released tool identifies an edge by the names of its ends only, and tests all edges, critical or not;
    so edges with one name have equal results. Example: a category a → b, b → a, a → b has the names a → b,
    with the latencies of its first and third edge, and b → a. latency_ns: int64[requests, edges]. O(requests
    · log requests · edges).
    """
    problem = category.sample == _PROBLEM
    of_edge, places = _names(category.graph)
    times = np.array([len(edges) for edges in places], dtype=np.int64)
    tested = []
    for k in np.unique(times).tolist():
        columns = np.array([edges for edges in places if len(edges) == k], dtype=np.intp)
        pooled = np.concatenate([latency_ns[:, columns[:, place]] for place in range(k)])
        tested.append(released_tests(pooled, np.tile(problem, k), settings))
    order = np.argsort(np.argsort(times, kind="stable"))
    return KsTests.joined(tested).at(order[of_edge])


def _names(graph: Graph) -> tuple[_INDEX, list[list[int]]]:
    """(Index of the name of each edge, int64[edges]; indices of the edges with each name)."""
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


def response_time_contribution(count0: int, mean0_us: float, mean1_us: float) -> float:
    """Contribution of a response-time mutation, requests·µs: number of the reference's requests times the
    change of the mean."""
    return count0 * (mean1_us - mean0_us)
