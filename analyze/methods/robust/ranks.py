"""Rank tests of two histograms a site (L.4): exact where requests are few."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.stats import norm

from analyze.methods.robust.site_votes import Votes, merged
from analyze.sites.totals import totals

I8 = npt.NDArray[np.int64]
F8 = npt.NDArray[np.float64]


def rank_test(votes: Votes, side: I8, n_sites: int) -> tuple[F8, F8]:
    """([sites] two-sided p, [sites] probability that a problem vote is larger than a reference one).

    side [slots]: 0 reference, 1 problem, -1 neither.
    """
    inside = side[votes.slot] >= 0
    here = votes.where(inside)
    rows = merged(here.site, side[here.slot], here.bin, here.n)
    key = rows.site * (1 << 13) + rows.bin
    found, inverse = np.unique(key, return_inverse=True)
    a = totals(inverse, rows.n * (rows.slot == 0), len(found))
    b = totals(inverse, rows.n * (rows.slot == 1), len(found))
    site = found >> 13
    total_a, total_b = totals(site, a, n_sites), totals(site, b, n_sites)
    before = np.concatenate(([0.0], np.cumsum(total_a)))[:-1]
    below = np.cumsum(a) - a - before[site]
    u = totals(site, b * (below + a / 2), n_sites)
    ties = totals(site, (a + b) ** 3 - (a + b), n_sites)
    total = total_a + total_b
    with np.errstate(divide="ignore", invalid="ignore"):
        auc = u / (total_a * total_b)
        variance = total_a * total_b / 12 * (total + 1 - ties / (total * (total - 1)))
        z = (u - total_a * total_b / 2) / np.sqrt(variance)
    p = np.where(variance > 0, 2 * norm.sf(np.abs(z)), 1.0)
    return p, auc
