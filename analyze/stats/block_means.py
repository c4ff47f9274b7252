"""Compare means of two periods out of sums over blocks of time: requests of a block are alike (B.3, L.5)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr

from analyze.stats.estimate import Estimate, envelope
from schemas.arrays import F8


@dataclass(frozen=True, slots=True)
class BlockSums:
    """Sums over the blocks of one period; arrays are [places, blocks], a block may be empty."""

    total: F8
    """Weighted sum of a value."""
    square: F8
    """Weighted sum of its squares."""
    weight: F8
    weight2: F8
    """Sum of squared weights: weight² / weight2 is Kish's effective number of requests."""

    def mean(self) -> tuple[F8, F8, F8, F8]:
        """Give ([places] mean, variance, degrees of freedom, effective requests); NaN for nothing.

        The variance is that of a ratio estimator, B/(B-1) · Σ (total_b - mean · weight_b)² / (Σ weight)²,
        over the B blocks that hold requests: it contains whatever requests of a block share. Where one block
        holds
        all, it is that of independent requests.
        """
        weight, blocks = self.weight.sum(axis=1), (self.weight > 0).sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            n = weight**2 / self.weight2.sum(axis=1)
            mean = self.total.sum(axis=1) / weight
            residual = ((self.total - np.nan_to_num(mean)[:, None] * self.weight) ** 2).sum(axis=1)
            single = np.maximum(self.square.sum(axis=1) / weight - mean**2, 0.0) / (n - 1)
            variance = np.where(blocks > 1, blocks / (blocks - 1.0) * residual / weight**2, single)
        variance = np.where((blocks > 1) | (n > 1 + 1e-9), variance, np.nan)
        return mean, variance, np.where(blocks > 1, blocks - 1.0, n - 1), np.nan_to_num(n)


def mean_change(
    before: BlockSums,
    after: BlockSums,
    *,
    tau2: F8 | float = 0.0,
    tau_freedom: float = np.inf,
    of_logs: bool = False,
) -> Estimate:
    """Estimate changes of means, as logarithms (`of_logs`: of means that are of logarithms already).

    tau2: variance between two such periods beyond what requests of a block share, of so many degrees of
    freedom. p is Student's, without it. A single request says nothing: its variance is infinite.
    """
    sides = [side.mean() for side in (before, after)]
    with np.errstate(divide="ignore", invalid="ignore"):
        value = [mean if of_logs else np.log(mean) for mean, *_ in sides]
        parts = [v if of_logs else v / mean**2 for mean, v, *_ in sides]
        sampling = parts[0] + parts[1]
        weak = sum(
            part**2 / np.maximum(freedom, 1.0) for part, (_, _, freedom, _) in zip(parts, sides, strict=True)
        )
        inner = np.where(weak > 0, sampling**2 / weak, np.inf)
        between = np.broadcast_to(np.asarray(tau2, np.float64), sampling.shape)
        freedom = (sampling + between) ** 2 / (weak + between**2 / tau_freedom)
        p = 2 * stdtr(inner, -np.abs(value[1] - value[0]) / np.sqrt(sampling))
    return level_estimate(
        value[0],
        value[1],
        sampling,
        between=between,
        freedom=freedom,
        inner_freedom=inner,
        p=p,
        n=(sides[0][3], sides[1][3]),
    )


def level_estimate(
    before: F8,
    after: F8,
    sampling: F8,
    *,
    between: F8,
    freedom: F8,
    inner_freedom: F8,
    p: F8,
    n: tuple[F8, F8],
) -> Estimate:
    """Put an estimate of logarithms together, without an envelope; the unknown is infinitely uncertain."""
    known = np.isfinite(sampling) & np.isfinite(before) & np.isfinite(after)
    before, after = (np.where(known, value, np.nan) for value in (before, after))
    seen = np.full((len(sampling), 0), np.nan)
    return Estimate(
        "log",
        before,
        after,
        np.where(known, sampling, np.inf),
        between,
        np.where(known & np.isfinite(freedom), freedom, np.inf),
        np.where(known & np.isfinite(p), p, 1.0),
        *n,
        seen,
        *envelope(seen),
        np.zeros(len(sampling), np.bool_),
        (after, after),
        inner_freedom=np.where(known & np.isfinite(inner_freedom), inner_freedom, np.inf),
    )
