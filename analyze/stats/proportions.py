"""Compare two proportions, k0 / n0 and k1 / n1: exactly, or given the spread between a history's windows.

Used for shares of call patterns, error rates, and mixes. All functions take arrays of one shape, one test per
element.

Tails of the hypergeometric law are summed from their largest term, for many tests at once. That takes a tenth
of the time of `scipy.stats.hypergeom`, whose import takes a second of CPU. Relative errors of p are about
1e-13 for a million requests, where those of `hypergeom` are 1e-10.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import betainc, betaincinv, betaln, chdtr, chdtri, gammaln, xlog1py, xlogy

from schemas.arrays import F8, I8

_TERMS = 128
"""Number of terms of a tail that are summed at once, and of tests, so that they stay in a core's cache."""
_NEGLIGIBLE = 1e-17
"""Largest term, relative to the sum, at which a tail ends."""
_SMALL = 16
"""Numbers from which Stirling's series is used."""
TRIM = 0.1
"""Share of the windows, those with the highest X², that `share_dispersion` leaves out, as a history may
contain faults."""
LEAST_WINDOWS = 3
"""Minimum number of windows for an estimate of the dispersion of shares."""


@dataclass(frozen=True, slots=True)
class ExactProportions:
    """Results of Fisher's exact tests (`fisher`); arrays have the shape of the inputs."""

    p_more: F8
    """p of "the share did not increase", one-sided: P(X >= k1) given the margins."""
    p_fewer: F8
    """p of "the share did not decrease", one-sided: P(X <= k1) given the margins."""

    @property
    def p(self) -> F8:
        """Two-sided p of "the share did not change": twice the smaller of `p_more`, `p_fewer`, at most 1."""
        return np.minimum(1.0, 2.0 * np.minimum(self.p_more, self.p_fewer))


def fisher(k0: I8, n0: I8, k1: I8, n1: I8) -> ExactProportions:
    """Fisher's exact tests of k0 / n0 against k1 / n1; arrays of integers, 0 <= k <= n.

    A table with an empty margin has p = 1.
    """
    k, total, marked, drawn = np.broadcast_arrays(k1, n0 + n1, k0 + k1, n1)
    # A table with an empty margin has no distribution.
    has_law = (np.minimum(drawn, total - drawn) > 0) & (marked > 0) & (marked < total)
    table = [value[has_law] for value in (k, total, marked, drawn)]
    k, total, marked, drawn = table
    # Products of more than 3 * 10^9 requests of each period exceed 63 bits.
    away = (k * total.astype(np.longdouble) - marked * drawn.astype(np.longdouble)).astype(np.float64) / total
    # The smaller tail is summed; the other is its complement. At most k drawn: at least marked - k left.
    above = away > 0
    first = _exactly(k, total, marked, drawn, away)
    tail = first * _tail_terms(
        np.where(above, k, marked - k), total, marked, np.where(above, drawn, total - drawn)
    )
    rest = np.minimum(1.0, 1.0 - tail + first)
    more, fewer = np.ones(has_law.shape), np.ones(has_law.shape)
    more[has_law], fewer[has_law] = np.where(above, tail, rest), np.where(above, rest, tail)
    return ExactProportions(more, fewer)


def _tail_terms(k: I8, total: I8, marked: I8, drawn: I8) -> F8:
    """float64[tests]: P(X >= k) / P(X = k) of the hypergeometric law: X is the number of marked items among
    `drawn` items, drawn from `total` items of which `marked` are marked; k is at least the mean of X."""
    sums = np.ones(len(k))
    largest, open_ = np.ones(len(k)), np.arange(len(k))
    done = 0
    while len(open_):
        following = []
        for some in np.split(open_, np.arange(_TERMS, len(open_), _TERMS)):
            at = k[some, None] + np.arange(done, done + _TERMS, dtype=np.float64)
            m, n = marked[some, None], drawn[some, None]
            terms = np.maximum((m - at) * (n - at), 0.0) / ((at + 1) * (total[some, None] - m - n + at + 1))
            terms[:, 0] *= largest[some]
            np.cumprod(terms, axis=1, out=terms)
            sums[some] += terms.sum(axis=1)
            largest[some] = terms[:, -1]
            following.append(some[largest[some] > sums[some] * _NEGLIGIBLE])
        open_, done = np.concatenate(following), done + _TERMS
    return sums


def _exactly(k: I8, total: I8, marked: I8, drawn: I8, away: F8) -> F8:
    """P(X = k) of the hypergeometric law. away: k minus the mean of X; the others are as in `_tail_terms`.

    Loader's form (2000): deviance of the table's four cells from the expected ones, and Stirling's errors of
    cells and margins. It has no differences of large logarithms, which would cost seven digits.
    """
    logs = -_beyond_stirling(total)
    for cell, marks, draws, moved in (
        (k, marked, drawn, away),
        (marked - k, marked, total - drawn, -away),
        (drawn - k, total - marked, drawn, -away),
        (total - marked - drawn + k, total - marked, total - drawn, away),
    ):
        expected = marks / total * draws
        d = np.maximum(moved / expected, -1.0)
        logs -= expected * (xlog1py(1 + d, d) - d) + _beyond_stirling(cell)
    for margin in (marked, total - marked, drawn, total - drawn):
        logs += _beyond_stirling(margin)
    p: F8 = np.exp(logs)
    return p


