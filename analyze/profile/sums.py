"""Collect the rows of a profile's table category by category, adding up rows with equal keys."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from analyze.profile.profile import SCHEMAS, TABLES
from analyze.stats.sums import keyed_sums, numbered, totals
from schemas.arrays import F8, I8

_PENDING: Final = 1 << 20
"""Maximum number of rows collected before they are added up: 8 MB of row numbers."""
_APART: Final = 8
"""Parts of summed rows are merged when they have more rows than _PENDING times this factor."""
_SEVERAL: Final = 2
_FEW_WEIGHTS: Final = 8
"""Maximum number of distinct weights for which rows are counted by weight, instead of summing values."""
_SLOT, _PLACE = 16, 32
"""Bit offsets of slot and place in a row number: place << 32 | slot << 16 | bin."""
_LOW: Final = (1 << _SLOT) - 1
MOST_SLOTS: Final = 1 << (_PLACE - _SLOT)
"""Maximum number of slots of a profile: a row number has 16 bits for the slot."""


class _Part(NamedTuple):
    """Rows of a table that are added up: their row numbers are unique."""

    places: I8
    """int64[key columns without slot and bin, places]: keys, sorted, unique."""
    row: I8
    """int64[rows]: row numbers (place << 32 | slot << 16 | bin), ascending, unique."""
    values: list[F8]
    """Summed columns, float64[rows] each."""


class RowSums:
    """Accumulator for the rows of one table of a profile. Memory: proportional to the distinct keys.

    A *place* is a row's key without slot and bin. Places are numbered in the order of `places` calls, with
    duplicates, and renumbered in key order when rows are added up. Parts of summed rows are merged only when
    they are large: categories share few places, and merging after every million rows would cost a multiple.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.keys, self.values = TABLES[name]
        self._places: list[I8] = []
        self._n_places = 0
        self._counted: dict[float, list[I8]] = {}
        self._added: list[tuple[I8, list[F8]]] = []
        self._n_new = 0
        self._parts: list[_Part] = []

    def places(self, *key: I8 | int) -> I8:
        """int64[n]: numbers for n places, valid until the next call of `add` or `count`.

        key: the table's key columns without slot and bin; each int64[n], or one value for all.
        """
        sizes = [np.size(column) for column in key]
        columns = np.empty((len(key), 0 if 0 in sizes else max(sizes)), dtype=np.int64)
        for place, column in enumerate(key):
            columns[place] = column
        first = self._n_places
        self._places.append(columns)
        self._n_places += columns.shape[1]
        return np.arange(first, self._n_places)

    def add(self, places: I8, slots: I8, bins: I8 | int, values: F8) -> None:
        """Add rows. places (as returned by `places`), slots, bins: arrays that broadcast to one shape.
        values: float64[summed columns, *that shape]."""
        row = (places << _PLACE) + (slots << _SLOT) + bins
        self._added.append(
            (row.reshape(-1).astype(np.int64, copy=False), list(values.reshape(len(values), -1)))
        )
        self._n_new += row.size
        if self._n_new > _PENDING:
            self._settle()

    def count(self, places: I8, slots: I8, bins: I8, weight: F8, weights: F8) -> None:
        """Add rows with n = 1, w = weight, w2 = weight². Table `votes` only.

        places (as returned by `places`), slots, bins, weight: [rows]; weights: the distinct values of
        `weight`."""
        row = (places << _PLACE) + (slots << _SLOT) + bins
        if len(weights) > _FEW_WEIGHTS:
            self.add(places, slots, bins, np.stack([np.ones(len(weight)), weight, weight * weight]))
            return
        for one in weights.tolist():
            mine = row if len(weights) == 1 else row[weight == one]
            self._counted.setdefault(one, []).append(mine)
        self._n_new += row.size
        if self._n_new > _PENDING:
            self._settle()

    def _settle(self) -> None:
        """Add up the rows collected since the last call into a new `_Part`."""
        if not self._n_places:
            return
        names = np.concatenate(self._places, axis=1)
        numbers, first = numbered(names)
        parts = [(_renumbered(row, numbers), values) for row, values in self._added]
        for weight, rows in self._counted.items():
            row = _renumbered(np.concatenate(rows), numbers)
            row.sort()
            starts = np.flatnonzero(np.concatenate(([True], row[1:] != row[:-1])))
            n = (np.append(starts[1:], len(row)) - starts).astype(np.float64)
            parts.append((row[starts], [n, n * weight, n * weight * weight]))
        self._parts.append(_added_up(names[:, first], parts))
        self._places, self._n_places = [], 0
        self._counted, self._added, self._n_new = {}, [], 0
        apart = sum(len(part.row) for part in self._parts[1:])
        if apart > max(_APART * _PENDING, len(self._parts[0].row)):
            self._join()

    def _join(self) -> None:
        """Merge all parts into one."""
        if len(self._parts) < _SEVERAL:
            return
        names = np.concatenate([part.places for part in self._parts], axis=1)
        numbers, first = numbered(names)
        rows = []
        for part in self._parts:
            rows.append((_renumbered(part.row, numbers), part.values))
            numbers = numbers[part.places.shape[1] :]
        self._parts = [_added_up(names[:, first], rows)]

    def table(self) -> pa.Table:
        """The summed table, sorted by key, keys unique. Empties the accumulator."""
        schema = SCHEMAS[self.name]
        self._settle()
        self._join()
        if not self._parts:
            return schema.empty_table()
        ((places, row, values),) = self._parts
        self._parts = []
        place = row >> _PLACE
        names = iter(places)
        arrays = []
        for key in self.keys:
            to = schema.field(key).type.to_pandas_dtype()
            if key == "slot":
                column = (row >> _SLOT & _LOW).astype(to)
            else:
                column = (row & _LOW).astype(to) if key == "bin" else next(names).astype(to)[place]
            arrays.append(pa.array(column))
        return pa.table([*arrays, *(pa.array(column) for column in values)], schema=schema)


