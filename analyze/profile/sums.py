"""Collect the rows of a profile's table batch by batch, adding up rows with equal keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from analyze.profile.profile import SCHEMAS, TABLES
from analyze.stats.histograms import N_BINS
from analyze.stats.sums import keyed_sums, numbered
from schemas.arrays import F8, I8
from stitch.columnar.runs import run_starts

_PENDING: Final = 1 << 20
"""Maximum number of rows collected before those of equal keys are added up: 8 MB a column."""
_UNCOUNTED: Final = 1 << 23
"""Maximum number of requests collected before they are counted: 32 MB in four bytes each."""
_FEW_WEIGHTS: Final = 8
"""Maximum number of distinct weights for which requests are counted by weight, instead of summing values."""

_Numbered = tuple[I8, list[F8]]
"""(row numbers, summed columns) of some rows of a table."""


class RowSums:
    """Accumulator for the rows of one table of a profile.

    A place is a key without slot and bin. Places are numbered in advance, so that a row number, `(place *
    slots + slot) * N_BINS + bin`, is the same in all batches, and ascends in the order of the table: rows are
    sorted as integers, and nothing is renumbered. Memory: proportional to the distinct keys, and bounded for
    what is not added up yet.
    """

    def __init__(self, name: str, n_slots: int, keys: Sequence[I8]) -> None:
        """n_slots: number of slots of time. keys: key columns, without slot and bin, of all rows to come;
        they may be repeated."""
        self.name, self.n_slots = name, n_slots
        self.places, first = numbered(keys)
        """[rows of `keys`]: number of each key's place."""
        self._keys = [key[first] for key in keys]
        fits = len(first) * n_slots * N_BINS <= np.iinfo(np.uint32).max
        self._number: type = np.uint32 if fits else np.int64
        self._added: list[_Numbered] = []
        self._n_added = self._n_merged = 0
        """Number of rows of `_added`, and of those that were added up already."""
        self._uncounted: dict[float, list[npt.NDArray[np.integer]]] = {}
        """Weight -> row numbers of requests with this weight."""
        self._n_uncounted = 0

    def add(self, place: I8, slot: I8, bins: I8 | int, values: Sequence[F8]) -> None:
        """Add rows. place, slot, bins: int64[rows]. values: float64[rows] for each summed column."""
        self._add(np.asarray((place * self.n_slots + slot) * N_BINS + bins, dtype=np.int64), [*values])

    def count(self, place: I8, slot: I8, size: I8, bins: I8, weight: F8 | None, weights: F8) -> None:
        """Add rows with n = 1, w = weight, w2 = weight² for each request. Table `votes` only.

        place, slot, size: int64[n], place, slot and number of consecutive requests. bins: int64[requests].
        weights: the distinct weights; weight: float64[requests], None if there is only one.
        """
        if len(weights) > _FEW_WEIGHTS and weight is not None:
            row = np.repeat((place * self.n_slots + slot) * N_BINS, size) + bins
            self._add(row, [np.ones(len(weight)), weight, weight * weight])
            return
        code: npt.NDArray[np.integer] = np.repeat(
            ((place * self.n_slots + slot) * N_BINS).astype(self._number), size
        )
        code += bins.astype(self._number)
        for one in weights.tolist():
            self._uncounted.setdefault(one, []).append(code if weight is None else code[weight == one])
        self._n_uncounted += len(code)
        if self._n_uncounted > _UNCOUNTED:
            self._count()

    def _add(self, row: I8, values: list[F8]) -> None:
        self._added.append((row, values))
        self._n_added += len(row)
        if self._n_added > max(2 * self._n_merged, self._n_merged + _PENDING):
            self._added = [_added_up(self._added)]
            self._n_added = self._n_merged = len(self._added[0][0])

    def _count(self) -> None:
        """Count the requests with equal row numbers."""
        uncounted, self._uncounted, self._n_uncounted = self._uncounted, {}, 0
        for weight, parts in uncounted.items():
            row = np.concatenate(parts)
            row.sort()
            first = np.flatnonzero(run_starts(row))
            n = np.diff(first, append=len(row)).astype(np.float64)
            values = [n, n, n] if weight == 1 else [n, n * weight, n * weight * weight]
            self._add(row[first].astype(np.int64), values)

    def table(self) -> pa.Table:
        """The summed table, sorted by key, keys unique. Empties the accumulator."""
        schema, (names, _) = SCHEMAS[self.name], TABLES[self.name]
        self._count()
        added, self._added, self._n_added, self._n_merged = self._added, [], 0, 0
        if not added:
            return schema.empty_table()
        row, values = _added_up(added)
        run = row // N_BINS
        first = np.flatnonzero(run_starts(run))
        size = np.diff(first, append=len(run))
        place, slot = np.divmod(run[first], self.n_slots)
        keys = [*(key[place] for key in self._keys), slot]
        types = [schema.field(key).type for key in names]
        columns = [
            np.repeat(key.astype(to.to_pandas_dtype()), size) for key, to in zip(keys, types, strict=False)
        ]
        if len(names) > len(keys):
            columns.append((row % N_BINS).astype(types[-1].to_pandas_dtype()))
        arrays = [*map(pa.array, columns)]
        for value in values:
            # Weights of 1 are counted once.
            same = value is values[0] and len(arrays) > len(names)
            arrays.append(arrays[len(names)] if same else pa.array(value))
        return pa.table(arrays, schema=schema)


def _added_up(parts: Sequence[_Numbered]) -> _Numbered:
    """Sums of the rows with equal numbers, ascending by number."""
    if len(parts) == 1 and (parts[0][0][1:] > parts[0][0][:-1]).all():
        return parts[0]
    columns = zip(*(values for _, values in parts), strict=True)
    (row,), sums = keyed_sums([np.concatenate([row for row, _ in parts])], [*map(np.concatenate, columns)])
    return row, sums


_MANY_COLUMNS: Final = 256
"""Minimum number of columns for which rows are added one by one: `reduceat` goes down each column, where
every number is a cache miss (3,000 rows of 2,000: 9 times as long)."""


class Grouped:
    """Groups of rows with equal codes; there may be no rows."""

    def __init__(self, code: I8) -> None:
        self.order = np.argsort(code, kind="stable")
        ordered = code[self.order]
        self.starts = np.flatnonzero(run_starts(ordered))
        self.codes = ordered[self.starts]
        self.sizes = np.diff(self.starts, append=len(code))

    def sums(self, values: npt.NDArray[np.number] | npt.NDArray[np.bool_]) -> F8:
        """float64[codes, columns]: sums of `values`, [rows, columns], over the rows of each code."""
        if len(self.codes) == len(values) or values.shape[1] < _MANY_COLUMNS:
            ordered: F8 = values[self.order].astype(np.float64)
            return ordered if len(self.codes) == len(values) else np.add.reduceat(ordered, self.starts)
        found = np.zeros((len(self.codes), values.shape[1]))
        places = np.repeat(np.arange(len(self.codes)), self.sizes)
        for place, row in zip(places.tolist(), self.order.tolist(), strict=True):
            found[place] += values[row]
        return found
