"""Shares of local shapes at sites, and shares of calls that fail (L.3, L.4, L.9 item 4)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from scipy.stats import hypergeom

from analyze.findings.changes import Change
from analyze.methods.robust.noise_between import LEAST_IN_ENVELOPE, dispersion, share_envelope
from analyze.methods.robust.robust_settings import RobustSettings
from analyze.methods.robust.roles import Roles
from analyze.methods.robust.visit_sums import BothSums
from analyze.sites.names import SiteKind
from analyze.sites.profile import Profile
from analyze.sites.totals import totals
from schemas.report.findings import ChangeKind

I8 = npt.NDArray[np.int64]
F8 = npt.NDArray[np.float64]
B1 = npt.NDArray[np.bool_]

_LEAST_NEW = 3
"""Requests in which a change of a share must show."""
_MARGIN = 0.02
"""A share must leave the blocks' envelope by this much."""
_Z95 = 1.96


def shape_changes(
    profile: Profile, roles: Roles, sums: BothSums, settings: RobustSettings
) -> Iterator[Change]:
    """Candidates of `path`, `new-path` and `lost-path`: shares of shapes among the requests of a site."""
    table = profile.shapes
    site, shape, slot = (table[name].to_numpy().astype(np.int64) for name in ("site", "shape", "slot"))
    width = int(shape.max(initial=0)) + 1
    pair, code = np.unique(site * width + shape, return_inverse=True)
    groups = _Groups(profile, roles)
    touching = groups.touching()
    votes = groups.table(code, slot, table["votes"].to_numpy(), len(pair))
    requests = groups.table(code, slot, table["n"].to_numpy(), len(pair))
    calls = groups.table(code, slot, table["calls"].to_numpy(), len(pair))
    inclusive = groups.table(code, slot, table["inclusive_ns"].to_numpy(), len(pair))
    at, which = pair // width, pair % width
    several = np.bincount(at, minlength=len(touching))[at] > 1
    found = _shares(votes, touching[at], requests, roles, settings)
    # Structure's part by the nested account (L.3): more calls of a shape times how much longer it takes.
    # Records do not nest: there a request is one call, and takes what it takes.
    is_point = np.array([name.kind is SiteKind.POINT for name in profile.names.sites])[at]
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
    for row in np.flatnonzero(found.tested & several).tolist():
        yield found.change(
            row,
            kind=_path_kind(found, row),
            site=int(at[row]),
            shape=int(which[row]),
            contribution_ns=float(part[row]),
            weight=float(weight[row]),
            call_ratio=float(sums.call_ratio[at[row]]),
        )


def error_changes(
    profile: Profile, roles: Roles, sums: BothSums, settings: RobustSettings
) -> Iterator[Change]:
    """Candidates of `errors` and `fewer-errors`: share of a site's calls that fail, one vote a request."""
    table = profile.visits
    site, slot = (table[name].to_numpy().astype(np.int64) for name in ("site", "slot"))
    groups = _Groups(profile, roles)
    touching = groups.touching()
    n_sites = len(touching)
    failing = groups.table(site, slot, table["failing"].to_numpy(), n_sites)
    requests = groups.table(site, slot, table["failing_n"].to_numpy(), n_sites)
    ever = failing.sum(axis=1) > 0
    found = _shares(failing, touching, requests, roles, settings)
    for row in np.flatnonzero(found.tested & ever).tolist():
        yield found.change(
            row,
            kind=ChangeKind.ERRORS if found.after[row] > found.before[row] else ChangeKind.FEWER_ERRORS,
            site=row,
            shape=-1,
            contribution_ns=0.0,
            weight=float(
                abs(found.after[row] - found.before[row]) * touching[row, 1] / max(groups.requests1, 1e-300)
            ),
            call_ratio=float(sums.call_ratio[row]),
        )


