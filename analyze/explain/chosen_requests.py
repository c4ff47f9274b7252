"""Choose which requests are compared with each other, and sample them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analyze.population import Population
from schemas.arrays import F8, I4, I8


@dataclass(frozen=True, slots=True)
class Selection:
    """Requests of a population, by category."""

    rows: Mapping[int, I8]
    """Index of the category -> its rows that are meant. Rows may lie in any sample."""
    nodes: Mapping[int, Sequence[int]] | None = None
    """Index of the category -> positions whose operations may be compared: the changed site's and those
    around it. None: every operation that both classes pass."""

    @property
    def n_requests(self) -> int:
        """Number of requests."""
        return sum(len(rows) for rows in self.rows.values())

    def without(self, other: Selection) -> Selection:
        """Requests that the other selection does not have."""
        none = np.zeros(0, np.int64)
        return Selection(
            {index: np.setdiff1d(rows, other.rows.get(index, none)) for index, rows in self.rows.items()},
            self.nodes,
        )

    def check(self, population: Population) -> None:
        """Raise ValueError for a category or a row that the population does not have."""
        for index, rows in self.rows.items():
            if not 0 <= index < len(population.categories):
                raise ValueError(f"there is no category {index} of {len(population.categories)}")
            most = population.categories[index].n_requests
            if len(rows) and not 0 <= int(np.min(rows)) <= int(np.max(rows)) < most:
                raise ValueError(f"category {index} has rows 0 to {most - 1}")


@dataclass(frozen=True, slots=True)
class ChosenRequests:
    """Requests of one or several groups, by (group, start); arrays are [requests]."""

    group: I4
    """0, 1, … in the order of the selections."""
    category: I4
    row: I8
    """Row of the category."""
    sample: I4
    start_ns: I8
    weight: F8
    available: tuple[int, ...]
    """Requests of each group before sampling."""

    def __len__(self) -> int:
        return len(self.row)


def choose(
    population: Population, groups: Sequence[Selection], most: int, rng: np.random.Generator
) -> ChosenRequests:
    """At most `most` requests of each group, spread over time, with probability by weight.

    A group is cut into as many pieces of equal weight along time as requests are wanted, and one point is
    drawn in each: no stretch of time is left out and a heavy request is likelier. Fewer come where one
    request is heavier than a piece. Raises ValueError as `Selection.check`.
    """
    for group in groups:
        group.check(population)
    parts = [_flat(population, number, group) for number, group in enumerate(groups)]
    kept = [part if len(part) <= most else _thin(part, most, rng) for part in parts]
    return ChosenRequests(
        np.concatenate([part.group for part in kept]),
        np.concatenate([part.category for part in kept]),
        np.concatenate([part.row for part in kept]),
        np.concatenate([part.sample for part in kept]),
        np.concatenate([part.start_ns for part in kept]),
        np.concatenate([part.weight for part in kept]),
        tuple(len(part) for part in parts),
    )


def chosen_rows(population: Population, category: I4, row: I8, group: I4 | None = None) -> ChosenRequests:
    """Requests given by category and row, [requests] each, in their order; of one group, unless stated."""
    sample = np.zeros(len(row), np.int32)
    start = np.zeros(len(row), np.int64)
    weight = np.zeros(len(row))
    for index in np.unique(category):
        mine = category == index
        of = population.categories[int(index)]
        sample[mine] = of.sample[row[mine]]
        start[mine] = of.start_ns[row[mine]]
        weight[mine] = of.weight[row[mine]]
    group = np.zeros(len(row), np.int32) if group is None else group
    available = tuple(np.bincount(group, minlength=1).tolist())
    return ChosenRequests(group, category.astype(np.int32), row, sample, start, weight, available)


def _flat(population: Population, number: int, group: Selection) -> ChosenRequests:
    """All requests of one selection, by start."""
    category: list[I4] = [np.zeros(0, np.int32)]
    row: list[I8] = [np.zeros(0, np.int64)]
    sample: list[I4] = [np.zeros(0, np.int32)]
    start: list[I8] = [np.zeros(0, np.int64)]
    weight: list[F8] = [np.zeros(0)]
    for index in sorted(group.rows):
        of = population.categories[index]
        rows = np.unique(np.asarray(group.rows[index], dtype=np.int64))
        category.append(np.full(len(rows), index, np.int32))
        row.append(rows)
        sample.append(of.sample[rows].astype(np.int32))
        start.append(of.start_ns[rows])
        weight.append(of.weight[rows])
    starts = np.concatenate(start)
    order = np.argsort(starts, kind="stable")
    return ChosenRequests(
        np.full(len(order), number, np.int32),
        np.concatenate(category)[order],
        np.concatenate(row)[order],
        np.concatenate(sample)[order],
        starts[order],
        np.concatenate(weight)[order],
        (len(order),),
    )


def _thin(part: ChosenRequests, most: int, rng: np.random.Generator) -> ChosenRequests:
    """One request from each of `most` pieces of equal weight."""
    reach = np.cumsum(np.maximum(part.weight, 0.0))
    points = (np.arange(most) + rng.random(most)) * (reach[-1] / most)
    picked = np.unique(np.minimum(np.searchsorted(reach, points, side="right"), len(part) - 1))
    return ChosenRequests(
        part.group[picked],
        part.category[picked],
        part.row[picked],
        part.sample[picked],
        part.start_ns[picked],
        part.weight[picked],
        part.available,
    )
