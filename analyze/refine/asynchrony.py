"""Asynchronous children by consensus over both periods (A.6 S7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analyze.refine.settings import RefineSettings
from analyze.refine.siblings import CHUNK_CELLS, weigh
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
    """Sentences on children awaited in one period and left behind in the other."""


def find_asynchronous(
    categories: Sequence[StoredCategory],
    times: Sequence[I8],
    trees: Sequence[SpanTree | None],
    settings: RefineSettings,
) -> Asynchrony:
    """Find awaited children that outlive their parent in at least `async_share` of all requests.

    Pooled over both periods by (parent operation, child operation). O(spans).
    """
    sums: dict[tuple[str, str], list[float]] = {}
    for category, matrix, tree in zip(categories, times, trees, strict=True):
        if tree is None:
            continue
        units = [unit for unit in range(1, tree.n_units) if tree.awaited[unit]]
        everything = np.ones((1, category.n_requests), dtype=np.bool_)
        weight = weigh(everything, category.weight, category.period)[:, 0].tolist()
        outlives = _late_weight(category, matrix, tree, units, settings)
        for unit, late in zip(units, outlives.T.tolist(), strict=True):
            entry = sums.setdefault(_pair(tree, unit), [0.0, 0.0, 0.0, 0.0])
            for at, value in enumerate((*weight, *late)):
                entry[at] += value
    asynchronous = {
        pair
        for pair, (all_0, all_1, late_0, late_1) in sums.items()
        if late_0 + late_1 >= settings.async_share * (all_0 + all_1)
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


def _notes(sums: dict[tuple[str, str], list[float]], asynchronous: set[tuple[str, str]]) -> tuple[str, ...]:
    notes = []
    for pair, (all_0, all_1, late_0, late_1) in sorted(sums.items()):
        if all_0 == 0 or all_1 == 0:
            continue
        old, new = late_0 / all_0, late_1 / all_1
        if abs(new - old) > _MOVED:
            taken = "asynchronous" if pair in asynchronous else "awaited"
            notes.append(
                f"{pair[1]} outlives its parent {pair[0]} in {old:.0%} of the reference and {new:.0%} of the "
                f"problem calls: taken as {taken} in both."
            )
    return tuple(notes)


def _late_weight(
    category: StoredCategory, times: I8, tree: SpanTree, units: list[int], settings: RefineSettings
) -> F8:
    """[2, units] weight, by period, of the requests in which a unit outlives its parent by over the slack."""
    above = [tree.parent[unit] for unit in units]
    late = np.zeros((2, len(units)))
    step = max(1, CHUNK_CELLS // tree.n_units)
    for at in range(0, category.n_requests, step):
        rows = slice(at, at + step)
        starts = times[rows].T[list(tree.start)]
        ends = times[rows].T[list(tree.end)]
        slack = np.maximum(settings.slack_ns, (ends - starts) * settings.slack_share)
        overtime = ends[units] - ends[above] > slack[above]
        late += weigh(overtime, category.weight[rows], category.period[rows])
    return late


def _pair(tree: SpanTree, unit: int) -> tuple[str, str]:
    return tree.operation[tree.parent[unit]], tree.operation[unit]
