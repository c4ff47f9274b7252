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
    """Layout of rows of different lengths in one flat array; a cell is an element of the flat array."""

    first: I8
    """int64[rows]: index in the flat array of each row's first cell."""
    size: I8
    """int64[rows]: number of cells of each row."""

    @staticmethod
    def of(size: I8) -> Ragged:
        """Layout of rows without gaps. size: int64[rows], number of cells of each row."""
        return Ragged(np.cumsum(size) - size, size)

    @property
    def n_cells(self) -> int:
        """Number of cells of all rows."""
        return int(self.size.sum())

    def spread(self, values: npt.NDArray[Value]) -> npt.NDArray[Value]:
        """Repeat the value of each row for all cells of the row: [cells]. values: [rows]."""
        return np.repeat(values, self.size)

    def at(self, first: I8) -> I8:
        """int64[cells]: index of each cell in another flat array, in which row i begins at `first[i]`.
        first: int64[rows]."""
        return ranges(first, self.size)

    def chosen(self, rows: I8) -> tuple[Ragged, I8]:
        """Select rows: (layout of the selected rows without gaps, int64[cells of the selected rows] index of
        each cell in this layout)."""
        alone = Ragged.of(self.size[rows])
        return alone, alone.at(self.first[rows])

    def sums(self, values: npt.NDArray[Value], into: Ragged, row: I8) -> F8:
        """float64[cells of `into`]: sums, cell by cell, of the rows of this layout that go to the same row of
        the layout `into`. values: [cells]; row: int64[rows], row of `into` that each row is added to."""
        at = self.at(into.first[row])
        return np.bincount(at, np.asarray(values, dtype=np.float64), into.n_cells).astype(
            np.float64, copy=False
        )
