"""Counts equal whole numbers that lie close together, as times cut to days or windows do."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

I8 = npt.NDArray[np.int64]

_DENSE = 1 << 16
"""Spread up to which numbers are counted by an array instead of sorting."""


def count_values(values: I8) -> tuple[I8, I8]:
    """The distinct values, ascending, and how often each occurs. O(values), or a sort where they lie far
    apart."""
    if not len(values):
        return values, values
    first = int(values.min())
    if int(values.max()) - first >= _DENSE:
        distinct, counts = np.unique(values, return_counts=True)
        return distinct, counts.astype(np.int64)
    counts = np.bincount(values - first)
    found = np.flatnonzero(counts)
    return found + first, counts[found].astype(np.int64)
