"""How much slower requests that pass a place may be although nothing was found there (B.12, L.6).

Two intervals say so, and either may: of the place's typical time, and of what the place takes of a visit on
average. The first is blind where times have two modes (a wait that is met or not): the median jumps from one
to the other. The second is blind where a few calls take most of the time.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from analyze.assurance.largest_change import size_for
from analyze.methods.robust.noise_between import LEAST_IN_ENVELOPE
from analyze.methods.robust.own_times import OwnTimes
from analyze.methods.robust.robust_settings import RobustSettings
from analyze.methods.robust.roles import Roles
from analyze.methods.robust.visit_sums import VisitSums, visit_sums
from analyze.profile.profile import Profile
from analyze.stats.noise import LEAST_FOR_ENVELOPE
from analyze.stats.sums import totals

F8 = npt.NDArray[np.float64]

_Z95 = 1.96


def largest_at_places(
    own: OwnTimes, profile: Profile, roles: Roles, settings: RobustSettings
) -> float | None:
    """Largest change of requests that pass a place, relative, which the data allow; None: any.

    At places with nearly all of the time, among those that more than `matters_share` of the requests pass: a
    change at the others is one of fewer requests than matter. O(rows).
    """
    sums = [visit_sums(profile, slots) for slots in (roles.ordinary, roles.problem)]
    many = np.maximum.reduce([one.w / max(one.requests, 1e-300) for one in sums]) > settings.matters_share
    size = np.fmin(typical_sizes(own, settings, sums), mean_sizes(profile, roles, settings, sums))
    time_share = sum(one.critical_ns / max(float(one.critical_ns.sum()), 1e-300) for one in sums)
    weight = np.where(many, time_share, 0.0)
    return size_for(np.where(np.isnan(size), np.inf, size).tolist(), weight.tolist())


def typical_sizes(own: OwnTimes, settings: RobustSettings, sums: list[VisitSums]) -> F8:
    """[sites] by the 95 % interval of the ratio of medians, noise between blocks included; NaN: not known."""
    periods = own.shift.periods
    with np.errstate(invalid="ignore"):
        change = np.abs(periods.log_median[:, 1] - periods.log_median[:, 0])
        size = np.expm1(change + _Z95 * own.shift.se)
        part = sum(one.critical_ns for one in sums) / np.maximum(sum(one.response_ns for one in sums), 1e-300)
        tested = (periods.n >= settings.min_requests).all(axis=1)
        found: F8 = np.where(tested, size * part, np.nan)
    return found


def mean_sizes(profile: Profile, roles: Roles, settings: RobustSettings, sums: list[VisitSums]) -> F8:
    """[sites] by the 95 % interval of the difference of mean critical times a visit; NaN: not known.

    Ordinary windows, five at least, tell how far such means of windows lie apart, chance in them included; a
    problem with fewer visits than a window usually has is so much less sure.
    """
    n_sites, n_windows = len(profile.names.sites), max(roles.n_noise, 1)
    visits = profile.visits
    window = roles.noise[visits["slot"].to_numpy()]
    inside = window >= 0
    cell = visits["site"].to_numpy()[inside] * n_windows + window[inside]
    n, w, ns = (
        totals(cell, visits[name].to_numpy()[inside], n_sites * n_windows).reshape(n_sites, n_windows)
        for name in ("n", "w", "critical_ns")
    )
    told = n >= LEAST_IN_ENVELOPE
    ordinary, problem = sums
    with np.errstate(divide="ignore", invalid="ignore"):
        before, after = ordinary.critical_ns / ordinary.w, problem.critical_ns / problem.w
        apart = np.where(told, (ns / w - before[:, None]) ** 2, 0.0)
        windows = told.sum(axis=1)
        usual = np.where(told, n, 0.0).sum(axis=1) / windows
        variance = apart.sum(axis=1) / (windows - 1) * np.maximum(usual / problem.n, 1.0)
        reach = np.abs(after - before) + _Z95 * np.sqrt(variance * (1 + 1 / windows))
        size = reach / (ordinary.response_ns / ordinary.w)
        known = (windows >= LEAST_FOR_ENVELOPE) & (problem.n >= settings.min_requests)
        found: F8 = np.where(known, size, np.nan)
    return found
