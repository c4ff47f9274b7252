"""Rows of different lengths, one after the other in a flat array: e.g. calls of many graphs, a cell a
request.

For thousands of small matrices [nodes, requests] numpy's overhead exceeds the work. Flat, one operation
serves them all.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from schemas.arrays import F8, I8
from stitch.columnar.runs import ranges

Value = TypeVar("Value", bound=np.generic)


class Ragged(NamedTuple):
    """Layout of rows; arrays are [rows]."""

    first: I8
    """First cell of each row."""
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
        """[cells] value of each cell's row. values: [rows]."""
        return np.repeat(values, self.size)

    def at(self, first: I8) -> I8:
        """[cells] indices of cells in another array, where rows of the same lengths begin at `first`
        [rows]."""
        return ranges(first, self.size)

    def chosen(self, rows: I8) -> tuple[Ragged, I8]:
        """(layout of the selected rows alone, [its cells] index of each in this layout)."""
        alone = Ragged.of(self.size[rows])
        return alone, alone.at(self.first[rows])

    def sums(self, values: npt.NDArray[Value], into: Ragged, row: I8) -> F8:
        """[cells of `into`] sums of values [cells]; each row is added to row `row` [rows] of `into`."""
        at = self.at(into.first[row])
        return np.bincount(at, np.asarray(values, dtype=np.float64), into.n_cells).astype(
            np.float64, copy=False
        )
