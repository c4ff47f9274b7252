"""Cache of immutable pages, limited by bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from flowdiff.serve.answer import Whole


class KeptPages:
    """Least-recently-used cache of documents, limited in bytes; thread-safe."""

    def __init__(self, most_bytes: int) -> None:
        """most_bytes: maximum total size of the cached documents, bytes."""
        self._most = most_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, Whole] = OrderedDict()
        self._bytes = 0

    def get(self, key: str, make: Callable[[], Whole]) -> Whole:
        """Document with this key, from the cache, else made by `make` and cached.

        Two threads may make the same document at once.
        """
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        made = make()
        with self._lock:
            if key not in self._kept and len(made.body) <= self._most:
                self._kept[key] = made
                self._bytes += len(made.body)
            while self._bytes > self._most:
                _, oldest = self._kept.popitem(last=False)
                self._bytes -= len(oldest.body)
        return made
