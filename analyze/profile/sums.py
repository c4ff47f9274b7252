"""The rows of a profile's table while it is made: collected category by category, added up as they grow."""

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
"""Rows that are added up at a time: 8 MB of keys."""
_APART: Final = 8
"""Times as many, added up, lie apart before they are joined."""
_SEVERAL: Final = 2
_FEW_WEIGHTS: Final = 8
"""Weights that are counted one by one, which takes a sort without values."""
_SLOT, _PLACE = 16, 32
"""A row's number: place << 32 | slot << 16 | bin."""
_LOW: Final = (1 << _SLOT) - 1
MOST_SLOTS: Final = 1 << (_PLACE - _SLOT)
"""Slots of one profile: what the number has room for."""


class _Part(NamedTuple):
    """Rows that are added up."""

    places: I8
    """[key columns, places] in their order, each once."""
    row: I8
    """[rows] numbers, ascending, each once."""
    values: list[F8]
    """Columns, [rows] each."""


class RowSums:
    """Rows of one table. A *place* is the key without slot and bin. Memory: distinct keys.

    Places are numbered as they are reported, equal ones too; when rows are added up they are numbered anew,
    in their order. What was added up lies apart until there is much of it: most categories have places of
    their own, and to go through everything for each million of rows would take a multiple.
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
        """Numbers of places by their columns of the key, [places] or one value for all.

        They hold for the next call of `add` or `count`.
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
        """Add rows; places, slots and bins broadcast to one shape, values [columns, *that shape]."""
        row = (places << _PLACE) + (slots << _SLOT) + bins
        self._added.append(
            (row.reshape(-1).astype(np.int64, copy=False), list(values.reshape(len(values), -1)))
        )
        self._n_new += row.size
        if self._n_new > _PENDING:
            self._settle()

    def count(self, places: I8, slots: I8, bins: I8, weight: F8, weights: F8) -> None:
        """Add each row's 1, weight, weight² to `n`, `w`, `w2`; arrays are [rows], `weights` distinct."""
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
        """Add up what came; equal places get one number."""
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
        """Make one part of all."""
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
        """The table: sorted by key, each key once. What was collected is gone afterwards."""
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
    """Rows of equal number added up, in their order."""
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
"""Cells that are summed in one go: their copies stay in a core's second-level cache."""


class Grouped:
    """Rows of equal code; there may be none: a request of one record has no step."""

    def __init__(self, code: I8) -> None:
        self.order = np.argsort(code, kind="stable")
        ordered = code[self.order]
        self.starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1]))[: len(code)])
        self.codes = ordered[self.starts]
        self.sizes = np.append(self.starts[1:], len(code)) - self.starts
        self.place = np.empty(len(code), dtype=np.int64)
        """[rows] place of each row's code."""
        self.place[self.order] = np.repeat(np.arange(len(self.codes)), self.sizes)
        places, bounds = self.order.tolist(), [*self.starts.tolist(), len(code)]
        self.members = [places[a:b] for a, b in pairwise(bounds)]
        """[codes] rows of each, ascending."""

    def sums(self, values: Numbers) -> F8:
        """[codes, columns] sums of [rows, columns]."""
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
