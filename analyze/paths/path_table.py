"""Count requests of every category by sample and by window: what shares are made of.

The rows of history are the windows of the reference and those of the history's samples. Counts that enter
tests are effective ones (A.7), shares and means are weighted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analyze.population import Category, Graph, Population
from analyze.stats.moments import SampleMoments, category_moments
from analyze.stats.time_blocks import block_of, equal_time_bounds
from schemas.arrays import F8, I8
from schemas.windows import NS_PER_US

PARTS = 6
"""Sub-windows of a period, for the noise of shares where there is one window of history."""
_LEAST_WINDOW = 0.1
"""A window with less than this share of the median window's requests is cut off by a period's end."""


@dataclass(frozen=True, slots=True)
class PastRequests:
    """Response times of the reference and of history, [requests]."""

    category: I8
    window: I8
    """Row of `PathTable.history`."""
    response_us: F8
    weight: F8


@dataclass(frozen=True, slots=True)
class PathTable:
    """Categories of the population and of its history, sorted by (root, key)."""

    graphs: tuple[Graph, ...]
    categories: tuple[Category | None, ...]
    """Of the population; None for one that only history has."""
    roots: tuple[str, ...]
    root: I8
    """[categories] index into `roots`."""
    moments: SampleMoments
    """Of reference and problem, [2, categories]."""
    history: F8
    """[windows, categories] effective counts of reference and history."""
    problem: F8
    """[windows, categories]."""
    parts: tuple[F8, F8]
    """[PARTS, categories] of the reference and of the problem."""
    past: PastRequests

    @property
    def weight(self) -> F8:
        """[2, categories] sums of weights."""
        return self.moments.weighted


def path_table(population: Population, history: Population | None) -> PathTable:
    """The table of two samples (0 reference, 1 problem) and of every sample of `history`. O(requests)."""
    mine = {c.graph.key: c for c in population.categories}
    past = {c.graph.key: c for c in history.categories} if history is not None else {}
    graphs = sorted(
        {key: c.graph for key, c in [*past.items(), *mine.items()]}.values(), key=lambda g: (g.root, g.key)
    )
    categories = tuple(mine.get(g.key) for g in graphs)
    roots = tuple(dict.fromkeys(g.root for g in graphs))
    places = {root: i for i, root in enumerate(roots)}
    sides = [(population.window_ns, categories, 0)]
    if history is not None:
        old = tuple(past.get(g.key) for g in graphs)
        sides += [(history.window_ns, old, sample) for sample in range(len(history.samples))]
    counts, requests = zip(*(_windows(*side) for side in sides), strict=True)
    offsets = np.cumsum([0, *(len(rows) for rows in counts)])
    return PathTable(
        graphs=tuple(graphs),
        categories=categories,
        roots=roots,
        root=np.array([places[g.root] for g in graphs], np.int64),
        moments=_moments(categories),
        history=np.concatenate(counts),
        problem=_windows(population.window_ns, categories, 1)[0],
        parts=(_parts(categories, 0), _parts(categories, 1)),
        past=PastRequests(
            np.concatenate([r.category for r in requests]),
            np.concatenate([r.window + offset for r, offset in zip(requests, offsets[:-1], strict=True)]),
            np.concatenate([r.response_us for r in requests]),
            np.concatenate([r.weight for r in requests]),
        ),
    )


def _moments(categories: Sequence[Category | None]) -> SampleMoments:
    present = [i for i, c in enumerate(categories) if c is not None]
    some = category_moments([c for c in categories if c is not None], 2)
    count, weighted = np.zeros((2, len(categories)), np.int64), np.zeros((2, len(categories)))
    mean, variance = np.full((2, len(categories)), np.nan), np.full((2, len(categories)), np.nan)
    count[:, present], weighted[:, present] = some.count[:2], some.weighted[:2]
    mean[:, present], variance[:, present] = some.mean_us[:2], some.variance_us2[:2]
    return SampleMoments(count, weighted, mean, variance)


@dataclass(frozen=True, slots=True)
class _Requests:
    """Requests of one sample, category after category."""

    category: I8
    start_ns: I8
    weight: F8
    response_us: F8


def _requests(categories: Sequence[Category | None], sample: int) -> _Requests:
    rows = [None if c is None else (c, c.rows(sample)) for c in categories]
    sizes = np.array([0 if r is None else r[1].stop - r[1].start for r in rows], np.int64)
    there = [r for r in rows if r is not None]
    nothing = np.zeros(0, np.int64)
    start = np.concatenate([nothing, *(c.start_ns[mine] for c, mine in there)])
    weight = np.concatenate([np.zeros(0), *(c.weight[mine] for c, mine in there)])
    response = np.concatenate([nothing, *(c.response_ns[mine] for c, mine in there)])
    return _Requests(np.repeat(np.arange(len(categories)), sizes), start, weight, response / NS_PER_US)


def _effective(weight: F8) -> F8:
    """Weights scaled so that their sum is Kish's n; ones for equal weights (A.7)."""
    return weight * (weight.sum() / (weight**2).sum()) if len(weight) else weight


def _windows(window_ns: int, categories: Sequence[Category | None], sample: int) -> tuple[F8, PastRequests]:
    """[windows, categories] effective counts of one sample, and the window of each of its requests."""
    found = _requests(categories, sample)
    if len(found.start_ns) == 0:
        nothing = np.zeros(0, np.int64)
        return np.zeros((0, len(categories))), PastRequests(nothing, nothing, np.zeros(0), np.zeros(0))
    names, window = np.unique(found.start_ns // window_ns, return_inverse=True)
    counts = _counted(window, len(names), found, len(categories))
    size = counts.sum(axis=1)
    kept = size >= _LEAST_WINDOW * np.median(size)
    mine = kept[window]
    place = (np.cumsum(kept) - 1)[window]
    past = PastRequests(found.category[mine], place[mine], found.response_us[mine], found.weight[mine])
    return counts[kept], past


def _parts(categories: Sequence[Category | None], sample: int) -> F8:
    """[PARTS, categories] effective counts in parts of equal time."""
    found = _requests(categories, sample)
    if len(found.start_ns) == 0:
        return np.zeros((0, len(categories)))
    bounds = equal_time_bounds(int(found.start_ns.min()), int(found.start_ns.max()) + 1, PARTS)
    return _counted(block_of(found.start_ns, bounds), PARTS, found, len(categories))


def _counted(row: npt.NDArray[np.integer], n_rows: int, found: _Requests, n_categories: int) -> F8:
    cell = row.astype(np.int64) * n_categories + found.category
    counts = np.bincount(cell, _effective(found.weight), n_rows * n_categories)
    table: F8 = counts.astype(np.float64).reshape(n_rows, n_categories)
    return table
