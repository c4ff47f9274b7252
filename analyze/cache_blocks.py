"""Work on a matrix block by block, so that a block stays in the cache and memory is bounded."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import numpy as np

from schemas.arrays import I8

CACHE_CELLS: Final = 1 << 16
"""Number of cells in a block by default: 64 K of 8 bytes stay in a core's second-level cache."""
FEW_CELLS: Final = 1 << 18
"""Number of cells in a block for steps that make several arrays of the block's shape, 2 MB each."""
MANY_CELLS: Final = 1 << 20
"""Number of cells in a block for steps that make one array, at most 8 MB."""


def blocks(n: int, width: int, cells: int = CACHE_CELLS) -> Iterator[slice]:
    """Yield consecutive slices of `n` rows, each row of `width` cells, such that a slice has about `cells`
    cells."""
    step = max(1, cells // max(width, 1))
    for at in range(0, n, step):
        yield slice(at, min(at + step, n))


def uneven_blocks(width: I8, cells: int) -> Iterator[slice]:
    """Yield consecutive slices of rows such that a slice has about `cells` cells; width: int64[rows], number
    of cells of each row."""
    filled = np.cumsum(width) // cells
    for first, past in pairwise([0, *(np.flatnonzero(np.diff(filled)) + 1).tolist(), len(filled)]):
        if first < past:
            yield slice(first, past)
