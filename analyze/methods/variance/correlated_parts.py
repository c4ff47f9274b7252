"""Pairs of parts that are long together, or one instead of the other (ALGORITHMS E, tier 2; VF §4.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import ndtr

from analyze.methods.variance.covariance_shares import covariances
from analyze.stats.multiple import q_values
from analyze.stats.rank import midranks
from analyze.stats.time_blocks import autocorrelation_time, blocks_for
from schemas.arrays import F8

LEAST_REQUESTS: Final = 24
"""Three to each of the fewest blocks that can be shuffled."""
MOST_PARTS: Final = 40
"""Parts that are held against each other, those of the largest share: 780 pairs."""
MOST_REQUESTS: Final = 5_000
"""More are thinned, evenly in time: a rank correlation of 0.1 is then 7 standard errors."""
LEAST_RHO: Final = 0.1
LEVEL: Final = 0.05


@dataclass(frozen=True, slots=True)
class CorrelatedPair:
    """Two parts, by number."""

    one: int
    other: int
    rho: float
    """Spearman's."""
    q: float
    covariance: float
    """µs²"""


def correlated_pairs(us: F8, weight: F8, share: F8) -> tuple[CorrelatedPair, ...]:
    """Pairs of a correlation that is significant and worth telling, the largest |covariance| first.

    us: [parts, requests] in order of time. The standard error of ρ is what it is when whole blocks of time of
    one part are put in another order, over all orders, or that of independent requests where that is larger;
    BH over all pairs. O(blocks · parts² · requests).
    """
    if us.shape[1] < LEAST_REQUESTS:
        return ()
    varied = np.flatnonzero(us.max(axis=1) > us.min(axis=1))
    kept = np.sort(varied[np.argsort(-np.abs(share[varied]), kind="stable")[:MOST_PARTS]])
    if len(kept) < 2:
        return ()
    step = -(-us.shape[1] // MOST_REQUESTS)
    thin = us[np.ix_(kept, np.arange(0, us.shape[1], step))]
    # Of ranks, so that one slow request does not rule the autocorrelation.
    z = np.stack([midranks(row) for row in thin])
    z -= z.mean(axis=1, keepdims=True)
    scale = np.sqrt((z * z).sum(axis=1, keepdims=True))
    z = np.divide(z, scale, out=np.zeros_like(z), where=scale > 0)
    first, second = np.triu_indices(len(kept), 1)
    rho = (z @ z.T)[first, second]
    se = np.maximum(_shuffled_se(z)[first, second], 1 / np.sqrt(z.shape[1] - 1))
    q = q_values(2 * ndtr(-np.abs(rho) / se))
    whole = covariances(us[kept], weight)
    found = [
        CorrelatedPair(int(kept[i]), int(kept[j]), float(rho[k]), float(q[k]), float(whole[i, j]))
        for k, (i, j) in enumerate(zip(first.tolist(), second.tolist(), strict=True))
        if q[k] <= LEVEL and abs(rho[k]) >= LEAST_RHO
    ]
    return tuple(sorted(found, key=lambda pair: (-abs(pair.covariance), pair.one, pair.other)))


def _shuffled_se(z: F8) -> F8:
    """[parts, parts] root mean square of the correlations with blocks of one side in another order."""
    n = z.shape[1]
    blocks = blocks_for(n, max(autocorrelation_time(row) for row in z))
    length = n // blocks
    cut = z[:, : blocks * length].reshape(len(z), blocks, length)
    found: F8 = np.sqrt(squares_over_orders(cut)) * (n / (blocks * length))
    return found


def squares_over_orders(cut: F8) -> F8:
    """[parts, parts] mean over all orders of blocks of the squared product of one part with another's blocks.

    cut: [parts, blocks, length]. With g[b, c] the product of block b of the one and c of the other, that in
    the order π is Σ_b g[b, π(b)]: its mean over π is Σg / B, its variance Σd² / (B - 1), with d = g less the
    means of its rows and columns (Hoeffding 1951, Theorem 2). O(parts² · blocks² · length).
    """
    parts, blocks, length = cut.shape
    whole = cut.sum(axis=1)
    off = (cut - whole[:, None] / blocks).reshape(parts * blocks, length)
    squares = ((off @ off.T) ** 2).reshape(parts, blocks, parts, blocks).sum(axis=(1, 3))
    found: F8 = (whole @ whole.T / blocks) ** 2 + squares / (blocks - 1)
    return found
