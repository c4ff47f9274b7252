"""Exact account of a change: workload mix, more calls, other paths, slower calls.

With weighted root shares p and midpoints (¯):

    ΔM = Σ_r Δp_r·(m̄_r − M̄)  +  Σ_r p̄_r Σ_s Δm_rs
    Δm_rs = Δκ·t̄  +  κ̄·Σ_g Δq_g·(t̄_g − t̄)  +  κ̄·Σ_g q̄_g·Δt_g

M: mean of the measure over all requests; m_r: over requests of root type r; m_rs: site s's part of m_r;
κ: calls of site s on the critical path per request of r; q_g: share of these calls with call pattern g; t_g:
mean time of a call with pattern g, t = Σ_g q_g·t_g. The same holds for any measure that is a sum over sites.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from analyze.profile.profile import Profile
from analyze.stats.sums import numbered, row_totals, totals, totals_by_side
from schemas.arrays import B1, F8, I8

TOLERANCE: Final = 1e-9
"""Maximum residual of an account, relative to the larger of the measure's two means."""


@dataclass(frozen=True, slots=True)
class MeasuredRows:
    """Sums of a measure by (root type, path or site, call pattern), before and after the change."""

    root: I8
    """int64[rows]: number of the root type."""
    place: I8
    """int64[rows]: number of the path, or of the site."""
    pattern: I8
    """int64[rows]: number of the call pattern."""
    calls: F8
    """float64[rows, 2]: weighted number of calls, before and after."""
    value: F8
    """float64[rows, 2]: weighted sum of the measure, before and after."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Terms of the account of a change, by (root type, path or site), in the measure's unit per request."""

    root: I8
    """int64[rows]: number of the root type."""
    place: I8
    """int64[rows]: number of the path, or of the site."""
    calls: F8
    """float64[rows]: change because of more or fewer calls."""
    structure: F8
    """float64[rows]: change because of another mix of call patterns."""
    slower: F8
    """float64[rows]: change because calls take longer or shorter."""

    @property
    def total(self) -> F8:
        """float64[rows]: calls + structure + slower."""
        return self.calls + self.structure + self.slower


@dataclass(frozen=True, slots=True)
class ExactAccount:
    """Account of the change of a mean: sum of all terms (mix, calls, structure, slower) = after - before."""

    before: float
    """Mean of the measure per request before the change."""
    after: float
    """Mean of the measure per request after the change."""
    mix: F8
    """float64[roots]: change of the mean because the share of the root type changed."""
    shares: F8
    """float64[roots, 2]: weighted share in [0, 1] of each root type's requests, before and after."""
    parts: Parts

    @property
    def residual(self) -> float:
        """after - before - sum of all terms; nonzero only by rounding."""
        return self.after - self.before - float(self.mix.sum() + self.parts.total.sum())


def account_rows(profile: Profile, reference: B1, problem: B1, column: str = "critical_ns") -> MeasuredRows:
    """Sums of column `column` of the table `account` over the slots of each period.

    reference, problem: bool[slots], True for the slots of that period."""
    table = profile.account
    root, path, pattern, slot = (
        table[name].to_numpy().astype(np.int64) for name in ("root", "path", "pattern", "slot")
    )
    code, first = numbered([root, path, pattern])
    sums = [
        totals_by_side(code, values, slot, (reference, problem), len(first))
        for values in (table["calls"].to_numpy(), table[column].to_numpy())
    ]
    return MeasuredRows(root[first], path[first], pattern[first], *sums)


def exact_account(rows: MeasuredRows, requests: F8) -> ExactAccount:
    """Account of the change of a measure's mean.

    requests: float64[roots, 2], total weight of each root type's requests, before and after. Raises
    ValueError if the residual exceeds TOLERANCE, or a period has no request. O(rows log rows).
    """
    n_roots = len(requests)
    if not requests.sum(axis=0).all():
        raise ValueError("an account needs requests in both periods")
    shares = requests / requests.sum(axis=0)
    sums = row_totals(rows.value, rows.root, n_roots)
    with np.errstate(divide="ignore", invalid="ignore"):
        means = sums / requests
    # A root type that one period has alone takes the other's mean: all of it is mix, for any value.
    means = np.where(requests > 0, means, means[:, ::-1])
    means = np.nan_to_num(means)
    overall = (shares * means).sum(axis=0)
    mix = (shares[:, 1] - shares[:, 0]) * (means.mean(axis=1) - overall.mean())
    parts = _parts(rows, requests, shares)
    account = ExactAccount(float(overall[0]), float(overall[1]), mix, shares, parts)
    if not abs(account.residual) <= TOLERANCE * max(*np.abs(overall).tolist(), 1e-300):
        raise ValueError(f"the account of a change does not add up: {account.residual:g} left")
    return account


def _parts(rows: MeasuredRows, requests: F8, shares: F8) -> Parts:
    in_both: B1 = np.asarray((requests > 0).all(axis=1))
    both = in_both[rows.root]
    root, place = rows.root[both], rows.place[both]
    calls, value = rows.calls[both], rows.value[both]
    code, first = numbered([root, place])
    at_root, at_place = root[first], place[first]
    site_calls, site_value = (row_totals(of, code, len(first)) for of in (calls, value))
    kappa = site_calls / requests[at_root]
    with np.errstate(divide="ignore", invalid="ignore"):
        time = site_value / site_calls  # t
        q = calls / site_calls[code]
        t_g = value / calls
    # Absent on one side: it takes the other's value, and all of its change is calls (or the pattern's share).
    time = np.nan_to_num(np.where(site_calls > 0, time, time[:, ::-1]))
    q = np.nan_to_num(np.where(site_calls[code] > 0, q, q[:, ::-1]))
    t_g = np.nan_to_num(np.where(calls > 0, t_g, t_g[:, ::-1]))
    kappa_mean, time_mean = kappa.mean(axis=1), time.mean(axis=1)
    weight = shares.mean(axis=1)[at_root]
    part_calls = weight * (kappa[:, 1] - kappa[:, 0]) * time_mean
    shifted = (q[:, 1] - q[:, 0]) * (t_g.mean(axis=1) - time_mean[code])
    slowed = q.mean(axis=1) * (t_g[:, 1] - t_g[:, 0])
    scale = weight * kappa_mean
    return Parts(
        at_root,
        at_place,
        part_calls,
        scale * totals(code, shifted, len(first)),
        scale * totals(code, slowed, len(first)),
    )


def root_requests(profile: Profile, reference: B1, problem: B1) -> F8:
    """float64[roots, 2]: total weight of each root type's requests in the two periods.

    reference, problem: bool[slots], True for the slots of that period."""
    table = profile.responses
    root, slot, w = (table[name].to_numpy() for name in ("root", "slot", "w"))
    return totals_by_side(root, w, slot, (reference, problem), len(profile.names.roots))
