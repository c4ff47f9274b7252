"""Cap requests with very many events while they are read, so that the kernel never holds all of them.

The kernel keeps the first `max_events_per_flow` events of a request by time. For a request with more than
MARGIN times as many events, this module selects the MARGIN × `max_events_per_flow` ids with the earliest
events and drops events with other ids. Among the remaining events the kernel finds the same first events,
unless too many have exactly the same time. The selection depends only on the set of events, not on their
order or on memory.
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
"""Columns whose combined hash identifies a record that has no id."""
COLUMNS: Final = ["kind", "request_id", "id", *_TELLING]
"""Columns that `LargeRequests.choose` needs, including those by which a reader of the log finds the events'
requests."""
MARGIN: Final = 2
"""Number of event ids kept per large request, as a multiple of the number of events that the kernel keeps."""
_HELD: Final = 4
"""Number of event ids buffered before they are sorted and truncated, as a multiple of the number of ids
kept."""


class LargeRequests:
    """Selection of the events that are kept of large requests: those with more than MARGIN × `most`
    events."""

    def __init__(self, requests: Planned, most: int) -> None:
        """requests: those of a window, ascending by key. most: maximum number of events per request that the
        kernel keeps."""
        large = requests[requests["rows"] > MARGIN * most]
        self.requests = large
        """Large requests (more than MARGIN × `most` events), ascending by key."""
        self.n_dropped = 0
        """Number of events dropped so far by `kept`."""
        self._keys: U8 = np.ascontiguousarray(large["key"])
        self._most = MARGIN * most
        self._chosen: U8 = np.zeros(0, np.uint64)

    def capped(self, requests: Planned) -> Planned:
        """Copy of `requests` in which `rows`, the number of events, is at most the number of ids kept per
        request."""
        found = requests.copy()
        found["rows"] = np.minimum(found["rows"], self._most)
        return found

    def among(self, keys: U8) -> LargeRequests:
        """Large requests whose key is in `keys`, before `choose`. keys: uint64[n]."""
        return LargeRequests(self.requests[np.isin(self._keys, keys)], self._most // MARGIN)

    def choose(self, tables: Iterable[tuple[pa.Table, U8]]) -> None:
        """Select the event ids to keep. tables: (columns COLUMNS, [events] request key) of all events of the
        large requests."""
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
        """Select the earliest MARGIN × `most` distinct ids of each request: (request key, earliest time in
        ns, id hash) of each id. key, at, ids: [events] request key, time in ns, id hash."""
        order = np.lexsort((at, ids, key))
        order = order[run_starts(key[order], ids[order])] if len(order) else order
        order = order[np.lexsort((ids[order], at[order], key[order]))]
        first = np.searchsorted(key[order], self._keys)
        rank = np.arange(len(order)) - first[np.searchsorted(self._keys, key[order])]
        order = order[rank < self._most]
        return key[order], at[order], ids[order]

    def kept(self, tables: Iterable[tuple[pa.Table, U8]]) -> Iterator[tuple[pa.Table, U8]]:
        """Yield (events, [events] request key) without those events of large requests whose id `choose` did
        not select."""
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
    """[events] hash of the event's id; for a record without an id, hash of its columns _TELLING."""
    events = events.select(["id", *_TELLING]).combine_chunks()
    ids = hash_rows(events.select(["id"]), hash_texts)
    missing = whole(events["id"]).is_null().to_numpy(zero_copy_only=False)
    if missing.any():
        own = events.filter(pa.array(missing)).combine_chunks()
        ids[missing] = hash_rows(own.select(_TELLING))
    return ids
