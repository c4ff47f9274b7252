"""Fisher's noncentral hypergeometric law: number of marked items drawn, if marked ones have other odds.

For hits x0 and x1 of a group before and after, y0 and y1 of all others, the number x1 given all margins has
this law, with the odds ratio of the exposures, if the group changed as the others did.
"""

from __future__ import annotations

import numpy as np
from scipy.special import betainc, gammaln

from schemas.arrays import F8


def at_least_given_odds(x1: float, x0: float, y1: float, y0: float, odds: float) -> float:
    """P(X >= x1) when drawing x1 + y1 out of x0 + x1 marked items and y0 + y1 others, marked ones with odds
    `odds`; x0 and y0 need not be integers. O(x0 + x1)."""
    marked, others, drawn = x0 + x1, y0 + y1, x1 + y1
    k = x1 + np.arange(-np.floor(min(x1, y0)), np.floor(min(x0, y1)) + 1)
    logs = k * np.log(odds) - sum(gammaln(n + 1) for n in (k, marked - k, drawn - k, others - drawn + k))
    weight: F8 = np.exp(logs - logs.max())
    return float(min(weight[k >= x1].sum() / weight.sum(), 1.0))


def at_least_of(x: float, n: float, share: float) -> float:
    """P(X >= x) of a binomial law with n draws; for non-integer n by the Beta integral."""
    return 1.0 if x <= 0 else float(betainc(x, n - x + 1, share))
