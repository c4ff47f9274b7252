"""Requests of every category by period and block: input of the tests of shares, times and repeats.

Columns are as for an `Estimate`: before, after, then the baseline blocks. Blocks are the windows of the
reference and of the history's samples; if these are fewer than three, the reference is cut into blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analyze.paths.settings import PathSettings
from analyze.population import Category, Graph, Population
from analyze.stats.estimate import AFTER, BEFORE, FIRST_BLOCK
from analyze.stats.noise import LEAST_FOR_VARIANCE
from analyze.stats.sums import totals
from analyze.stats.time_blocks import block_of, equal_time_bounds
from schemas.arrays import F8, I8
from schemas.windows import NS_PER_US

_PROBLEM = 1
_HISTORY = 2
"""Number of the history's first sample; reference and problem are 0 and 1."""
_WINDOW_BITS = 40
"""Number of bits for a window's number in a key: windows of one second since the epoch take 31 bits."""


@dataclass(frozen=True, slots=True)
class PathRequests:
    """Requests of the problem and of the baseline, as columns."""

    category: I8
    """int64[requests]: index of the request's category in `PathTable.graphs`."""
    column: I8
    """int64[requests]: column of the table: AFTER for the problem, FIRST_BLOCK + number of the block for the
    baseline."""
    response_ns: I8
    """int64[requests]: response time, ns."""
    weight: F8
    """float64[requests]: 1 / sampling probability."""


@dataclass(frozen=True, slots=True)
class PathTable:
    """Categories of a population and of the history, sorted by (root, key), with their requests by column."""

    settings: PathSettings
    graphs: tuple[Graph, ...]
    """Graph of each category; the index of a category is the index of its graph."""
    categories: tuple[Category | None, ...]
    """Category of the population for each graph; None if only the history has the graph."""
    roots: tuple[str, ...]
    """Root types."""
    root: I8
    """int64[categories]: index in `roots` of the category's root type."""
    count: I8
    """int64[2, categories]: number of requests in reference and problem."""
    weight: F8
    """float64[2, categories]: sum of the requests' weights in reference and problem."""
    mean_us: F8
    """float64[2, categories]: weighted mean response time in reference and problem, µs; NaN without
    requests."""
    requests: PathRequests
    blocks: tuple[int, int]
    """(number of baseline blocks from the reference, number of baseline blocks from the history); blocks of
    the reference come first."""
    noise_assumed: bool
    """True if the baseline has fewer than three windows, so that the noise between windows is assumed."""

    @property
    def n_columns(self) -> int:
        """Number of columns: before, after, and the blocks."""
        return FIRST_BLOCK + sum(self.blocks)

    @property
    def side(self) -> I8:
        """int64[columns]: 0 for blocks of the reference, 1 for the problem, -1 for other columns."""
        side = np.full(self.n_columns, -1, np.int64)
        side[AFTER], side[FIRST_BLOCK : FIRST_BLOCK + self.blocks[0]] = 1, 0
        return side

    @property
    def block(self) -> I8:
        """int64[columns]: number of the baseline block, from 0; -1 for the columns BEFORE and AFTER."""
        return np.maximum(np.arange(self.n_columns) - FIRST_BLOCK, -1)

    def sums(self, value: F8) -> F8:
        """float64[categories, columns]: sums of a value of the requests; column BEFORE is the sum over all
        baseline blocks. value: float64[requests]."""
        n = len(self.graphs)
        cell = self.requests.category * self.n_columns + self.requests.column
        found = totals(cell, value, n * self.n_columns).reshape(n, self.n_columns)
        found[:, BEFORE] = found[:, FIRST_BLOCK:].sum(axis=1)
        return found


def path_table(population: Population, history: Population | None, settings: PathSettings) -> PathTable:
    """Table of samples 0 (reference) and 1 (problem) of a population, and of all samples of `history`.
    O(requests)."""
    mine = {c.graph.key: c for c in population.categories}
    past = {c.graph.key: c for c in history.categories} if history is not None else {}
    graphs = sorted(
        {key: c.graph for key, c in [*past.items(), *mine.items()]}.values(), key=lambda g: (g.root, g.key)
    )
    categories = tuple(mine.get(g.key) for g in graphs)
    roots = tuple(dict.fromkeys(g.root for g in graphs))
    places = {root: i for i, root in enumerate(roots)}
    parts = [_requests(categories, 0, population.window_ns)]
    if history is not None:
        parts.append(_requests([past.get(g.key) for g in graphs], _HISTORY, history.window_ns))
    category, sample, start_ns, window, weight, response_ns = map(np.concatenate, zip(*parts, strict=True))
    ordinary = np.flatnonzero(sample != _PROBLEM)
    stretches, block = np.unique(sample[ordinary] << _WINDOW_BITS | window[ordinary], return_inverse=True)
    n_own = int((stretches >> _WINDOW_BITS == 0).sum())
    n_past = len(stretches) - n_own
    noise_assumed = len(stretches) < LEAST_FOR_VARIANCE
    if noise_assumed:
        is_own = block < n_own
        cut = _blocks(start_ns[ordinary[is_own]], settings.blocks)
        block += int(cut.max(initial=-1)) + 1 - n_own
        block[is_own], n_own = cut, int(cut.max(initial=-1)) + 1
    compared = np.flatnonzero(sample < _HISTORY)
    cell = sample[compared] * len(graphs) + category[compared]
    total = totals(cell, weight[compared], 2 * len(graphs))
    spent = totals(cell, weight[compared] * (response_ns[compared] / NS_PER_US), 2 * len(graphs))
    mean_us = spent / np.where(total > 0, total, np.nan)
    column = np.full(len(sample), AFTER)
    column[ordinary] = FIRST_BLOCK + block
    return PathTable(
        settings=settings,
        graphs=tuple(graphs),
        categories=categories,
        roots=roots,
        root=np.array([places[g.root] for g in graphs], np.int64),
        count=np.bincount(cell, minlength=2 * len(graphs)).reshape(2, -1),
        weight=total.reshape(2, -1),
        mean_us=mean_us.reshape(2, -1),
        requests=PathRequests(category, column, response_ns, weight),
        blocks=(n_own, n_past),
        noise_assumed=noise_assumed,
    )


def _requests(
    categories: Sequence[Category | None], first_sample: int, window_ns: int
) -> tuple[I8, I8, I8, I8, F8, I8]:
    """Columns of all requests, category after category: (category, sample, start in ns, number of the window,
    weight, response time in ns), each [requests]."""
    there = [(i, c) for i, c in enumerate(categories) if c is not None]
    nothing = np.zeros(0, np.int64)
    start_ns = np.concatenate([nothing, *(c.start_ns for _, c in there)])
    return (
        np.repeat([i for i, _ in there], [c.n_requests for _, c in there]).astype(np.int64),
        np.concatenate([nothing, *(c.sample for _, c in there)]) + first_sample,
        start_ns,
        start_ns // window_ns,
        np.concatenate([np.zeros(0), *(c.weight for _, c in there)]),
        np.concatenate([nothing, *(c.response_ns for _, c in there)]),
    )


def _blocks(start_ns: I8, n: int) -> I8:
    """int64[requests]: number of the block of each request, for `n` blocks of equal time."""
    if not len(start_ns):
        return np.zeros(0, np.int64)
    bounds = equal_time_bounds(int(start_ns.min()), int(start_ns.max()) + 1, n)
    return block_of(start_ns, bounds).astype(np.int64)
