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
"""Column indices: the period before, the period after, and the first of the baseline blocks."""
LEAST_IN_BLOCK = 3
"""Minimum number of requests in a block for it to count in the scatter between blocks."""
LEAST_IN_ENVELOPE = 5
"""Minimum number of requests in a baseline block for it to count in the normal range (envelope): fewer may
easily be all hits or all misses."""
SURE = 0.95
"""Confidence of the exact one-sided bound of a share, which must lie outside of the normal range."""
_ORDER = float(np.log(10.0))
"""Natural logarithm of 10: an order of magnitude."""
_MOST_LOG = 700.0
"""Upper bound of a logarithm before exponentiation: exp of larger ones overflows float64."""


@dataclass(frozen=True, slots=True)
class BetweenBlocks:
    """Scatter of a level (a logarithm) between baseline blocks, at each of n_places places."""

    raw_tau2: F8
    """float64[n_places]: variance between blocks minus the sampling variance, >= 0; NaN for fewer than three
    blocks."""
    blocks: I8
    """int64[n_places]: number of blocks with at least LEAST_IN_BLOCK requests."""
    tau_floor: F8
    """float64[n_places]: assumed lower bound of the standard deviation between blocks; where `tau_estimated`,
    it bounds only the prior of `shrunk_tau2`."""
    tau_estimated: B1
    """bool[n_places]: True where there are enough blocks to estimate the scatter, so that `tau_floor` bounds
    only the prior."""

    def variance(self, sampling: F8, inner_freedom: F8) -> tuple[F8, F8]:
        """Compute (variance of a change due to scatter between blocks, degrees of freedom of the sum of this
        and the sampling variance), both float64[n_places].

        The scatter is shrunk towards the median over all places. sampling: sampling variance of the change;
        inner_freedom: its degrees of freedom.
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
    """Changes of one measure at many places (call sites, callees, call patterns): shares or natural
    logarithms.

    Arrays have one element per place, [places].
    """

    unit: Literal["share", "log"]
    before: F8
    after: F8
    sampling: F8
    """Variance of the change due to sampling alone."""
    between: F8
    """Variance of the change due to normal variation between baseline blocks."""
    freedom: F8
    """Degrees of freedom of the standard error `se`; inf if the variance is assumed or known."""
    p: F8
    """Two-sided p of "no change". For shares with a history it allows for the differences between the
    history's windows (`surprise`); otherwise it ignores the noise between blocks."""
    n0: F8
    """Effective number of requests before."""
    n1: F8
    """Effective number of requests after."""
    blocks: F8
    """Values of the baseline blocks, float64[places, blocks]; NaN for blocks with too few requests."""
    low: F8
    """Lower end of the normal range: smallest value of the baseline blocks; -inf for fewer than five
    blocks."""
    high: F8
    """Upper end of the normal range: largest value of the baseline blocks; inf for fewer than five blocks."""
    new: B1
    """True if the share is 0 (or 1) before or after, i.e. the path is new, gone, or taken by all."""
    exact_bounds: tuple[F8, F8]
    """(lower, upper) exact one-sided bounds of a share after, which may rest on few requests; for a value
    inside of the normal range (`low` to `high`) both are the value itself."""
    margin: F8 | float = 0.0
    """Distance from the normal range (`low` to `high`) at which a value counts as outside, in the value's
    unit."""
    inner_freedom: F8 | None = None
    """Degrees of freedom of the variance `sampling` alone; None: infinite."""
    degrees_of_freedom_at: Callable[[F8], F8] | None = None
    """Function from numbers of requests to the degrees of freedom of their sampling variance; None: the
    degrees of freedom do not depend on the number."""
    noise: BetweenBlocks | None = None
    """Scatter from which `between` and `freedom` were computed; None for shares."""
    usual_p: F8 | None = None
    """Two-sided p of "the values before come from the distribution of the baseline blocks"; None: not
    computed."""
    chance_p: F8 | None = None
    """Two-sided p of "no change" allowing for chance only, not for a history; None: equal to `p`."""

    @property
    def change(self) -> F8:
        """Value after minus value before (a difference of shares, or a log ratio)."""
        return self.after - self.before

    @property
    def se(self) -> F8:
        """Standard error of the change: sampling and normal variation between blocks together."""
        return np.sqrt(self.sampling + self.between)

    @property
    def z(self) -> F8:
        """Change divided by its standard error."""
        return self.change / self.se

    @property
    def p_with_noise(self) -> F8:
        """Two-sided p of "no change" that allows for the noise between blocks (Student's t); 1 where
        undefined."""
        with np.errstate(invalid="ignore"):
            p: F8 = 2 * stdtr(self.freedom, -np.abs(self.change) / self.se)
        return np.where(np.isnan(p), 1.0, p)

    def reach(self, level: float = 0.95) -> F8:
        """Half-width of the confidence interval of the change."""
        return student_z(float(ndtri((1 + level) / 2)), self.freedom) * self.se

    def bounded_interval(self, level: float = 0.95) -> tuple[F8, F8]:
        """Confidence interval (lower, upper) of the change for display; the upper end is inf if not
        informative.

        For logarithms the upper end is not informative if it exceeds the larger of 0 and the change by more
        than an order of magnitude; then the interval without the noise between blocks is used, if its upper
        end is informative.
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
        """Confidence interval (lower, upper) of the change.

        For shares by Wilson's intervals (`newcombe`), with the requests divided by the over-dispersion φ; for
        logarithms by Student's t.
        """
        if self.unit == "share":
            z = student_z(float(ndtri((1 + level) / 2)), self.freedom)
            with np.errstate(invalid="ignore"):
                phi = 1 + self.between / self.sampling
            return newcombe((self.before, self.after), (self.n0 / phi, self.n1 / phi), z)
        reach = self.reach(level)
        return self.change - reach, self.change + reach

    def clears(self, z: float, floor: F8 | float) -> B1:
        """True where the change exceeds both `floor` and z standard errors (by Student's t: the quantile with
        the tail probability of z)."""
        size = np.abs(self.change)
        return np.asarray((size > student_z(z, self.freedom) * self.se) & (size > floor))

    def stands_alone(self, least: float) -> B1:
        """True where the change is too large to be normal variation: over `least` plus one standard error
        from sampling."""
        with np.errstate(invalid="ignore"):
            return np.asarray(np.abs(self.change) - np.sqrt(self.sampling) > least)

    def outside(self) -> B1:
        """True where the value after lies outside of the normal range (`low` to `high`) by more than sampling
        error, and where that range is unknown.

        The exact bound of a share must lie outside, too: 4 of 4 requests do not exceed a range that ends at
        7/12.
        """
        least, most = self.exact_bounds
        none = ~np.isfinite(self.high)
        above = (self.after > self.high + self.margin) & (least > self.high)
        below = (self.after < self.low - self.margin) & (most < self.low)
        return np.asarray(none | above | below)

    def before_outside(self) -> B1:
        """True where the value before lies outside of the normal range (`low` to `high`; shares: by more than
        sampling error), so the reference period is itself abnormal."""
        least = most = self.before
        if self.unit == "share":
            least, most = _bounds_outside(self.before, self.n0, self.low, self.high)
        above = (self.before > self.high + self.margin) & (least > self.high)
        below = (self.before < self.low - self.margin) & (most < self.low)
        return np.asarray((above | below) & np.isfinite(self.high))

    def largest(self, level: float = 0.95) -> F8:
        """Largest absolute change within the confidence interval."""
        low, high = self.interval(level)
        return np.maximum(np.abs(low), np.abs(high))

    def largest_ratio(self, level: float = 0.95) -> F8:
        """Largest change within the confidence interval relative to the value before (1 = 100 %), <= 1 for a
        fall; for shares the absolute difference, as in `largest`."""
        if self.unit == "share":
            return self.largest(level)
        low, high = self.interval(level)
        size = np.maximum(-np.expm1(low), np.expm1(np.minimum(high, _MOST_LOG)))
        return np.where(np.isnan(size), np.inf, size)

    def equivalent(self, margin: F8 | float) -> B1:
        """True where the change is within ±margin by two one-sided tests at 5 % (TOST)."""
        return np.asarray(self.largest(0.90) < margin)

    def smallest_visible(self, z: float, power: float = 0.9) -> F8:
        """Smallest change that is detected with probability `power` if z standard errors are required."""
        return (student_z(z, self.freedom) + float(ndtri(power))) * self.se

    def times(self, factor: float) -> Estimate:
        """Estimate expected from `factor` times as many requests before and after."""
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
        """Copy of the estimate without the noise between blocks: valid for the two compared periods only, not
        for other ones."""
        freedom = np.full_like(self.freedom, np.inf) if self.inner_freedom is None else self.inner_freedom
        return replace(self, between=np.zeros_like(self.between), freedom=freedom)

    def take(self, places: I8 | B1) -> Estimate:
        """Select places, by index array or mask."""
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

    p is Fisher's (`one_sided`: of no rise), or 1 if not `tested`. `margin` becomes `Estimate.margin`. The
    variance is quasi-binomial, with the over-dispersion φ of the lowest 90 % of the blocks, at least
    `prior_phi`, except for shares that are new or gone, whose scatter was never observed.
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
    """Estimate changes of levels, given as natural logarithms of times or counts.

    periods: [places, 2] values before and after, with sampling variances; n: [places, 2] numbers of requests;
    p: [places] p of a test of the requests' values. blocks: [places, blocks] values of the baseline blocks,
    with blocks_n requests each. The variance between blocks is robust, minus the sampling variance, shrunk
    towards that of all places, and at least `tau_floor`² except where `tau_estimated` ([places]; None:
    nowhere). of_change: the blocks are parts of one stretch and do not make its mean more certain;
    `tau_floor` is then that of a change.
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

    The noise between blocks is shrunk again, towards the noise of all places.
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
    """Exact one-sided (lower, upper) bounds of shares outside of the normal range [low, high]; for a share
    inside, which needs no test, both are the share itself."""
    out = (share < low) | (share > high)
    least, most = share.copy(), share.copy()
    least[out], most[out] = share_bounds(share[out] * n[out], n[out])
    return least, most


def share_bounds(x: F8, n: F8) -> tuple[F8, F8]:
    """Exact one-sided bounds (lower, upper) of shares x / n, each at confidence SURE (Clopper and
    Pearson)."""
    x = np.clip(x, 0.0, n)
    with np.errstate(invalid="ignore"):
        least = np.where(x > 0, betaincinv(np.maximum(x, 1e-9), n - x + 1, 1 - SURE), 0.0)
        most = np.where(x < n, betaincinv(x + 1, np.maximum(n - x, 1e-9), SURE), 1.0)
    return least, most
