"""What a site does on its own: noise between blocks of ordinary times (L.5, L.9 item 2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv

from analyze.methods.robust.robust_settings import RobustSettings
from analyze.methods.robust.roles import Roles
from analyze.methods.robust.site_votes import Spread
from analyze.stats.noise import LEAST_FOR_ENVELOPE, SHRINKAGE_WEIGHT, LogMedians, window_noise
from analyze.stats.proportions import share_dispersion

F8 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int64]
B1 = npt.NDArray[np.bool_]

LEAST_VOTES = 3
"""Votes of a block that tell something."""
LEAST_IN_ENVELOPE = 5
"""Votes of a block that show how far the system goes on its own: one of fewer is too easily all of a kind."""
SURE = 0.95
"""Of a share that lies outside of the envelope."""
TRIM = 0.0
"""Part of the blocks, at each end, that may be faulty. Trimming 5 % or 10 % of a history gave 0.5 and 0.7
findings a quiet pair of the booking recording instead of 0.3, and found nothing more (docs/evaluation.md)."""


@dataclass(frozen=True, slots=True)
class Noise:
    """Noise of a family at every site; arrays are [sites]."""

    variance: F8
    """Of the difference of two periods' log medians, beyond sampling."""
    low: F8
    """Envelope of the blocks' log medians; infinite where there are too few blocks for one."""
    high: F8
    informed: B1
    """Whether there is an envelope."""
    freedom: F8
    """Degrees of freedom of the variance; infinite where it is what is assumed at least."""
    blocks: F8
    """[sites, blocks] log medians that the envelope is of; NaN for none."""

    def freedom_of(self, variance: F8) -> F8:
        """[sites] degrees of freedom of a variance that this one is part of (Welch and Satterthwaite)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            found: F8 = self.freedom * (variance / self.variance) ** 2
        return np.where(np.isnan(found), np.inf, found)

    def outside(self, value: F8) -> B1:
        """[sites] whether a value lies outside the envelope, or there is none."""
        return np.asarray(~self.informed | ~((value >= self.low) & (value <= self.high)))

    def furthest(self, up: B1) -> tuple[I8, F8]:
        """[sites] (block, its log median) with the most, where `up`, or with the least."""
        return furthest(self.blocks, up)


def noise_between(
    blocks: Spread, roles: Roles, settings: RobustSettings, cold_tau: float | None = None
) -> Noise:
    """Between-block variance of log medians, robust, less the sampling variance, shrunk to the others'.

    At least `min_tau`²; where the blocks are of one short stretch, `cold_tau`² (that of the settings, unless
    given).
    """
    cold = settings.cold_tau if cold_tau is None else cold_tau
    floor = max(settings.min_tau, cold) if roles.cold else settings.min_tau
    found = window_noise(_told(blocks, LEAST_VOTES), floor=floor, trim=TRIM)
    seen = _told(blocks, LEAST_IN_ENVELOPE)
    wide = window_noise(seen, floor=floor, trim=TRIM)
    # What was seen to scatter is not pulled down to what the others do.
    tau2 = np.fmax(found.tau2, found.raw_tau2)
    assumed = tau2 <= floor**2 * (1 + 1e-9)
    freedom = SHRINKAGE_WEIGHT + np.maximum(found.windows - 1.0, 0.0)
    return Noise(
        tau2 * (1 + 1 / np.maximum(found.windows, 1)),
        wide.low,
        wide.high,
        wide.windows >= LEAST_FOR_ENVELOPE,
        np.where(assumed, np.inf, freedom),
        np.where(np.isnan(seen.variance), np.nan, seen.value),
    )


def furthest(blocks: F8, up: B1) -> tuple[I8, F8]:
    """[rows] (block, its value) with the most of [rows, blocks], where `up`, or with the least; NaN where no
    block has any."""
    sign = np.where(up, 1.0, -1.0)[:, None]
    block = np.where(np.isnan(blocks), -np.inf, blocks * sign).argmax(axis=1)
    return block.astype(np.int64), blocks[np.arange(len(blocks)), block]


def _told(blocks: Spread, least: int) -> LogMedians:
    """Medians of blocks of at least so many votes."""
    told = blocks.n >= least
    return LogMedians(
        np.where(told, blocks.log_median, np.nan), np.where(told, blocks.se * blocks.se, np.nan)
    )


def dispersion(x: F8, n: F8) -> F8:
    """[rows] phi >= 1 of shares x / n [rows, blocks], of the blocks with enough trials (L.9 item 4)."""
    told = n >= LEAST_VOTES
    return share_dispersion(np.where(told, x, 0.0), np.where(told, n, 0.0), unbiased=True)


def share_freedom(phi: F8, assumed: F8 | float, n: F8) -> F8:
    """[rows] degrees of freedom of phi by blocks of n trials [rows, blocks]; infinite where it is assumed."""
    blocks = (n >= LEAST_VOTES).sum(axis=1)
    return np.where(phi > assumed, np.maximum(blocks - 1.0, 1.0), np.inf)


def leaves_envelope(x: F8, n: F8, low: F8, high: F8) -> B1:
    """[rows] whether a share x of n lies outside of an envelope by more than the chance of its own few votes.

    Four of four are no more than seven of twelve: the exact one-sided 95 % bound of the share must lie
    outside. True where there is no envelope (NaN).
    """
    x = np.clip(x, 0.0, n)
    with np.errstate(invalid="ignore"):
        least = np.where(x > 0, betaincinv(np.maximum(x, 1e-9), n - x + 1, 1 - SURE), 0.0)
        most = np.where(x < n, betaincinv(x + 1, np.maximum(n - x, 1e-9), SURE), 1.0)
        return np.asarray(np.isnan(low) | (least > high) | (most < low))


def share_envelope(share: F8) -> tuple[F8, F8]:
    """([rows], [rows]) lowest and highest of shares [rows, blocks]; NaN for too few blocks."""
    told = ~np.isnan(share)
    enough = told.sum(axis=1) >= LEAST_FOR_ENVELOPE
    low, high = np.where(told, share, np.inf).min(axis=1), np.where(told, share, -np.inf).max(axis=1)
    return np.where(enough, low, np.nan), np.where(enough, high, np.nan)
