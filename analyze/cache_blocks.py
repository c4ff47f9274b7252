"""Work on a matrix block by block: what is touched at a time stays in a cache, and memory is bounded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

CACHE_CELLS: Final = 1 << 16
"""64 K cells of 8 bytes stay in a core's second-level cache."""
FEW_CELLS: Final = 1 << 18
"""For steps that make several arrays of the shape, of 2 MB each."""
MANY_CELLS: Final = 1 << 20
"""For steps that make one array, of 8 MB at most."""


def blocks(n: int, width: int, cells: int = CACHE_CELLS) -> Iterator[slice]:
    """Slices that make up n, in order, of so many that they have about `cells` cells at a width each."""
    step = max(1, cells // max(width, 1))
    for at in range(0, n, step):
        yield slice(at, min(at + step, n))
