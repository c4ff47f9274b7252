"""Collect the rows of a profile's table category by category, adding up rows with equal keys."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from analyze.profile.profile import SCHEMAS, TABLES
from analyze.stats.sums import keyed_sums, numbered, totals
from schemas.arrays import F8, I8
from stitch.columnar.runs import ranges, run_starts

_PENDING: Final = 1 << 20
"""Maximum number of rows collected before those of equal keys are added up: 8 MB of numbers."""
_APART: Final = 8
"""Parts of summed rows are merged when they have more rows than _PENDING times this factor."""
_FEW_WEIGHTS: Final = 8
"""Maximum number of distinct weights for which rows are counted by weight, instead of summing values."""
_SLOT, _PLACE = 16, 32
"""Bit offsets of slot and place in a row number: place << 32 | slot << 16 | bin."""
_LOW: Final = (1 << _SLOT) - 1
MOST_SLOTS: Final = 1 << (_PLACE - _SLOT)
"""Maximum number of slots of a profile: a row number has 16 bits for the slot."""

Key = Sequence[I8 | int]
"""Key columns of places: an array [places], or one value for all."""


class _Part(NamedTuple):
    """Rows of a table that are added up: their row numbers are unique."""

    places: I8
    """int64[key columns without slot and bin, places]: keys. Before parts are added up, a key may stand at
    several places, and a place may have no row."""
    row: I8
    """int64[rows]: row numbers (place << 32 | slot << 16 | bin), ascending, unique."""
    values: Sequence[F8]
    """Summed columns, float64[rows] each."""


class RowSums:
    """Accumulator for the rows of one table of a profile. Memory: proportional to the distinct keys.

    Each batch of rows becomes a part, whose places are numbered in the order given. Rows of a place that one
    part has alone, as most call graphs have, are never added up, but laid beside the others in the table.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.keys, self.values = TABLES[name]
        self._pending: list[_Part] = []
        self._parts: list[_Part] = []
        self._n_merged = 0
        """Number of rows of `_parts` when they were last merged."""

    def add(self, key: Key, place: I8, slot: I8, bins: I8 | int, values: Sequence[F8]) -> None:
        """Add rows. key: key columns of the places. place: int64[rows], index of each row's place. slot,
        bins: int64[rows]. values: float64[rows] for each summed column."""
        number = np.asarray((place << _PLACE) + (slot << _SLOT) + bins, dtype=np.int64)
        (row,), sums = keyed_sums([number], values)
        self._collect(key, row, sums)

    def count(self, key: Key, place: I8, slot: I8, bins: I8, weight: F8, weights: F8) -> None:
        """Add rows with n = 1, w = weight, w2 = weight². Table `votes` only; see `add`.

        weight: float64[rows]; weights: its distinct values. Fastest if rows are ordered by place and slot.
        """
        if len(weights) > _FEW_WEIGHTS:
            self.add(key, place, slot, bins, [np.ones(len(weight)), weight, weight * weight])
            return
        # A run of one place and slot takes fewer bits than both, and few bits are sorted faster.
        starts = run_starts(place, slot)
        of_run = (place[starts] << _PLACE) + (slot[starts] << _SLOT)
        to = np.uint32 if len(of_run) <= _LOW else np.int64
        code = ((np.cumsum(starts) - 1) << _SLOT | bins).astype(to)
        rows, counts = [], []
        for one in weights.tolist():
            mine = np.sort(code if len(weights) == 1 else code[weight == one])
            first = np.flatnonzero(run_starts(mine))
            n = np.diff(first, append=len(mine)).astype(np.float64)
            rows.append(of_run[mine[first] >> _SLOT] + (mine[first] & _LOW))
            counts.append([n, n, n] if one == 1 else [n, n * one, n * one * one])
        (row,), sums = keyed_sums([_joined(rows)], [_joined(column) for column in zip(*counts, strict=True)])
        self._collect(key, row, sums)

    def _collect(self, key: Key, row: I8, sums: Sequence[F8]) -> None:
        if not len(row):
            return
        places = np.stack(np.broadcast_arrays(*key)).astype(np.int64, copy=False)
        self._pending.append(_Part(places, row, sums))
        if _n_rows(self._pending) > _PENDING:
            self._settle()

    def _settle(self) -> None:
        """Add up the pending rows of places that several parts have; merge all parts once they have doubled,
        so that a row is merged O(log rows) times."""
        self._parts += _added_up(self._pending)
        self._pending = []
        if _n_rows(self._parts) - self._n_merged > max(_APART * _PENDING, self._n_merged):
            self._parts = _added_up(self._parts)
            self._n_merged = _n_rows(self._parts)

    def table(self) -> pa.Table:
        """The summed table, sorted by key, keys unique. Empties the accumulator."""
        schema = SCHEMAS[self.name]
        parts = _added_up([*self._parts, *self._pending])
        self._parts, self._pending, self._n_merged = [], [], 0
        if not parts:
            return schema.empty_table()
        names = np.concatenate([part.places for part in parts], axis=1)
        number, first = numbered(names)
        # Each part's rows of a place stay together, and places go in the order of their keys.
        size = np.concatenate([np.bincount(p.row >> _PLACE, minlength=p.places.shape[1]) for p in parts])
        begin = np.empty(len(number), dtype=np.int64)
        begin[first] = np.cumsum(size[first]) - size[first]
        cuts = np.cumsum([part.places.shape[1] for part in parts[:-1]])
        at = [ranges(*of) for of in zip(np.split(begin, cuts), np.split(size, cuts), strict=True)]

        def column(name: str, values: Sequence[npt.NDArray[Any]]) -> pa.Array:
            found = np.empty(int(size.sum()), dtype=schema.field(name).type.to_pandas_dtype())
            for to, of in zip(at, values, strict=True):
                found[to] = of
            return pa.array(found)

        arrays = []
        for place, key in enumerate(self.keys):
            if key == "slot":
                arrays.append(column(key, [part.row >> _SLOT & _LOW for part in parts]))
            elif key == "bin":
                arrays.append(column(key, [part.row & _LOW for part in parts]))
            else:
                to = schema.field(key).type.to_pandas_dtype()
                arrays.append(pa.array(np.repeat(names[place, first].astype(to), size[first])))
        for place, name in enumerate(self.values):
            # Weights of 1 are counted once.
            if place and all(part.values[place] is part.values[0] for part in parts):
                arrays.append(arrays[len(self.keys)])
            else:
                arrays.append(column(name, [part.values[place] for part in parts]))
        return pa.table(arrays, schema=schema)