class _Groups:
    """Columns of a table of shares: reference, problem, then the blocks of noise."""

    def __init__(self, profile: Profile, roles: Roles) -> None:
        self.profile = profile
        self.roles = roles
        self.n_columns = 2 + max(roles.n_noise, 1)
        responses = profile.responses
        problem = roles.problem[responses["slot"].to_numpy()]
        self.requests1 = float(responses["w"].to_numpy()[problem].sum())

    def table(self, row: I8, slot: I8, value: F8, n_rows: int) -> F8:
        """[rows, columns] sums of values."""
        sums = np.zeros((n_rows, self.n_columns))
        for column, inside in ((0, self.roles.ordinary[slot]), (1, self.roles.problem[slot])):
            sums[:, column] = totals(row[inside], value[inside], n_rows)
        noise = self.roles.noise[slot]
        inside = noise >= 0
        np.add.at(sums, (row[inside], 2 + noise[inside]), value[inside])
        return sums

    def touching(self) -> F8:
        """[sites, columns] requests that touch a site."""
        visits = self.profile.visits
        site, slot = (visits[name].to_numpy().astype(np.int64) for name in ("site", "slot"))
        return self.table(site, slot, visits["w"].to_numpy(), len(self.profile.names.sites))


class _Shares:
    """Tests of many shares; arrays are [rows]."""

    before: F8
    after: F8
    se: F8
    p: F8
    passes: B1
    tested: B1
    new: B1
    n: F8

    def change(
        self,
        row: int,
        *,
        kind: ChangeKind,
        site: int,
        shape: int,
        contribution_ns: float,
        weight: float,
        call_ratio: float,
    ) -> Change:
        """The candidate of one row."""
        difference = float(self.after[row] - self.before[row])
        return Change(
            kind=kind,
            site=site,
            p=float(self.p[row]),
            z=difference / float(self.se[row]),
            passes=bool(self.passes[row]),
            unit="share",
            before=float(self.before[row]),
            after=float(self.after[row]),
            low=difference - _Z95 * float(self.se[row]),
            high=difference + _Z95 * float(self.se[row]),
            n0=int(self.n[row, 0]),
            n1=int(self.n[row, 1]),
            contribution_ns=contribution_ns,
            weight=weight,
            shape=shape,
            new=bool(self.new[row]),
            call_ratio=call_ratio,
        )


def _shares(x: F8, n: F8, requests: F8, roles: Roles, settings: RobustSettings) -> _Shares:
    """Two shares x / n of columns 0 and 1 against each other, the other columns being blocks of noise."""
    found = _Shares()
    with np.errstate(divide="ignore", invalid="ignore"):
        share = x / n
        found.before, found.after = share[:, 0], share[:, 1]
        pooled = (x[:, 0] + x[:, 1]) / (n[:, 0] + n[:, 1])
    found.n = n
    x0, x1, n0, n1 = (np.rint(values) for values in (x[:, 0], x[:, 1], n[:, 0], n[:, 1]))
    appears = (x[:, 0] < 0.5) | (x[:, 1] < 0.5)
    found.new = appears | (x[:, 0] > n[:, 0] - 0.5) | (x[:, 1] > n[:, 1] - 0.5)
    prior = settings.cold_phi if roles.cold else 1.0
    phi = dispersion(x[:, 2:], n[:, 2:], 1.0 if roles.cold else prior)
    # A new or vanished shape has no prior: nothing of it was seen to scatter.
    phi = np.where(appears, phi, np.maximum(phi, prior))
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = np.maximum(pooled * (1 - pooled), 0.25 / (n[:, 0] + n[:, 1]))
        found.se = np.sqrt(variance * phi * (1 / n[:, 0] + 1 / n[:, 1]))
        low, high = share_envelope(np.where(n[:, 2:] >= LEAST_IN_ENVELOPE, share[:, 2:], np.nan))
    more = hypergeom.sf(x1 - 1, n0 + n1, x0 + x1, n1)
    fewer = hypergeom.sf(n1 - x1 - 1, n0 + n1, n0 + n1 - x0 - x1, n1)
    found.p = np.minimum(2 * np.minimum(more, fewer), 1.0)
    difference = found.after - found.before
    floor = np.where(found.new, settings.new_floor, settings.shape_floor)
    left = np.isnan(low) | (found.after > high + _MARGIN) | (found.after < low - _MARGIN)
    found.passes = (np.abs(difference) > settings.min_z * found.se) & (np.abs(difference) > floor) & left
    found.passes &= np.maximum(requests[:, 0], requests[:, 1]) >= _LEAST_NEW
    found.tested = np.asarray((n[:, :2] >= settings.min_requests).all(axis=1))
    return found


def _path_kind(found: _Shares, row: int) -> ChangeKind:
    if found.before[row] * found.n[row, 0] < 0.5:
        return ChangeKind.NEW_PATH
    if found.after[row] * found.n[row, 1] < 0.5:
        return ChangeKind.LOST_PATH
    return ChangeKind.PATH
