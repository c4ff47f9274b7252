"""Choose requests to compare, and sample them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from analyze.population import Population
from schemas.arrays import F8, I4, I8
from stitch.columnar.runs import group_stably


@dataclass(frozen=True, slots=True)
class Selection:
    """Set of requests of a population, given by category and row."""

    rows: Mapping[int, I8]
    """Index of a category -> int64[n] rows of the selected requests in the category, of any sample; ascending
    and distinct."""

    @property
    def n_requests(self) -> int:
        """Number of requests in the selection."""
        return sum(len(rows) for rows in self.rows.values())

    def without(self, other: Selection) -> Selection:
        """Selection of the requests that `other` does not contain."""
        return Selection(
            {
                index: rows if (gone := other.rows.get(index)) is None else _without(rows, gone)
                for index, rows in self.rows.items()
            }
        )

    def check(self, population: Population) -> None:
        """Raise ValueError if the selection has a category or a row that `population` does not have."""
        for index, rows in self.rows.items():
            if not 0 <= index < len(population.categories):
                raise ValueError(f"there is no category {index} of {len(population.categories)}")
            most = population.categories[index].n_requests
            if len(rows) and not 0 <= rows[0] <= rows[-1] < most:
                raise ValueError(f"category {index} has rows 0 to {most - 1}")


def _without(rows: I8, gone: I8) -> I8:
    """int64[n]: numbers of `rows` that `gone` does not contain; both ascending."""
    at = np.searchsorted(gone, rows)
    return rows if not len(gone) else rows[gone[np.minimum(at, len(gone) - 1)] != rows]


@dataclass(frozen=True, slots=True)
class ChosenRequests:
    """Sampled requests of one or several groups (selections), ordered by (group, start)."""

    group: I4
    """int32[requests]: index of the group that the request was chosen from."""
    category: I4
    """int32[requests]: index of the request's category in `Population.categories`."""
    row: I8
    """int64[requests]: row of the request in its category."""
    sample: I4
    """int32[requests]: index of the request's sample in `Population.samples`."""
    start_ns: I8
    """int64[requests]: start of the request, ns since the epoch."""
    weight: F8
    available: tuple[int, ...]
    """Number of requests of each group before sampling."""

    def __len__(self) -> int:
        return len(self.row)

    def take(self, places: npt.NDArray[np.integer]) -> ChosenRequests:
        """Requests with the indices `places`, in that order."""
        return replace(self, **{name: getattr(self, name)[places] for name in _COLUMNS})

    def by_category(self) -> Iterator[tuple[int, I8]]:
        """Yield (index of a category, int64[n] ascending indices of its requests) for each category that
        requests have."""
        if len(self):
            places, first = group_stably(self.category, int(self.category.max()) + 1)
            for index in np.flatnonzero(np.diff(first)).tolist():
                yield index, places[first[index] : first[index + 1]]

    def union(self, *others: ChosenRequests) -> tuple[ChosenRequests, list[I8]]:
        """Merge with `others`: (distinct requests of all arguments as one group; for this object and each of
        `others`, int64[requests] index of each request in the merged group).
        """
        parts = (self, *others)
        n_rows = 1 + max((int(part.row.max(initial=0)) for part in parts), default=0)
        keys = np.concatenate([part.category.astype(np.int64) * n_rows + part.row for part in parts])
        _, first, place = np.unique(keys, return_index=True, return_inverse=True)
        columns = {name: np.concatenate([getattr(part, name) for part in parts])[first] for name in _COLUMNS}
        columns["group"] = np.zeros(len(first), np.int32)
        ends = np.cumsum([len(part) for part in parts])
        return ChosenRequests(**columns, available=(len(first),)), np.split(place, ends[:-1])


_COLUMNS: Final = ("group", "category", "row", "sample", "start_ns", "weight")


def choose(
    population: Population, groups: Sequence[Selection], most: int, rng: np.random.Generator
) -> ChosenRequests:
    """Sample at most `most` requests of each group, spread over time, with probability proportional to
    weight.

    The requests of a group, in time order, are cut into `most` pieces of equal weight, and one request is
    drawn in each piece. A request heavier than a piece is drawn once, so there may be fewer than `most`.
    Raises ValueError as `Selection.check`.
    """
    for group in groups:
        group.check(population)
    parts = [_flat(population, number, group) for number, group in enumerate(groups)]
    kept = [part if len(part) <= most else _thin(part, most, rng) for part in parts]
    columns = {name: np.concatenate([getattr(part, name) for part in kept]) for name in _COLUMNS}
    return ChosenRequests(**columns, available=tuple(len(part) for part in parts))


def chosen_rows(population: Population, category: I4, row: I8, group: I4 | None = None) -> ChosenRequests:
    """`ChosenRequests` of given requests, in the same order.

    category, row: [requests], index of the category and row in it; group: int32[requests], None: 0 for all.
    """
    sample = np.zeros(len(row), np.int32)
    start = np.zeros(len(row), np.int64)
    weight = np.zeros(len(row))
    group = np.zeros(len(row), np.int32) if group is None else group
    available = tuple(np.bincount(group, minlength=1).tolist())
    found = ChosenRequests(group, category.astype(np.int32), row, sample, start, weight, available)
    for index, mine in found.by_category():
        of = population.categories[index]
        sample[mine] = of.sample[row[mine]]
        start[mine] = of.start_ns[row[mine]]
        weight[mine] = of.weight[row[mine]]
    return found


def _flat(population: Population, number: int, group: Selection) -> ChosenRequests:
    """All requests of the selection `group` as group number `number`, ordered by start."""
    rows = dict(sorted(group.rows.items()))
    category = np.repeat(np.array(list(rows), np.int32), [len(mine) for mine in rows.values()])
    row = np.concatenate([np.zeros(0, np.int64), *rows.values()])
    found = chosen_rows(population, category, row, np.full(len(row), number, np.int32))
    return found.take(np.argsort(found.start_ns, kind="stable"))


def _thin(part: ChosenRequests, most: int, rng: np.random.Generator) -> ChosenRequests:
    """Draw at most `most` requests of a group: cut the requests, in order, into `most` pieces of equal weight
    and draw one in each piece; a request drawn for several pieces counts once.
    """
    reach = np.cumsum(np.maximum(part.weight, 0.0))
    points = (np.arange(most) + rng.random(most)) * (reach[-1] / most)
    return part.take(np.unique(np.minimum(np.searchsorted(reach, points, side="right"), len(part) - 1)))
