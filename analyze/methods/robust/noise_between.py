"""What a site does on its own: noise between blocks of ordinary times (L.5, L.9 item 2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analyze.methods.robust.robust_settings import RobustSettings
from analyze.methods.robust.roles import Roles
from analyze.methods.robust.site_votes import Spread

F8 = npt.NDArray[np.float64]
B1 = npt.NDArray[np.bool_]

LEAST_VOTES = 3
"""Votes of a block that tell something."""
LEAST_IN_ENVELOPE = 5
"""Votes of a block that show how far the system goes on its own: one of fewer is too easily all of a kind."""
LEAST_BLOCKS = 5
"""Blocks that make an envelope."""
TRIM = 0.0
"""Part of the blocks, at each end, that may be faulty. Trimming 5 % or 10 % of a history gave 0.5 and 0.7
findings a quiet pair of the booking recording instead of 0.3, and found nothing more (docs/evaluation.md)."""
_PRIOR_BLOCKS = 6.0
_ROBUST_PART = 0.9


@dataclass(frozen=True, slots=True)
class Noise:
    """Noise of a family at every site; arrays are [sites]."""

    variance: F8
    """Of the difference of two periods' log medians, beyond sampling."""
    low: F8
    """Envelope of the blocks' log medians; NaN where there are too few blocks for one."""
    high: F8
    cold: bool
    cold_phi: float

    def dispersion(self, x: F8, n: F8, prior: float) -> F8:
        """[sites] over-dispersion phi >= 1 of shares x / n [sites, blocks]: see `dispersion`."""
        return dispersion(x, n, prior)

    @staticmethod
    def upper_share(share: F8) -> F8:
        """[sites] upper end of the trimmed envelope of shares [sites, blocks]; 0 where there is none."""
        return np.nan_to_num(_envelope(share)[1], nan=0.0)


def noise_between(blocks: Spread, roles: Roles, settings: RobustSettings) -> Noise:
    """Between-block variance of log medians, robust, less the sampling variance, shrunk to the others'.

    MAD² − median sampling variance, weight 6 on the median over sites, at least `min_tau`² (`cold_tau`²
    where the blocks are of one short stretch).
    """
    usable = blocks.n >= LEAST_VOTES
    median = np.where(usable, blocks.log_median, np.nan)
    count = usable.sum(axis=1)
    with np.errstate(all="ignore"):
        total = _nanmad(median) ** 2
        sampling = _nanmedian(np.where(usable, blocks.se, np.nan) ** 2)
        own = np.where(count >= LEAST_BLOCKS - 2, np.maximum(total - sampling, 0), np.nan)
        least = (max(settings.min_tau, settings.cold_tau) if roles.cold else settings.min_tau) ** 2
        common = np.nanmedian(own) if np.isfinite(own).any() else least
    weight = np.where(np.isnan(own), 0, np.maximum(count - 1, 0))
    tau2 = (_PRIOR_BLOCKS * common + weight * np.nan_to_num(own)) / (_PRIOR_BLOCKS + weight)
    low, high = _envelope(np.where(blocks.n >= LEAST_IN_ENVELOPE, blocks.log_median, np.nan))
    return Noise(
        np.maximum(tau2, least) * (1 + 1 / np.maximum(count, 1)), low, high, roles.cold, settings.cold_phi
    )


def outside(noise: Noise, value: F8) -> B1:
    """[sites] whether a value lies outside the envelope, or there is none."""
    return ~((value >= noise.low) & (value <= noise.high))


def dispersion(x: F8, n: F8, prior: float) -> F8:
    """[rows] phi = mean of the lowest 90 % of the blocks' X², at least `prior` and 1 (L.9 item 4).

    x, n [rows, blocks]: successes of trials. Rows with fewer than three blocks of three trials get the prior.
    """
    usable = n >= LEAST_VOTES
    trials = np.where(usable, n, 0)
    total = trials.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(usable, x, 0).sum(axis=1) / total
        expected = trials * share[:, None]
        x2 = np.where(usable, (x - expected) ** 2 / (expected * (1 - share[:, None])), np.nan)
    x2.sort(axis=1)  # NaN last
    count = usable.sum(axis=1)
    kept = np.maximum((_ROBUST_PART * count).astype(np.int64), 1)
    inside = np.arange(x2.shape[1]) < kept[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(inside, np.nan_to_num(x2), 0).sum(axis=1) / kept
    informative = (count >= LEAST_BLOCKS - 2) & (share > 1e-9) & (share < 1 - 1e-9)
    return np.maximum(np.where(informative, mean, prior), max(prior, 1.0))


def share_envelope(share: F8) -> tuple[F8, F8]:
    """([rows], [rows]) trimmed envelope of shares [rows, blocks]; NaN for fewer than five blocks."""
    return _envelope(share)


def _envelope(values: F8) -> tuple[F8, F8]:
    """Lowest and highest of the blocks, trimmed at each end; NaN where fewer than LEAST_BLOCKS tell."""
    ordered = np.sort(values, axis=1)
    count = (~np.isnan(values)).sum(axis=1)
    cut = (count * TRIM).astype(np.int64)
    rows = np.arange(len(values))
    low = ordered[rows, np.minimum(cut, values.shape[1] - 1)]
    high = ordered[rows, np.maximum(count - 1 - cut, 0)]
    enough = count >= LEAST_BLOCKS
    return np.where(enough, low, np.nan), np.where(enough, high, np.nan)


def _nanmedian(values: F8) -> F8:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        median: F8 = np.nanmedian(values, axis=1)
    return median


def _nanmad(values: F8) -> F8:
    return 1.4826 * _nanmedian(np.abs(values - _nanmedian(values)[:, None]))
