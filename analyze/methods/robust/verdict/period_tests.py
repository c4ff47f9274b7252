"""Test whether mean, tail or error rate of all requests changed, whatever call sites and categories say.

A gate rests on these (ALGORITHMS L.6): no comparison passes while one of them says "changed", however small
its categories are. All count what blocks share and what ordinary windows differ by (L.5). No change needs
evidence, too: the 90 % interval of the ratio of means must lie inside a band, for root types that hold nearly
all of the time (TOST; H.6).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri, stdtr, stdtrit

from analyze.methods.robust.verdict.period_blocks import BlockMeans, PeriodBlocks, block_means
from analyze.stats.proportions import exact_p, proportions_with_spread, share_dispersion
from schemas.arrays import F8
from schemas.report.accounts import Measure

ALPHA = 0.01
MEAN_FLOOR = 0.05
"""Of the mean before (H.6)."""
MOST_BAND = 0.25
"""Measured: a recording of 50 to 100 requests a period has τ = 0.3; a band of 2·τ·√2 would be ±90 %."""
ERRORS_FLOOR = (0.001, 0.01)
"""Least and largest floor of the error rate; between them, a rate that doubles counts."""
TAIL_FLOOR = (0.01, 0.05)
"""The same of a share above a quantile."""
ERRORS_MARGIN = 0.01
"""An error rate that surely moved by less has not changed."""
_SETTLED = 0.90
"""Level of the interval that must lie inside the margin: two one-sided tests at 5 %."""
_SHOWN = 0.95


@dataclass(frozen=True, slots=True)
class PeriodNoise:
    """What two ordinary periods differ by, beyond chance inside them."""

    tau: float = 0.1
    """Standard deviation of the log of a window's mean (0.1 without history, measured: RATIONALE)."""
    phi: float = 3.0
    """Over-dispersion of shares between windows (L.9: 3 without history)."""
    windows0: int = 1
    windows1: int = 1
    """Windows of the periods."""

    @property
    def tau_between(self) -> float:
        """Standard deviation of a difference of log-means of the periods, τ·√(1/W0 + 1/W1)."""
        return self.tau * math.sqrt(1 / max(self.windows0, 1) + 1 / max(self.windows1, 1))


@dataclass(frozen=True, slots=True)
class PeriodTest:
    """One measure of the whole period, before and after."""

    measure: Measure
    threshold_us: float | None
    """Tail: slow is above this."""
    before: float
    after: float
    """Mean, µs; or a share."""
    low: float
    high: float
    """95 % interval of after - before, noise included."""
    p: float
    floor: float
    """Smallest |after - before| that counts."""
    changed: bool
    """p < α and the change passes the floor."""
    settled: bool
    """Shown not to have changed by more than a margin: the 90 % interval lies inside it."""
    n0: float
    n1: float
    """Effective numbers of requests."""
    margin: float = 0.0
    """The margin."""
    reach: float = math.inf
    """Longer half of the 90 % interval that must lie inside it."""

    @property
    def open(self) -> bool:
        """Neither shown to have changed nor shown not to have: more requests would tell."""
        return not self.changed and not self.settled


def period_tests(
    reference: PeriodBlocks, problem: PeriodBlocks, noise: PeriodNoise
) -> tuple[PeriodTest, ...]:
    """Mean, the tail at each threshold, errors. Empty where a period has no request.

    Both periods' blocks have the same roots and thresholds.
    """
    if not reference.n_requests or not problem.n_requests:
        return ()
    return (
        _mean(reference, problem, noise),
        *_tails(reference, problem, noise),
        _errors(reference, problem, noise),
    )


def mean_band(noise: PeriodNoise, least: float = MEAN_FLOOR) -> float:
    """Relative change of a mean that ordinary periods may have: max(5 %, 2·τ·√(1/W0 + 1/W1)) (B.4, H.6).

    At most MOST_BAND: where a system moves more than that on its own, nobody would call it unchanged.
    """
    return min(max(least, 2 * noise.tau_between), MOST_BAND)


