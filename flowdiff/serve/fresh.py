"""Value that is read again once it is older than some seconds, for many threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from schemas.windows import NS_PER_SECOND

T = TypeVar("T")


class Fresh(Generic[T]):
    """Cached result of a function. An exception is not cached."""

    def __init__(self, read: Callable[[], T], fresh_seconds: float, clock_ns: Callable[[], int]) -> None:
        self._read = read
        self._fresh_ns = fresh_seconds * NS_PER_SECOND
        self._clock_ns = clock_ns
        self._lock = threading.Lock()
        self._kept: tuple[int, T] | None = None

    def __call__(self) -> T:
        """Value, read at most `fresh_seconds` ago. Raises what reading raises."""
        with self._lock:
            now_ns = self._clock_ns()
            if self._kept is None or now_ns - self._kept[0] > self._fresh_ns:
                self._kept = now_ns, self._read()
            return self._kept[1]

    def forget(self) -> None:
        """Read again at the next call."""
        with self._lock:
            self._kept = None
