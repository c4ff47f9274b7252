"""Segment: requests that have a value of an attribute, or of two."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from schemas.arrays import I8

Attributes = tuple[tuple[str, str], ...]
"""(attribute, value)"""
_NONE = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False, slots=True)
class Segment:
    """Requests that a change is limited to."""

    where: Attributes
    """Values that a request must have, all of them."""
    alike: Attributes
    """Further values that the same requests have."""
    rows: Mapping[int, I8]
    """Category -> rows of its requests that could have the outcome, of both periods, ascending."""
    hits: Mapping[int, I8]
    """Category -> rows of those that have it."""
    sites: tuple[int, ...]
    """Call sites of the change, the leading one first."""
    operations: int
    """Number of operations of these call sites."""
    elsewhere: float
    """Change of the other requests there, in the unit of the change."""

    def rows_of(self, category: int) -> I8:
        """Give the rows of a category, of none none."""
        return self.rows.get(category, _NONE)

    def hits_of(self, category: int) -> I8:
        """Give the rows of a category that show it."""
        return self.hits.get(category, _NONE)

    @property
    def text(self) -> str:
        """`attribute = value and …`."""
        return " and ".join(f"{key} = {value}" for key, value in self.where)
