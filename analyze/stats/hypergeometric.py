"""Tails of the hypergeometric law: those of `scipy.stats.hypergeom`, bit by bit.

To import `scipy.stats` takes a second of CPU, a twelfth of a whole comparison, and nothing else of it is
used here. What it wraps has no public name yet: `tests/unit/test_stats_proportions.py` holds the two
together.
"""

from __future__ import annotations

import numpy as np
from scipy.special import _ufuncs

from schemas.arrays import F8, I8


def at_most(k: I8, total: I8, marked: I8, drawn: I8) -> F8:
    """P(X <= k) for X marked ones among `drawn` of `total`; arrays of one shape.

    k is one of the numbers that may be drawn: max(0, drawn - (total - marked)) to min(drawn, marked).
    """
    p: F8 = _ufuncs._hypergeom_cdf(k, marked, drawn, total)
    return p


def at_least(k: I8, total: I8, marked: I8, drawn: I8) -> F8:
    """P(X >= k) of the same."""
    least = np.maximum(drawn - (total - marked), 0)
    p: F8 = _ufuncs._hypergeom_sf(np.maximum(k - 1, least), marked, drawn, total)
    return np.where(k <= least, 1.0, p)
