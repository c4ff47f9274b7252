"""Memory that was freed goes back to the system once a minute: a process that runs for months must not keep
the peaks of every hour. Allocators keep what is freed in many threads, in pieces, and ask for more."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Final

import pyarrow as pa

EVERY_S: Final = 60.0


class SpareMemory:
    """Gives it back when it is time. Costs some milliseconds a gigabyte."""

    def __init__(self, now_s: float) -> None:
        self._given_s = now_s
        self._trim = _trim()

    def turn(self, now_s: float) -> None:
        """To be called often."""
        if now_s < self._given_s + EVERY_S:
            return
        self._given_s = now_s
        pa.default_memory_pool().release_unused()
        if self._trim is not None:
            self._trim(0)


def _trim() -> Callable[[int], int] | None:
    """`malloc_trim` of the GNU C library; others have none, or need none."""
    if not sys.platform.startswith("linux"):
        return None
    return getattr(ctypes.CDLL(None), "malloc_trim", None)
