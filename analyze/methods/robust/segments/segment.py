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
    """Who is affected, where a change is theirs alone."""

    where: Attributes
    """All of them hold."""
    alike: Attributes
    """Others that the same requests have."""
    rows: Mapping[int, I8]
    """Category -> rows of the segment's requests that could show it, of both periods, ascending."""
    hits: Mapping[int, I8]
    """Category -> those that do."""
    sites: tuple[int, ...]
    """Call sites at which it is, the leading one first."""
    operations: int
    """Operations of the component at which it is."""
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
