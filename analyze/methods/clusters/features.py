"""Feature matrix of requests, and the space in which they are clustered (HotAC 2007 §2.1, §2.2).

Rows are requests, equal ones merged; columns are features, in three sets. *Points*: 1 for every trace point
(with its semantic label) that a request reaches. *Latencies*: mean latency of each step (ordered pair of
successive points) of a request, µs, else 0. *Counts*: number of times that a request takes each step. Points
and counts are the same for all requests of a category.

The space scales columns, drops rare ones, and keeps as few dimensions as hold most of the variance. Paper
style: the values unscaled (raw Euclid), except that several sets are each scaled to the same total variance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from analyze.methods.clusters.settings import ClustersSettings
from analyze.numbering import Numbering
from analyze.paths.critical_path import edge_latency_ns
from analyze.population import Graph, Population
from analyze.profile.sums import Grouped
from schemas.arrays import F8, I8
from schemas.windows import NS_PER_US
from stitch.graph.placed import END

Points = Any
"""Coordinates of rows, [rows, dimensions]: a dense array, or scipy's CSR for many, mostly zero columns."""
_SVD_ROWS: Final = 20_000
"""Maximum number of rows from which the directions of the SVD are computed; all rows are then projected on
them."""
_CONSTANT: Final = 1e-9
"""Variance, relative to the mean square, below which a column counts as constant (rounding)."""
_DENSE_CELLS: Final = 20_000_000
"""Maximum number of cells of a dense table, 160 MB; a larger table stays sparse."""

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


class FeatureSet(StrEnum):
    """Set of features by which requests are clustered."""

    POINTS = "points"
    LATENCIES = "latencies"
    COUNTS = "counts"


@dataclass(frozen=True, slots=True)
class FeatureRows:
    """Distinct rows of the feature matrix, with their weights."""

    sets: tuple[FeatureSet, ...]
    """Feature set of each column."""
    names: tuple[str, ...]
    """Name of each column's feature: a point, or a pair of points."""
    matrix: csr_matrix
    """Values of the features, >= 0, sparse [rows, columns]."""
    weight: F8
    """Sum of the weights of each row's requests, float64[rows]."""
    row_of: tuple[I8, ...]
    """Per category, the row of each request."""

    @property
    def n_rows(self) -> int:
        """Number of distinct rows."""
        return len(self.weight)


def feature_rows(population: Population, sets: Sequence[FeatureSet]) -> FeatureRows:
    """Compute the distinct rows of features of all requests of all samples, and their weights. O(requests ·
    edges).

    Deterministic; no loop over requests. Equal rows of different categories are merged.
    """
    columns = Numbering[tuple[FeatureSet, str]]()
    families: dict[tuple[Any, ...], list[tuple[int, F8]]] = {}
    for number, category in enumerate(population.categories):
        names, edges = _pairs(category.graph)
        fixed = _fixed(category.graph, names, edges, sets, columns)
        timed: tuple[int, ...] = ()
        block = np.zeros((0, category.n_requests))
        if FeatureSet.LATENCIES in sets:
            timed = tuple(columns[FeatureSet.LATENCIES, name] for name in names)
            block = edges.sums(edge_latency_ns(category).T) / (edges.sizes[:, None] * NS_PER_US)
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
        tuple(kind for kind, _ in columns),
        tuple(name for _, name in columns),
        _stacked(parts, n_rows, len(columns)),
        np.concatenate([np.zeros(0), *weights]),
        tuple(row_of),
    )


def _pairs(graph: Graph) -> tuple[list[str], Grouped]:
    """Ordered pairs of points of a graph, and its edges grouped by pair."""
    node = graph.labels
    labels = [f"{node[src]} -> {node[dst]}" for src, dst in graph.edges.tolist()]
    names = sorted(set(labels))
    place = {name: i for i, name in enumerate(names)}
    return names, Grouped(np.array([place[label] for label in labels], dtype=np.int64))


def _fixed(
    graph: Graph,
    pairs: Sequence[str],
    edges: Grouped,
    sets: Sequence[FeatureSet],
    columns: Numbering[tuple[FeatureSet, str]],
) -> tuple[tuple[int, float], ...]:
    """Features with the same value in all requests of a category: (column, value) of each.

    pairs, edges: as returned by `_pairs`. columns: numbers (set, name), and is extended.
    """
    found: list[tuple[int, float]] = []
    if FeatureSet.POINTS in sets:
        # Both sides of a span are one point.
        points = {f"{node.where}/{node.what}" for node in graph.nodes if node.side != END}
        found += [(columns[FeatureSet.POINTS, name], 1.0) for name in sorted(points)]
    if FeatureSet.COUNTS in sets:
        found += [
            (columns[FeatureSet.COUNTS, name], float(count))
            for name, count in zip(pairs, edges.sizes.tolist(), strict=True)
        ]
    return tuple(sorted(found))


