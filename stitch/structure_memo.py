"""Structures already described, by fingerprint: bounded, least recently used goes first."""

from __future__ import annotations

from collections import OrderedDict

from stitch.structure.describe import Structure


class StructureMemo:
    """Speeds up repeated batches; never changes a result, because a structure depends on its template only.

    At about 20 KB a structure of 48 spans the default bound is some 300 MB.
    """

    def __init__(self, capacity: int = 16_384) -> None:
        self._capacity = capacity
        self._known: OrderedDict[tuple[int, int], Structure] = OrderedDict()

    def get(self, fingerprint: tuple[int, int]) -> Structure | None:
        """The structure, or None; counts as a use."""
        structure = self._known.get(fingerprint)
        if structure is not None:
            self._known.move_to_end(fingerprint)
        return structure

    def put(self, fingerprint: tuple[int, int], structure: Structure) -> None:
        """Remember; forgets the least recently used one at the bound."""
        self._known[fingerprint] = structure
        if len(self._known) > self._capacity:
            self._known.popitem(last=False)
