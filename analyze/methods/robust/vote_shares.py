"""Shares of votes: reference against problem, exact, beyond what blocks of ordinary times show (L.3, L.4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analyze.methods.robust.candidates import Z95, Candidates, Usual
from analyze.methods.robust.changes import Change
from analyze.methods.robust.noise_between import (
    LEAST_IN_ENVELOPE,
    dispersion,
    furthest,
    leaves_envelope,
    share_envelope,
    share_freedom,
)
from analyze.methods.robust.robust_settings import RobustSettings
from analyze.methods.robust.roles import Roles
from analyze.profile.profile import Profile
from analyze.stats.noise import enough_errors
from analyze.stats.proportions import fisher
from analyze.stats.sums import totals
from analyze.stats.weights import in_requests
from schemas.report.findings import ChangeKind

I8 = npt.NDArray[np.int64]
F8 = npt.NDArray[np.float64]
B1 = npt.NDArray[np.bool_]

_LEAST_NEW = 3
"""Requests in which a change of a share must show."""
_MARGIN = 0.02
"""A share must leave the blocks' envelope by this much."""


class PeriodSums:
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
        cell = row[inside] * self.n_columns + 2 + noise[inside]
        sums += totals(cell, value[inside], n_rows * self.n_columns).reshape(n_rows, self.n_columns)
        return sums

    def touching(self) -> F8:
        """[sites, columns] requests that touch a site, weighted."""
        return self._of_visits("w")

    def in_requests(self) -> F8:
        """[sites, columns] requests that a unit of weight is worth there."""
        return in_requests(self._of_visits("w"), self._of_visits("w2"))

    def _of_visits(self, name: str) -> F8:
        visits = self.profile.visits
        site, slot = (visits[key].to_numpy().astype(np.int64) for key in ("site", "slot"))
        return self.table(site, slot, visits[name].to_numpy(), len(self.profile.names.sites))


@dataclass(frozen=True, slots=True)
class Shares:
    """Tests of many shares; arrays are [rows]."""

    before: F8
    after: F8
    se: F8
    p: F8
    passes: B1
    tested: B1
    new: B1
    """The share was 0 or 1 in one of the periods."""
    n: F8
    """[rows, columns]"""
    freedom: F8
    """Degrees of freedom of `se`."""
    usual: Usual
    """What only blocks of ordinary times with such shares keep from passing."""

    def candidates(
        self, site: I8, rows: I8, change: Callable[[int], Change], also: B1 | None = None
    ) -> Candidates:
        """Those of some of the rows; site: [rows] of each. also: [those rows] what more they must pass."""
        allowed = np.ones(len(rows), dtype=np.bool_) if also is None else also
        usual = Usual(self.usual.held[rows] & allowed, self.usual.block[rows], self.usual.value[rows])
        return Candidates(site, self.p[rows], self.passes[rows] & allowed, change, usual)

    def path_kind(self, row: int) -> ChangeKind:
        """New, lost, or as it was known."""
        if self.before[row] * self.n[row, 0] < 0.5:
            return ChangeKind.NEW_PATH
        if self.after[row] * self.n[row, 1] < 0.5:
            return ChangeKind.LOST_PATH
        return ChangeKind.PATH

    def change(
        self,
        row: int,
        *,
        kind: ChangeKind,
        site: int,
        contribution_ns: float,
        weight: float,
        call_ratio: float,
        shape: int = -1,
        shapes: tuple[int, ...] = (),
        child: int = -1,
    ) -> Change:
        """The candidate of one row."""
        difference, se = float(self.after[row] - self.before[row]), float(self.se[row])
        reach = float(enough_errors(Z95, self.freedom[row])) * se
        return Change(
            kind=kind,
            site=site,
            p=float(self.p[row]),
            z=difference / se,
            passes=bool(self.passes[row]),
            unit="share",
            before=float(self.before[row]),
            after=float(self.after[row]),
            low=difference - reach,
            high=difference + reach,
            n0=int(self.n[row, 0]),
            n1=int(self.n[row, 1]),
            contribution_ns=contribution_ns,
            weight=weight,
            shape=shape,
            shapes=shapes,
            child=child,
            new=bool(self.new[row]),
            call_ratio=call_ratio,
        )


def tested_shares(
    weighted: F8, of: F8, worth: F8, requests: F8, roles: Roles, settings: RobustSettings
) -> Shares:
    """Two weighted shares of columns 0 and 1 against each other, the other columns being blocks of noise.

    worth [rows, columns]: requests that a unit of weight is. requests [rows, columns]: those in which it
    shows, at least.
    """
    x, n = weighted * worth, of * worth
    with np.errstate(divide="ignore", invalid="ignore"):
        share = x / n
        before, after = share[:, 0], share[:, 1]
        pooled = (x[:, 0] + x[:, 1]) / (n[:, 0] + n[:, 1])
    appears = (x[:, 0] < 0.5) | (x[:, 1] < 0.5)
    new = appears | (x[:, 0] > n[:, 0] - 0.5) | (x[:, 1] > n[:, 1] - 0.5)
    prior = settings.cold_phi if roles.cold else 1.0
    phi = dispersion(x[:, 2:], n[:, 2:])
    # A new or vanished shape has no prior: nothing of it was seen to scatter.
    phi = np.where(appears, phi, np.maximum(phi, prior))
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = np.maximum(pooled * (1 - pooled), 0.25 / (n[:, 0] + n[:, 1]))
        se = np.sqrt(variance * phi * (1 / n[:, 0] + 1 / n[:, 1]))
        seen = np.where(n[:, 2:] >= LEAST_IN_ENVELOPE, share[:, 2:], np.nan)
        low, high = share_envelope(seen)
    whole = [np.rint(values).astype(np.int64) for values in (x[:, 0], n[:, 0], x[:, 1], n[:, 1])]
    floor = np.where(new, settings.new_floor, settings.shape_floor)
    beyond = np.isnan(low) | (after > high + _MARGIN) | (after < low - _MARGIN)
    left = beyond & leaves_envelope(x[:, 1], n[:, 1], low, high)
    size = np.abs(after - before)
    freedom = share_freedom(phi, np.where(appears, 1.0, prior), n[:, 2:])
    passes = (size > enough_errors(settings.min_z, freedom) * se) & (size > floor)
    passes &= np.maximum(requests[:, 0], requests[:, 1]) >= _LEAST_NEW
    tested = np.asarray((n[:, :2] >= settings.min_requests).all(axis=1))
    usual = Usual(passes & ~beyond, *furthest(seen, after > before))
    return Shares(before, after, se, fisher(*whole).p, passes & left, tested, new, n, freedom, usual)
