"""Fisher's noncentral hypergeometric law: number of marked items drawn, if marked items are drawn with other
odds than unmarked items.

Use: a group has x0 hits before and x1 after, all other groups together have y0 and y1. If the group changed
in the same way as the others, x1 has this law for given margins; the odds are the ratio of the exposures.
"""

from __future__ import annotations

import numpy as np
from scipy.special import betainc, gammaln

from schemas.arrays import F8


def at_least_given_odds(x1: float, x0: float, y1: float, y0: float, odds: float) -> float:
    """P(X >= x1) of Fisher's noncentral hypergeometric law: X is the number of marked items among x1 + y1
    items drawn from x0 + x1 marked and y0 + y1 unmarked items.

    odds: odds of drawing a marked item relative to an unmarked item. x0 and y0 need not be integers.
    O(x0 + x1).
    """
    marked, others, drawn = x0 + x1, y0 + y1, x1 + y1
    k = x1 + np.arange(-np.floor(min(x1, y0)), np.floor(min(x0, y1)) + 1)
    logs = k * np.log(odds) - sum(gammaln(n + 1) for n in (k, marked - k, drawn - k, others - drawn + k))
    weight: F8 = np.exp(logs - logs.max())
    return float(min(weight[k >= x1].sum() / weight.sum(), 1.0))


def at_least_of(x: float, n: float, share: float) -> float:
    """P(X >= x) of a binomial law with n draws of probability `share`; for non-integer n by the Beta
    integral."""
    return 1.0 if x <= 0 else float(betainc(x, n - x + 1, share))
