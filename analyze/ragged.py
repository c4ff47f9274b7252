"""Layout of rows of different lengths in one flat array, one row after the other: e.g. calls of many graphs,
with one cell per request."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from schemas.arrays import F8, I8
from stitch.columnar.runs import ranges

Value = TypeVar("Value", bound=np.generic)


class Ragged(NamedTuple):
    """Layout of rows in a flat array; first, size: int64[rows]."""

    first: I8
    """Index of the first cell of each row in the flat array."""
    size: I8
    """Number of cells of each row."""

    @staticmethod
    def of(size: I8) -> Ragged:
        """Lay out rows of given sizes without gaps."""
        return Ragged(np.cumsum(size) - size, size)

    @property
    def n_cells(self) -> int:
        """Number of cells of all rows."""
        return int(self.size.sum())

    def spread(self, values: npt.NDArray[Value]) -> npt.NDArray[Value]:
        """Repeat the value of each row for all of its cells: [cells]. values: [rows]."""
        return np.repeat(values, self.size)

    def at(self, first: I8) -> I8:
        """Indices, int64[cells], of the cells in another flat array in which rows of the same lengths begin
        at `first` [rows]."""
        return ranges(first, self.size)

    def chosen(self, rows: I8) -> tuple[Ragged, I8]:
        """Select rows: (layout of the selected rows without gaps, for each of its cells the index in this
        layout)."""
        alone = Ragged.of(self.size[rows])
        return alone, alone.at(self.first[rows])

    def sums(self, values: npt.NDArray[Value], into: Ragged, row: I8) -> F8:
        """Add the values [cells] of each row to row number `row` [rows] of the layout `into`: float64[cells
        of `into`]."""
        at = self.at(into.first[row])
        return np.bincount(at, np.asarray(values, dtype=np.float64), into.n_cells).astype(
            np.float64, copy=False
        )
