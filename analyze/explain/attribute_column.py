"""A column of the table of attributes: one value a request, numbers or levels, missing values among them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from schemas.arrays import B1, F8, I8

REQUEST: Final = "request"
"""`where` of what belongs to the request as a whole."""
OTHER: Final = "(other)"
"""The level of all levels that are not kept by name."""
MISSING: Final = "(missing)"
LONGEST_WORD: Final = 80
"""Characters of a level that are shown."""


@dataclass(frozen=True, slots=True)
class Column:
    """One attribute of every request of a table."""

    where: str
    """`component/point` of the node, a component, or `request`."""
    key: str
    values: F8
    """[requests]; NaN is missing. Of a text column the index into `levels`."""
    levels: tuple[str, ...] | None = None
    """Words of a text column; None for numbers."""
    aggregate: str = ""
    """Which of several values in a request: `first`, `last`, `min`, `max`, `mean`, `mode`, `n`, `distinct`,
    `change`; empty where a request has one."""
    passes: B1 | None = None
    """[requests] whether the request passes the node at all; None: all do. A value is missing where it does
    not, but that is structure, not a parameter."""

    @property
    def numeric(self) -> bool:
        """Whether values are numbers."""
        return self.levels is None

    @property
    def name(self) -> str:
        """`key` or `key (aggregate)`, for display."""
        return f"{self.key} ({self.aggregate})" if self.aggregate else self.key

    @property
    def text(self) -> str:
        """Name and place, for display: `count at nfs/READ`."""
        return self.name if self.where == REQUEST else f"{self.name} at {self.where}"

    def at(self, rows: B1 | I8) -> Column:
        """The column of some requests."""
        passes = None if self.passes is None else self.passes[rows]
        return replace(self, values=self.values[rows], passes=passes)


def shown(word: str) -> str:
    """A level as it is shown: one line, not too long."""
    line = " ".join(word.split()) if any(c in word for c in "\n\r\t") else word
    return line if len(line) <= LONGEST_WORD else line[: LONGEST_WORD - 1] + "…"


def text_column(
    where: str, key: str, codes: npt.NDArray[np.integer], words: tuple[str, ...], aggregate: str = ""
) -> Column:
    """A text column from codes (-1 missing) into `words`; only words that occur are kept, in their order."""
    used, place = np.unique(codes, return_inverse=True)
    first = int(np.searchsorted(used, 0))
    values = place.astype(np.float64) - first
    values[values < 0] = np.nan
    return Column(where, key, values, tuple(words[int(code)] for code in used[first:]), aggregate)
