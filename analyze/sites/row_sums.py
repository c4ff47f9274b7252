"""The rows of a profile's table while it is made: collected category by category, added up as they grow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from analyze.sites.keyed_sums import keyed_sums, numbered
from analyze.sites.profile import SCHEMAS, TABLES

I8 = npt.NDArray[np.int64]
F8 = npt.NDArray[np.float64]

_PENDING: Final = 1 << 20
"""Rows that are added up at a time: 8 MB of keys."""
_SLOT, _PLACE = 16, 32
"""A row's number: place << 32 | slot << 16 | bin."""
_LOW: Final = (1 << _SLOT) - 1


class RowSums:
    """Rows of one table. A *place* is the key without slot and bin. Memory: distinct keys.

    Places are numbered as they are told, equal ones too; when rows are added up they are numbered anew, in
    their order.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.keys, self.values = TABLES[name]
        self._places: list[I8] = []
        self._n_places = 0
        self._counted: dict[float, list[I8]] = {}
        self._parts: list[tuple[I8, F8]] = []
        self._n_new = 0

    def places(self, *key: I8 | int) -> I8:
        """Numbers of places by their columns of the key, [places] or one value for all.

        They hold for the next call of `add` or `count`.
        """
        columns = np.stack(np.broadcast_arrays(*key))
        first = self._n_places
        self._places.append(columns)
        self._n_places += columns.shape[1]
        return np.arange(first, self._n_places)

    def add(self, places: I8, slots: I8, bins: I8 | int, values: F8) -> None:
        """Add rows; places, slots and bins broadcast to one shape, values [columns, *that shape]."""
        row = (places << _PLACE) + (slots << _SLOT) + bins
        self._parts.append((row.reshape(-1).astype(np.int64, copy=False), values.reshape(len(values), -1)))
        self._n_new += row.size
        if self._n_new > _PENDING:
            self._settle()

    def count(self, places: I8, slots: I8, bins: I8, weights: Sequence[tuple[float, I8 | None]]) -> None:
        """Add one request a row, to `n`, `w` and `w2`; places [places, 1], slots [requests], bins of both.

        weights: (weight, the requests that have it; None: all).
        """
        for weight, chosen in weights:
            mine = slice(None) if chosen is None else chosen
            row = (places << _PLACE) + (slots[mine] << _SLOT) + bins[:, mine]
            self._counted.setdefault(weight, []).append(row.reshape(-1))
            self._n_new += row.size
        if self._n_new > _PENDING:
            self._settle()

    def _settle(self) -> None:
        """Add up what came; equal places get one number."""
        if not self._n_places:
            return
        names = np.concatenate(self._places, axis=1)
        numbers, first = numbered(names)
        parts = [(_renumbered(row, numbers), values) for row, values in self._parts]
        for weight, rows in self._counted.items():
            row = _renumbered(np.concatenate(rows), numbers)
            row.sort()
            starts = np.flatnonzero(np.concatenate(([True], row[1:] != row[:-1])))
            n = np.diff(starts, append=len(row)).astype(np.float64)
            parts.append((row[starts], np.stack([n, n * weight, n * weight * weight])))
        self._counted = {}
        (row,), sums = keyed_sums(
            [np.concatenate([row for row, _ in parts])],
            list(np.concatenate([values for _, values in parts], axis=1)),
        )
        self._parts = [(row, np.stack(sums))]
        self._places = [names[:, first]]
        self._n_places = len(first)
        self._n_new = 0

    def table(self) -> pa.Table:
        """The table: sorted by key, each key once. What was collected is gone afterwards."""
        schema = SCHEMAS[self.name]
        self._settle()
        if not self._parts:
            return schema.empty_table()
        ((row, values),) = self._parts
        self._parts = []
        place = row >> _PLACE
        columns = {"slot": row >> _SLOT & _LOW, "bin": row & _LOW}
        names = iter(self._places[0])
        arrays = []
        for key in self.keys:
            column = columns[key] if key in columns else next(names)[place]
            arrays.append(pa.array(column.astype(schema.field(key).type.to_pandas_dtype())))
        return pa.table([*arrays, *(pa.array(column) for column in values)], schema=schema)


def _renumbered(row: I8, numbers: I8) -> I8:
    new: I8 = numbers[row >> _PLACE] << _PLACE | row & ((1 << _PLACE) - 1)
    return new
