"""Segment: requests with one attribute value, or with two."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from schemas.arrays import I8

Attributes = tuple[tuple[str, str], ...]
"""Conjunction of (attribute, value) pairs."""
_NONE = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False, slots=True)
class Segment:
    """Requests that a change is limited to."""

    where: Attributes
    """Values that each request in the segment has (conjunction)."""
    alike: Attributes
    """Other attribute values that the requests of the segment share."""
    rows: Mapping[int, I8]
    """Category -> ascending rows of requests in the segment that could have the outcome, both periods."""
    hits: Mapping[int, I8]
    """Category -> ascending rows of requests in the segment with the outcome."""
    sites: tuple[int, ...]
    """Call sites of the change, the leading one first."""
    operations: int
    """Number of distinct operations of `sites`."""
    elsewhere: float
    """Change of the requests outside the segment, in the unit of the change."""

    def rows_of(self, category: int) -> I8:
        """Rows of a category; empty if it has none."""
        return self.rows.get(category, _NONE)

    def hits_of(self, category: int) -> I8:
        """Rows of a category with the outcome."""
        return self.hits.get(category, _NONE)

    @property
    def text(self) -> str:
        """Text of the conjunction: `attribute = value and …`."""
        return " and ".join(f"{key} = {value}" for key, value in self.where)
