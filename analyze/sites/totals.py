"""Sums by code."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

F8 = npt.NDArray[np.float64]


def totals(code: npt.NDArray[np.integer], value: npt.NDArray[np.generic], n: int) -> F8:
    """[n] sums of the values of each code, added in their order; float64 whatever the values are."""
    sums: F8 = np.bincount(code, np.asarray(value, dtype=np.float64), n).astype(np.float64, copy=False)
    return sums
