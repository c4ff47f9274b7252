"""The rows of a profile's table while it is made: collected category by category, added up as they grow."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from analyze.sites.keyed_sums import keyed_sums
from analyze.sites.profile import SCHEMAS, TABLES

I8 = npt.NDArray[np.int64]
F8 = npt.NDArray[np.float64]

_PENDING: Final = 1 << 20
"""Rows that are added up at a time: 8 MB of keys."""
_SLOT, _PLACE = 16, 32
"""A row's number: place << 32 | slot << 16 | bin."""
_LOW: Final = (1 << _SLOT) - 1


class RowSums:
    """Rows of one table. A *place* is the key without slot and bin, numbered here. Memory: distinct keys."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.keys, self.values = TABLES[name]
        self._places: dict[tuple[int, ...], int] = {}
        self._counted: dict[float, list[I8]] = {}
        self._n_counted = 0
        self._parts: list[tuple[I8, F8]] = []
        self._n_parts = 0

    def place(self, *key: int) -> int:
        """Number of a place."""
        return self._places.setdefault(key, len(self._places))

    def add(self, places: I8, slots: I8, bins: I8 | int, values: F8) -> None:
        """Add rows; places, slots and bins broadcast to one shape, values [columns, *that shape]."""
        row = (places << _PLACE) + (slots << _SLOT) + bins
        self._parts.append((row.reshape(-1).astype(np.int64, copy=False), values.reshape(len(values), -1)))
        self._n_parts += row.size
        if self._n_parts > 4 * _PENDING:
            self._compress()

    def count(self, places: I8, slots: I8, bins: I8, weight: float) -> None:
        """Add one request of a weight a row: to `n`, `w` and `w2`."""
        row = (places << _PLACE) + (slots << _SLOT) + bins
        self._counted.setdefault(weight, []).append(row.reshape(-1))
        self._n_counted += row.size
        if self._n_counted > _PENDING:
            self._settle()

    def _settle(self) -> None:
        """Counted rows become sums."""
        for weight, rows in self._counted.items():
            row = np.concatenate(rows)
            row.sort()
            starts = np.flatnonzero(np.concatenate(([True], row[1:] != row[:-1])))
            n = np.diff(starts, append=len(row)).astype(np.float64)
            self._parts.append((row[starts], np.stack([n, n * weight, n * weight * weight])))
            self._n_parts += len(starts)
        self._counted = {}
        self._n_counted = 0
        if self._n_parts > 4 * _PENDING:
            self._compress()

    def _compress(self) -> None:
        row, values = self._joined()
        self._parts = [(row, values)]
        self._n_parts = 0

    def _joined(self) -> tuple[I8, F8]:
        row = np.concatenate([row for row, _ in self._parts])
        values = np.concatenate([values for _, values in self._parts], axis=1)
        self._parts = []
        (row,), sums = keyed_sums([row], list(values))
        return row, np.stack(sums)

    def table(self) -> pa.Table:
        """The table: sorted by key, each key once. What was collected is gone afterwards."""
        schema = SCHEMAS[self.name]
        self._settle()
        if not self._parts:
            return schema.empty_table()
        row, values = self._joined()
        # Places were numbered as they came.
        names = np.array(list(self._places), dtype=np.int64).reshape(len(self._places), -1)
        ranked = np.lexsort(names.T[::-1])
        rank = np.empty(len(ranked), dtype=np.int64)
        rank[ranked] = np.arange(len(ranked))
        order = np.argsort(rank[row >> _PLACE] << _PLACE | row & ((1 << _PLACE) - 1), kind="stable")
        row = row[order]
        place = row >> _PLACE
        columns = {"slot": row >> _SLOT & _LOW, "bin": row & _LOW}
        wide = iter(names.T)
        arrays = []
        for key in self.keys:
            column = columns[key] if key in columns else next(wide)[place]
            arrays.append(pa.array(column.astype(schema.field(key).type.to_pandas_dtype())))
        arrays += [pa.array(column[order]) for column in values]
        return pa.table(arrays, schema=schema)
