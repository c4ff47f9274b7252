"""Say how much of the time lies at call sites shown to be as fast as before, and how much slower they may be.

Root types mix paths: hits beside misses, a hundredfold apart, in runs of either. Their means differ between
blocks although no step of theirs does, and thousands of requests do not show that nothing changed. Given
the place and its local shape they do: two one-sided tests of the mean logarithm of the own time, blocks of
time as observations (H.4, H.6). What share of the calls takes which path is a question of its own, which the
tests of paths and the share of slow requests answer.

How much slower a place may be two intervals say, and either may (B.12, L.6): of its typical time, and of what
it takes of a visit on average. The first is blind where times have two modes (a wait that is met or not): the
median jumps from one to the other. The second is blind where a few calls take most of the time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from analyze.methods.robust.roles import Roles
from analyze.methods.robust.verdict.sizes import size_for
from analyze.methods.robust.view import View, values_of
from analyze.profile.profile import OWN_TIME, Profile
from analyze.stats.estimate import LEAST_IN_ENVELOPE
from analyze.stats.histograms import Histograms
from analyze.stats.log_bins import BIN_LOG
from analyze.stats.noise import LEAST_FOR_ENVELOPE
from analyze.stats.sums import totals
from schemas.arrays import B1, F8

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


def place_equivalence(view: View, band: float) -> PlaceEquivalence:
    """TOST of every site. band: relative, 0.05 is ±5 %. O(rows of votes).

    Votes of a shape that the reference never had show nothing: a site counts as far as its votes were known.
    """
    n_sites, roles = view.n_sites, view.roles
    sides = [_means(view.own_times, slots, n_sites) for slots in (roles.reference, roles.problem)]
    every, _ = values_of(view.profile, OWN_TIME)
    # Values of any pattern: of the reference, of the problem.
    cast = [
        totals(every.place, every.n * slots[every.column], n_sites)
        for slots in (roles.reference, roles.problem)
    ]
    change = sides[1].mean - sides[0].mean
    variance = sides[0].variance + sides[1].variance
    with np.errstate(divide="ignore", invalid="ignore"):
        weak = sides[0].variance ** 2 / sides[0].freedom + sides[1].variance ** 2 / sides[1].freedom
        reach = np.sqrt(variance) * stdtrit(np.maximum(variance**2 / weak, 1.0), (1 + LEVEL) / 2)
        inside = np.abs(change) + reach <= math.log1p(band)
        told = np.minimum.reduce([side.n / n for side, n in zip(sides, cast, strict=True)])
    time_share = _time_shares(view.profile, roles)
    return PlaceEquivalence(
        share=float((time_share * np.nan_to_num(told) * inside).sum()),
        largest=largest_at_places(view),
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


def _means(votes: Histograms, slots: B1, n_sites: int) -> _Means:
    """Mean logarithm of each site's votes, its variance by a ratio estimator over slots (`block_means`)."""
    here = votes.where(slots[votes.column])
    n_slots = len(slots)
    cell = here.place * n_slots + here.column
    logs = (here.bin + 0.5) * BIN_LOG
    n, total = (
        totals(cell, values, n_sites * n_slots).reshape(n_sites, n_slots)
        for values in (here.n, here.n * logs)
    )
    squares = totals(here.place, here.n * logs**2, n_sites)
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


_Z95 = 1.96


def largest_at_places(view: View) -> float | None:
    """Largest change of requests that pass a place, relative, which the data allow; None: any.

    At places with nearly all of the time, among those that more than `matters_share` of the requests pass: a
    change at the others is one of fewer requests than matter. O(rows).
    """
    sums = [view.before, view.after]
    many = (
        np.maximum.reduce([one.w / max(one.requests, 1e-300) for one in sums]) > view.settings.matters_share
    )
    size = np.fmin(typical_sizes(view), mean_sizes(view))
    time_share = sum(one.critical_ns / max(float(one.critical_ns.sum()), 1e-300) for one in sums)
    weight = np.where(many, time_share, 0.0)
    return size_for(np.where(np.isnan(size), np.inf, size).tolist(), weight.tolist())


def typical_sizes(view: View) -> F8:
    """[sites] by the 95 % interval of the ratio of medians, noise between blocks included; NaN: not known."""
    own, sums = view.own_time, (view.before, view.after)
    with np.errstate(invalid="ignore"):
        size = np.expm1(np.abs(own.change) + _Z95 * own.se)
        part = sum(one.critical_ns for one in sums) / np.maximum(sum(one.response_ns for one in sums), 1e-300)
        tested = np.minimum(own.n0, own.n1) >= view.settings.min_requests
        found: F8 = np.where(tested, size * part, np.nan)
    return found


def mean_sizes(view: View) -> F8:
    """[sites] by the 95 % interval of the difference of mean critical times a visit; NaN: not known.

    Ordinary windows, five at least, tell how far such means of windows lie apart, chance in them included; a
    problem with fewer visits than a window usually has is so much less sure.
    """
    n_sites, n_windows = view.n_sites, view.n_blocks
    visits = view.profile.visits
    window = view.roles.noise[visits["slot"].to_numpy()]
    inside = window >= 0
    cell = visits["site"].to_numpy()[inside] * n_windows + window[inside]
    n, w, ns = (
        totals(cell, visits[name].to_numpy()[inside], n_sites * n_windows).reshape(n_sites, n_windows)
        for name in ("n", "w", "critical_ns")
    )
    told = n >= LEAST_IN_ENVELOPE
    ordinary, problem = view.before, view.after
    with np.errstate(divide="ignore", invalid="ignore"):
        before, after = ordinary.critical_ns / ordinary.w, problem.critical_ns / problem.w
        apart = np.where(told, (ns / w - before[:, None]) ** 2, 0.0)
        windows = told.sum(axis=1)
        usual = np.where(told, n, 0.0).sum(axis=1) / windows
        variance = apart.sum(axis=1) / (windows - 1) * np.maximum(usual / problem.n, 1.0)
        reach = np.abs(after - before) + _Z95 * np.sqrt(variance * (1 + 1 / windows))
        size = reach / (ordinary.response_ns / ordinary.w)
        known = (windows >= LEAST_FOR_ENVELOPE) & (problem.n >= view.settings.min_requests)
        found: F8 = np.where(known, size, np.nan)
    return found
