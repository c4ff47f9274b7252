"""Two-sample Kolmogorov-Smirnov by permuting blocks of time (ALGORITHMS B.3, H.4).

Dependence stays in its block.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from analyze.stats.time_blocks import BLOCKS, equal_count_bounds
from schemas.arrays import F8

LEAST: Final = 2 * BLOCKS
"""Values a side; fewer have too few in a block."""
PERMUTATIONS: Final = 999
KNOTS: Final = 512
"""Values at which the distributions are held against each other, at most; all where there are no more."""


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
    knots = values if len(values) <= KNOTS else np.quantile(values, np.linspace(0, 1, KNOTS))
    counts = np.concatenate([_block_counts(first, knots), _block_counts(second, knots)])
    sizes = np.concatenate([np.diff(equal_count_bounds(len(part), BLOCKS)) for part in (first, second)])
    rng = np.random.default_rng(seed)
    order = np.argsort(rng.random((PERMUTATIONS, 2 * BLOCKS)), axis=1)
    chosen = np.zeros((PERMUTATIONS + 1, 2 * BLOCKS))
    chosen[0, :BLOCKS] = 1.0
    np.put_along_axis(chosen[1:], order[:, :BLOCKS], 1.0, axis=1)
    one = (chosen @ counts) / (chosen @ sizes)[:, None]
    other = ((1.0 - chosen) @ counts) / ((1.0 - chosen) @ sizes)[:, None]
    d = np.abs(one - other).max(axis=1)
    # Rounding must not make an equal difference a smaller one.
    return BlockKs(float(d[0]), float((d[1:] >= d[0] - 1e-12).sum() + 1) / (PERMUTATIONS + 1))


def _block_counts(series: F8, knots: F8) -> F8:
    """[blocks, knots] values of each block up to each knot."""
    bounds = equal_count_bounds(len(series), BLOCKS)
    return np.stack(
        [
            np.searchsorted(np.sort(series[a:b]), knots, side="right").astype(np.float64)
            for a, b in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
        ]
    )
