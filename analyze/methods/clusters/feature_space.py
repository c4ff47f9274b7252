"""Where requests lie: columns scaled, rare ones left out, and as few dimensions as tell most (ALGORITHMS F).

Paper style: the values as they are (raw Euclid); of several sets each is scaled to the same total variance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from analyze.methods.clusters.clusters_settings import ClustersSettings
from analyze.methods.clusters.feature_rows import FeatureRows, FeatureSet
from analyze.methods.clusters.row_draws import drawn_rows
from schemas.arrays import F8

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


Points = Any
"""[rows, dimensions]: a dense array, or scipy's CSR where there are many columns that are mostly 0."""

SVD_ROWS: Final = 20_000
"""Rows drawn for the directions of the SVD; all are then put into them."""
_CONSTANT: Final = 1e-9
"""Variance, relative to the mean square, below which a column is constant but for rounding."""


@dataclass(frozen=True, slots=True)
class FeatureSpace:
    """Rows as points."""

    points: Points
    columns: int
    """Columns that were used, before the SVD."""
    explained: float
    """Part of the sum of squares that the dimensions keep."""

    @property
    def dimensions(self) -> int:
        """Of a point."""
        return int(self.points.shape[1])


def feature_space(rows: FeatureRows, settings: ClustersSettings) -> FeatureSpace:
    """Rows as points. Deterministic in its arguments. O(values · dimensions)."""
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


_DENSE_CELLS: Final = 20_000_000
"""160 MB; a larger table stays sparse."""


def _spreads(matrix: csr_matrix, weight: F8) -> tuple[F8, F8, F8]:
    """[columns] weighted variance, mean square and share of requests that have the column."""
    total = weight.sum()
    rows = np.repeat(weight, np.diff(matrix.indptr))
    n = matrix.shape[1]
    mean = np.bincount(matrix.indices, rows * matrix.data, n) / total
    square = np.bincount(matrix.indices, rows * matrix.data**2, n) / total
    presence = np.bincount(matrix.indices, rows, n) / total
    return square - mean**2, square, presence


def _reduced(scaled: csr_matrix, weight: F8, settings: ClustersSettings) -> FeatureSpace:
    """The directions that keep most of the weighted sum of squares, not centred: sparse stays sparse."""
    from scipy.sparse import diags
    from sklearn.decomposition import TruncatedSVD

    rows, drawn = drawn_rows(weight, SVD_ROWS, settings.seed)
    told = diags(np.sqrt(drawn)) @ scaled[rows]
    dimensions = min(settings.dimensions, min(told.shape) - 1)
    if dimensions < 1:
        return FeatureSpace(scaled.toarray(), scaled.shape[1], 1.0)
    svd = TruncatedSVD(dimensions, random_state=settings.seed).fit(told)
    points = np.ascontiguousarray(svd.transform(scaled))
    whole = weight @ np.asarray(scaled.multiply(scaled).sum(axis=1)).reshape(-1)
    kept = weight @ (points**2).sum(axis=1)
    return FeatureSpace(points, scaled.shape[1], float(kept / whole))