def _mean(reference: PeriodBlocks, problem: PeriodBlocks, noise: PeriodNoise) -> PeriodTest:
    sides = [block_means(side, by_root=False) for side in (reference, problem)]
    before, after = (float(side.mean) for side in sides)
    sampling = np.array([float(side.variance) for side in sides])
    change = after - before
    between = noise.tau**2 * (before**2 / max(noise.windows0, 1) + after**2 / max(noise.windows1, 1))
    n0, n1 = effective_requests(reference), effective_requests(problem)
    band = mean_band(noise) * before
    if np.isnan(sampling).any():  # a single request
        return PeriodTest(
            "mean", None, before, after, -np.inf, np.inf, 1.0, MEAN_FLOOR * before, False, False, n0, n1
        )
    freedom = np.array([float(side.freedom) for side in sides])
    error, df = _welch(sampling, freedom, between)
    p = float(2 * stdtr(df, -abs(change) / error)) if error > 0 else float(change == 0)
    reach = error * float(stdtrit(df, (1 + _SHOWN) / 2))
    # Noise between windows is in the margin already, so it is not in the interval that must fit.
    inner, inner_df = _welch(sampling, freedom, 0.0)
    inner *= float(stdtrit(inner_df, (1 + _SETTLED) / 2))
    settled = abs(change) + inner <= band
    floor = MEAN_FLOOR * before
    changed = p < ALPHA and abs(change) >= floor
    low, high = change - reach, change + reach
    return PeriodTest(
        "mean",
        None,
        before,
        after,
        low,
        high,
        p,
        floor,
        changed,
        settled and not changed,
        n0,
        n1,
        band,
        inner,
    )


def _welch(sampling: F8, freedom: F8, known: float) -> tuple[float, float]:
    """(standard error, degrees of freedom) of a difference; `known` is variance not estimated here."""
    total = float(sampling.sum()) + known
    weak = float((sampling**2 / np.maximum(freedom, 1.0)).sum())
    return math.sqrt(total), total**2 / weak if weak > 0 else 1e6


def _errors(reference: PeriodBlocks, problem: PeriodBlocks, noise: PeriodNoise) -> PeriodTest:
    sides = (
        (reference.failed.sum(axis=1), reference.weight.sum(axis=1)),
        (
            problem.failed.sum(axis=1),
            problem.weight.sum(axis=1),
        ),
    )
    n0, n1 = effective_requests(reference), effective_requests(problem)
    return _share("errors", None, sides, (n0, n1), noise, ALPHA, ERRORS_FLOOR, ERRORS_MARGIN)


def _tails(reference: PeriodBlocks, problem: PeriodBlocks, noise: PeriodNoise) -> Iterator[PeriodTest]:
    n = effective_requests(reference), effective_requests(problem)
    weights = reference.weight.sum(axis=1), problem.weight.sum(axis=1)
    levels = len(reference.thresholds_us)
    for level, limit in enumerate(reference.thresholds_us):
        sides = (reference.slow[:, level], weights[0]), (problem.slow[:, level], weights[1])
        yield _share("tail", limit, sides, n, noise, ALPHA / levels, TAIL_FLOOR, TAIL_FLOOR[1])


def _share(
    measure: Measure,
    threshold_us: float | None,
    sides: tuple[tuple[F8, F8], tuple[F8, F8]],
    n: tuple[float, float],
    noise: PeriodNoise,
    alpha: float,
    floors: tuple[float, float],
    margin: float,
) -> PeriodTest:
    """A share before and after: exact and over-dispersed, and both must agree.

    sides: (occurrences, weight) [blocks] of each period.
    """
    (k0, w0), (k1, w1) = sides
    before, after = (float(k.sum() / w.sum()) for k, w in sides)
    # What is new or gone has no ordinary spread (L.9 item 4).
    prior = noise.phi if before > 0 and after > 0 else 1.0
    inside, df = block_dispersion((k0, k1), (w0, w1), n)
    phi = max(inside, 1.0 + (prior - 1.0) * (1 / max(noise.windows0, 1) + 1 / max(noise.windows1, 1)) / 2)
    counts = [round(share * size) for share, size in zip((before, after), n, strict=True)]
    p = max(exact_p(counts[0], round(n[0]), counts[1], round(n[1])), spread_p((before, after), n, phi, df))
    floor = min(max(before, floors[0]), floors[1])
    changed = p < alpha and abs(after - before) >= floor
    low, high = newcombe((before, after), n, phi, _SHOWN)
    # As for a mean: what windows differ by is no reason to doubt that these two agree.
    inner = newcombe((before, after), n, inside, _SETTLED)
    # Never seen in either: nothing speaks for a change. How small a share would show is told beside.
    settled = max(-inner[0], inner[1]) <= margin or before == after == 0
    settled = settled and not changed
    reach = max(after - before - inner[0], inner[1] - (after - before))
    return PeriodTest(
        measure, threshold_us, before, after, low, high, p, floor, changed, settled, *n, margin, reach
    )


