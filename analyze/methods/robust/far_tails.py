"""Few calls that take far longer than any ordinary one did (B.8): a second of back-off in one read of 100.

Ranks say little of them: five of five largest values in one period are chance once in 32 times. How far they
lie says the rest. Beyond the largest ordinary time the tail is continued by Pareto's law of index 1, heavier
than any whose mean exists: ten times as long is then ten times as rare. A rare way
of its own (a checkpoint that holds a lock now and then) is not of that tail: so there must be several, not in
one burst, unlikely by rank as well, and they must take much of the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import pdtrc

from analyze.methods.robust.robust_settings import RobustSettings
from analyze.methods.robust.roles import Roles
from analyze.methods.robust.site_votes import Votes
from analyze.methods.robust.visit_sums import BothSums
from analyze.stats.log_bins import N_BINS, bin_of, value_of
from analyze.stats.proportions import fisher
from analyze.stats.sums import totals

I8 = npt.NDArray[np.int64]
F8 = npt.NDArray[np.float64]
B1 = npt.NDArray[np.bool_]

FAR = 10.0
"""Times the largest ordinary time."""
LEAST_BLOCKS = 3
"""Blocks of time with a request that is so slow: a burst is one event."""
LEAST_KNOWN = 100
"""Ordinary times, from which a tail is continued."""
RANK_P = 0.2
"""What chance may make of it by rank alone: three of three in one of two periods, up to 1.4 times as long."""
TIME_SHARE = 0.2
"""Part of the response time of all that touch the site that they take."""


@dataclass(frozen=True, slots=True)
class FarTails:
    """Arrays are [sites]; ordinary times have no such call."""

    threshold: I8
    """Bin over which a call is far slower than any."""
    n: F8
    """Requests over it, problem."""
    p: F8
    """Of as many at the site and its like by the continued tails; 1 where there is none."""
    passes: B1
    excess_ns: F8
    """Time beyond the end of that bin, a call of the problem."""


def far_tails(
    votes: Votes, alike: Sequence[I8], roles: Roles, sums: BothSums, settings: RobustSettings
) -> FarTails:
    """Test every site with its like: who calls a slow one, or what follows a slow step, does not matter.

    votes: of `given_shape`. alike: ways to put sites together, [sites] number of a site's set in each. A
    site's own ordinary times say what is far there; of a set that counts all sites do that have such a call.
    O(rows of votes).
    """
    n_sites = len(alike[0])
    side = roles.side[votes.slot]
    n0, n1 = (totals(votes.site[side == period], votes.n[side == period], n_sites) for period in (0, 1))
    known = n0 >= settings.min_requests
    ordinary = side == 0
    largest = np.zeros(n_sites, dtype=np.int64)
    np.maximum.at(largest, votes.site[ordinary], votes.bin[ordinary])
    # What is next to nothing of a response is no measure of "far".
    least_ns = np.maximum(value_of(largest + 1), settings.time_share * sums.mean_response_ns)
    threshold = bin_of(FAR * least_ns)
    far = votes.where((side == 1) & (votes.bin > threshold[votes.site]) & known[votes.site])
    n = totals(far.site, far.n, n_sites)
    beyond_ns = totals(
        far.site, far.n * (value_of(far.bin + 0.5) - value_of(threshold[far.site] + 1)), n_sites
    )
    excess_ns = np.where(n > 0, beyond_ns / np.maximum(n1, 1e-300), 0.0)
    nearest = np.full(n_sites, N_BINS)
    np.minimum.at(nearest, far.site, far.bin)
    # The k-th largest is that far away or farther, if k are.
    beyond = np.minimum(least_ns / value_of(nearest), 1 / FAR)
    seen = _Seen(far, n, np.where(known, n0, 0.0), np.where(known, n1, 0.0), beyond, excess_ns)
    tested = [_tested(seen, sets, sums) for sets in alike]
    return FarTails(
        threshold,
        n,
        np.minimum(1.0, len(alike) * np.minimum.reduce([p for p, _ in tested])),
        np.logical_or.reduce([passes for _, passes in tested]) & (n > 0),
        excess_ns,
    )


@dataclass(frozen=True, slots=True)
class _Seen:
    """Calls that are far slower than any, and sums [sites] of sites that ordinary times know."""

    far: Votes
    n: F8
    n0: F8
    n1: F8
    beyond: F8
    """Chance of the largest ordinary one to be as far away as the nearest of these."""
    excess_ns: F8


def _tested(seen: _Seen, sets: I8, sums: BothSums) -> tuple[F8, B1]:
    """([sites] p, whether it passes) of each site's set."""
    n_sets = int(sets.max(initial=-1)) + 1
    expected = totals(sets, seen.n1 * seen.beyond / (seen.n0 + 1), n_sets)
    count, before, after = (
        np.rint(totals(sets, values, n_sets)).astype(np.int64) for values in (seen.n, seen.n0, seen.n1)
    )
    p = np.where(count > 0, pdtrc(np.maximum(count - 1, 0), expected), 1.0)
    times = np.unique(np.stack([sets[seen.far.site], seen.far.slot]), axis=1)[0]
    passes = (before >= LEAST_KNOWN) & (np.bincount(times, minlength=n_sets) >= LEAST_BLOCKS)
    passes &= fisher(np.zeros_like(count), before, count, after).p_more <= RANK_P
    visits = sums.problem.w
    excess_ns = totals(sets, visits * seen.excess_ns * sums.calls_a_visit, n_sets)
    passes &= excess_ns > TIME_SHARE * totals(sets, visits * (seen.n > 0) * sums.mean_response_ns, n_sets)
    return p[sets], passes[sets]
