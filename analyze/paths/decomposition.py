"""Exact account of the change of the mean over whole paths (ALGORITHMS C.8).

    ΔM = Σ_r Δs_r·(m̄_r - M̄)                       workload mix
       + Σ_r s̄_r Σ_{p→m} f_pm·(μ̄_m - μ̄_p)         structure: requests that took another path
       + Σ_r s̄_r Σ_c q̄_c·Δμ_c                     response times of the paths

Bars are midpoints. A path that is both a mutation and slower has a term in each: the papers' virtual
categories, without double counting.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analyze.paths.transport import OTHER, Flows
from schemas.arrays import B1, F8, I8

TOLERANCE = 1e-9
"""Of the larger mean: what rounding may leave of the identity."""


@dataclass(frozen=True, slots=True)
class PathShares:
    """Weighted shares and means of two periods; [2, categories] and [2, roots]."""

    of_all: F8
    """s: each root's share of all requests; of a period without requests the other's."""
    of_root: F8
    """q: each category's share of its root's requests. A root without requests in one period has there
    the shares of the other, so that all it changes is the mix."""
    mean_us: F8
    """μ, [2, categories]; of an empty category the other period's."""
    root: I8

    @property
    def change(self) -> F8:
        """[categories] Δq."""
        moved: F8 = self.of_root[1] - self.of_root[0]
        return moved

    @property
    def total_us(self) -> F8:
        """[2] M."""
        sums: F8 = (self.of_all[:, self.root] * self.of_root * self.mean_us).sum(axis=1)
        return sums


def path_shares(weight: F8, mean_us: F8, root: I8, n_roots: int) -> PathShares:
    """From sums of weights and weighted means, [2, categories]; NaN means where a category is empty."""
    of_root_total = np.stack([np.bincount(root, w, n_roots) for w in weight])
    total = of_root_total.sum(axis=1, keepdims=True)
    of_all = of_root_total / np.where(total > 0, total, 1.0)
    of_all = np.where(total > 0, of_all, of_all[::-1])
    base = of_root_total[:, root]
    q = weight / np.where(base > 0, base, 1.0)
    q = np.where(base > 0, q, q[::-1])
    mean = np.where(weight > 0, mean_us, mean_us[::-1])
    return PathShares(of_all, q, np.where(np.isnan(mean), 0.0, mean), root)


@dataclass(frozen=True, slots=True)
class PathAccount:
    """Parts of ΔM, µs a request; the five sums add up to `change_us` to rounding."""

    before_us: float
    after_us: float
    mix_us: F8
    """[roots]"""
    flow_us: F8
    """[flows]"""
    timing_us: F8
    """[categories] every category's response-time part."""
    timed: B1
    """[categories] whose response times changed by test."""
    structure_rest_us: F8
    """[roots] moves among paths that did not change by test."""

    @property
    def change_us(self) -> float:
        """ΔM."""
        return self.after_us - self.before_us

    @property
    def sums_us(self) -> tuple[float, float, float, float]:
        """Mix, structure, response times, and what is not attributed (noise)."""
        timing = float(self.timing_us[self.timed].sum())
        rest = float(self.structure_rest_us.sum() + self.timing_us[~self.timed].sum())
        return float(self.mix_us.sum()), float(self.flow_us.sum()), timing, rest


def decompose(shares: PathShares, flows: Flows, timed: B1) -> PathAccount:
    """The account. flows: amounts are shares of the root's requests, as `shares.change` has them.

    Raises ArithmeticError where the parts do not add up to the change: a bug, for the identity is exact.
    """
    root, n_roots = shares.root, shares.of_all.shape[1]
    s_mid, ds = shares.of_all.mean(axis=0), np.diff(shares.of_all, axis=0)[0]
    q_mid, mean_mid = shares.of_root.mean(axis=0), shares.mean_us.mean(axis=0)
    per_root = np.stack(
        [np.bincount(root, q * m, n_roots) for q, m in zip(shares.of_root, shares.mean_us, strict=True)]
    )
    total = shares.total_us
    mix = ds * (per_root.mean(axis=0) - total.mean())
    timing = s_mid[root] * q_mid * np.diff(shares.mean_us, axis=0)[0]
    involved = np.zeros(len(root), np.bool_)
    for end in (flows.source, flows.target):
        involved[end[end != OTHER]] = True
    others = _mean_of_others(root, n_roots, q_mid, mean_mid, involved)
    flow_root = root[np.where(flows.source == OTHER, flows.target, flows.source)]
    ends = [np.where(end == OTHER, others[flow_root], mean_mid[end]) for end in (flows.source, flows.target)]
    flow = s_mid[flow_root] * flows.amount * (ends[1] - ends[0])
    moved = np.where(involved, 0.0, shares.change)
    rest = s_mid * np.bincount(root, moved * (mean_mid - others[root]), n_roots)
    account = PathAccount(float(total[0]), float(total[1]), mix, flow, timing, timed, rest)
    off = abs(sum(account.sums_us) - account.change_us)
    if off > TOLERANCE * max(float(np.abs(total).max()), 1e-300):
        raise ArithmeticError(f"the account of paths is off by {off:g} of {account.change_us:g} µs")
    return account


def _mean_of_others(root: I8, n_roots: int, q_mid: F8, mean_mid: F8, involved: B1) -> F8:
    """[roots] mean response time of the paths that take no part in a move; of all where there are none.

    Any value keeps the identity; this one makes a move from or to OTHER cost what it seems to.
    """

    def mean(weight: F8) -> F8:
        total = np.bincount(root, weight, n_roots)
        sums = np.bincount(root, weight * mean_mid, n_roots)
        return np.where(total > 0, sums / np.where(total > 0, total, 1.0), np.nan)

    quiet = mean(np.where(involved, 0.0, q_mid))
    found: F8 = np.nan_to_num(np.where(np.isnan(quiet), mean(q_mid), quiet))
    return found
