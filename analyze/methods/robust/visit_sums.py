"""Sums over the requests that touch a site, a period each, as arrays over sites."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analyze.methods.robust.roles import Roles
from analyze.profile.names import Names, SiteKind
from analyze.profile.profile import Profile
from analyze.stats.sums import totals

F8 = npt.NDArray[np.float64]
B1 = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class VisitSums:
    """Arrays are [sites]; of one period."""

    requests: float
    """Weight of all requests of the period."""
    n: F8
    """Requests that touch the site."""
    w: F8
    calls: F8
    critical_ns: F8
    response_ns: F8
    failing: F8


def visit_sums(profile: Profile, slots: B1) -> VisitSums:
    """Sums over some slots."""
    visits, responses = profile.visits, profile.responses
    mine = slots[visits["slot"].to_numpy()]
    site = visits["site"].to_numpy()[mine]
    n_sites = len(profile.names.sites)
    column = {
        name: totals(site, visits[name].to_numpy()[mine], n_sites)
        for name in ("n", "w", "calls", "critical_ns", "response_ns", "failing")
    }
    total = responses["w"].to_numpy()[slots[responses["slot"].to_numpy()]].sum()
    return VisitSums(float(total), **column)


@dataclass(frozen=True, slots=True)
class BothSums:
    """The two periods, and what is worked out of both; arrays are [sites]."""

    reference: VisitSums
    problem: VisitSums

    @staticmethod
    def of(profile: Profile, roles: Roles) -> BothSums:
        """Sums of the roles' periods."""
        return BothSums(visit_sums(profile, roles.ordinary), visit_sums(profile, roles.problem))

    @property
    def rate0(self) -> F8:
        """Calls a request of the period, reference."""
        return self.reference.calls / max(self.reference.requests, 1e-300)

    @property
    def rate1(self) -> F8:
        """The same, problem."""
        return self.problem.calls / max(self.problem.requests, 1e-300)

    @property
    def slower_ns(self) -> F8:
        """Part of the change of the mean from calls of the site taking another time, ns a request (L.2)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            per0 = self.reference.critical_ns / self.reference.calls
            per1 = self.problem.critical_ns / self.problem.calls
        change = (self.rate0 + self.rate1) / 2 * (per1 - per0)
        return np.nan_to_num(change, nan=0.0, posinf=0.0, neginf=0.0)

    @property
    def slower_a_visit_ns(self) -> F8:
        """The same, ns a request of the problem that touches the site."""
        return self.slower_ns * self.problem.requests / np.maximum(self.problem.w, 1e-300)

    @property
    def call_ratio(self) -> F8:
        """Calls a request, after over before; infinite where there was none."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.rate0 > 0, self.rate1 / self.rate0, np.inf)

    def came_ratio(self, names: Names) -> F8:
        """`call_ratio` by what tests of paths take for calls: at points of records a request is one, however
        often it passes there."""
        with np.errstate(divide="ignore", invalid="ignore"):
            share0, share1 = (side.w / side.requests for side in (self.reference, self.problem))
            visits = np.where(share0 > 0, share1 / share0, np.inf)
        return np.where([site.kind is SiteKind.POINT for site in names.sites], visits, self.call_ratio)

    @property
    def calls_a_visit(self) -> F8:
        """Calls a touching request, problem."""
        return self.problem.calls / np.maximum(self.problem.w, 1e-300)

    @property
    def mean_response_ns(self) -> F8:
        """Mean response time of the problem's requests that touch the site."""
        return self.problem.response_ns / np.maximum(self.problem.w, 1e-300)
