"""Cache the log segments that lanes of this process wrote and whose windows are not built yet, so that a
builder in this process need not read them back."""

from __future__ import annotations

import threading

from stitch.lake.event_log import LogRows


class YoungSegments:
    """Cache of log segments: name -> rows. Thread-safe: lanes add segments, a builder in another thread reads
    them.

    The cache has a maximum size; the builder reads segments that did not fit from the lake.
    """

    def __init__(self, capacity_bytes: int) -> None:
        self._capacity_bytes = capacity_bytes
        self._rows: dict[str, LogRows] = {}
        self._lock = threading.Lock()
        self.bytes = 0

    def add(self, name: str, rows: LogRows, freed_bytes: int = 0) -> None:
        """Cache the rows of a committed segment if the capacity allows it. freed_bytes: what the caller held
        of these events when the capacity was set, and holds no longer."""
        size = _size(rows)
        with self._lock:
            if self.bytes + size <= self._capacity_bytes + freed_bytes:
                self._rows[name] = rows
                self.bytes += size

    def limit(self, capacity_bytes: int) -> None:
        """Set the capacity, and remove the latest segments while they exceed it."""
        with self._lock:
            self._capacity_bytes = capacity_bytes
            while self._rows and self.bytes > capacity_bytes:
                _, rows = self._rows.popitem()
                self.bytes -= _size(rows)

    def has(self, name: str) -> bool:
        """True if a segment is cached."""
        with self._lock:
            return name in self._rows

    def get(self, name: str) -> LogRows | None:
        """Rows of the segment with this name; None if it is not cached."""
        with self._lock:
            return self._rows.get(name)

    def names(self) -> list[str]:
        """Names of the cached segments."""
        with self._lock:
            return [*self._rows]

    def forget(self, name: str) -> None:
        """Remove the segment with this name from the cache, if it is there."""
        with self._lock:
            rows = self._rows.pop(name, None)
            if rows is not None:
                self.bytes -= _size(rows)

    def clear(self) -> None:
        """Remove all segments from the cache."""
        with self._lock:
            self._rows, self.bytes = {}, 0


def _size(rows: LogRows) -> int:
    """Bytes of a segment's events, keys and flags."""
    size: int = rows.events.nbytes + 9 * rows.events.num_rows
    return size
