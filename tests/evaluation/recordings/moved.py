"""Whether response times or errors of a pair differ by plain tests: what a gate must not pass unseen.

These are not the analyzer's tests: one request one value, no noise between blocks, one look each. What moves
in a root type is larger than what minutes do by themselves, so that no pair may pass with it, quiet or not.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import stats

from analyze.population import Category, Population

ALPHA = 1e-4
"""A pair has three looks, an evaluation hundreds of pairs; noise between minutes is not in these tests."""
LEAST_RATIO = 1.2
"""A mean that moved by less is not called changed."""
LEAST_POINTS = 0.02
OF_ROOT = " of "
"""In what moved of a root type."""
LEAST_OF_ROOT = 0.1
"""Points of a root type's failing requests."""
TIMES_OF_ROOT = 2.0
"""Factor of a root type's median."""
TAIL = 0.95
"""Quantile of the reference over which a request is slow."""


def moved(population: Population) -> tuple[str, ...]:
    """Which of `mean`, `tail` and `errors` changed from the first sample to the second."""
    times: list[npt.NDArray[np.float64]] = []
    failed: list[int] = []
    for sample in (0, 1):
        parts = [(c, c.rows(sample)) for c in population.categories]
        times.append(np.concatenate([c.response_ns[rows] for c, rows in parts]) / 1e6)
        words = [[population.statuses[code] for code in c.status[rows].tolist()] for c, rows in parts]
        failed.append(sum(word != "ok" for part in words for word in part))
    n0, n1 = len(times[0]), len(times[1])
    if min(n0, n1) < 2:
        return ()
    found = []
    mean0, mean1 = times[0].mean(), times[1].mean()
    ratio = max(mean0, mean1) / max(min(mean0, mean1), 1e-9)
    if ratio >= LEAST_RATIO and stats.ttest_ind(times[0], times[1], equal_var=False).pvalue < ALPHA:
        found.append("mean")
    over = float(np.quantile(times[0], TAIL))
    if _share_moved(int((times[0] > over).sum()), n0, int((times[1] > over).sum()), n1):
        found.append("tail")
    if _share_moved(failed[0], n0, failed[1], n1):
        found.append("errors")
    return tuple(found)


def moved_roots(population: Population) -> tuple[str, ...]:
    """Name root types whose requests fail more, or less, often, or take another time, by plain tests."""
    found = []
    for root in sorted({category.graph.root for category in population.categories}):
        mine = [category for category in population.categories if category.graph.root == root]
        rows = [[(c, c.rows(sample)) for c in mine] for sample in (0, 1)]
        times = [np.concatenate([c.response_ns[at] for c, at in part]) for part in rows]
        failing = [sum(_failing(c, at) for c, at in part) for part in rows]
        n0, n1 = map(len, times)
        if min(n0, n1) < 2:
            continue
        if _share_moved(failing[0], n0, failing[1], n1, LEAST_OF_ROOT):
            found.append(f"errors{OF_ROOT}{root}")
        middle = [max(float(np.median(one)), 1.0) for one in times]
        if max(middle) / min(middle) >= TIMES_OF_ROOT and stats.mannwhitneyu(*times).pvalue < ALPHA:
            found.append(f"times{OF_ROOT}{root}")
    return tuple(found)


def _failing(category: Category, rows: slice) -> int:
    """Number of a category's requests of a sample with a failing call."""
    first, last, _ = rows.indices(category.n_requests)
    failing = np.unique(category.failures.row)
    return int(((failing >= first) & (failing < last)).sum())


def _share_moved(k0: int, n0: int, k1: int, n1: int, least: float = LEAST_POINTS) -> bool:
    if abs(k1 / n1 - k0 / n0) < least:
        return False
    return bool(stats.fisher_exact([[k0, n0 - k0], [k1, n1 - k1]]).pvalue < ALPHA)
