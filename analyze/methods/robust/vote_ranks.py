"""Rank test of the votes of every site (L.4): exact where requests are few."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from analyze.methods.robust.site_votes import Votes, merged
from analyze.sites.totals import totals
from analyze.stats.rank import rank_tests_of_groups

I8 = npt.NDArray[np.int64]
F8 = npt.NDArray[np.float64]


def rank_p(votes: Votes, side: I8, n_sites: int) -> F8:
    """[sites] two-sided p; side [slots]: 0 reference, 1 problem, -1 neither."""
    here = votes.where(side[votes.slot] >= 0)
    rows = merged(here.site, side[here.slot], here.bin, here.n)
    key, group = np.unique(rows.site << 32 | rows.bin, return_inverse=True)
    reference, problem = (totals(group, rows.n * (rows.slot == period), len(key)) for period in (0, 1))
    return rank_tests_of_groups(key >> 32, reference, problem, n_sites).p
