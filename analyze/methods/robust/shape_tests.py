"""Shares of local shapes at sites, and shares of calls that fail (L.3, L.4, L.9 item 4)."""

from __future__ import annotations

import numpy as np

from analyze.methods.robust.candidates import Candidates
from analyze.methods.robust.changes import Change
from analyze.methods.robust.robust_settings import RobustSettings
from analyze.methods.robust.roles import Roles
from analyze.methods.robust.visit_sums import BothSums
from analyze.methods.robust.vote_shares import PeriodSums, tested_shares
from analyze.profile.names import SiteKind
from analyze.profile.profile import Profile
from analyze.stats.sums import totals
from schemas.report.findings import ChangeKind


def shape_changes(profile: Profile, roles: Roles, sums: BothSums, settings: RobustSettings) -> Candidates:
    """Candidates of `path`, `new-path` and `lost-path`: shares of shapes among the requests of a site."""
    table = profile.shapes
    site, shape, slot = (table[name].to_numpy().astype(np.int64) for name in ("site", "shape", "slot"))
    width = int(shape.max(initial=0)) + 1
    pair, code = np.unique(site * width + shape, return_inverse=True)
    groups = PeriodSums(profile, roles)
    touching = groups.touching()
    votes, requests, calls, inclusive = (
        groups.table(code, slot, table[name].to_numpy(), len(pair))
        for name in ("votes", "n", "calls", "inclusive_ns")
    )
    at, which = pair // width, pair % width
    several = np.bincount(at, minlength=len(touching))[at] > 1
    found = tested_shares(votes, touching[at], groups.in_requests()[at], requests, roles, settings)
    # Structure's part by the nested account (L.3): more calls of a shape times how much longer it takes.
    # Records do not nest: there a request is one call, and takes what it takes.
    is_point = np.array([name.kind is SiteKind.POINT for name in profile.names.sites], dtype=np.bool_)[at]
    calls = np.where(is_point[:, None], votes, calls)
    both = calls[:, 0] + calls[:, 1]
    site_calls = np.stack([sums.reference.calls[at], sums.problem.calls[at]], axis=1)
    site_calls = np.where(is_point[:, None], touching[at, :2], site_calls)
    periods = np.array([sums.reference.requests, sums.problem.requests])
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.nan_to_num(calls[:, :2] / site_calls)
        mean = np.nan_to_num((inclusive[:, 0] + inclusive[:, 1]) / both)
        total = totals(at, inclusive[:, 1], len(touching))[at]
        site_mean = np.nan_to_num(total / site_calls[:, 1])
    part = (
        (site_calls / np.maximum(periods, 1e-300)).mean(axis=1)
        * (share[:, 1] - share[:, 0])
        * (mean - site_mean)
    )
    weight = np.abs(found.after - found.before) * touching[at, 1] / max(groups.requests1, 1e-300)
    rows = np.flatnonzero(found.tested & several)
    ratio = sums.came_ratio(profile.names)

    def change(number: int) -> Change:
        row = int(rows[number])
        return found.change(
            row,
            kind=found.path_kind(row),
            site=int(at[row]),
            shape=int(which[row]),
            contribution_ns=float(part[row]),
            weight=float(weight[row]),
            call_ratio=float(ratio[at[row]]),
        )

    return found.candidates(at[rows], rows, change)


def error_changes(profile: Profile, roles: Roles, sums: BothSums, settings: RobustSettings) -> Candidates:
    """Candidates of `errors` and `fewer-errors`: share of a site's calls that fail, one vote a request."""
    table = profile.visits
    site, slot = (table[name].to_numpy().astype(np.int64) for name in ("site", "slot"))
    groups = PeriodSums(profile, roles)
    touching = groups.touching()
    n_sites = len(touching)
    failing = groups.table(site, slot, table["failing"].to_numpy(), n_sites)
    requests = groups.table(site, slot, table["failing_n"].to_numpy(), n_sites)
    found = tested_shares(failing, touching, groups.in_requests(), requests, roles, settings)
    rows = np.flatnonzero(found.tested & (failing.sum(axis=1) > 0))
    ratio = sums.call_ratio

    def change(number: int) -> Change:
        site = int(rows[number])
        moved = float(found.after[site] - found.before[site])
        return found.change(
            site,
            kind=ChangeKind.ERRORS if moved > 0 else ChangeKind.FEWER_ERRORS,
            site=site,
            contribution_ns=0.0,
            weight=float(abs(moved) * touching[site, 1] / max(groups.requests1, 1e-300)),
            call_ratio=float(ratio[site]),
        )

    return found.candidates(rows, rows, change)
