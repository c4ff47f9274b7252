"""The rows of a profile's table while it is made: collected category by category, added up as they grow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple, TypeVar

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
Number = TypeVar("Number", bound=np.generic)


_AT_ONCE = 1 << 16
"""Cells that are summed in one go: their copies stay in a core's second-level cache."""


@dataclass(frozen=True, slots=True)
class SlotRuns:
    """Arrays are [requests] in the order of their slots, or [slots] of those that have any."""

    order: I8
    """Rows of the category."""
    slot: I8
    weight: F8
    slots: I8
    """[slots]"""
    starts: I8
    """[slots] where each begins."""
    n: F8
    """[slots] requests, weight, squared weight."""
    w: F8
    w2: F8
    by_weight: tuple[tuple[float, I8 | None], ...]
    """(weight, places of the requests that have it); None: all of them."""
    as_stored: bool
    """Whether the order is that of the category, all of it."""

    @staticmethod
    def of(slot: I8, weight: F8) -> SlotRuns | None:
        """From the slot of each row of a category, -1 for none, and its weight; None where all have none."""
        order = np.flatnonzero(slot >= 0)
        if not len(order):
            return None
        of_slot = slot[order]
        if (of_slot[1:] < of_slot[:-1]).any():
            order = order[np.argsort(of_slot, kind="stable")]
            of_slot = slot[order]
        w = weight[order]
        starts = np.flatnonzero(np.concatenate(([True], of_slot[1:] != of_slot[:-1])))
        words = np.unique(w).tolist()
        by_weight = (
            ((words[0], None),) if len(words) == 1 else tuple((x, np.flatnonzero(w == x)) for x in words)
        )
        return SlotRuns(
            order,
            of_slot,
            w,
            of_slot[starts],
            starts,
            (np.append(starts[1:], len(order)) - starts).astype(np.float64),
            np.add.reduceat(w, starts),
            np.add.reduceat(w * w, starts),
            by_weight,
            len(order) == len(slot) and bool((order[1:] > order[:-1]).all()),
        )

    def ordered(self, values: npt.NDArray[Number]) -> npt.NDArray[Number]:
        """[..., requests] of values [..., rows of the category]."""
        if self.as_stored:
            return values
        ordered: npt.NDArray[Number] = values[..., self.order]
        return ordered

    def sums(self, values: Numbers) -> F8:
        """[slots] sums over the requests of each, which are in their order."""
        sums: F8 = np.add.reduceat(values.astype(np.float64), self.starts)
        return sums

    def weighted_sums(self, values: Numbers) -> F8:
        """[..., slots] weighted sums of [..., rows of the category], row by row: bounded memory."""
        if values.ndim == 1:
            return self.sums(self.ordered(values).astype(np.float64) * self.weight)
        one = self.by_weight[0][0] if len(self.by_weight) == 1 else None
        if values.size <= _AT_ONCE and one is not None:
            sums = np.add.reduceat(self.ordered(values), self.starts, axis=1, dtype=np.float64)
            return sums if one == 1 else sums * one
        found = np.empty((len(values), len(self.starts)))
        for place, row in enumerate(values):
            mine = self.ordered(row)
            if one is None:
                found[place] = np.add.reduceat(mine * self.weight, self.starts)
            else:
                np.add.reduceat(mine, self.starts, out=found[place], dtype=np.float64)
        return found if one is None or one == 1 else found * one

    def parts_of(self, values: I8, whole: I8, chosen: I8) -> F8:
        """[values, slots] weighted sums of the parts that values [values, rows] have of a whole [rows], over
        some requests (their places in this order)."""
        rows = self.order[chosen]
        slot = np.searchsorted(self.slots, self.slot[chosen])
        scale = self.weight[chosen] / whole[rows]
        n_slots = len(self.slots)
        if values.size <= _AT_ONCE:
            cell = np.arange(len(values))[:, None] * n_slots + slot
            parts = values[:, rows] * scale
            return totals(cell.reshape(-1), parts.reshape(-1), len(values) * n_slots).reshape(-1, n_slots)
        found = np.zeros((len(values), n_slots))
        if len(rows):
            for place, row in enumerate(values):
                found[place] = totals(slot, row[rows] * scale, n_slots)
        return found


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

    def means(self, values: Numbers) -> F8:
        """[codes, columns] means of `values` ([rows, columns]) over the rows that have each code."""
        sums = self.sums(values)
        return sums if len(self.codes) == len(values) else sums / self.sizes[:, None]
