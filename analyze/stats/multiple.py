"""Correct many tests at once for the false discovery rate.

NaN marks a test that was not run: not counted and never rejected.
"""

from __future__ import annotations

import numpy as np

from schemas.arrays import F8


def q_values(p: F8) -> F8:
    """float64[tests]: p adjusted for the false discovery rate (Benjamini-Hochberg).

    A test is significant at false discovery rate q iff the adjusted p is <= q. NaN for tests with p NaN."""
    q = np.full(len(p), np.nan)
    run = np.flatnonzero(~np.isnan(p))
    if len(run) == 0:
        return q
    order = run[np.argsort(p[run], kind="stable")]
    scaled = p[order] * len(run) / np.arange(1, len(run) + 1)
    q[order] = np.minimum(1.0, np.minimum.accumulate(scaled[::-1])[::-1])
    return q
