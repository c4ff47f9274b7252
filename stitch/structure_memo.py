"""Structures already described, by fingerprint, as rows of the structures table."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import pyarrow as pa

from schemas.lake import STRUCTURES_SCHEMA
from stitch.graph.describe import Structure
from stitch.structures import structures_table

_MAX_CHUNKS = 64
"""Each batch with new structures adds a chunk; past this many they are copied into one."""


class StructureMemo:
    """Speeds up repeated batches; never changes a result, because a structure depends on its template only.

    Threads may share one: describing holds the interpreter lock anyway, so they take turns at no loss, and no
    structure is described twice. Bounded: when it would hold more than `capacity` structures it forgets all
    of them and starts again. A structure of 48 spans takes about 4 KB, so the default bound is some 70 MB.
    """

    def __init__(self, capacity: int = 16_384) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self._row: dict[tuple[int, int], int] = {}
        self._table = STRUCTURES_SCHEMA.empty_table()

    def rows(self, fingerprints: Sequence[tuple[int, int]], describe: Callable[[int], Structure]) -> pa.Table:
        """[fingerprints] rows of STRUCTURES_SCHEMA; `describe(i)` is asked for the unknown ones only."""
        with self._lock:
            unknown = [i for i, key in enumerate(fingerprints) if key not in self._row]
            if len(self._row) + len(unknown) > self._capacity:
                self._row.clear()
                self._table = STRUCTURES_SCHEMA.empty_table()
                unknown = list(range(len(fingerprints)))
            if unknown:
                new = structures_table(describe(i) for i in unknown)
                self._row.update(
                    (fingerprints[i], self._table.num_rows + place) for place, i in enumerate(unknown)
                )
                self._table = pa.concat_tables([self._table, new])
                if self._table["category"].num_chunks > _MAX_CHUNKS:
                    self._table = self._table.combine_chunks()
            return self._table.take(
                pa.array([self._row[key] for key in fingerprints], pa.int64())
            ).combine_chunks()
