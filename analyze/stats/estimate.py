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
"""Column indices in the inputs of `share_change` and `level_change`: period before, period after, first
baseline block."""
LEAST_IN_BLOCK = 3
"""Minimum number of requests in a block for it to count in the scatter between blocks."""
LEAST_IN_ENVELOPE = 5
"""Minimum number of requests in a baseline block for it to count in the normal range (envelope): fewer may
easily be all hits or all misses."""
SURE = 0.95
"""Confidence level of the exact one-sided bounds of a share (`share_bounds`)."""
_ORDER = float(np.log(10.0))
"""ln 10: a factor of ten as a natural logarithm."""
_MOST_LOG = 700.0
"""Upper bound of a logarithm before exponentiation: exp of a larger value overflows float64."""


@dataclass(frozen=True, slots=True)
class BetweenBlocks:
    """Scatter, between baseline blocks, of a logarithm (of a time or count) at each of n_places places."""

    raw_tau2: F8
    """float64[n_places]: variance between blocks minus the sampling variance, >= 0; NaN for fewer than three
    blocks."""
    blocks: I8
    """int64[n_places]: number of blocks with at least LEAST_IN_BLOCK requests."""
    tau_floor: F8
    """float64[n_places]: assumed lower bound of the standard deviation between blocks; where `tau_estimated`,
    it bounds only the prior of `shrunk_tau2`."""
    tau_estimated: B1
    """bool[n_places]: True if there are enough blocks to estimate the scatter, so that `tau_floor` bounds
    only the prior, not the estimate."""

    def variance(self, sampling: F8, inner_freedom: F8) -> tuple[F8, F8]:
        """(variance of a change due to scatter between blocks, degrees of freedom of the sum of this variance
        and `sampling`), both float64[n_places].

        The scatter is shrunk towards the median over all places. sampling: float64[n_places], sampling
        variance of the change; inner_freedom: float64[n_places], degrees of freedom of `sampling`.
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
    """Changes of one measure at many places (call sites, callees, call patterns).

    The measure is a share in [0, 1], or the natural logarithm of a time or count. Normal variation is known
    from baseline blocks: values of the same measure in blocks of normal time.
    """

    unit: Literal["share", "log"]
    before: F8
    """float64[places]: value in the period before."""
    after: F8
    """float64[places]: value in the period after."""
    sampling: F8
    """float64[places]: variance of the change due to sampling alone."""
    between: F8
    """float64[places]: variance of the change due to normal variation between baseline blocks."""
    freedom: F8
    """float64[places]: degrees of freedom of the standard error `se`; inf if the variance is assumed or
    known."""
    p: F8
    """float64[places]: two-sided p of "no change". For shares with a history it allows for the differences
    between the history's windows (`surprise`); otherwise it ignores the noise between blocks."""
    n0: F8
    """float64[places]: effective number of requests before."""
    n1: F8
    """float64[places]: effective number of requests after."""
    blocks: F8
    """float64[places, blocks]: values in the baseline blocks; NaN for a block with too few requests."""
    low: F8
    """float64[places]: lower end of the normal range, the smallest value in the baseline blocks; -inf for
    fewer than five blocks."""
    high: F8
    """float64[places]: upper end of the normal range, the largest value in the baseline blocks; inf for fewer
    than five blocks."""
    new: B1
    """bool[places]: True if a share is 0 or 1 before or after: the path is new, gone, or taken by all."""
    exact_bounds: tuple[F8, F8]
    """(lower, upper), each float64[places]: exact one-sided confidence bounds of `after` for shares outside
    of the normal range (`low` to `high`); for other values both are `after`."""
    margin: F8 | float = 0.0
    """Minimum distance from the normal range (`low` to `high`) at which a value counts as outside, in the
    unit of the value."""
    inner_freedom: F8 | None = None
    """float64[places]: degrees of freedom of the variance `sampling` alone; None: infinite."""
    degrees_of_freedom_at: Callable[[F8], F8] | None = None
    """Function from numbers of requests to the degrees of freedom of their sampling variance; None: the
    degrees of freedom do not depend on the number of requests."""
    noise: BetweenBlocks | None = None
    """Scatter between blocks from which `between` and `freedom` were computed; None for shares."""
    usual_p: F8 | None = None
    """float64[places]: two-sided p of "the value before comes from the distribution of the baseline blocks";
    None: not computed."""
    chance_p: F8 | None = None
    """float64[places]: two-sided p of "no change" that allows for chance only, not for differences between
    windows of a history; None: equal to `p`."""

    @property
    def change(self) -> F8:
        """float64[places]: value after minus value before (a difference of shares, or a log ratio)."""
        return self.after - self.before

    @property
    def se(self) -> F8:
        """float64[places]: standard error of `change`, from sampling and normal variation between blocks."""
        return np.sqrt(self.sampling + self.between)

    @property
    def z(self) -> F8:
        """float64[places]: `change` divided by the standard error `se`."""
        return self.change / self.se

    @property
    def p_with_noise(self) -> F8:
        """float64[places]: two-sided p of "no change" that allows for the noise between blocks (Student's t);
        1 if undefined."""
        with np.errstate(invalid="ignore"):
            p: F8 = 2 * stdtr(self.freedom, -np.abs(self.change) / self.se)
        return np.where(np.isnan(p), 1.0, p)

    def reach(self, level: float = 0.95) -> F8:
        """float64[places]: half-width of the confidence interval of `change` by Student's t.

        level: confidence level in (0, 1)."""
        return student_z(float(ndtri((1 + level) / 2)), self.freedom) * self.se

    def bounded_interval(self, level: float = 0.95) -> tuple[F8, F8]:
        """Confidence interval of `change` for display: (lower, upper), each float64[places].

        For shares this is `interval`. For logarithms an upper end is not informative if it exceeds the larger
        of 0 and the change by more than an order of magnitude (ln 10). Such an interval is replaced by the
        one without the noise between blocks, if that is informative, or else gets the upper end inf.
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
        """Confidence interval of `change`: (lower, upper), each float64[places].

        For shares by Wilson's intervals (`newcombe`), with the numbers of requests divided by the
        over-dispersion φ; for logarithms by Student's t. level: confidence level in (0, 1).
        """
        if self.unit == "share":
            z = student_z(float(ndtri((1 + level) / 2)), self.freedom)
            with np.errstate(invalid="ignore"):
                phi = 1 + self.between / self.sampling
            return newcombe((self.before, self.after), (self.n0 / phi, self.n1 / phi), z)
        reach = self.reach(level)
        return self.change - reach, self.change + reach

    def clears(self, z: float, floor: F8 | float) -> B1:
        """bool[places]: True if |change| exceeds both `floor` and z standard errors.

        z is converted to the quantile of Student's t with the same tail probability. floor: in the unit of
        the value."""
        size = np.abs(self.change)
        return np.asarray((size > student_z(z, self.freedom) * self.se) & (size > floor))

    def stands_alone(self, least: float) -> B1:
        """bool[places]: True if |change| exceeds `least` by more than one standard error from sampling.

        Such a change counts as too large for normal variation, whatever the noise between blocks."""
        with np.errstate(invalid="ignore"):
            return np.asarray(np.abs(self.change) - np.sqrt(self.sampling) > least)

    def outside(self) -> B1:
        """bool[places]: True if the value after lies outside of the normal range (`low` to `high`) by more
        than sampling error; also True if the normal range is unknown.

        For a share, the exact confidence bound must lie outside, too: 4 of 4 requests do not exceed a range
        that ends at 7/12.
        """
        least, most = self.exact_bounds
        none = ~np.isfinite(self.high)
        above = (self.after > self.high + self.margin) & (least > self.high)
        below = (self.after < self.low - self.margin) & (most < self.low)
        return np.asarray(none | above | below)

    def before_outside(self) -> B1:
        """bool[places]: True if the value before lies outside of the normal range (`low` to `high`; for
        shares by more than sampling error), so that the reference period is abnormal."""
        least = most = self.before
        if self.unit == "share":
            least, most = _bounds_outside(self.before, self.n0, self.low, self.high)
        above = (self.before > self.high + self.margin) & (least > self.high)
        below = (self.before < self.low - self.margin) & (most < self.low)
        return np.asarray((above | below) & np.isfinite(self.high))

    def largest(self, level: float = 0.95) -> F8:
        """float64[places]: largest absolute value of a change within the confidence interval."""
        low, high = self.interval(level)
        return np.maximum(np.abs(low), np.abs(high))

    def largest_ratio(self, level: float = 0.95) -> F8:
        """float64[places]: largest change within the confidence interval, relative to the value before (1 =
        100 %); at most 1 for a decrease. For shares the absolute difference, as in `largest`."""
        if self.unit == "share":
            return self.largest(level)
        low, high = self.interval(level)
        size = np.maximum(-np.expm1(low), np.expm1(np.minimum(high, _MOST_LOG)))
        return np.where(np.isnan(size), np.inf, size)

    def equivalent(self, margin: F8 | float) -> B1:
        """bool[places]: True if the change is shown to lie within ±margin, by two one-sided tests at 5 %
        (TOST)."""
        return np.asarray(self.largest(0.90) < margin)

    def smallest_visible(self, z: float, power: float = 0.9) -> F8:
        """float64[places]: smallest change that is detected with probability `power` if detection requires z
        standard errors."""
        return (student_z(z, self.freedom) + float(ndtri(power))) * self.se

    def times(self, factor: float) -> Estimate:
        """Copy of the estimate as expected from `factor` times as many requests before and after."""
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
        """Copy of the estimate without the noise between blocks: it describes the two compared periods only
        and cannot be generalised to other periods."""
        freedom = np.full_like(self.freedom, np.inf) if self.inner_freedom is None else self.inner_freedom
        return replace(self, between=np.zeros_like(self.between), freedom=freedom)

    def take(self, places: I8 | B1) -> Estimate:
        """Select places by indices or by a mask bool[places]."""
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
    """Estimate changes of shares x / n.

    x, n: float64[places, columns], effective numbers of hits and requests; columns: BEFORE, AFTER, then the
    baseline blocks. p is Fisher's (one_sided: of "no increase"), or 1 if not `tested`. margin: see
    `Estimate.margin`. The variance is quasi-binomial, with the over-dispersion φ of the lowest 90 % of the
    blocks. φ is at least `prior_phi`, or 1 for shares that are 0 before or after, whose scatter was never
    observed.
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
    """Estimate changes of logarithms of times or counts.

    periods: [places, 2], values before and after, with sampling variances; n: float64[places, 2], numbers of
    requests; p: float64[places], p of a test of the requests' values. blocks: [places, blocks], values in the
    baseline blocks; blocks_n: float64[places, blocks], numbers of requests. The variance between blocks is a
    robust one, minus the sampling variance, shrunk towards the median over all places, and at least
    `tau_floor`² except at places with `tau_estimated` (bool[places]; None: no place). of_change: True if
    `tau_floor` is the standard deviation of a change instead of a single block, as for blocks that are parts
    of one period.
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
    """Concatenate estimates of one measure at several sets of places, as if all places had been estimated
    together: the noise between blocks is shrunk again, towards the median over all places.
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
    """Exact one-sided confidence bounds (lower, upper), each float64[places], of shares outside of the normal
    range [low, high]; for a share inside, which needs no test, both bounds are the share."""
    out = (share < low) | (share > high)
    least, most = share.copy(), share.copy()
    least[out], most[out] = share_bounds(share[out] * n[out], n[out])
    return least, most


def share_bounds(x: F8, n: F8) -> tuple[F8, F8]:
    """Exact one-sided confidence bounds (lower, upper) of shares x / n, each at confidence level SURE
    (Clopper and Pearson). x, n: float64[places], hits and requests."""
    x = np.clip(x, 0.0, n)
    with np.errstate(invalid="ignore"):
        least = np.where(x > 0, betaincinv(np.maximum(x, 1e-9), n - x + 1, 1 - SURE), 0.0)
        most = np.where(x < n, betaincinv(x + 1, np.maximum(n - x, 1e-9), SURE), 1.0)
    return least, most
