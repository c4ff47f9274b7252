"""Cached value that is read again in the background once it is a few seconds old; thread-safe."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from schemas.errors import FlowdiffError

T = TypeVar("T")
_LOG: Final = logging.getLogger("flowdiff.serve")


class Fresh(Generic[T]):
    """Cached result of a function, read again when it is too old.

    Callers get the last result while a new one is read; if the last result is too old they wait for the new
    one. Reading is limited to a share of the time: a slow function is called less often. An exception of the
    first reading is raised, and not cached; after an exception of a later reading the last result stays.
    """

    def __init__(
        self,
        read: Callable[[], T],
        fresh_seconds: float,
        stale_seconds: float,
        *,
        most_share: float = 0.1,
    ) -> None:
        """fresh_seconds: age at which the result is read again. stale_seconds: further age at which readers
        wait for the new result, and the longest wait, after which they get the last result. most_share:
        maximum share of the time spent on reading.
        """
        self._read = read
        self._fresh = fresh_seconds
        self._most_share = most_share
        self._stale = stale_seconds
        self._lock = threading.Lock()
        self._reading = threading.Lock()
        self._kept: tuple[float, float, T] | None = None
        """(Monotonic clock at the start of the last reading, its duration in seconds, its result); None
        before the first reading.
        """

    def __call__(self) -> T:
        """Return the last result.

        Waits for the first reading, and for the first reading after `forget`. Raises what the function
        raises.
        """
        kept = self._kept
        if kept is None:
            return self._waited_for()
        began, took, value = kept
        overdue = time.monotonic() - began - max(self._fresh, took / self._most_share)
        if overdue > 0 and self._reading.acquire(blocking=False):
            threading.Thread(target=self._read_again, daemon=True).start()
        if overdue <= self._stale:
            return value
        if self._reading.acquire(timeout=self._stale):  # the current reading has ended
            self._reading.release()
        kept = self._kept
        return self._waited_for() if kept is None else kept[2]

    def forget(self) -> None:
        """Discard the cached result: the next call waits for a new one."""
        with self._lock:
            self._kept = None

    def _waited_for(self) -> T:
        with self._lock:
            if self._kept is None:
                self._kept = self._timed()
            return self._kept[2]

    def _read_again(self) -> None:
        try:
            kept = self._timed()
            with self._lock:
                # After `forget` a newer value may have been read: keep it.
                if self._kept is not None and self._kept[0] <= kept[0]:
                    self._kept = kept
        except (FlowdiffError, OSError) as error:
            _LOG.warning("The lake cannot be read: %s", error)
            with self._lock:
                if self._kept is not None:
                    self._kept = time.monotonic(), self._kept[1], self._kept[2]
        finally:
            self._reading.release()

    def _timed(self) -> tuple[float, float, T]:
        began = time.monotonic()
        value = self._read()
        return began, time.monotonic() - began, value
