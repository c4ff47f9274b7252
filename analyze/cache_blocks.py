"""Work on a matrix block by block, so that a block stays in the cache and memory is bounded."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import numpy as np

from schemas.arrays import I8

CACHE_CELLS: Final = 1 << 16
"""Cells of a block: 64 K of 8 bytes stay in a core's second-level cache."""
FEW_CELLS: Final = 1 << 18
"""Cells of a block for steps that make several arrays of its shape, of 2 MB each."""
MANY_CELLS: Final = 1 << 20
"""Cells of a block for steps that make one array, of 8 MB at most."""


def blocks(n: int, width: int, cells: int = CACHE_CELLS) -> Iterator[slice]:
    """Yield slices that make up `n` rows of `width` cells, in order, each of about `cells` cells."""
    step = max(1, cells // max(width, 1))
    for at in range(0, n, step):
        yield slice(at, min(at + step, n))


def uneven_blocks(width: I8, cells: int) -> Iterator[slice]:
    """Yield slices that cover rows of `width` [rows] cells, in order, each of about `cells` cells."""
    filled = np.cumsum(width) // cells
    for first, past in pairwise([0, *(np.flatnonzero(np.diff(filled)) + 1).tolist(), len(filled)]):
        if first < past:
            yield slice(first, past)
