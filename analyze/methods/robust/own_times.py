"""Votes on the own times of every site, given their shapes, and how their medians moved: worked out once.

The tests of times, tails and equivalence all look at them, and they are most of the rows of a profile.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analyze.methods.robust.candidates import LogShift
from analyze.methods.robust.noise_between import Noise, noise_between
from analyze.methods.robust.robust_settings import RobustSettings
from analyze.methods.robust.roles import Roles
from analyze.methods.robust.site_votes import Votes, merged, pooled, spread, spread_of, votes_of
from analyze.methods.robust.vote_ranks import rank_p
from analyze.profile.profile import OWN_TIME, Profile
from analyze.stats.log_bins import BIN_LOG
from analyze.stats.sums import numbered, totals

I8 = npt.NDArray[np.int64]
F8 = npt.NDArray[np.float64]
B1 = npt.NDArray[np.bool_]

_LEAST_OF_A_SHAPE = 3
"""Votes that a shape needs in the reference for its median."""


@dataclass(frozen=True, slots=True)
class OwnTimes:
    """Own times of the sites."""

    votes: Votes
    """Of shapes that ordinary times know, scaled to the median of the site (`given_shape`)."""
    cast: tuple[F8, F8]
    """[sites] votes of any shape: of the reference, of the problem."""
    shift: LogShift
    noise: Noise


def own_times(profile: Profile, roles: Roles, settings: RobustSettings) -> OwnTimes:
    """Own times of every site. O(rows of votes)."""
    every, shape = votes_of(profile.votes, OWN_TIME)
    n_sites = len(profile.names.sites)
    votes = given_shape(every, shape, roles)
    here = [every.where(slots[every.slot]) for slots in (roles.reference, roles.problem)]
    shift, noise = shifts(votes, roles, settings, n_sites)
    reference, problem = (totals(part.site, part.n, n_sites) for part in here)
    return OwnTimes(votes, (reference, problem), shift, noise)


def shifts(votes: Votes, roles: Roles, settings: RobustSettings, n_sites: int) -> tuple[LogShift, Noise]:
    """Shifts of the sites' medians, and what they do on their own."""
    rows = pooled(votes, roles.side)
    periods = spread_of(rows, n_sites, 2)
    noise = noise_between(spread(votes, roles.noise, n_sites, max(roles.n_noise, 1)), roles, settings)
    variance = (periods.se**2).sum(axis=1) + noise.variance
    return LogShift(periods, np.sqrt(variance), rank_p(rows, n_sites), noise.freedom_of(variance)), noise


def given_shape(votes: Votes, shape: I8, roles: Roles) -> Votes:
    """Votes over the reference median of their shape: a call that took another path is no slower call.

    Scaled to the site's own median. A shape that the reference never had is for the shape test alone.
    """
    code, first = numbered((votes.site, shape))
    ordinary = _as_group(roles.ordinary)
    medians = spread(Votes(code, votes.slot, votes.bin, votes.n), ordinary, len(first), 1)
    enough = medians.n[:, 0] >= _LEAST_OF_A_SHAPE
    sites = spread(votes, ordinary, int(votes.site.max(initial=0)) + 1, 1)
    shift = np.zeros(len(first), dtype=np.int64)
    of_site = sites.log_median[votes.site[first], 0]
    usable = enough & ~np.isnan(of_site)
    shift[usable] = np.rint((of_site[usable] - medians.log_median[usable, 0]) / BIN_LOG)
    keep = usable[code]
    here = votes.where(keep)
    return merged(here.site, here.slot, here.bin + shift[code[keep]], here.n)


def _as_group(slots: B1) -> I8:
    return np.where(slots, 0, -1).astype(np.int64)
