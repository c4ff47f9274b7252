"""Correct many tests at once for the false discovery rate.

NaN marks a test that was not run: not counted and never rejected.
"""

from __future__ import annotations

import numpy as np

from schemas.arrays import F8


def q_values(p: F8) -> F8:
    """Benjamini-Hochberg adjusted p, float64[tests]: a test is rejected at false discovery rate q iff its
    value is <= q."""
    q = np.full(len(p), np.nan)
    run = np.flatnonzero(~np.isnan(p))
    if len(run) == 0:
        return q
    order = run[np.argsort(p[run], kind="stable")]
    scaled = p[order] * len(run) / np.arange(1, len(run) + 1)
    q[order] = np.minimum(1.0, np.minimum.accumulate(scaled[::-1])[::-1])
    return q
