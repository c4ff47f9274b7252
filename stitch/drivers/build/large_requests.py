"""Cap requests of very many events while they are read, before the kernel takes all of them at once to do so.

The kernel keeps the first `max_events_per_flow` events of a request in time. Of a request with over twice as
many, the ids of twice as many are chosen here, those with the earliest event, and only events with these ids
are read: the kernel finds the same first ones among them, unless more than so many have one and the same
time. The choice depends on the events alone, not on their order or on memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from schemas.arrays import B1, I8, U8
from stitch.closing import NEVER
from stitch.columnar.hashing import hash_rows
from stitch.columnar.runs import run_starts, whole
from stitch.drivers.build.request_plan import Planned, among
from stitch.drivers.partition import hash_texts

_TELLING: Final = ["ts_ns", "breadcrumb", "seq", "component", "point"]
"""Columns that tell records without an id apart."""
COLUMNS: Final = ["kind", "request_id", "id", *_TELLING]
"""Columns by which events are chosen, and those that a reader of the log needs."""
MARGIN: Final = 2
"""Ids that are kept, by the number of events that the kernel keeps."""
_HELD: Final = 4
"""Ids that are held until they are sorted, by the number of those that are kept."""


class LargeRequests:
    """Events to be kept of requests with more than MARGIN times `most` events."""

    def __init__(self, requests: Planned, most: int) -> None:
        """requests: of a window, ascending; most: events that the kernel keeps of one."""
        large = requests[requests["rows"] > MARGIN * most]
        self.requests = large
        """Those that are large, ascending."""
        self.n_dropped = 0
        """Events that were left out."""
        self._keys: U8 = np.ascontiguousarray(large["key"])
        self._most = MARGIN * most
        self._chosen: U8 = np.zeros(0, np.uint64)

    def capped(self, requests: Planned) -> Planned:
        """Requests with the number of events that are about kept of each."""
        found = requests.copy()
        found["rows"] = np.minimum(found["rows"], self._most)
        return found

    def choose(self, tables: Iterable[tuple[pa.Table, U8]]) -> None:
        """Choose among the events of large requests. tables: COLUMNS, and the request of each event."""
        key, at, ids = np.zeros(0, np.uint64), np.zeros(0, np.int64), np.zeros(0, np.uint64)
        held = _HELD * self._most * len(self._keys)
        for table, own in tables:
            times = whole(table["ts_ns"]).fill_null(NEVER).to_numpy()
            key, at = np.concatenate((key, own)), np.concatenate((at, times))
            ids = np.concatenate((ids, _ids(table)))
            if len(key) > held:
                key, at, ids = self._first(key, at, ids)
        key, _, ids = self._first(key, at, ids)
        self._chosen = np.sort(key ^ ids)

    def _first(self, key: U8, at: I8, ids: U8) -> tuple[U8, I8, U8]:
        """Each id once, with its earliest time, and of each request the first `most` of them."""
        order = np.lexsort((at, ids, key))
        order = order[run_starts(key[order], ids[order])] if len(order) else order
        order = order[np.lexsort((ids[order], at[order], key[order]))]
        first = np.searchsorted(key[order], self._keys)
        rank = np.arange(len(order)) - first[np.searchsorted(self._keys, key[order])]
        order = order[rank < self._most]
        return key[order], at[order], ids[order]

    def kept(self, tables: Iterable[tuple[pa.Table, U8]]) -> Iterator[tuple[pa.Table, U8]]:
        """Events and the request of each, without those that were not chosen."""
        for table, key in tables:
            rows = np.flatnonzero(among(self._keys, key))
            if not len(rows):
                yield table, key
                continue
            own = table if len(rows) == len(key) else table.take(pa.array(rows))
            kept: B1 = np.ones(len(key), np.bool_)
            kept[rows] = among(self._chosen, key[rows] ^ _ids(own))
            self.n_dropped += int(np.count_nonzero(~kept))
            if kept.any():
                yield table.filter(pa.array(kept)), key[kept]


def _ids(events: pa.Table) -> U8:
    """[events] hash of the id; without one, of what tells records apart."""
    events = events.select(["id", *_TELLING]).combine_chunks()
    ids = hash_rows(events.select(["id"]), hash_texts)
    missing = whole(events["id"]).is_null().to_numpy(zero_copy_only=False)
    if missing.any():
        own = events.filter(pa.array(missing)).combine_chunks()
        ids[missing] = hash_rows(own.select(_TELLING))
    return ids
