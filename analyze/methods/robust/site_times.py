"""Estimate the times of call sites, and the largest possible slowdown of requests that pass one.

Two intervals bound the slowdown, and the narrower one counts: that of the site's typical (median) time, and
that of its mean time per visit. The median fails for times with two modes (a wait that occurs or not), as it
jumps from one to the other. The mean fails if a few calls take most of the time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analyze.methods.robust.settings import RobustSettings
from analyze.methods.robust.view import View
from analyze.stats.estimate import Estimate
from analyze.stats.noise import LEAST_FOR_ENVELOPE
from analyze.stats.sums import totals
from analyze.stats.time_blocks import BlockSums, level_estimate
from schemas.arrays import F8


@dataclass(frozen=True, slots=True)
class SiteTimes:
    """Times of call sites, before and after; arrays are float64[sites]."""

    typical: Estimate
    """Change of the median self time per request, from baseline to problem."""
    visit: Estimate
    """Change of the mean critical time of a visit, from its prediction by the windows of the baseline to the
    problem."""
    part: F8
    """Share of the site's critical time in the response time of requests that pass the site, in [0, 1]."""
    passing: F8
    """Share of requests that pass the site, in [0, 1], in the period where it is larger."""
    time_ns: F8
    """Time of the site on critical paths, ns, float64[sites, 2]: reference and problem."""

    @property
    def time_share(self) -> F8:
        """Share of each site in the time on critical paths, in [0, 1]; both periods have equal weight."""
        shares: F8 = (self.time_ns / np.maximum(self.time_ns.sum(axis=0), 1e-300)).mean(axis=1)
        return shares

    def largest(self, settings: RobustSettings, factor: float = 1.0) -> float:
        """Largest possible relative change of the response time of requests that pass a call site; inf if not
        bounded.

        The bound holds at the sites with `nearly_all` of the time. Sites that at most `matters_share` of the
        requests pass are left out: a change there affects too few requests. factor: multiple of the present
        number of requests.
        """
        sizes = []
        for found in (self.typical, self.visit):
            tested = np.minimum(found.n0, found.n1) >= settings.min_requests
            size = found.times(factor).largest_ratio(settings.verdict.level)
            sizes.append(np.where(tested & np.isfinite(size), size, np.nan) * self.part)
        size = np.nan_to_num(np.fmin(*sizes), nan=np.inf)
        weight = np.where(self.passing > settings.matters_share, self.time_share, 0.0)
        if weight.sum() <= 0:
            return np.inf
        order = np.argsort(size, kind="stable")
        upto = np.cumsum(weight[order]) / weight.sum()
        return float(size[order][int(np.searchsorted(upto, settings.verdict.nearly_all - 1e-9))])


def site_times_of(view: View) -> SiteTimes:
    """Estimate the times of every call site of a view. O(rows of values)."""
    roles, before, after = view.roles, view.before, view.after
    sides = (roles.reference, roles.problem)
    passing = np.maximum(*(side.w / max(side.requests, 1e-300) for side in (before, after)))
    return SiteTimes(
        view.own_time_change[0],
        _visit(view),
        (before.critical_ns + after.critical_ns) / np.maximum(before.response_ns + after.response_ns, 1e-300),
        passing,
        np.stack([view.profile.at_sites("visits", "critical_ns", slots) for slots in sides], axis=1),
    )


def _visit(view: View) -> Estimate:
    """Estimate the change of the mean critical time of a visit from its prediction by the baseline's windows;
    needs at least LEAST_FOR_ENVELOPE windows.

    The variance includes sampling within windows, and grows in proportion if the problem has fewer visits
    than a window.
    """
    visits, shape = view.profile.visits, (view.n_sites, view.n_blocks)
    window = view.roles.noise[visits["slot"].to_numpy()]
    inside = window >= 0
    site = visits["site"].to_numpy()[inside].astype(np.int64)
    n, w, w2, ns = (
        totals(
            site * shape[1] + window[inside], visits[name].to_numpy()[inside], shape[0] * shape[1]
        ).reshape(shape)
        for name in ("n", "w", "w2", "critical_ns")
    )
    sums = BlockSums(ns, np.zeros(shape), w, w2)
    mean, variance, freedom, n0 = sums.mean()
    windows = (w > 0).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        fewer = np.maximum(n.sum(axis=1) / windows / view.after.n, 1.0)
        value = np.log(mean), np.log(view.after.critical_ns / view.after.w)
        relative = variance / mean**2 * (windows * fewer + 1)
    enough = (windows >= LEAST_FOR_ENVELOPE) & np.isfinite(relative)
    return level_estimate(
        *value,
        np.where(enough, relative, np.inf),
        between=np.zeros(view.n_sites),
        freedom=freedom,
        inner_freedom=freedom,
        p=np.ones(view.n_sites),
        n=(n0, view.after.n),
    )
