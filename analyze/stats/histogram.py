"""Count two samples over common log-spaced bins."""

from __future__ import annotations

import math

import numpy as np

from schemas.arrays import F8
from schemas.report.parts import Histogram


def log_histogram(title: str, reference_us: F8, problem_us: F8, bins: int) -> Histogram:
    """Counts of both samples over bins equal on a log scale, from the least to the largest value.

    At most `bins` bins; fewer for small samples, 2·√n, at least 8, so that a plot is not a comb.

    Values of 0 or less go to the first bin, whose lower edge is then 0. Two equal ends give one bin; two
    empty samples give none (one edge, 0).
    """
    both = np.concatenate([reference_us, problem_us])
    if len(both) == 0:
        return Histogram(title=title, edges_us=(0.0,), counts0=(), counts1=())
    positive = both[both > 0]
    if len(positive) == 0:
        edges = np.array([0.0, 1.0])
    else:
        low, high = float(positive.min()), float(positive.max())
        steps = 1 if low == high else min(bins, max(8, math.ceil(2 * math.sqrt(len(both)))))
        edges = np.geomspace(low, max(high, low * (1 + 1e-9)), steps + 1)
        edges[0], edges[-1] = low, max(high, edges[-1])
        if len(positive) < len(both):
            edges[0] = 0.0
    return Histogram(
        title=title,
        edges_us=tuple(float(x) for x in edges),
        counts0=_counts(reference_us, edges),
        counts1=_counts(problem_us, edges),
    )


def _counts(values: F8, edges: F8) -> tuple[int, ...]:
    """Half-open bins, the last one closed; values below the first edge count in the first bin."""
    place = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2)
    return tuple(int(x) for x in np.bincount(place, minlength=len(edges) - 1))
