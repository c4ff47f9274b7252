"""Rows of unlike length, one after the other in a flat array: the calls of many graphs, a cell a request.

For thousands of small matrices [nodes, requests] numpy takes longer to begin than to work. Laid flat, one
operation serves them all.
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
    """Cell at which each row begins."""
    size: I8
    """Cells of each row."""

    @staticmethod
    def of(size: I8) -> Ragged:
        """Lay out rows of given sizes without gaps."""
        return Ragged(np.cumsum(size) - size, size)

    @property
    def n_cells(self) -> int:
        """Cells of all rows, if they lie without gaps."""
        return int(self.size.sum())

    def spread(self, values: npt.NDArray[Value]) -> npt.NDArray[Value]:
        """[cells] the value of each cell's row, of values [rows]."""
        return np.repeat(values, self.size)

    def at(self, first: I8) -> I8:
        """[cells] cells of rows as long as these that begin elsewhere, at `first` [rows]."""
        return ranges(first, self.size)

    def chosen(self, rows: I8) -> tuple[Ragged, I8]:
        """(layout of some rows alone, [its cells] where they lie here)."""
        alone = Ragged.of(self.size[rows])
        return alone, alone.at(self.first[rows])

    def sums(self, values: npt.NDArray[Value], into: Ragged, row: I8) -> F8:
        """[cells of `into`] sums of values [cells], whose rows [rows] are those of `into` given."""
        at = self.at(into.first[row])
        return np.bincount(at, np.asarray(values, dtype=np.float64), into.n_cells).astype(
            np.float64, copy=False
        )
