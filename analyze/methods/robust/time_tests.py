"""Own times and overlap of calls at sites: one request, one vote (L.4, L.9 items 2 and 3)."""

from __future__ import annotations

import numpy as np

from analyze.methods.robust.candidates import NONE, Candidates
from analyze.methods.robust.own_times import OwnTimes, given_shape, shifts
from analyze.methods.robust.robust_settings import RobustSettings
from analyze.methods.robust.roles import Roles
from analyze.methods.robust.site_votes import votes_of
from analyze.methods.robust.tail_tests import tail_changes
from analyze.methods.robust.visit_sums import BothSums
from analyze.profile.profile import OVERLAP, RATIO_SCALE, STRETCH, Profile
from schemas.report.findings import ChangeKind

_PLAIN = float(np.log(1.5))
_PLAIN_P = 1e-6
_PLAIN_REQUESTS = 30
_PLAIN_SHARE = 0.1


def time_changes(
    own: OwnTimes, profile: Profile, roles: Roles, sums: BothSums, settings: RobustSettings
) -> list[Candidates]:
    """Candidates of the families `slower`, `faster` and `tail`."""
    votes, found, noise = own.votes, own.shift, own.noise
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
    passes &= moved_ns > least
    # The response must have waited for it: means on the critical path move the same way, and by enough.
    passes &= sums.slower_a_visit_ns * np.sign(change) > least / 2
    shifts = found.candidates(
        np.flatnonzero((periods.n >= settings.min_requests).all(axis=1)),
        passes,
        noise,
        (ChangeKind.SLOWER, ChangeKind.FASTER),
        "us",
        1e-3,
        part_ns=sums.slower_ns,
        call_ratio=sums.call_ratio,
    )
    return [shifts, tail_changes(votes, profile.names, roles, sums, settings)]


def overlap_changes(profile: Profile, roles: Roles, sums: BothSums, settings: RobustSettings) -> Candidates:
    """Candidates of `serial` and `parallel`: the children of a call overlap less, or more, than they did.

    How many run at a time also falls where one of them gets slower (or faster) by itself, and all still begin
    together. They run one after the other only if they also take longer together than the longest of them
    does, by more than before.
    """
    votes, shape = votes_of(profile.votes, OVERLAP)
    if not len(votes.n):
        return NONE
    n_sites = len(profile.names.sites)
    found, noise = shifts(given_shape(votes, shape, roles), roles, settings, n_sites)
    passes = found.exceeds(settings.min_z, 2 * settings.time_floor)
    longer, its_shape = votes_of(profile.votes, STRETCH)
    together, _ = shifts(given_shape(longer, its_shape, roles), roles, settings, n_sites)
    with np.errstate(invalid="ignore"):
        passes &= -np.sign(found.shift) * together.shift > np.log1p(settings.time_floor)
    return found.candidates(
        np.flatnonzero((found.periods.n >= settings.min_requests).all(axis=1)),
        passes,
        noise,
        (ChangeKind.PARALLEL, ChangeKind.SERIAL),
        "ratio",
        1 / RATIO_SCALE,
        part_ns=np.zeros(n_sites),
        call_ratio=sums.call_ratio,
    )
