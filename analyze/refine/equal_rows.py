"""Groups of equal rows of a small integer matrix, by hashing and then checking."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stitch.columnar.mixing import mix

I8 = npt.NDArray[np.int64]


def equal_rows(matrix: npt.NDArray[np.signedinteger]) -> tuple[I8, I8]:
    """Group the rows of `matrix` [rows, columns].

    Returns (first row of each group [groups], group of each row [rows]); groups are numbered by the
    lexicographic order of their contents, so the numbering does not depend on the order of rows. Exact: a
    hash finds the groups, a comparison confirms them. O(rows · columns + rows log rows).
    """
    rows = len(matrix)
    if rows == 0 or matrix.shape[1] == 0 or bool((matrix == matrix[:1]).all()):
        return np.zeros(min(rows, 1), dtype=np.int64), np.zeros(rows, dtype=np.int64)
    digest = np.zeros(rows, dtype=np.uint64)
    for column in range(matrix.shape[1]):
        digest = mix(digest ^ matrix[:, column].astype(np.int64).view(np.uint64))
    _, first, inverse = np.unique(digest, return_index=True, return_inverse=True)
    if not np.array_equal(matrix[first][inverse], matrix):
        _, first, inverse = np.unique(matrix, axis=0, return_index=True, return_inverse=True)
    order = np.lexsort(matrix[first].T[::-1])
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return first[order].astype(np.int64), rank[inverse.reshape(-1)]
