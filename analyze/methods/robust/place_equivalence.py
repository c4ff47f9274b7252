"""How much of the time is spent at places that are shown to be as fast as before (ALGORITHMS H.4, H.6).

Root types mix paths: hits beside misses, a hundredfold apart, in runs of either. Their means differ between
blocks although no step of theirs does, and thousands of requests do not show that nothing changed. Given
the place and its local shape they do: two one-sided tests of the mean logarithm of the own time, blocks of
time as observations. What share of the calls takes which path is a question of its own, which the tests of
paths and the share of slow requests answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from analyze.methods.robust.own_times import OwnTimes
from analyze.methods.robust.place_sizes import largest_at_places
from analyze.methods.robust.robust_settings import RobustSettings
from analyze.methods.robust.roles import Roles
from analyze.methods.robust.site_votes import Votes
from analyze.profile.profile import Profile
from analyze.stats.log_bins import BIN_LOG
from analyze.stats.sums import totals

F8 = npt.NDArray[np.float64]
B1 = npt.NDArray[np.bool_]

LEVEL = 0.90
"""Of the interval that must lie inside the band: two one-sided tests at 5 %."""
LEAST_SPREAD = 0.02
"""Standard deviation of a block's mean logarithm is taken to be this at least: a bin is 2.2 % wide."""


@dataclass(frozen=True, slots=True)
class PlaceEquivalence:
    """Which places are as fast as before, and how much slower they may be; arrays are [sites]."""

    share: float
    """Of the time on critical paths, each period counting the same, at places that are equivalent."""
    largest: float | None
    """Of `largest_at_places`."""
    change: F8
    """Logarithm of the ratio of typical own times; NaN where a period has no vote."""
    reach: F8
    """Half of its 90 % interval."""
    time_share: F8
    equivalent: B1


def place_equivalence(
    own: OwnTimes, profile: Profile, roles: Roles, settings: RobustSettings, band: float
) -> PlaceEquivalence:
    """TOST of every site. band: relative, 0.05 is ±5 %. O(rows of votes).

    Votes of a shape that the reference never had show nothing: a site counts as far as its votes were known.
    """
    n_sites = len(profile.names.sites)
    sides = [_means(own.votes, slots, n_sites) for slots in (roles.reference, roles.problem)]
    change = sides[1].mean - sides[0].mean
    variance = sides[0].variance + sides[1].variance
    with np.errstate(divide="ignore", invalid="ignore"):
        weak = sides[0].variance ** 2 / sides[0].freedom + sides[1].variance ** 2 / sides[1].freedom
        reach = np.sqrt(variance) * stdtrit(np.maximum(variance**2 / weak, 1.0), (1 + LEVEL) / 2)
        inside = np.abs(change) + reach <= math.log1p(band)
        told = np.minimum.reduce([side.n / cast for side, cast in zip(sides, own.cast, strict=True)])
    time_share = _time_shares(profile, roles)
    return PlaceEquivalence(
        share=float((time_share * np.nan_to_num(told) * inside).sum()),
        largest=largest_at_places(own, profile, roles, settings),
        change=change,
        reach=reach,
        time_share=time_share,
        equivalent=inside,
    )


@dataclass(frozen=True, slots=True)
class _Means:
    n: F8
    mean: F8
    variance: F8
    freedom: F8


def _means(votes: Votes, slots: B1, n_sites: int) -> _Means:
    """Mean logarithm of each site's votes, its variance by a ratio estimator over slots (`block_means`)."""
    here = votes.where(slots[votes.slot])
    n_slots = len(slots)
    cell = here.site * n_slots + here.slot
    logs = (here.bin + 0.5) * BIN_LOG
    n, total = (
        totals(cell, values, n_sites * n_slots).reshape(n_sites, n_slots)
        for values in (here.n, here.n * logs)
    )
    squares = totals(here.site, here.n * logs**2, n_sites)
    votes_n, blocks = n.sum(axis=1), (n > 0).sum(axis=1).astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = total.sum(axis=1) / votes_n
        residual = ((total - np.nan_to_num(mean)[:, None] * n) ** 2).sum(axis=1)
        between = blocks / (blocks - 1) * residual / votes_n**2
        single = np.maximum(squares / votes_n - mean**2, 0.0) / (votes_n - 1)
        several = blocks > 1
        variance = np.where(several, between, single) + LEAST_SPREAD**2 / np.maximum(votes_n, 1.0)
        variance = np.where(votes_n > 1, variance, np.nan)
    return _Means(votes_n, mean, variance, np.where(several, blocks - 1, np.maximum(votes_n - 1, 1.0)))


def _time_shares(profile: Profile, roles: Roles) -> F8:
    visits = profile.visits
    slot, site, ns = (visits[name].to_numpy() for name in ("slot", "site", "critical_ns"))
    shares = np.zeros(len(profile.names.sites))
    for slots in (roles.reference, roles.problem):
        mine = totals(site[slots[slot]], ns[slots[slot]], len(shares))
        shares += mine / max(float(mine.sum()), 1e-300) / 2
    return shares
