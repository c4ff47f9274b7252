"""Keep the memory of a process that runs for months: one heap for all threads, and what is free goes back.

By default each thread gets a heap of its own of the GNU C library, with holes that only it can fill. These
grow under a steady load while what is used does not, and a backlog takes a fifth more. And allocators keep
what is freed, in pieces, so that the peaks of every hour would stay.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from typing import Final

_ARENA_MAX: Final = -8
"""Parameter of mallopt(3)."""
EVERY_S: Final = 60.0
"""Between times at which memory goes back to the system."""


def share_one_heap() -> bool:
    """Whether they will. To be called before libraries are loaded that begin threads, as numpy's does.

    What the environment says stays; other C libraries are left alone.
    """
    if "MALLOC_ARENA_MAX" in os.environ or "malloc.arena_max" in os.environ.get("GLIBC_TUNABLES", ""):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform.startswith("linux") else None
    return mallopt is not None and bool(mallopt(_ARENA_MAX, 1))


class SpareMemory:
    """Gives back what was freed, once a minute. Costs some milliseconds a gigabyte."""

    def __init__(self, now_s: float) -> None:
        self._given_s = now_s
        self._trim = _trim()

    def turn(self, now_s: float) -> None:
        """To be called often."""
        if now_s < self._given_s + EVERY_S:
            return
        self._given_s = now_s
        import pyarrow as pa  # not before the heap is shared

        pa.default_memory_pool().release_unused()
        if self._trim is not None:
            self._trim(0)


def _trim() -> Callable[[int], int] | None:
    """`malloc_trim` of the GNU C library; others have none, or need none."""
    if not sys.platform.startswith("linux"):
        return None
    return getattr(ctypes.CDLL(None), "malloc_trim", None)
