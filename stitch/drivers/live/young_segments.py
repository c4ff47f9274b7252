"""Segments that lanes of this process wrote and whose windows are not built: a builder beside them need not
read these back.
"""

from __future__ import annotations

import threading

from stitch.lake.event_log import LogRows


class YoungSegments:
    """Rows of segments by name. Used by lanes, which add, and by a builder in another thread.

    Bounded: what does not fit is read from the lake.
    """

    def __init__(self, capacity_bytes: int) -> None:
        self._capacity_bytes = capacity_bytes
        self._rows: dict[str, LogRows] = {}
        self._lock = threading.Lock()
        self.bytes = 0

    def add(self, name: str, rows: LogRows) -> None:
        """Keep the rows of a segment that was committed, where there is room."""
        size = int(rows.events.nbytes) + 9 * rows.events.num_rows
        with self._lock:
            if self.bytes + size <= self._capacity_bytes:
                self._rows[name] = rows
                self.bytes += size

    def get(self, name: str) -> LogRows | None:
        """Rows of a segment; None where they must be read."""
        with self._lock:
            return self._rows.get(name)

    def names(self) -> list[str]:
        """Segments that are here."""
        with self._lock:
            return [*self._rows]

    def forget(self, name: str) -> None:
        """A segment whose windows are built, or that is gone."""
        with self._lock:
            rows = self._rows.pop(name, None)
            if rows is not None:
                self.bytes -= int(rows.events.nbytes) + 9 * rows.events.num_rows

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._rows, self.bytes = {}, 0
