"""What each part of a group's response time adds to its variance (ALGORITHMS E, tier 2).

y_e is the critical time of part e and Σ_e y_e = T, so share_e = Cov(y_e, T)/Var(T) adds up to 1. A part of
negative share compensates: it is short where the others are long.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from analyze.methods.variance.variance_split import TOLERANCE
from schemas.arrays import F8

WINSORISED_AT: Final = 0.995
"""Quantile that longer times are cut to, to see what of a share rests on few requests."""


@dataclass(frozen=True, slots=True)
class CovarianceShares:
    """Parts of a variance; arrays are [parts]. µs, µs²."""

    variance: float
    """Of the response time; 0: there is nothing to share, and shares are 0."""
    mean: F8
    part_variance: F8
    share: F8
    share_winsorised: F8
    """Of what is left when each part is cut at its own quantile; adds up to 1, too."""
    kept: float
    """The variance of the sum of cut parts, as a share of `variance`."""


def covariance_shares(us: F8, weight: F8) -> CovarianceShares:
    """Shares of parts us [parts, requests]. Raises ValueError where they do not add up to 1.

    O(parts · requests).
    """
    mean, variance, part_variance, share = _shares(us, weight)
    cut = np.minimum(us, np.quantile(us, WINSORISED_AT, axis=1, keepdims=True))
    _, left, _, share_cut = _shares(cut, weight)
    return CovarianceShares(
        variance, mean, part_variance, share, share_cut, left / variance if variance > 0 else 1.0
    )


def _shares(us: F8, weight: F8) -> tuple[F8, float, F8, F8]:
    """(means, variance of the sum, variances of the parts, shares)."""
    p = weight / weight.sum()
    mean = us @ p
    off = us - mean[:, None]
    total = off.sum(axis=0)
    variance = float(p @ total**2)
    scale = float(p @ us.sum(axis=0) ** 2)
    part_variance = (off * off) @ p
    if variance <= 1e-15 * scale:
        return mean, 0.0, part_variance, np.zeros(len(us))
    share = off @ (p * total) / variance
    if abs(float(share.sum()) - 1.0) > TOLERANCE:
        raise ValueError(f"shares of a variance add up to {share.sum():.12f}")
    return mean, variance, part_variance, share


def covariances(us: F8, weight: F8) -> F8:
    """[parts, parts] weighted covariance matrix."""
    p = weight / weight.sum()
    off = us - (us @ p)[:, None]
    found: F8 = (off * p) @ off.T
    return found
