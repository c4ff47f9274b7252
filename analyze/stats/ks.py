"""Kolmogorov-Smirnov (KS) tests of two samples: of many columns at once, or by blocks of time.

A category's edges are the columns of one matrix, so all edges are tested by one sort along an axis. D is
computed in integers and therefore exact. P-values follow the asymptotic law with Stephens' small-sample
correction, λ = (√n + 0.12 + 0.11/√n)·D with n = n0·n1/(n0+n1), as in MATLAB's `kstest2`, which the papers
used (NSDI §6). They are not the exact p of small samples: where the exact p is below 0.1, the difference
stays under 0.03 at n0 = n1 = 11, the smallest the papers test, and under 0.01 at 100 (measured in
tests/unit/test_ks.py).

The test by blocks permutes whole blocks, so that dependence between neighbouring values is preserved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from scipy.special import kolmogorov

from analyze.stats.time_blocks import BLOCKS, equal_count_bounds
from schemas.arrays import B1, F8, I8

_LEFT_OUT = np.iinfo(np.int64).max
_CHUNK_VALUES = 1 << 21
"""Maximum number of values sorted at once: 16 MB, and about five temporary arrays of that size."""
LEAST: Final = 2 * BLOCKS
"""Minimum number of values of a series in `block_ks`; blocks of fewer values would be too small."""
_PERMUTATIONS: Final = 999
_KNOTS: Final = 512
"""Maximum number of points at which `block_ks` compares two distributions; for fewer values, each value."""


@dataclass(frozen=True, slots=True)
class KsColumns:
    """Kolmogorov-Smirnov statistics of each column: values of the reference against values of the problem."""

    n0: I8
    """int64[columns]: number of values of the reference."""
    n1: I8
    """int64[columns]: number of values of the problem."""
    d: F8
    """float64[columns]: sup |F0 - F1| of the two distribution functions; NaN if a period has no value."""
    d_slower: F8
    """float64[columns]: sup (F0 - F1), >= 0: large if the problem's values are stochastically larger; NaN if
    a period has no value."""


def ks_columns(values: I8, problem: B1, include: B1 | None = None) -> KsColumns:
    """Compute Kolmogorov-Smirnov statistics of each column, reference rows against problem rows.

    values: int64[rows, columns], |value| < 2**61. problem: bool[rows], True for rows of the problem. include:
    bool[rows, columns], True for values to use; None: all. O(rows · log rows · columns).
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
    """Compute (n0, n1, largest n0·n1·(F0 - F1), largest n0·n1·(F1 - F0)), the last two >= 0; all
    int64[columns].

    The period is stored in the lowest bit of the value, so a plain sort replaces an argsort.
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
    gap[:, :-1][packed[:, 1:] == packed[:, :-1]] = 0  # the step functions are compared after a tie only
    if gap.shape[1] == 0:
        return n0, n1, n0.copy(), n0.copy()
    return n0, n1, np.maximum(gap.max(axis=1), 0), np.maximum(-gap.min(axis=1), 0)


def effective_size(n0: I8, n1: I8) -> F8:
    """Effective sample size of a two-sample test, n0·n1/(n0+n1); 0 where both are 0."""
    size: F8 = n0.astype(np.float64) * n1 / np.maximum(n0 + n1, 1)
    return size


def p_two_sided(d: F8, n0: I8, n1: I8) -> F8:
    """Two-sided p of the KS statistic d under "no difference": asymptotic, with Stephens' correction; NaN
    where d is NaN. n0, n1: numbers of values."""
    p: F8 = kolmogorov(_stephens(d, n0, n1))
    return p


def p_one_sided(d_slower: F8, n0: I8, n1: I8) -> F8:
    """p of `d_slower`, one-sided, under "the problem is not slower": exp(-2λ²); NaN where `d_slower` is
    NaN."""
    p: F8 = np.exp(-2.0 * _stephens(d_slower, n0, n1) ** 2)
    return p


def _stephens(d: F8, n0: I8, n1: I8) -> F8:
    root: F8 = np.sqrt(np.maximum(effective_size(n0, n1), 1e-300))
    lam: F8 = (root + 0.12 + 0.11 / root) * d
    return lam


class BlockKs(NamedTuple):
    """Result of `block_ks`: d, the largest difference of the two distribution functions, and the p of d by
    permutation."""

    d: float
    p: float


def block_ks(first: F8, second: F8, seed: int) -> BlockKs | None:
    """Compare two series, each in order of time, by a KS test with permuted blocks.

    Each series is cut into BLOCKS blocks of equal count; whole blocks are permuted between the two. None if
    either has fewer than LEAST values. O(n log n + PERMUTATIONS · BLOCKS · KNOTS).
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
    """float64[blocks, knots]: number of values of each block that are at or below each knot."""
    bounds = equal_count_bounds(len(series), BLOCKS)
    return np.stack(
        [
            np.searchsorted(np.sort(series[a:b]), knots, side="right").astype(np.float64)
            for a, b in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
        ]
    )