def _beyond_stirling(n: I8 | F8) -> F8:
    """log n! - (n log n - n), with absolute error 1e-14."""
    inverse = 1 / np.maximum(n, _SMALL)
    series = inverse * (1 / 12 - inverse**2 * (1 / 360 - inverse**2 * (1 / 1260 - inverse**2 / 1680)))
    found: F8 = np.where(
        n < _SMALL,
        gammaln(np.minimum(n, _SMALL) + 1.0) - xlogy(n, n) + n,
        np.log(2 * np.pi * np.maximum(n, _SMALL)) / 2 + series,
    )
    return found


def exact_p(k0: int, n0: int, k1: int, n1: int) -> float:
    """Two-sided p of Fisher's exact test of k0 / n0 against k1 / n1: twice the smaller tail, at most 1."""
    return float(fisher(*np.array([[k0], [n0], [k1], [n1]], dtype=np.int64)).p[0])


def newcombe(share: tuple[F8, F8], n: tuple[F8, F8], z: F8 | float) -> tuple[F8, F8]:
    """Confidence interval (lower, upper) of share[1] - share[0], from Wilson's intervals of both shares
    (Newcombe 1998, method 10).

    n: numbers of requests of both shares; z: quantile of the normal law for the confidence level."""
    (low0, high0), (low1, high1) = (_wilson(p, size, z) for p, size in zip(share, n, strict=True))
    change = share[1] - share[0]
    return change - np.hypot(share[1] - low1, high0 - share[0]), change + np.hypot(
        high1 - share[1], share[0] - low0
    )


def _wilson(p: F8, n: F8, z: F8 | float) -> tuple[F8, F8]:
    with np.errstate(divide="ignore", invalid="ignore"):
        middle = (p + z * z / (2 * n)) / (1 + z * z / n)
        reach = z / (1 + z * z / n) * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return np.maximum(0.0, middle - reach), np.minimum(1.0, middle + reach)


def smallest_new_share(
    n0: int, n1: int, *, p: float, z: float, least: int, floor: float, power: float
) -> float:
    """Smallest share in the problem, of a pattern that is absent from the reference, that would be detected
    with probability `power`; inf if no share would be.

    n0, n1: numbers of requests of reference and problem. A share counts as detected if Fisher's two-sided p
    is at most `p`, and the share is at least `least` requests and exceeds z standard errors and `floor`.
    Exact: finds the smallest number of requests with the pattern that is detected, then the share that yields
    it with the given power.
    """

    def passes(k: int) -> bool:
        share = k / (n0 + n1)
        se = (share * (1 - share) * (1 / n0 + 1 / n1)) ** 0.5
        return k >= least and k / n1 > max(floor, z * se) and exact_p(0, n0, k, n1) <= p

    if min(n0, n1) < 1 or not passes(n1):
        return float("inf")
    low, high = 1, n1
    while low < high:  # `passes` is monotonic
        middle = (low + high) // 2
        low, high = (low, middle) if passes(middle) else (middle + 1, high)
    # P(Bin(n, s) >= k) = P(Beta(k, n-k+1) <= s)
    return float(betaincinv(low, n1 - low + 1, power))


def share_dispersion(counts: F8, trials: F8) -> F8:
    """float64[tests]: over-dispersion φ >= 1, the variance of shares between windows (or blocks) divided by
    the variance expected by chance.

    counts (y), trials (n): float64[tests, windows], hits and requests; a window with 0 trials does not count.
    φ is the mean of the lowest 1 - TRIM of the values X²_w = (y_w - n_w·f)²/(n_w·f·(1-f)), f being the share
    over all W windows, divided by the same mean of a χ² law (0.62) and by (W-1)/W for the fitted share. φ is
    1 for fewer than LEAST_WINDOWS windows, or if all shares are 0 or all are 1.
    """
    there = trials > 0
    windows = there.sum(axis=1)
    total = trials.sum(axis=1)
    share = counts.sum(axis=1) / np.where(total > 0, total, 1.0)
    expected = trials * share[:, None]
    scale = expected * (1 - share[:, None])
    x2 = np.where(there & (scale > 0), (counts - expected) ** 2 / np.where(scale > 0, scale, 1.0), np.inf)
    x2.sort(axis=1)
    many = np.arange(trials.shape[1] + 1)
    kept_of = np.maximum(1, np.floor(many * (1 - TRIM) + 1e-9))
    kept = kept_of[windows]
    first = np.arange(x2.shape[1])[None, :] < kept[:, None]
    mean = np.where(first & np.isfinite(x2), x2, 0.0).sum(axis=1) / kept
    # Computed once for each number of windows, as quantiles dominate the cost.
    left = _left_of_chi2(kept_of / np.maximum(many, 1))
    mean = mean / left[windows] * windows / np.maximum(windows - 1, 1)
    usable = (windows >= LEAST_WINDOWS) & (share > 0) & (share < 1)
    phi: F8 = np.maximum(1.0, np.where(usable, mean, 1.0))
    return phi


