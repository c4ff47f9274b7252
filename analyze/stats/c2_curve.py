"""Distribution of C² over large categories (TR Figure 6; ALGORITHMS H.3)."""

from __future__ import annotations

from typing import Final

import numpy as np

from schemas.arrays import F8, I8
from schemas.report.variance import C2Curve

HIGH: Final = 1.0
"""C² above this is high variance (VF §4.2)."""
MOST_POINTS: Final = 256


def c2_curve(name: str, c2: F8, requests: I8) -> C2Curve:
    """The curve of a sample's large categories.

    c2: [categories] NaN where the mean is 0, which are left out. requests: [categories] their requests.
    """
    known = np.isfinite(c2)
    order = np.argsort(c2[known], kind="stable")
    c2, n = c2[known][order], requests[known][order]
    low = c2 < HIGH
    places = np.unique(np.linspace(0, max(len(c2) - 1, 0), MOST_POINTS).round().astype(int))[: len(c2)]
    return C2Curve(
        sample=name,
        categories=len(c2),
        below_one=float(low.mean()) if len(c2) else None,
        requests_below_one=float(n[low].sum() / n.sum()) if len(c2) else None,
        largest=float(c2[-1]) if len(c2) else None,
        points=tuple((float(c2[i]), (int(i) + 1) / len(c2)) for i in places),
    )