def effective_requests(side: PeriodBlocks) -> float:
    """Kish's number of requests."""
    return float(side.weight.sum() ** 2 / side.weight2.sum())


def block_dispersion(counts: Sequence[F8], weight: Sequence[F8], n: Sequence[float]) -> tuple[float, float]:
    """(φ >= 1, degrees of freedom) of shares of blocks about their period's, [blocks] of each period.

    n: of each period, effective requests; weights are scaled to them. X² over its degrees of freedom; of one
    block each, 1 with the requests' degrees of freedom.
    """
    x2, df = 0.0, 0
    for k, w, size in zip(counts, weight, n, strict=True):
        there = w > 0
        share = float(k.sum() / w.sum())
        df += int(there.sum()) - 1
        if 0 < share < 1:
            trials = w[there] * (size / w.sum())
            expected = trials * share
            seen = k[there] * (size / w.sum())
            x2 += float(((seen - expected) ** 2 / (expected * (1 - share))).sum())
    return (max(1.0, x2 / df), float(df)) if df else (1.0, max(sum(n) - 2, 1.0))


def spread_p(share: tuple[float, float], n: tuple[float, float], phi: float, df: float) -> float:
    """Two-sided p of a difference of shares with over-dispersion φ, Student's law."""
    k0, n0, k1, n1 = np.array([[share[0] * n[0]], [n[0]], [share[1] * n[1]], [n[1]]])
    z = float(proportions_with_spread(k0, n0, k1, n1, phi).z[0])
    return float(2 * stdtr(df, -abs(z)))


def newcombe(
    share: tuple[float, float], n: tuple[float, float], phi: float, level: float
) -> tuple[float, float]:
    """Interval of a difference of shares from Wilson's intervals (Newcombe 1998, method 10), n over φ."""
    z = float(ndtri((1 + level) / 2))
    (low0, high0), (low1, high1) = (_wilson(p, size / phi, z) for p, size in zip(share, n, strict=True))
    change = share[1] - share[0]
    low = change - math.hypot(share[1] - low1, high0 - share[0])
    high = change + math.hypot(high1 - share[1], share[0] - low0)
    return low, high


def _wilson(p: float, n: float, z: float) -> tuple[float, float]:
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    reach = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return max(0.0, middle - reach), min(1.0, middle + reach)


COLD_TAU = PeriodNoise().tau
"""Least τ where no window tells, and what is taken then."""
LEAST_TAU = 0.02
LEAST_WINDOWS = 5
_MAD = 1.4826
_PRIOR = 6.0
"""Windows that the cold value is worth."""


def ordinary_noise(windows: PeriodBlocks, windows0: int = 1, windows1: int = 1) -> PeriodNoise:
    """Noise from ordinary windows, a block each; cold values where fewer than five hold requests.

    τ²: the squared MAD of the windows' log-means, as history holds faults, shrunk towards the cold value with
    six windows' weight. Sampling is not taken off: windows are about as long as the periods, so what chance
    does in them it does in a period, and a mean of few requests is no surer for it. φ of failures as in L.9.
    windows0, windows1: how many such windows the periods are long.
    """
    weight = windows.weight.sum(axis=1)
    there = weight > 0
    n = int(there.sum())
    if n < LEAST_WINDOWS:
        return PeriodNoise(windows0=windows0, windows1=windows1)
    logs = np.log(np.maximum(windows.time_us.sum(axis=1)[there] / weight[there], 1e-3))
    raw = (_MAD * float(np.median(np.abs(logs - np.median(logs))))) ** 2
    tau2 = (_PRIOR * COLD_TAU**2 + (n - 1) * raw) / (_PRIOR + n - 1)
    scale = weight[there] / windows.weight2.sum(axis=1)[there]
    phi = share_dispersion(
        (windows.failed.sum(axis=1)[there] * scale)[None, :], (weight[there] * scale)[None, :], unbiased=True
    )
    return PeriodNoise(max(math.sqrt(tau2), LEAST_TAU), float(phi[0]), windows0, windows1)


