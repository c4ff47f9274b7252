"""Many tests at once: false discovery rate, and Simes' p of a group.

NaN is a test that was not run: it is not counted and never rejected.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from schemas.arrays import F8


def q_values(p: F8) -> F8:
    """Benjamini-Hochberg adjusted p, [tests]: a test is rejected at level q iff its value is <= q."""
    q = np.full(len(p), np.nan)
    run = np.flatnonzero(~np.isnan(p))
    if len(run) == 0:
        return q
    order = run[np.argsort(p[run], kind="stable")]
    scaled = p[order] * len(run) / np.arange(1, len(run) + 1)
    q[order] = np.minimum(1.0, np.minimum.accumulate(scaled[::-1])[::-1])
    return q


def simes(p: F8, group: npt.NDArray[np.integer], n_groups: int) -> F8:
    """Simes' p of each group, min_k m·p_(k)/k; NaN for a group without a test. p, group: [tests]."""
    run = np.flatnonzero(~np.isnan(p))
    order = run[np.lexsort((p[run], group[run]))]
    g = group[order]
    size = np.bincount(g, minlength=n_groups)
    rank = np.arange(1, len(g) + 1) - np.searchsorted(g, g, side="left")
    result = np.full(n_groups, np.inf)
    np.minimum.at(result, g, p[order] * size[g] / rank)
    return np.where(size > 0, np.minimum(result, 1.0), np.nan)