MOST_TERMS = 5_000
"""Maximum number of terms summed for a tail of Pólya's law; for more, the Beta law approximates it."""
_LEAST_HISTORY = 5
"""Minimum number of windows of a history for an estimate of the correlation within a window."""


def surprise(x: F8, n: F8, windows_x: F8, windows_n: F8, p: F8, *, q: float, one_sided: bool) -> F8:
    """float64[tests]: p of a change of share that allows for differences between a history's windows.

    The result is at least `p`, the p by chance alone; it is computed only where `p` is at most `q`. x, n:
    float64[tests, 2], hits and requests before and after; windows_x, windows_n: float64[tests, windows], hits
    and requests of the history's windows. The shares of windows are assumed to have a Beta law about the
    share before (see `correlation`), so that the hits of a window have Pólya's (beta-binomial) law, widened
    by the uncertainty of the share before. A period with more requests than a window counts as the mean of
    several independent windows.
    """
    found = p.copy()
    rho = correlation(windows_x, windows_n)
    for at in np.flatnonzero((p <= q) & (rho > 0)).tolist():
        (before, after), (n0, n1) = x[at], n[at]
        window = (windows_n[at] ** 2).sum() / windows_n[at].sum()
        effective = n0 / (1 + max(window - 1, 0.0) * rho[at])
        share, both = (before + 0.5) / (n0 + 1), rho[at] * min(1.0, window / n1) + 1 / (effective + 1)
        rises = _polya_tail(after, n1, share, min(both, 0.99))
        falls = 1.0 if one_sided else _polya_tail(n1 - after, n1, 1 - share, min(both, 0.99))
        found[at] = max(p[at], min(rises if one_sided else 2 * min(rises, falls), 1.0))
    return found


def correlation(counts: F8, trials: F8) -> F8:
    """float64[tests]: correlation between the requests of a window, in [0, 0.99], by the method of moments
    (Kleinman 1973); 0 for fewer than five windows.

    It is the part of the variance of a hit that all requests of a window have in common. counts, trials:
    float64[tests, windows], hits and requests.
    """
    total, windows = trials.sum(axis=1), (trials > 0).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = counts.sum(axis=1) / total
        square = np.where(trials > 0, (counts - trials * share[:, None]) ** 2 / trials, 0.0).sum(axis=1)
        room = total - (trials**2).sum(axis=1) / total - (windows - 1)
        found = (square / (share * (1 - share)) - (windows - 1)) / room
    return np.where((windows >= _LEAST_HISTORY) & (room > 0) & (found > 0), np.minimum(found, 0.99), 0.0)


def _polya_tail(k: float, n: float, share: float, rho: float) -> float:
    """P(X >= k) of Pólya's law: X hits among n requests whose share of hits has a Beta law with mean `share`
    and variance rho · share · (1 - share)."""
    least, most = round(k), round(n)
    if least <= 0:
        return 1.0
    if min(least, most - least + 1) > MOST_TERMS:
        of_all = 1 / (rho + (1 - rho) / n) - 1
        return float(betainc((1 - share) * of_all, share * of_all, 1 - (k - 0.5) / n))
    a, b = share * (1 / rho - 1), (1 - share) * (1 / rho - 1)
    if least <= most - least:
        return max(0.0, 1 - _polya_at_most(least - 1, most, a, b))
    return _polya_at_most(most - least, most, b, a)


def _polya_at_most(k: int, n: int, a: float, b: float) -> float:
    """P(X <= k) of Pólya's law, summed term by term: X hits among n requests whose share of hits is Beta(a,
    b)."""
    seen = np.arange(k, dtype=np.float64)
    times = np.log((n - seen) / (seen + 1)) + np.log((seen + a) / (n - seen - 1 + b))
    logs = betaln(a, n + b) - betaln(a, b) + np.concatenate(([0.0], np.cumsum(times)))
    return float(np.exp(logs).sum())


def _left_of_chi2(kept: F8) -> F8:
    """Mean of a χ² variable with one degree of freedom, given that it is below the `kept` quantile. kept: in
    [0, 1]."""
    quantile = chdtri(1, np.maximum(1 - kept, 1e-300))
    left: F8 = np.where(kept < 1, chdtr(3, quantile) / np.maximum(kept, 1e-300), 1.0)
    return left
