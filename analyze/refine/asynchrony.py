"""Asynchronous children by consensus over all samples (A.6 S7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analyze.population import PAIR
from analyze.refine.settings import RefineSettings
from analyze.refine.siblings import CHUNK_CELLS, sample_bounds, weigh
from analyze.refine.span_tree import SpanTree
from analyze.refine.stored import StoredCategory

I8 = npt.NDArray[np.int64]
F8 = npt.NDArray[np.float64]


_MOVED = 0.5
"""Difference of the share between the periods that is worth a note."""


@dataclass(frozen=True, slots=True)
class Asynchrony:
    """Which children nobody waits for."""

    units: tuple[frozenset[int], ...]
    """By category: units to be deferred."""
    notes: tuple[str, ...]
    """Sentences on children awaited in one sample and left behind in the other."""


def find_asynchronous(
    categories: Sequence[StoredCategory],
    times: Sequence[I8],
    trees: Sequence[SpanTree | None],
    settings: RefineSettings,
    n_samples: int,
) -> Asynchrony:
    """Find awaited children that outlive their parent in at least `async_share` of all requests.

    Pooled over all samples by (parent operation, child operation). O(spans).
    """
    sums: dict[tuple[str, str], F8] = {}
    for category, matrix, tree in zip(categories, times, trees, strict=True):
        if tree is None:
            continue
        units = [unit for unit in range(1, tree.n_units) if tree.awaited[unit]]
        everything = np.ones((1, category.n_requests), dtype=np.bool_)
        weight = weigh(everything, category.weight, sample_bounds(category.sample, n_samples))[:, 0]
        outlives = _late_weight(category, matrix, tree, units, settings, n_samples)
        for unit, late in zip(units, outlives.T, strict=True):
            entry = sums.setdefault(_pair(tree, unit), np.zeros((2, n_samples)))
            entry += (weight, late)
    asynchronous = {
        pair for pair, (calls, late) in sums.items() if late.sum() >= settings.async_share * calls.sum()
    }
    return Asynchrony(
        units=tuple(
            frozenset(
                unit
                for unit in range(1, 0 if tree is None else tree.n_units)
                if tree is not None and tree.awaited[unit] and _pair(tree, unit) in asynchronous
            )
            for tree in trees
        ),
        notes=_notes(sums, asynchronous),
    )


def _notes(sums: dict[tuple[str, str], F8], asynchronous: set[tuple[str, str]]) -> tuple[str, ...]:
    notes = []
    for pair, (calls, late) in sorted(sums.items(), key=lambda entry: entry[0]):
        if len(calls) != len(PAIR) or not calls.all():
            continue
        old, new = late / calls
        if abs(new - old) > _MOVED:
            taken = "asynchronous" if pair in asynchronous else "awaited"
            notes.append(
                f"{pair[1]} outlives its parent {pair[0]} in {old:.0%} of the reference and {new:.0%} of the "
                f"problem calls: taken as {taken} in both."
            )
    return tuple(notes)


def _late_weight(
    category: StoredCategory,
    times: I8,
    tree: SpanTree,
    units: list[int],
    settings: RefineSettings,
    n_samples: int,
) -> F8:
    """[samples, units] weight of the requests in which a unit outlives its parent by over the slack."""
    above = [tree.parent[unit] for unit in units]
    late = np.zeros((n_samples, len(units)))
    step = max(1, CHUNK_CELLS // tree.n_units)
    for at in range(0, category.n_requests, step):
        rows = slice(at, at + step)
        starts = times[list(tree.start), rows]
        ends = times[list(tree.end), rows]
        slack = np.maximum(settings.slack_ns, (ends - starts) * settings.slack_share)
        overtime = ends[units] - ends[above] > slack[above]
        late += weigh(overtime, category.weight[rows], sample_bounds(category.sample[rows], n_samples))
    return late


def _pair(tree: SpanTree, unit: int) -> tuple[str, str]:
    return tree.operation[tree.parent[unit]], tree.operation[unit]