NEEDED_SHARE = 0.9
"""Of the time."""
_LEVEL = 0.90


@dataclass(frozen=True, slots=True)
class RootEquivalence:
    """One root type."""

    root: str
    ratio: float | None
    """Mean after over mean before; None where a period has too few requests to say."""
    low: float | None
    high: float | None
    """90 % interval of the ratio."""
    equivalent: bool
    time_share: float
    """Of the time of both periods, each period counting the same."""
    missing_factor: float | None
    """How many times as many requests would show it, if means and spread stay; None: shown, or never."""


@dataclass(frozen=True, slots=True)
class Equivalence:
    """All root types, those with the most time first."""

    roots: tuple[RootEquivalence, ...]
    band: float
    """Half width of the band, relative: 0.05 is ±5 %."""

    @property
    def share(self) -> float:
        """Share of the time in root types whose mean is equivalent; 0 where nothing took time."""
        return sum(root.time_share for root in self.roots if root.equivalent)

    @property
    def holds(self) -> bool:
        """Whether nearly all of the time is in such root types."""
        return self.share >= NEEDED_SHARE


def equivalence(
    reference: PeriodBlocks,
    problem: PeriodBlocks,
    roots: Sequence[str],
    noise: PeriodNoise,
    *,
    tails_settled: bool = False,
) -> Equivalence:
    """TOST of the ratio of means by root type, on logs, sampling from blocks. O(blocks · roots).

    tails_settled: very slow requests were shown not to be more. Then a root type also counts where the mean
    of the logarithms is the same: means of heavy tails would need more requests than anybody has.
    """
    band = mean_band(noise)
    sides = [block_means(side, by_root=True) for side in (reference, problem)]
    typical = [block_means(side, by_root=True, logs=True) for side in (reference, problem)]
    shares = sum(
        side.time_us.sum(axis=0) / max(side.time_us.sum(), 1e-300) for side in (reference, problem)
    ) / np.float64(2)
    found = []
    for at, root in enumerate(roots):
        means = [float(side.mean[at]) for side in sides]
        if not all(mean > 0 for mean in means) or any(np.isnan(side.variance[at]) for side in sides):
            found.append(RootEquivalence(root, None, None, None, False, float(shares[at]), None))
            continue
        parts = np.array(
            [float(side.variance[at]) / mean**2 for side, mean in zip(sides, means, strict=True)]
        )
        freedom = np.array([float(side.freedom[at]) for side in sides])
        weak = float((parts**2 / freedom).sum())
        df = float(parts.sum()) ** 2 / weak if weak > 0 else 1e6
        change = math.log(means[1] / means[0])
        reach = math.sqrt(float(parts.sum())) * float(stdtrit(df, (1 + _LEVEL) / 2))
        inside = abs(change) + reach <= math.log1p(band)
        if tails_settled and not inside:
            inside = _same_logs(typical, at, math.log1p(band))
        room = math.log1p(band) - abs(change)
        found.append(
            RootEquivalence(
                root,
                math.exp(change),
                math.exp(change - reach),
                math.exp(change + reach),
                inside,
                float(shares[at]),
                None if inside or room <= 0 else (reach / room) ** 2,
            )
        )
    return Equivalence(tuple(sorted(found, key=lambda row: (-row.time_share, row.root))), band)


def _same_logs(sides: Sequence[BlockMeans], at: int, room: float) -> bool:
    """TOST of the difference of the means of logarithms of one root type."""
    variance = np.array([float(side.variance[at]) for side in sides])
    freedom = np.array([float(side.freedom[at]) for side in sides])
    if np.isnan(variance).any():
        return False
    weak = float((variance**2 / freedom).sum())
    df = float(variance.sum()) ** 2 / weak if weak > 0 else 1e6
    reach = math.sqrt(float(variance.sum())) * float(stdtrit(df, (1 + _LEVEL) / 2))
    return abs(float(sides[1].mean[at] - sides[0].mean[at])) + reach <= room
