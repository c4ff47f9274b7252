"""Own times and overlap of calls at sites: one request, one vote (L.4, L.9 items 2 and 3)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from analyze.methods.robust.candidates import NONE, Candidates, LogShift
from analyze.methods.robust.noise_between import Noise, noise_between
from analyze.methods.robust.robust_settings import RobustSettings
from analyze.methods.robust.roles import Roles
from analyze.methods.robust.site_votes import Votes, merged, spread, votes_of
from analyze.methods.robust.tail_tests import tail_changes
from analyze.methods.robust.visit_sums import BothSums
from analyze.methods.robust.vote_ranks import rank_p
from analyze.sites.log_bins import BIN_LOG
from analyze.sites.profile import OVERLAP, OWN_TIME, RATIO_SCALE, Profile
from schemas.report.findings import ChangeKind

I8 = npt.NDArray[np.int64]
F8 = npt.NDArray[np.float64]
B1 = npt.NDArray[np.bool_]

_LEAST_OF_A_SHAPE = 3
"""Votes that a shape needs in the reference for its median."""
_PLAIN = float(np.log(1.5))
_PLAIN_P = 1e-6
_PLAIN_REQUESTS = 30
_PLAIN_SHARE = 0.1


def time_changes(
    profile: Profile, roles: Roles, sums: BothSums, settings: RobustSettings
) -> list[Candidates]:
    """Candidates of the families `slower`, `faster` and `tail`."""
    votes, shape = votes_of(profile.votes, OWN_TIME)
    votes = given_shape(votes, shape, roles)
    found, noise = _shifts(votes, roles, settings, len(profile.names.sites))
    periods, change = found.periods, found.shift
    moved_ns = (
        np.abs(np.exp(periods.log_median[:, 1]) - np.exp(periods.log_median[:, 0])) * sums.calls_a_visit
    )
    # What is plain (half as much again and a standard error, in many requests) counts though responses
    # hardly feel it.
    with np.errstate(invalid="ignore"):
        plain = (np.abs(change) - found.se > _PLAIN) & (found.p < _PLAIN_P)
    plain &= (periods.n >= _PLAIN_REQUESTS).all(axis=1)
    least = np.where(plain, _PLAIN_SHARE, 1.0) * settings.time_share * sums.mean_response_ns
    passes = found.exceeds(settings.min_z, settings.time_floor)
    passes &= noise.outside(periods.log_median[:, 1]) & (moved_ns > least)
    # The response must have waited for it: means on the critical path move the same way, and by enough.
    passes &= sums.slower_a_visit_ns * np.sign(change) > least / 2
    shifts = found.candidates(
        np.flatnonzero((periods.n >= settings.min_requests).all(axis=1)),
        passes,
        (ChangeKind.SLOWER, ChangeKind.FASTER),
        "us",
        1e-3,
        part_ns=sums.slower_ns,
        call_ratio=sums.call_ratio,
    )
    return [shifts, tail_changes(votes, profile.names, roles, sums, settings)]


def overlap_changes(profile: Profile, roles: Roles, sums: BothSums, settings: RobustSettings) -> Candidates:
    """Candidates of `serial` and `parallel`: the children of a call overlap less, or more, than they did."""
    votes, shape = votes_of(profile.votes, OVERLAP)
    if not len(votes.n):
        return NONE
    n_sites = len(profile.names.sites)
    found, noise = _shifts(given_shape(votes, shape, roles), roles, settings, n_sites)
    passes = found.exceeds(settings.min_z, 2 * settings.time_floor)
    return found.candidates(
        np.flatnonzero((found.periods.n >= settings.min_requests).all(axis=1)),
        passes & noise.outside(found.periods.log_median[:, 1]),
        (ChangeKind.PARALLEL, ChangeKind.SERIAL),
        "ratio",
        1 / RATIO_SCALE,
        part_ns=np.zeros(n_sites),
        call_ratio=sums.call_ratio,
    )


def _shifts(votes: Votes, roles: Roles, settings: RobustSettings, n_sites: int) -> tuple[LogShift, Noise]:
    """Shifts of the sites' medians, and what they do on their own."""
    periods = spread(votes, roles.side, n_sites, 2)
    noise = noise_between(spread(votes, roles.noise, n_sites, max(roles.n_noise, 1)), roles, settings)
    se = np.sqrt((periods.se**2).sum(axis=1) + noise.variance)
    return LogShift(periods, se, rank_p(votes, roles.side, n_sites)), noise


def given_shape(votes: Votes, shape: I8, roles: Roles) -> Votes:
    """Votes over the reference median of their shape: a call that took another path is no slower call.

    Scaled to the site's own median. A shape that the reference never had is for the shape test alone.
    """
    width = int(shape.max(initial=0)) + 1
    pair = votes.site * width + shape
    found, code = np.unique(pair, return_inverse=True)
    medians = spread(Votes(code, votes.slot, votes.bin, votes.n), _as_group(roles.ordinary), len(found), 1)
    enough = medians.n[:, 0] >= _LEAST_OF_A_SHAPE
    sites = spread(votes, _as_group(roles.ordinary), int(votes.site.max(initial=0)) + 1, 1)
    shift = np.zeros(len(found), dtype=np.int64)
    of_site = sites.log_median[found // width, 0]
    usable = enough & ~np.isnan(of_site)
    shift[usable] = np.rint((of_site[usable] - medians.log_median[usable, 0]) / BIN_LOG)
    keep = usable[code]
    return merged(votes.site[keep], votes.slot[keep], votes.bin[keep] + shift[code[keep]], votes.n[keep])


def _as_group(slots: B1) -> I8:
    return np.where(slots, 0, -1).astype(np.int64)
