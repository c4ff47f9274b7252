"""Rows of equal (place, column, bin) added up, one by one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

I8 = npt.NDArray[np.int64]
F8 = npt.NDArray[np.float64]


def summed_rows(site: I8, slot: I8, place: I8, n: F8) -> tuple[I8, I8, I8, F8]:
    """(site, slot, bin, n), sorted, each once."""
    sums: dict[tuple[int, int, int], float] = {}
    for s, t, b, votes in zip(site.tolist(), slot.tolist(), place.tolist(), n.tolist(), strict=True):
        key = (s, t, min(max(b, 0), 8191))
        sums[key] = sums.get(key, 0.0) + votes
    keys = np.array(sorted(sums), dtype=np.int64).reshape(-1, 3)
    return keys[:, 0], keys[:, 1], keys[:, 2], np.array([sums[key] for key in sorted(sums)])