def _joined(arrays: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _n_rows(parts: Sequence[_Part]) -> int:
    return sum(len(part.row) for part in parts)


def _added_up(parts: Sequence[_Part]) -> list[_Part]:
    """Parts without common places: what each part has alone, then the sums of what several have."""
    if not parts:
        return []
    names = np.concatenate([part.places for part in parts], axis=1)
    number, first = numbered(names)
    if len(first) == len(number):
        return [*parts]
    shared = np.bincount(number)[number] > 1
    alone, common, begin = [], [], 0
    for part in parts:
        mine = slice(begin, begin := begin + part.places.shape[1])
        is_shared, place = shared[mine], part.row >> _PLACE
        rest = np.cumsum(~is_shared) - 1
        in_bin = part.row & ((1 << _PLACE) - 1)
        rows = np.flatnonzero(~is_shared[place])
        if not is_shared.any():
            alone.append(part)
            continue
        if len(rows):
            row = rest[place[rows]] << _PLACE | in_bin[rows]
            alone.append(_Part(part.places[:, ~is_shared], row, _taken(part.values, rows)))
        rows = np.flatnonzero(is_shared[place])
        common.append((number[mine][place[rows]] << _PLACE | in_bin[rows], _taken(part.values, rows)))
    columns = zip(*(values for _, values in common), strict=True)
    (row,), sums = keyed_sums([_joined([row for row, _ in common])], [_joined(column) for column in columns])
    places, row_place = np.unique(row >> _PLACE, return_inverse=True)
    row = row_place << _PLACE | row & ((1 << _PLACE) - 1)
    return [*alone, _Part(names[:, first[places]], row, sums)]


def _taken(columns: Sequence[F8], rows: I8) -> list[F8]:
    """Select rows of each column. A column that is the same object as `columns[0]` also gives the same object
    as that does, so that weights of 1 need no copy."""
    first = columns[0][rows]
    return [first if column is columns[0] else column[rows] for column in columns]


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
