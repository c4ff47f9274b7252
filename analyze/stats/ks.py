"""Test two samples by Kolmogorov-Smirnov: many columns at once, by blocks of time, or with tolerance (B.2).

A category's edges are the columns of one matrix, so all of them are tested by one sort along an axis. D is
computed in integers and therefore exact. P-values follow the asymptotic law with Stephens' small-sample
correction, λ = (√n + 0.12 + 0.11/√n)·D with n = n0·n1/(n0+n1): what MATLAB's `kstest2` does, in which the
papers' tests were written (NSDI §6). They are not the exact p of small samples: where the exact p
is below 0.1, the difference stays under 0.03 at n0 = n1 = 11, the smallest the papers test, and under 0.01 at
100 (measured in tests/unit/test_ks.py).

The test by blocks keeps dependence inside its block (B.3, H.4).

The tolerant test asks for a difference by more than a factor 1 + δ:

    D+ = sup_x [ F0(x/(1+δ)) - F1(x) ]    the problem is slower by more than δ somewhere
    D- = sup_x [ F1(x/(1+δ)) - F0(x) ]    … faster …
    p± = exp(-2·n_e·(D±)²),  n_e = m0·m1/(m0+m1),  m = effective sizes

The null is "neither slower nor faster than the other stretched by 1 + δ"; δ = 0 is the classical test. P is
the asymptotic bound, which lies above the exact p at every size (1.6 times at 20 a side and p = 1e-4); below
about 20 values a side the rank test is the better one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import kolmogorov

from analyze.stats.time_blocks import BLOCKS, equal_count_bounds
from schemas.arrays import B1, F8, I8


@dataclass(frozen=True, slots=True)
class TolerantKs:
    """One row a test; [tests]. Tests without values on one side have D = 0 and p = 1."""

    d_slower: F8
    d_faster: F8
    effective0: F8
    """Effective sizes."""
    effective1: F8

    @property
    def p_slower(self) -> F8:
        """One-sided: the problem is nowhere slower by more than δ."""
        return self._p(self.d_slower)

    @property
    def p_faster(self) -> F8:
        """One-sided: the problem is nowhere faster by more than δ."""
        return self._p(self.d_faster)

    @property
    def p(self) -> F8:
        """Two-sided."""
        return np.minimum(1.0, 2.0 * np.minimum(self.p_slower, self.p_faster))

    def _p(self, d: F8) -> F8:
        total = self.effective0 + self.effective1
        size = self.effective0 * self.effective1 / np.where(total > 0, total, 1.0)
        p: F8 = np.exp(-2.0 * size * d**2)
        return p


def tolerant_ks(
    values: F8,
    weight: F8,
    problem: B1,
    test: npt.NDArray[np.integer],
    delta: F8,
    *,
    additive: F8 | float = 0.0,
) -> TolerantKs:
    """Tolerant KS of ragged samples, one a value of `test`; delta: [tests], >= 0.

    values, weight, problem, test: [n]; weights >= 0. Effective sizes are Kish's, (Σw)²/Σw².
    `additive` (in the values' unit, [tests] or one) is added to the stretched values: for times near the
    clock's tick, where a factor says nothing. O(n log n).
    """
    n_tests = len(delta)
    t = test.astype(np.int64)
    shares, sizes = [], []
    for side in (~problem, problem):
        total = np.bincount(t[side], weight[side], n_tests)
        squares = np.bincount(t[side], weight[side] ** 2, n_tests)
        safe = np.where(total > 0, total, 1.0)
        sizes.append(np.where(total > 0, total**2 / np.where(squares > 0, squares, 1.0), 0.0))
        shares.append(weight / safe[t])
    signed = np.where(problem, -shares[1], shares[0])
    stretch, shift = 1.0 + delta[t], np.broadcast_to(np.asarray(additive, np.float64), n_tests)[t]
    slower = _highest(np.where(problem, values, values * stretch + shift), signed, t, n_tests)
    faster = _highest(np.where(problem, values * stretch + shift, values), -signed, t, n_tests)
    both = (sizes[0] > 0) & (sizes[1] > 0)
    return TolerantKs(np.where(both, slower, 0.0), np.where(both, faster, 0.0), sizes[0], sizes[1])


def _highest(values: F8, step: F8, test: I8, n_tests: int) -> F8:
    """Per test the largest value of the walk that goes `step` at each value, at least 0."""
    top = np.zeros(n_tests)
    if len(values) == 0:
        return top
    order = np.lexsort((values, test))
    x, t = values[order], test[order]
    walk = np.cumsum(step[order])
    last = np.concatenate([(x[1:] != x[:-1]) | (t[1:] != t[:-1]), [True]])
    starts = np.flatnonzero(np.concatenate([[True], t[1:] != t[:-1]]))
    base = np.concatenate([[0.0], walk])[starts]
    walk -= np.repeat(base, np.diff(starts, append=len(x)))
    top[t[starts]] = np.maximum.reduceat(np.where(last, walk, 0.0), starts)
    clipped: F8 = np.clip(top, 0.0, 1.0)  # rounding: the walk ends at 0 and never passes 1
    return clipped


_LEFT_OUT = np.iinfo(np.int64).max
_CHUNK_VALUES = 1 << 21
"""Values sorted at once: 16 MB, and about five temporaries of that size."""
LEAST: Final = 2 * BLOCKS
"""Values a side; fewer have too few in a block."""
_PERMUTATIONS: Final = 999
_KNOTS: Final = 512
"""Values at which the distributions are compared with each other, at most; all where there are no more."""


@dataclass(frozen=True, slots=True)
class KsColumns:
    """Statistics of every column; D is NaN where a period has no value."""

    n0: I8
    n1: I8
    d: F8
    """[columns] sup |F0 - F1|."""
    d_slower: F8
    """[columns] sup (F0 - F1), >= 0: large if period 1 is stochastically larger."""


def ks_columns(values: I8, problem: B1, include: B1 | None = None) -> KsColumns:
    """KS statistics of each column of `values`, reference rows against problem rows.

    values: [rows, columns] int64, |value| < 2**61. problem: [rows]. include: [rows, columns], the values
    that take part; None means all. O(rows · log rows · columns).
    """
    rows, columns = values.shape
    n0, n1 = np.zeros(columns, np.int64), np.zeros(columns, np.int64)
    above, below = np.zeros(columns, np.int64), np.zeros(columns, np.int64)
    step = max(1, _CHUNK_VALUES // max(1, rows))
    for first in range(0, columns, step):
        part = slice(first, first + step)
        taken = None if include is None else include[:, part]
        n0[part], n1[part], above[part], below[part] = _extremes(values[:, part], problem, taken)
    with np.errstate(invalid="ignore", divide="ignore"):
        scale = 1.0 / (n0.astype(np.float64) * n1)
        scale[(n0 == 0) | (n1 == 0)] = np.nan
    return KsColumns(n0, n1, np.maximum(above, below) * scale, above * scale)


def _extremes(values: I8, problem: B1, include: B1 | None) -> tuple[I8, I8, I8, I8]:
    """Per column: n0, n1, and the extremes of n0·n1·(F0 - F1), upper and lower, both >= 0.

    The period rides in the lowest bit of the value, so a plain sort does for an argsort.
    """
    packed = np.ascontiguousarray((values << 1 | problem[:, None]).T)
    if include is None:
        n1 = np.full(packed.shape[0], int(problem.sum()), np.int64)
        n0 = len(problem) - n1
    else:
        packed[~include.T] = _LEFT_OUT
        n1 = (include & problem[:, None]).sum(axis=0, dtype=np.int64)
        n0 = include.sum(axis=0, dtype=np.int64) - n1
    packed.sort(axis=1)
    gap = np.where(packed & 1, -n0[:, None], n1[:, None])
    if include is not None:
        gap[packed == _LEFT_OUT] = 0
    np.cumsum(gap, axis=1, out=gap)
    packed >>= 1
    gap[:, :-1][packed[:, 1:] == packed[:, :-1]] = 0  # inside a tie the step functions are not defined
    if gap.shape[1] == 0:
        return n0, n1, n0.copy(), n0.copy()
    return n0, n1, np.maximum(gap.max(axis=1), 0), np.maximum(-gap.min(axis=1), 0)


def effective_size(n0: I8, n1: I8) -> F8:
    """n0·n1/(n0+n1), 0 where both are 0."""
    size: F8 = n0.astype(np.float64) * n1 / np.maximum(n0 + n1, 1)
    return size


def p_two_sided(d: F8, n0: I8, n1: I8) -> F8:
    """P of D under no difference, asymptotic with Stephens' correction; NaN where D is NaN."""
    p: F8 = kolmogorov(_stephens(d, n0, n1))
    return p


def p_one_sided(d_slower: F8, n0: I8, n1: I8) -> F8:
    """P of the one-sided D under "period 1 is not slower", exp(-2λ²); NaN where D is NaN."""
    p: F8 = np.exp(-2.0 * _stephens(d_slower, n0, n1) ** 2)
    return p


def _stephens(d: F8, n0: I8, n1: I8) -> F8:
    root: F8 = np.sqrt(np.maximum(effective_size(n0, n1), 1e-300))
    lam: F8 = (root + 0.12 + 0.11 / root) * d
    return lam


class BlockKs(NamedTuple):
    """The largest difference of the two distributions, and how often chance makes one as large."""

    d: float
    p: float


def block_ks(first: F8, second: F8, seed: int) -> BlockKs | None:
    """Hold two series against each other, each in order of time.

    Both are cut into BLOCKS blocks of one count; whole blocks are dealt anew. None for fewer than LEAST
    values a side. O(n log n + PERMUTATIONS · BLOCKS · KNOTS).
    """
    if min(len(first), len(second)) < LEAST:
        return None
    values = np.unique(np.concatenate([first, second]))
    knots = values if len(values) <= _KNOTS else np.quantile(values, np.linspace(0, 1, _KNOTS))
    counts = np.concatenate([_block_counts(first, knots), _block_counts(second, knots)])
    sizes = np.concatenate([np.diff(equal_count_bounds(len(part), BLOCKS)) for part in (first, second)])
    rng = np.random.default_rng(seed)
    order = np.argsort(rng.random((_PERMUTATIONS, 2 * BLOCKS)), axis=1)
    chosen = np.zeros((_PERMUTATIONS + 1, 2 * BLOCKS))
    chosen[0, :BLOCKS] = 1.0
    np.put_along_axis(chosen[1:], order[:, :BLOCKS], 1.0, axis=1)
    one = (chosen @ counts) / (chosen @ sizes)[:, None]
    other = ((1.0 - chosen) @ counts) / ((1.0 - chosen) @ sizes)[:, None]
    d = np.abs(one - other).max(axis=1)
    # Rounding must not make an equal difference a smaller one.
    return BlockKs(float(d[0]), float((d[1:] >= d[0] - 1e-12).sum() + 1) / (_PERMUTATIONS + 1))


def _block_counts(series: F8, knots: F8) -> F8:
    """[blocks, knots] values of each block up to each knot."""
    bounds = equal_count_bounds(len(series), BLOCKS)
    return np.stack(
        [
            np.searchsorted(np.sort(series[a:b]), knots, side="right").astype(np.float64)
            for a, b in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
        ]
    )
