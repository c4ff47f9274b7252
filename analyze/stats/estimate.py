"""Estimate a change at many places, and answer questions about it.

Two constructors cover all comparisons: `share_change` for shares of requests or calls, `level_change` for
logarithms of times and counts. Their inputs have the same columns: 0 the value before, 1 the value after,
from 2 on the baseline blocks. Blocks show the normal variation of a value, and its normal range (the
envelope). An `Estimate` tells whether the value changed, how large the change may be, which change would have
been visible, and what more requests would show.
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
    envelope,
    shrunk_tau2,
    student_z,
    sum_freedom,
    window_noise,
)
from analyze.stats.proportions import fisher, newcombe, share_dispersion
from schemas.arrays import B1, F8, I8

BEFORE, AFTER, FIRST_BLOCK = 0, 1, 2
"""Columns of the compared values."""
LEAST_IN_BLOCK = 3
"""Fewest requests of a block to count for the scatter between blocks."""
LEAST_IN_ENVELOPE = 5
"""Fewest requests of a block to count for the envelope: of fewer, all may easily be of one kind."""
SURE = 0.95
"""Confidence of the exact one-sided bound of a share that must lie outside of the envelope."""
_ORDER = float(np.log(10.0))
"""An order of magnitude, as a logarithm."""
_MOST_LOG = 700.0
"""Larger logarithms overflow 64-bit numbers."""


@dataclass(frozen=True, slots=True)
class BetweenBlocks:
    """Scatter of levels between baseline blocks; arrays are [places]."""

    raw_tau2: F8
    """Variance between blocks beyond sampling; NaN for too few blocks."""
    blocks: I8
    """Number of blocks with at least LEAST_IN_BLOCK requests."""
    tau_floor: F8
    """Assumed lower bound of the standard deviation between blocks; only a prior where `tau_estimated`."""
    tau_estimated: B1
    """True where blocks suffice to estimate the scatter: there tau_floor is the prior of `shrunk_tau2`."""

    def variance(self, sampling: F8, inner_freedom: F8) -> tuple[F8, F8]:
        """([places] variance of a change due to scatter between blocks, shrunk towards all places; [places]
        degrees of freedom of the sum of this and the sampling variance).

        inner_freedom: degrees of freedom of the sampling variance.
        """
        shrunk = shrunk_tau2(
            self.raw_tau2, self.blocks, floor=self.tau_floor, tau_estimated=self.tau_estimated
        )
        # A place with a larger scatter than the others keeps it.
        tau2 = np.fmax(shrunk, self.raw_tau2)
        between = tau2 * (1 + 1 / np.maximum(self.blocks, 1))
        freedom = np.where(
            (tau2 <= self.tau_floor**2 * (1 + 1e-9)) & ~self.tau_estimated,
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
    """Variance of the change from sampling alone."""
    between: F8
    """Variance of the change from the normal variation between blocks."""
    freedom: F8
    """Degrees of freedom of the standard error; infinite if the variance is assumed or known."""
    p: F8
    """Two-sided p of no change: for shares with a history, given the differences between its windows
    (`surprise`); else without the noise between blocks."""
    n0: F8
    n1: F8
    """n0, n1: effective requests before and after."""
    blocks: F8
    """[places, blocks] baseline values that span the envelope; NaN for missing ones."""
    low: F8
    high: F8
    """low, high: envelope, i.e. least and largest value of the blocks; infinite if there are too few."""
    new: B1
    """True if the share is 0 or 1 before or after."""
    exact_bounds: tuple[F8, F8]
    """(least, most): exact bounds of the value after, given its few requests; the value itself inside the
    envelope."""
    margin: F8 | float = 0.0
    """Least distance from the envelope for a value to be outside of it."""
    inner_freedom: F8 | None = None
    """Degrees of freedom of the sampling variance alone; None: infinite."""
    degrees_of_freedom_at: Callable[[F8], F8] | None = None
    """Function from a number of requests to the degrees of freedom of their sampling variance; None:
    constant."""
    noise: BetweenBlocks | None = None
    """Scatter from which `between` and `freedom` were computed; None for shares."""
    usual_p: F8 | None = None
    """Two-sided p that the values before belong to the blocks' distribution; None: not computed."""
    chance_p: F8 | None = None
    """Two-sided p of no change by chance alone; None: equal to `p`."""

    @property
    def change(self) -> F8:
        """Value after less value before."""
        return self.after - self.before

    @property
    def se(self) -> F8:
        """Standard error of the change, including the noise between blocks."""
        return np.sqrt(self.sampling + self.between)

    @property
    def z(self) -> F8:
        """Change over its standard error."""
        return self.change / self.se

    @property
    def p_with_noise(self) -> F8:
        """Two-sided p of no change beyond the noise between blocks (Student's t)."""
        with np.errstate(invalid="ignore"):
            p: F8 = 2 * stdtr(self.freedom, -np.abs(self.change) / self.se)
        return np.where(np.isnan(p), 1.0, p)

    def reach(self, level: float = 0.95) -> F8:
        """Half-width of the confidence interval of the change."""
        return student_z(float(ndtri((1 + level) / 2)), self.freedom) * self.se

    def bounded_interval(self, level: float = 0.95) -> tuple[F8, F8]:
        """Confidence interval of the change for display; its upper end is infinite if it is not informative.

        For logarithms it is not informative if it exceeds the larger value by an order of magnitude: then the
        interval without the noise between blocks is used, if that one is informative.
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
        """Confidence interval of the change; for shares from Wilson's, with requests divided by φ
        (`newcombe`)."""
        if self.unit == "share":
            z = student_z(float(ndtri((1 + level) / 2)), self.freedom)
            with np.errstate(invalid="ignore"):
                phi = 1 + self.between / self.sampling
            return newcombe((self.before, self.after), (self.n0 / phi, self.n1 / phi), z)
        reach = self.reach(level)
        return self.change - reach, self.change + reach

    def clears(self, z: float, floor: F8 | float) -> B1:
        """True for changes over z standard errors (in Student's t: the same tail probability) and over a
        floor."""
        size = np.abs(self.change)
        return np.asarray((size > student_z(z, self.freedom) * self.se) & (size > floor))

    def stands_alone(self, least: float) -> B1:
        """True for changes too large to be normal variation: over `least` plus one standard error from
        sampling."""
        with np.errstate(invalid="ignore"):
            return np.asarray(np.abs(self.change) - np.sqrt(self.sampling) > least)

    def outside(self) -> B1:
        """True for values after that are outside of the envelope by more than sampling error, and for places
        without an envelope.

        Four of four do not exceed seven of twelve: the exact bound of the share must lie outside.
        """
        least, most = self.exact_bounds
        none = ~np.isfinite(self.high)
        above = (self.after > self.high + self.margin) & (least > self.high)
        below = (self.after < self.low - self.margin) & (most < self.low)
        return np.asarray(none | above | below)

    def before_outside(self) -> B1:
        """True for values before outside of the envelope (shares: by more than sampling error): the reference
        is not normal."""
        least = most = self.before
        if self.unit == "share":
            least, most = _bounds_outside(self.before, self.n0, self.low, self.high)
        above = (self.before > self.high + self.margin) & (least > self.high)
        below = (self.before < self.low - self.margin) & (most < self.low)
        return np.asarray((above | below) & np.isfinite(self.high))

    def largest(self, level: float = 0.95) -> F8:
        """Largest size of the change within its confidence interval, in either direction."""
        low, high = self.interval(level)
        return np.maximum(np.abs(low), np.abs(high))

    def largest_ratio(self, level: float = 0.95) -> F8:
        """Largest size relative to the value before, at most 1 for a fall; for shares the difference
        itself."""
        if self.unit == "share":
            return self.largest(level)
        low, high = self.interval(level)
        size = np.maximum(-np.expm1(low), np.expm1(np.minimum(high, _MOST_LOG)))
        return np.where(np.isnan(size), np.inf, size)

    def equivalent(self, margin: F8 | float) -> B1:
        """True for changes within a margin by two one-sided tests at 5 % (TOST)."""
        return np.asarray(self.largest(0.90) < margin)

    def smallest_visible(self, z: float, power: float = 0.9) -> F8:
        """Smallest change found with this power if z standard errors are required."""
        return (student_z(z, self.freedom) + float(ndtri(power))) * self.se

    def times(self, factor: float) -> Estimate:
        """Estimate expected from `factor` times as many requests before and after; the error of their spread
        shrinks as well."""
        more = replace(self, sampling=self.sampling / factor, n0=self.n0 * factor, n1=self.n1 * factor)
        if self.inner_freedom is None:
            return more
        inner, few = self.inner_freedom, np.minimum(self.n0, self.n1)
        with np.errstate(divide="ignore", invalid="ignore"):  # Welch and Satterthwaite
            between = np.maximum(self.se**4 / self.freedom - self.sampling**2 / inner, 0.0)
            if self.degrees_of_freedom_at is not None:
                first, last = (self.degrees_of_freedom_at(n) + SPREAD_WEIGHT for n in (few, few * factor))
                inner = inner * last / first
            freedom = more.se**4 / (more.sampling**2 / inner + between)
        freedom = np.where(np.isnan(freedom), self.freedom, freedom)
        return replace(more, freedom=freedom, inner_freedom=inner)

    def within(self) -> Estimate:
        """Estimate without the noise between blocks: valid for these two periods only."""
        freedom = np.full_like(self.freedom, np.inf) if self.inner_freedom is None else self.inner_freedom
        return replace(self, between=np.zeros_like(self.between), freedom=freedom)

    def take(self, places: I8 | B1) -> Estimate:
        """Select places, by index or mask."""
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
    """Estimate changes of shares x / n; both [places, columns], in effective requests.

    p is Fisher's (`one_sided`: of no rise), or 1 if not `tested`. The variance is quasi-binomial, with the
    over-dispersion φ of the lowest 90 % of the blocks, at least `prior_phi`, except for shares that are new
    or gone, whose scatter was never observed.
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
    with np.errstate(invalid="ignore"):  # a side without requests has no share
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
    tau_floor: F8 | float,
    of_change: bool = False,
    tau_estimated: B1 | None = None,
) -> Estimate:
    """Estimate changes of levels, as logarithms.

    periods: [places, 2] values before and after, with sampling variances; n: [places, 2] requests; p: of a
    test of the values themselves. blocks: [places, blocks], of blocks_n requests each. The variance between
    blocks is robust, minus the sampling variance, shrunk towards that of all places, and at least
    `tau_floor`² except where `tau_estimated` ([places]; None: nowhere). of_change: the blocks are parts of
    one stretch and do not make its mean more certain; `tau_floor` is then that of a change.
    """
    usable = np.where(blocks_n >= LEAST_IN_BLOCK, blocks.value, np.nan)
    if of_change:
        tau_floor = tau_floor / np.sqrt(1 + 1 / np.maximum((~np.isnan(usable)).sum(axis=1), 1))
    noise = window_noise(
        LogMedians(usable, np.where(np.isnan(usable), np.nan, blocks.variance)), floor=tau_floor
    )
    sampling, inner_freedom = periods.variance.sum(axis=1), periods.change_freedom()
    scatter = BetweenBlocks(
        noise.raw_tau2,
        noise.windows,
        np.broadcast_to(tau_floor, p.shape),
        np.zeros(len(p), np.bool_) if tau_estimated is None else tau_estimated,
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
        degrees_of_freedom_at=periods.degrees_of_freedom_at,
        noise=scatter,
    )


def joined_estimates(parts: Sequence[Estimate]) -> Estimate:
    """Concatenate estimates of one measure at several sets of places, as if made together.

    The noise between blocks is shrunk again, towards that of all places.
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
    """Exact bounds (least, most) of shares outside of the envelope; inside, where they are not needed, the
    share."""
    out = (share < low) | (share > high)
    least, most = share.copy(), share.copy()
    least[out], most[out] = share_bounds(share[out] * n[out], n[out])
    return least, most


def share_bounds(x: F8, n: F8) -> tuple[F8, F8]:
    """Exact one-sided bounds (least, most) of shares x / n, each at confidence SURE (Clopper and Pearson)."""
    x = np.clip(x, 0.0, n)
    with np.errstate(invalid="ignore"):
        least = np.where(x > 0, betaincinv(np.maximum(x, 1e-9), n - x + 1, 1 - SURE), 0.0)
        most = np.where(x < n, betaincinv(x + 1, np.maximum(n - x, 1e-9), SURE), 1.0)
    return least, most