def _distinct(block: F8) -> tuple[F8, I8]:
    """Distinct columns of a block as rows, float64[rows, columns], and the row of each request,
    int64[requests]. O(requests log requests)."""
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
    """Stack the rows of all parts in a sparse matrix, without stored zeros. parts: (fixed features, timed
    columns, values of the timed columns)."""
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


def drawn_rows(weight: F8, most: int, seed: int) -> tuple[I8, F8]:
    """Draw at most `most` rows for a fit: (indices, weights).

    All rows if there are at most `most`, else the distinct rows of `most` requests drawn with replacement;
    the weight of a drawn row is its number of draws. Deterministic.
    """
    if len(weight) <= most:
        return np.arange(len(weight), dtype=np.int64), weight
    counts = np.random.default_rng(seed).multinomial(most, weight / weight.sum())
    rows = np.flatnonzero(counts)
    return rows.astype(np.int64), counts[rows].astype(np.float64)


def halves(weight: F8, seed: int) -> tuple[F8, F8]:
    """Split the requests of each row at random into two halves: (weights of the first half, weights of the
    second). A fractional weight is split as if rounded."""
    rng = np.random.default_rng(seed)
    whole = np.maximum(np.rint(weight), 1).astype(np.int64)
    part = rng.binomial(whole, 0.5) / whole
    return weight * part, weight * (1 - part)


@dataclass(frozen=True, slots=True)
class FeatureSpace:
    """Rows of features as points in the space in which they are clustered."""

    points: Points
    """Coordinates of each row."""
    columns: int
    """Number of columns used, before the SVD."""
    explained: float
    """Share of the features' sum of squares that the dimensions of `points` retain, in [0, 1]."""

    @property
    def dimensions(self) -> int:
        """Number of dimensions of a point."""
        return int(self.points.shape[1])


def feature_space(rows: FeatureRows, settings: ClustersSettings) -> FeatureSpace:
    """Scale and reduce rows of features to points. Deterministic in its arguments. O(values · dimensions)."""
    matrix = rows.matrix.copy()
    kinds = np.array([list(FeatureSet).index(kind) for kind in rows.sets], dtype=np.int64)
    robust = settings.style == "robust"
    if robust:
        counted = kinds[matrix.indices] != list(FeatureSet).index(FeatureSet.POINTS)
        matrix.data = np.where(counted, np.log1p(matrix.data), matrix.data)
    variance, square, presence = _spreads(matrix, rows.weight)
    varies = variance > _CONSTANT * square
    kept = varies & (presence >= settings.least_presence) if robust else varies
    kept_columns = np.flatnonzero(kept)
    if not len(kept_columns):
        return FeatureSpace(np.zeros((rows.n_rows, 1)), 0, 1.0)
    scale = np.ones(len(kinds))
    if robust:
        scale[kept] = 1 / np.sqrt(variance[kept])
    sets = np.unique(kinds[kept])
    for kind in sets.tolist() if len(sets) > 1 else []:
        mine = kept & (kinds == kind)
        scale[mine] /= np.sqrt((variance * scale**2)[mine].sum())
    from scipy.sparse import diags

    scaled: csr_matrix = (matrix @ diags(scale)).tocsr()[:, kept_columns]
    if robust and len(kept_columns) > settings.dimensions:
        return _reduced(scaled, rows.weight, settings)
    dense = rows.n_rows * len(kept_columns) <= _DENSE_CELLS
    return FeatureSpace(scaled.toarray() if dense else scaled, len(kept_columns), 1.0)


def _spreads(matrix: csr_matrix, weight: F8) -> tuple[F8, F8, F8]:
    """Spread of each column, float64[columns] each: (weighted variance, mean square, share of requests with a
    nonzero value)."""
    total = weight.sum()
    rows = np.repeat(weight, np.diff(matrix.indptr))
    n = matrix.shape[1]
    mean = np.bincount(matrix.indices, rows * matrix.data, n) / total
    square = np.bincount(matrix.indices, rows * matrix.data**2, n) / total
    presence = np.bincount(matrix.indices, rows, n) / total
    return square - mean**2, square, presence


def _reduced(scaled: csr_matrix, weight: F8, settings: ClustersSettings) -> FeatureSpace:
    """Reduce points to the directions of the largest weighted sum of squares (SVD), not centred: sparse data
    stays sparse."""
    from scipy.sparse import diags
    from sklearn.decomposition import TruncatedSVD

    rows, drawn = drawn_rows(weight, _SVD_ROWS, settings.seed)
    sample = diags(np.sqrt(drawn)) @ scaled[rows]
    dimensions = min(settings.dimensions, min(sample.shape) - 1)
    if dimensions < 1:
        return FeatureSpace(scaled.toarray(), scaled.shape[1], 1.0)
    svd = TruncatedSVD(dimensions, random_state=settings.seed).fit(sample)
    points = np.ascontiguousarray(svd.transform(scaled))
    whole = weight @ np.asarray(scaled.multiply(scaled).sum(axis=1)).reshape(-1)
    kept = weight @ (points**2).sum(axis=1)
    return FeatureSpace(points, scaled.shape[1], float(kept / whole))
