"""Attribute segment: the requests that have one attribute value, or two."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from schemas.arrays import I8

Attributes = tuple[tuple[str, str], ...]
"""(attribute, value) pairs that all hold for a request."""
_NONE = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False, slots=True)
class Segment:
    """Attribute segment (requests with one or two attribute values) that changed more than the other
    requests."""

    where: Attributes
    """(attribute, value) pairs, one or two, that define the segment; a request belongs to it if it has all of
    them."""
    alike: Attributes
    """(attribute, value) pairs that are not in `where`, but occur in almost exactly the same requests."""
    rows: Mapping[int, I8]
    """Index of a category (call graph) -> ascending row indices of the segment's requests that could have the
    outcome (fail at a component, or be slow), in both periods."""
    hits: Mapping[int, I8]
    """Index of a category (call graph) -> ascending row indices of the segment's requests that have the
    outcome (fail at a component, or are slow), in both periods."""
    sites: tuple[int, ...]
    """Indices of the call sites at which the change shows, the site with the largest change first."""
    operations: int
    """Number of distinct operations of `sites`."""
    elsewhere: float
    """Change (problem minus reference) of the requests outside the segment: share of requests in [0, 1] for
    failures, µs per visit for times."""

    def rows_of(self, category: int) -> I8:
        """Row indices, in the category, of the segment's requests that could have the outcome; empty if
        none."""
        return self.rows.get(category, _NONE)

    def hits_of(self, category: int) -> I8:
        """Row indices, in the category, of the segment's requests that have the outcome; empty if none."""
        return self.hits.get(category, _NONE)

    @property
    def text(self) -> str:
        """Definition of the segment as text: `attribute = value and attribute = value`."""
        return " and ".join(f"{key} = {value}" for key, value in self.where)
