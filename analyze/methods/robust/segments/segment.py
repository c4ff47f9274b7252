"""Segment: the requests with one attribute value, or with two."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from schemas.arrays import I8

Attributes = tuple[tuple[str, str], ...]
"""Attribute values that hold together: (attribute, value) pairs."""
_NONE = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False, slots=True)
class Segment:
    """Requests, with one or two attribute values, to which a change is limited."""

    where: Attributes
    """Attribute values that define the segment; its requests have all of them."""
    alike: Attributes
    """Further attribute values that almost exactly the same requests have."""
    rows: Mapping[int, I8]
    """Index of a category -> ascending row indices of the segment's requests that could have the outcome
    (failing, slow), in both periods."""
    hits: Mapping[int, I8]
    """Index of a category -> ascending row indices of the segment's requests that have the outcome."""
    sites: tuple[int, ...]
    """Indices of the call sites that show the change, the leading one first."""
    operations: int
    """Number of distinct operations of `sites`."""
    elsewhere: float
    """Change of the requests outside the segment, in the unit of the change."""

    def rows_of(self, category: int) -> I8:
        """Row indices of a category's requests in the segment; empty if there are none."""
        return self.rows.get(category, _NONE)

    def hits_of(self, category: int) -> I8:
        """Row indices of a category's requests in the segment that have the outcome; empty if there are
        none."""
        return self.hits.get(category, _NONE)

    @property
    def text(self) -> str:
        """Text of the attribute values: `attribute = value and …`."""
        return " and ".join(f"{key} = {value}" for key, value in self.where)
