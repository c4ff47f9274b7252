"""The table that is clustered: a row a request, a column a feature, equal rows merged (HOT §2.1, §2.2).

Three sets of features. *Points*: 1 for every trace point (with its semantic label) that a request reaches.
*Latencies*: mean latency of each ordered pair of points it passes, µs, 0 where it does not. *Counts*: how
often it passes the pair. Points and counts are the same for all requests of a category.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from analyze.paths.critical_path import edge_latency_ns
from analyze.population import Category, Graph, Population
from analyze.stats.moments import NS_PER_US
from schemas.arrays import F8, I8
from stitch.graph.placed import END

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


class FeatureSet(StrEnum):
    """What columns are made of."""

    POINTS = "points"
    LATENCIES = "latencies"
    COUNTS = "counts"


@dataclass(frozen=True, slots=True)
class FeatureRows:
    """Distinct rows."""

    sets: tuple[FeatureSet, ...]
    """[columns] set that a column belongs to."""
    names: tuple[str, ...]
    """[columns]"""
    matrix: csr_matrix
    """[rows, columns] values >= 0."""
    weight: F8
    """[rows] summed weight of the requests."""
    row_of: tuple[I8, ...]
    """[categories] of [requests]: row of every request."""

    @property
    def n_rows(self) -> int:
        """Number of distinct rows."""
        return len(self.weight)


@dataclass(slots=True)
class _Columns:
    """Numbers columns as they are first asked for."""

    known: dict[tuple[FeatureSet, str], int] = field(default_factory=dict)

    def number(self, kind: FeatureSet, name: str) -> int:
        return self.known.setdefault((kind, name), len(self.known))


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Ordered pairs of points of one graph; arrays are [pairs] unless told."""

    names: tuple[str, ...]
    order: I8
    """[edges] edges by pair."""
    first: I8
    """Place in `order` of the first edge of a pair."""
    count: I8

    def mean_us(self, category: Category) -> F8:
        """[pairs, requests] mean latency of a pair."""
        if not len(self.order):
            return np.zeros((0, category.n_requests))
        latency = edge_latency_ns(category).T
        sums: I8 = np.add.reduceat(latency[self.order], self.first, axis=0)
        return np.asarray(sums / (self.count[:, None] * NS_PER_US))


def feature_rows(population: Population, sets: Sequence[FeatureSet]) -> FeatureRows:
    """Distinct rows of all requests of all samples, and their weights. O(requests · edges).

    Deterministic; no loop over requests. Rows that are equal in unlike categories are one.
    """
    columns = _Columns()
    families: dict[tuple[Any, ...], list[tuple[int, F8]]] = {}
    for number, category in enumerate(population.categories):
        pairs = _pairs(category.graph)
        fixed = _fixed(category.graph, pairs, sets, columns)
        timed: tuple[int, ...] = ()
        block = np.zeros((0, category.n_requests))
        if FeatureSet.LATENCIES in sets:
            timed = tuple(columns.number(FeatureSet.LATENCIES, name) for name in pairs.names)
            block = pairs.mean_us(category)
        families.setdefault((fixed, timed), []).append((number, block))
    row_of: list[I8] = [np.zeros(0, np.int64)] * len(population.categories)
    parts: list[tuple[tuple[tuple[int, float], ...], tuple[int, ...], F8]] = []
    weights: list[F8] = []
    n_rows = 0
    for (fixed, timed), members in families.items():
        values, place = _distinct(np.concatenate([block for _, block in members], axis=1))
        weight = np.concatenate([population.categories[number].weight for number, _ in members])
        weights.append(np.bincount(place, weight, len(values)).astype(np.float64))
        begin = 0
        for number, block in members:
            row_of[number] = place[begin : begin + block.shape[1]] + n_rows
            begin += block.shape[1]
        parts.append((fixed, timed, values))
        n_rows += len(values)
    return FeatureRows(
        tuple(kind for kind, _ in columns.known),
        tuple(name for _, name in columns.known),
        _stacked(parts, n_rows, len(columns.known)),
        np.concatenate([np.zeros(0), *weights]),
        tuple(row_of),
    )


def point_name(graph: Graph, position: int) -> str:
    """A trace point as a column: both sides of a span are one point."""
    node = graph.nodes[position]
    return f"{node.host}/{node.operation}" if node.host else node.operation


def _pairs(graph: Graph) -> _Pairs:
    labels = [f"{graph.labels[src]} -> {graph.labels[dst]}" for src, dst in graph.edges.tolist()]
    names = tuple(sorted(set(labels)))
    place = {name: i for i, name in enumerate(names)}
    code = np.array([place[label] for label in labels], dtype=np.int64)
    order = np.argsort(code, kind="stable")
    count = np.bincount(code, minlength=len(names)).astype(np.int64)
    return _Pairs(names, order, np.cumsum(count) - count, count)


def _fixed(
    graph: Graph, pairs: _Pairs, sets: Sequence[FeatureSet], columns: _Columns
) -> tuple[tuple[int, float], ...]:
    """(column, value) of what all requests of a category have alike."""
    found: list[tuple[int, float]] = []
    if FeatureSet.POINTS in sets:
        points = {point_name(graph, i) for i, node in enumerate(graph.nodes) if node.side != END}
        found += [(columns.number(FeatureSet.POINTS, name), 1.0) for name in sorted(points)]
    if FeatureSet.COUNTS in sets:
        found += [
            (columns.number(FeatureSet.COUNTS, name), float(count))
            for name, count in zip(pairs.names, pairs.count.tolist(), strict=True)
        ]
    return tuple(sorted(found))


def _distinct(block: F8) -> tuple[F8, I8]:
    """([rows, columns] distinct columns of a block, [requests] row of each). O(requests log requests)."""
    n_columns, n_requests = block.shape
    if n_columns == 0 or n_requests == 0:
        return np.zeros((1 if n_requests else 0, n_columns)), np.zeros(n_requests, np.int64)
    rows = np.ascontiguousarray(block.T)
    keys = rows.view(np.dtype((np.void, rows.dtype.itemsize * n_columns))).reshape(-1)
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    return rows[first], place.astype(np.int64).reshape(-1)


def _stacked(
    parts: Sequence[tuple[tuple[tuple[int, float], ...], tuple[int, ...], F8]], n_rows: int, n_columns: int
) -> csr_matrix:
    """All rows below each other, sparse, without stored zeros."""
    from scipy.sparse import csr_matrix

    data, indices, lengths = [np.zeros(0)], [np.zeros(0, np.int32)], [np.zeros(0, np.int64)]
    for fixed, timed, values in parts:
        n = len(values)
        width = len(fixed) + len(timed)
        row = np.empty((n, width))
        row[:, : len(fixed)] = [value for _, value in fixed]
        row[:, len(fixed) :] = values
        data.append(row.reshape(-1))
        indices.append(np.tile(np.array([*(c for c, _ in fixed), *timed], np.int32), n))
        lengths.append(np.full(n, width, np.int64))
    start = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.concatenate(lengths))])
    matrix = csr_matrix((np.concatenate(data), np.concatenate(indices), start), shape=(n_rows, n_columns))
    matrix.sort_indices()
    matrix.eliminate_zeros()
    return matrix
