"""Estimate the times at each call site, and bound the slowdown of the requests that pass it.

Two confidence intervals bound the slowdown, and the narrower one is used: of the site's median time, and of
its mean time per request. The median is unsuitable for times with two modes (a wait that occurs or not),
since it jumps between them; the mean if a few calls take most of the time.
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
    """Times at call sites in baseline and problem; arrays are float64[sites] unless stated otherwise."""

    typical: Estimate
    """Change of the median own time per request at each site, from the baseline to the problem."""
    visit: Estimate
    """Change of the mean time on the critical path, per request that touches the site, from the value
    predicted by the baseline's windows to the problem."""
    part: F8
    """Time that the site's calls spend on the critical path as a share of the response time of requests that
    touch the site, in [0, 1]."""
    passing: F8
    """Share of all requests that touch the site, in [0, 1], in baseline or problem, whichever is larger."""
    time_ns: F8
    """Time that the site's calls spend on the critical path, ns, summed over requests, float64[sites, 2]:
    (reference, problem)."""

    @property
    def time_share(self) -> F8:
        """Share of each site in all time on critical paths, in [0, 1]; the mean of the shares in reference
        and problem."""
        shares: F8 = (self.time_ns / np.maximum(self.time_ns.sum(axis=0), 1e-300)).mean(axis=1)
        return shares

    def largest(self, settings: RobustSettings, factor: float = 1.0) -> float:
        """Upper bound of the relative change of the response time of requests that pass a call site; inf if
        there is no bound.

        It holds for sites with `nearly_all` of the time on critical paths. Sites that at most `matters_share`
        of the requests pass are left out, since too few requests are affected there. factor: number of
        requests, as a multiple of the present number, for which the bound is computed.
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
    """Estimate the times at every call site of a view. O(rows of the view's histograms)."""
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
    """Change of the mean time on the critical path, per request that touches a site, from the value predicted
    by the baseline's windows; unbounded with fewer than LEAST_FOR_ENVELOPE windows.

    The variance is that of a single window around the mean, sampling included, and is scaled up if the
    problem has fewer requests at the site than a window.
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
