"""A bound on what waits in memory to be sent."""

from __future__ import annotations

import threading


class Room:
    """So many bytes may be under way; one thing that is larger goes alone. Threads share it."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._used = 0
        self._changed = threading.Condition()

    def take(self, n_bytes: int) -> None:
        """Waits until there is room."""
        with self._changed:
            self._changed.wait_for(lambda: not self._used or self._used + n_bytes <= self._limit)
            self._used += n_bytes

    def give_back(self, n_bytes: int) -> None:
        """What was sent, or given up."""
        with self._changed:
            self._used -= n_bytes
            self._changed.notify_all()
