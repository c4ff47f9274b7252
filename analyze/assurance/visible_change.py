"""What size of change would have been seen: printed with every "no change" (ALGORITHMS B.12)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv, ndtri

from analyze.assurance.period_blocks import PeriodBlocks
from analyze.assurance.period_tests import PeriodNoise, exact_p
from schemas.report.accounts import VisibleRow

POWER = 0.9
LEAST_REQUESTS = 4
"""A side (L.4); fewer are not tested."""
TIME_FLOOR = 0.10
"""Relative change of a time that counts (L.9 item 5)."""
SHARE_FLOOR = 0.01
LEAST_NEW = 3
"""Requests in which a share must show (L.3)."""
F8 = npt.NDArray[np.float64]
_LEAST = 1e-3

MOST_ROWS = 100
"""Root types that are told of."""


def smallest_ratio(log_sd: float, n0: float, n1: float, noise: PeriodNoise, *, alpha: float) -> float | None:
    """Factor of a time that is found with 90 % power at level α (two-sided); None: not tested.

    exp((z(1-α/2) + z(0.9)) · √(τ²(1/W0+1/W1) + σ²·(1/n0+1/n1))), at least 1 + the floor. log_sd: σ, of the
    log of single values; n: effective requests.
    """
    if min(n0, n1) < LEAST_REQUESTS:
        return None
    error = math.sqrt(noise.tau_between**2 + log_sd**2 * (1 / n0 + 1 / n1))
    reach = float(ndtri(POWER) - ndtri(alpha / 2)) * error
    return max(1.0 + TIME_FLOOR, math.exp(reach))


def smallest_share(n0: int, n1: int, *, alpha: float) -> float | None:
    """Share of a path or an error that the reference never had and that is found with 90 % power.

    None: not even all requests would do, or too few to be tested. Exact: the least count that Fisher's test
    finds against none, and the share that gives as many with that power.
    """
    if min(n0, n1) < LEAST_REQUESTS:
        return None
    least = least_new(n0, n1, alpha=alpha)
    if least is None:
        return None
    least = max(least, LEAST_NEW)
    # P(Bin(n, s) >= k) = P(Beta(k, n-k+1) <= s)
    return max(SHARE_FLOOR, float(betaincinv(least, n1 - least + 1, POWER)))


def least_new(n0: int, n1: int, *, alpha: float) -> int | None:
    """Fewest of n1 against 0 of n0 with one-sided p <= α; None: there is none. O(log n1 · that many)."""
    low, high = 1, n1
    if exact_p(0, n0, n1, n1) / 2 > alpha:
        return None
    while low < high:
        middle = (low + high) // 2
        # Twice the smaller tail: against none, that is the upper one.
        if exact_p(0, n0, middle, n1) / 2 <= alpha:
            high = middle
        else:
            low = middle + 1
    return low


def visible_rows(
    reference: PeriodBlocks,
    problem: PeriodBlocks,
    log_sd: F8,
    roots: Sequence[str],
    noise: PeriodNoise,
    *,
    alpha: float,
) -> tuple[VisibleRow, ...]:
    """A row for each root type, the MOST_ROWS with the most requests. log_sd: [roots], of `log_spread`."""
    counts = [side.requests.sum(axis=0) for side in (reference, problem)]
    effective = [_kish(side) for side in (reference, problem)]
    busiest = np.argsort(-(counts[0] + counts[1]), kind="stable")[:MOST_ROWS].tolist()
    rows = [
        VisibleRow(
            root=roots[at],
            requests0=int(counts[0][at]),
            requests1=int(counts[1][at]),
            ratio=smallest_ratio(
                float(log_sd[at]), float(effective[0][at]), float(effective[1][at]), noise, alpha=alpha
            ),
            share=smallest_share(int(effective[0][at]), int(effective[1][at]), alpha=alpha),
        )
        for at in busiest
    ]
    return tuple(sorted(rows, key=lambda row: (-row.requests0 - row.requests1, row.root)))


def log_spread(value: F8, weight: F8, root: npt.NDArray[np.integer], n_roots: int) -> F8:
    """[roots] standard deviation of the natural log of response times; 0 for none. All arrays are [values].

    Values may be those of requests, or of a profile's bins with the bins' weights.
    """
    logs = np.log(np.maximum(value, _LEAST))
    total = np.maximum(np.bincount(root, weight, n_roots), 1e-300)
    mean = np.bincount(root, weight * logs, n_roots) / total
    spread: F8 = np.sqrt(np.bincount(root, weight * (logs - mean[root]) ** 2, n_roots) / total)
    return spread


def _kish(side: PeriodBlocks) -> F8:
    weight, square = side.weight.sum(axis=0), side.weight2.sum(axis=0)
    return np.where(square > 0, weight**2 / np.where(square > 0, square, 1.0), 0.0)