def _added_up(places: I8, parts: Sequence[tuple[I8, list[F8]]]) -> _Part:
    """Add up rows with equal row numbers. parts: (row numbers, summed columns); places: see `_Part`."""
    columns = zip(*(values for _, values in parts), strict=True)
    (row,), sums = keyed_sums(
        [np.concatenate([row for row, _ in parts])], [np.concatenate(column) for column in columns]
    )
    return _Part(places, row, sums)


def _renumbered(row: I8, numbers: I8) -> I8:
    new: I8 = numbers[row >> _PLACE] << _PLACE | row & ((1 << _PLACE) - 1)
    return new


Numbers = npt.NDArray[np.number] | npt.NDArray[np.bool_]
_AT_ONCE = 1 << 16
"""Maximum number of cells summed by one bincount, so that copies stay in a core's second-level cache."""


class Grouped:
    """Groups of rows with equal codes; there may be no rows."""

    def __init__(self, code: I8) -> None:
        self.order = np.argsort(code, kind="stable")
        ordered = code[self.order]
        self.starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1]))[: len(code)])
        self.codes = ordered[self.starts]
        self.sizes = np.append(self.starts[1:], len(code)) - self.starts
        self.place = np.empty(len(code), dtype=np.int64)
        """int64[rows]: index into `codes` of each row's code."""
        self.place[self.order] = np.repeat(np.arange(len(self.codes)), self.sizes)
        places, bounds = self.order.tolist(), [*self.starts.tolist(), len(code)]
        self.members = [places[a:b] for a, b in pairwise(bounds)]
        """[codes]: indices of the rows that have the code, ascending."""

    def sums(self, values: Numbers) -> F8:
        """float64[codes, columns]: sums of `values`, [rows, columns], over the rows of each code."""
        if len(self.codes) == len(values):
            single: F8 = values[self.order].astype(np.float64)
            return single
        if values.size <= _AT_ONCE:
            n = values.shape[1]
            cell = (self.place[:, None] * n + np.arange(n)).reshape(-1)
            return totals(cell, values.reshape(-1), len(self.codes) * n).reshape(-1, n)
        found = np.zeros((len(self.codes), values.shape[1]))
        for place, members in enumerate(self.members):
            for member in members:
                found[place] += values[member]
        return found
