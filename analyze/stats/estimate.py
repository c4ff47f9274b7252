"""Estimate a change at many places, and answer every question that is asked of one.

Two constructors cover what is compared: `share_change` for shares of requests or calls, `level_change` for
logarithms of times and counts. Columns of their inputs are the same: 0 the value before, 1 the value after,
2 and on the blocks of ordinary times. Blocks say how far a value moves by itself and which values are
ordinary (the envelope). Whoever wants to know whether something changed, how large a change may be, which
would have been seen, or what more requests would show, makes an `Estimate` and asks it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.special import betaincinv, ndtri, stdtr

from analyze.stats.columns import each_column
from analyze.stats.noise import (
    SHRINKAGE_WEIGHT,
    SPREAD_WEIGHT,
    LogMedians,
    enough_errors,
    envelope,
    shrunk_tau2,
    sum_freedom,
    window_noise,
)
from analyze.stats.proportions import fisher, newcombe, share_dispersion
from schemas.arrays import B1, F8, I8

BEFORE, AFTER, FIRST_BLOCK = 0, 1, 2
"""Columns of what is compared."""
LEAST_IN_BLOCK = 3
"""Requests of a block that tell something of its scatter."""
LEAST_IN_ENVELOPE = 5
"""Requests of a block that show how far the system goes: one of fewer is too easily all of a kind."""
SURE = 0.95
"""That a share of few requests lies outside of the envelope: by its exact one-sided bound."""
_ORDER = float(np.log(10.0))
"""An order of magnitude, as a logarithm."""
_MOST_LOG = 700.0
"""Logarithms over this are no numbers of 64 bits."""


@dataclass(frozen=True, slots=True)
class BetweenBlocks:
    """What blocks of ordinary times tell of how far levels move by themselves; arrays are [places]."""

    raw_tau2: F8
    """Variance between blocks beyond sampling; NaN for too few."""
    blocks: I8
    """How many blocks tell."""
    least_tau: F8
    """What is assumed at least,"""
    told: B1
    """but where blocks tell enough: there it is a prior, see `shrunk_tau2`."""

    def variance(self, sampling: F8, inner_freedom: F8) -> tuple[F8, F8]:
        """Give (variance of a change, degrees of freedom with its sampling): shrunk to that of all places.

        inner_freedom: degrees of freedom of the sampling variance.
        """
        shrunk = shrunk_tau2(self.raw_tau2, self.blocks, floor=self.least_tau, told=self.told)
        # What was seen to scatter is not pulled down to what the others do.
        tau2 = np.fmax(shrunk, self.raw_tau2)
        between = tau2 * (1 + 1 / np.maximum(self.blocks, 1))
        freedom = np.where(
            (tau2 <= self.least_tau**2 * (1 + 1e-9)) & ~self.told,
            np.inf,
            SHRINKAGE_WEIGHT + np.maximum(self.blocks - 1.0, 0.0),
        )
        return between, sum_freedom((sampling, inner_freedom), (between, freedom))


@dataclass(frozen=True, slots=True)
class Estimate:
    """Changes of one measure at many places, shares or natural logarithms; arrays are [places]."""

    unit: Literal["share", "log"]
    before: F8
    after: F8
    sampling: F8
    """Variance of the change by chance alone."""
    between: F8
    """Variance of the change by what the system does on its own."""
    freedom: F8
    """Degrees of freedom of the standard error; infinite where it is assumed or known."""
    p: F8
    """Two-sided, of no change; of shares with a history as its windows differ (`surprise`), else without the
    noise between blocks."""
    n0: F8
    n1: F8
    """Effective requests before and after."""
    blocks: F8
    """[places, blocks] values of ordinary times that make the envelope; NaN for none."""
    low: F8
    high: F8
    """The envelope: least and largest of the blocks; infinite where there are too few for one."""
    new: B1
    """The share is 0 or 1 on one side."""
    surely: tuple[F8, F8]
    """Bounds of the value after by the chance of its own few requests; the value itself where they do not
    matter."""
    margin: F8 | float = 0.0
    """By how much a value must leave the envelope."""
    inner_freedom: F8 | None = None
    """Degrees of freedom of the sampling variance alone; None: infinite."""
    known_of: Callable[[F8], F8] | None = None
    """Those that the values of so many requests give; None: more requests do not make more of them."""
    noise: BetweenBlocks | None = None
    """Of levels: what `between` and `freedom` were made of."""
    usual_p: F8 | None = None
    """Two-sided, of the values before being of the blocks; None: not asked."""
    chance_p: F8 | None = None
    """Two-sided, of no change by chance alone; None: that is `p`."""

    @property
    def change(self) -> F8:
        """After less before."""
        return self.after - self.before

    @property
    def se(self) -> F8:
        """Standard error of the change, the noise between blocks included."""
        return np.sqrt(self.sampling + self.between)

    @property
    def z(self) -> F8:
        """The change over its standard error."""
        return self.change / self.se

    @property
    def p_with_noise(self) -> F8:
        """Two-sided, of no change beyond the noise between blocks (Student's law)."""
        with np.errstate(invalid="ignore"):
            p: F8 = 2 * stdtr(self.freedom, -np.abs(self.change) / self.se)
        return np.where(np.isnan(p), 1.0, p)

    def reach(self, level: float = 0.95) -> F8:
        """Half the length of the interval of the change."""
        return enough_errors(float(ndtri((1 + level) / 2)), self.freedom) * self.se

    def bounded_interval(self, level: float = 0.95) -> tuple[F8, F8]:
        """Give the interval of the change as it may be shown; its upper end is infinite where that says
        nothing.

        Of logarithms an upper end that is of another order than both values says nothing: there the interval
        is that of these two periods, without the noise between blocks, if that is a better one.
        """
        low, high = self.interval(level)
        if self.unit == "share":
            return low, high
        with np.errstate(invalid="ignore"):
            most = np.maximum(self.change, 0.0) + _ORDER
            inside = self.within().interval(level)
            better = (high > most) & (inside[1] <= most)
            low = np.where(better, inside[0], low)
            return low, np.where(better, inside[1], np.where(high > most, np.inf, high))

    def interval(self, level: float = 0.95) -> tuple[F8, F8]:
        """Give the interval of the change; of shares from Wilson's, requests over φ (`newcombe`)."""
        if self.unit == "share":
            z = enough_errors(float(ndtri((1 + level) / 2)), self.freedom)
            with np.errstate(invalid="ignore"):
                phi = 1 + self.between / self.sampling
            return newcombe((self.before, self.after), (self.n0 / phi, self.n1 / phi), z)
        reach = self.reach(level)
        return self.change - reach, self.change + reach

    def clears(self, z: float, floor: F8 | float) -> B1:
        """Tell which changes are z standard errors (as unlikely as that many of a normal law) and over a
        floor."""
        size = np.abs(self.change)
        return np.asarray((size > enough_errors(z, self.freedom) * self.se) & (size > floor))

    def stands_alone(self, least: float) -> B1:
        """Tell which changes are so large that ordinary times are no excuse: over `least` and a standard
        error, without the noise between blocks."""
        with np.errstate(invalid="ignore"):
            return np.asarray(np.abs(self.change) - np.sqrt(self.sampling) > least)

    def outside(self) -> B1:
        """Tell which values after leave the envelope, by more than their own chance; all where there is none.

        Four of four are no more than seven of twelve: the exact bound of the share must lie outside.
        """
        least, most = self.surely
        none = ~np.isfinite(self.high)
        above = (self.after > self.high + self.margin) & (least > self.high)
        below = (self.after < self.low - self.margin) & (most < self.low)
        return np.asarray(none | above | below)

    def before_outside(self) -> B1:
        """Tell which values before leave the envelope, shares by more than their own chance: a reference that
        is not normal."""
        least = most = self.before
        if self.unit == "share":
            least, most = _bounds_outside(self.before, self.n0, self.low, self.high)
        above = (self.before > self.high + self.margin) & (least > self.high)
        below = (self.before < self.low - self.margin) & (most < self.low)
        return np.asarray((above | below) & np.isfinite(self.high))

    def largest(self, level: float = 0.95) -> F8:
        """Give the largest size that the change may have, in either direction."""
        low, high = self.interval(level)
        return np.maximum(np.abs(low), np.abs(high))

    def largest_ratio(self, level: float = 0.95) -> F8:
        """Give the same as a part of the value before, nothing falls by more; of shares as it is."""
        if self.unit == "share":
            return self.largest(level)
        low, high = self.interval(level)
        size = np.maximum(-np.expm1(low), np.expm1(np.minimum(high, _MOST_LOG)))
        return np.where(np.isnan(size), np.inf, size)

    def equivalent(self, margin: F8 | float) -> B1:
        """Tell which changes are within a margin by two one-sided tests at 5 % (TOST)."""
        return np.asarray(self.largest(0.90) < margin)

    def smallest_visible(self, z: float, power: float = 0.9) -> F8:
        """Give the change that is found with this power where z standard errors are asked for."""
        return (enough_errors(z, self.freedom) + float(ndtri(power))) * self.se

    def times(self, factor: float) -> Estimate:
        """Give what is expected of so many times as many requests like these, before and after: they tell
        their own spread better, too."""
        more = replace(self, sampling=self.sampling / factor, n0=self.n0 * factor, n1=self.n1 * factor)
        if self.inner_freedom is None:
            return more
        inner, few = self.inner_freedom, np.minimum(self.n0, self.n1)
        with np.errstate(divide="ignore", invalid="ignore"):  # Welch and Satterthwaite
            between = np.maximum(self.se**4 / self.freedom - self.sampling**2 / inner, 0.0)
            if self.known_of is not None:
                first, last = (self.known_of(n) + SPREAD_WEIGHT for n in (few, few * factor))
                inner = inner * last / first
            freedom = more.se**4 / (more.sampling**2 / inner + between)
        freedom = np.where(np.isnan(freedom), self.freedom, freedom)
        return replace(more, freedom=freedom, inner_freedom=inner)

    def within(self) -> Estimate:
        """Give the estimate without the noise between blocks: of these periods, not of others like them."""
        freedom = np.full_like(self.freedom, np.inf) if self.inner_freedom is None else self.inner_freedom
        return replace(self, between=np.zeros_like(self.between), freedom=freedom)

    def take(self, places: I8 | B1) -> Estimate:
        """Give the estimate of some of the places."""
        return each_column([self], lambda column: column[0][places])


def share_change(
    x: F8,
    n: F8,
    *,
    prior_phi: float = 1.0,
    one_sided: bool = False,
    margin: F8 | float = 0.0,
    tested: bool = True,
) -> Estimate:
    """Estimate changes of shares x of n; both [places, columns], in effective requests.

    p is Fisher's (`one_sided`: of no rise), or 1 where it is not `tested`. The variance is quasi-binomial:
    over-dispersion φ between blocks, the lowest 90 % of them, and `prior_phi` at least, except of what is new
    or gone, which was never seen to scatter.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        share = x / n
        inverse = 1 / n[:, BEFORE] + 1 / n[:, AFTER]
        both = n[:, BEFORE] + n[:, AFTER]
        pooled = (x[:, BEFORE] + x[:, AFTER]) / both
        sampling = np.maximum(pooled * (1 - pooled), 0.25 / both) * inverse
    appears = (x[:, BEFORE] < 0.5) | (x[:, AFTER] < 0.5)
    filled = (x[:, BEFORE] > n[:, BEFORE] - 0.5) | (x[:, AFTER] > n[:, AFTER] - 0.5)
    known = n[:, FIRST_BLOCK:] >= LEAST_IN_BLOCK
    prior = np.where(appears, 1.0, prior_phi)
    counts, trials = (np.where(known, v[:, FIRST_BLOCK:], 0.0) for v in (x, n))
    phi = np.maximum(share_dispersion(counts, trials), prior)
    seen = np.where(n[:, FIRST_BLOCK:] >= LEAST_IN_ENVELOPE, share[:, FIRST_BLOCK:], np.nan)
    low, high = envelope(seen)
    p = np.ones(len(x))
    if tested:
        exact = fisher(
            *(np.rint(v).astype(np.int64) for v in (x[:, BEFORE], n[:, BEFORE], x[:, AFTER], n[:, AFTER]))
        )
        p = np.where(x[:, AFTER] > 0, exact.p_more, 1.0) if one_sided else exact.p
    with np.errstate(invalid="ignore"):  # where a side has nothing, there is nothing to say
        between = sampling * (phi - 1)
    return Estimate(
        "share",
        share[:, BEFORE],
        share[:, AFTER],
        sampling,
        between,
        np.where(phi > prior, np.maximum(known.sum(axis=1) - 1.0, 1.0), np.inf),
        p,
        n[:, BEFORE],
        n[:, AFTER],
        seen,
        low,
        high,
        appears | filled,
        _bounds_outside(share[:, AFTER], n[:, AFTER], low, high),
        margin,
    )


def level_change(
    periods: LogMedians,
    n: F8,
    p: F8,
    blocks: LogMedians,
    blocks_n: F8,
    *,
    least_tau: F8 | float,
    of_change: bool = False,
    told: B1 | None = None,
) -> Estimate:
    """Estimate changes of levels, as logarithms.

    periods: [places, 2] values before and after, and variances of their sampling; n: [places, 2] requests;
    p: of a test of the values themselves. blocks: [places, blocks], of blocks_n requests each. The variance
    between blocks is robust, less the sampling's, shrunk to that of all places, at least `least_tau`² but
    where blocks tell enough (told: [places]; None: nowhere). of_change: blocks are pieces of one stretch, of
    whose mean they make nothing surer, and `least_tau` is what a change has.
    """
    usable = np.where(blocks_n >= LEAST_IN_BLOCK, blocks.value, np.nan)
    if of_change:
        least_tau = least_tau / np.sqrt(1 + 1 / np.maximum((~np.isnan(usable)).sum(axis=1), 1))
    noise = window_noise(
        LogMedians(usable, np.where(np.isnan(usable), np.nan, blocks.variance)), floor=least_tau
    )
    sampling, inner_freedom = periods.variance.sum(axis=1), periods.change_freedom()
    scatter = BetweenBlocks(
        noise.raw_tau2,
        noise.windows,
        np.broadcast_to(least_tau, p.shape),
        np.zeros(len(p), np.bool_) if told is None else told,
    )
    seen = np.where(blocks_n >= LEAST_IN_ENVELOPE, blocks.value, np.nan)
    before, after = periods.value[:, BEFORE], periods.value[:, AFTER]
    return Estimate(
        "log",
        before,
        after,
        sampling,
        *scatter.variance(sampling, inner_freedom),
        p,
        n[:, BEFORE],
        n[:, AFTER],
        seen,
        *envelope(seen),
        np.zeros(len(p), np.bool_),
        (after, after),
        inner_freedom=inner_freedom,
        known_of=periods.known_of,
        noise=scatter,
    )


def joined_estimates(parts: Sequence[Estimate]) -> Estimate:
    """Put estimates of one measure at several sets of places together, as if they had been made as one.

    What noise between blocks is shrunk to is that of all places.
    """
    if len(parts) == 1:
        return parts[0]
    found = each_column(parts, np.concatenate)
    if found.noise is None:
        return found
    inner = np.full(len(found.p), np.inf) if found.inner_freedom is None else found.inner_freedom
    between, freedom = found.noise.variance(found.sampling, inner)
    return replace(found, between=between, freedom=freedom)


def _bounds_outside(share: F8, n: F8, low: F8, high: F8) -> tuple[F8, F8]:
    """Give exact bounds of the shares that leave an envelope; of others, where they do not matter, the share
    itself."""
    out = (share < low) | (share > high)
    least, most = share.copy(), share.copy()
    least[out], most[out] = share_bounds(share[out] * n[out], n[out])
    return least, most


def share_bounds(x: F8, n: F8) -> tuple[F8, F8]:
    """Give exact one-sided bounds of shares x of n (Clopper and Pearson): (least, most), each with that
    confidence."""
    x = np.clip(x, 0.0, n)
    with np.errstate(invalid="ignore"):
        least = np.where(x > 0, betaincinv(np.maximum(x, 1e-9), n - x + 1, 1 - SURE), 0.0)
        most = np.where(x < n, betaincinv(x + 1, np.maximum(n - x, 1e-9), SURE), 1.0)
    return least, most
