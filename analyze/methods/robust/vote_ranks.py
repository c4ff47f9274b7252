"""Rank test of the votes of every site (L.4): exact where requests are few."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from analyze.methods.robust.site_votes import Votes
from analyze.stats.rank import rank_tests_of_groups
from analyze.stats.sums import numbered, totals

F8 = npt.NDArray[np.float64]


def rank_p(rows: Votes, n_sites: int) -> F8:
    """[sites] two-sided p of pooled votes (`pooled`): in the place of the slot 0 reference, 1 problem."""
    group, first = numbered((rows.site, rows.bin))
    reference, problem = (totals(group, rows.n * (rows.slot == period), len(first)) for period in (0, 1))
    return rank_tests_of_groups(rows.site[first], reference, problem, n_sites).p
