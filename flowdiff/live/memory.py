"""Keep the memory of a process that runs for months: one heap for all threads, and what is free goes back.

By default each thread gets a heap of its own of the GNU C library, with holes that only it can fill. These
grow under a steady load while what is used does not, and a backlog takes a fifth more. And allocators keep
what is freed, in pieces: within minutes as much as is in use, beside the budget.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

_ARENA_MAX: Final = -8
"""Parameter of mallopt(3)."""
EVERY_S: Final = 1.0
"""Between times at which memory goes back to the system."""


def share_one_heap() -> bool:
    """Whether they will. To be called before libraries are loaded that begin threads, as numpy's does.

    What the environment says stays; other C libraries are left alone.
    """
    if "MALLOC_ARENA_MAX" in os.environ or "malloc.arena_max" in os.environ.get("GLIBC_TUNABLES", ""):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform.startswith("linux") else None
    return mallopt is not None and bool(mallopt(_ARENA_MAX, 1))


@contextmanager
def giving_back(every_s: float = EVERY_S) -> Iterator[None]:
    """Give back what was freed, again and again, in a thread: a commit at the end takes many seconds."""
    over = threading.Event()

    def work() -> None:
        while not over.wait(every_s):
            give_back()

    thread = threading.Thread(target=work, name="spare memory", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def give_back() -> None:
    """Give what is free back to the system. Costs some milliseconds a gigabyte."""
    import pyarrow as pa  # not before the heap is shared

    pa.default_memory_pool().release_unused()
    trim = _trim()
    if trim is not None:
        trim(0)


def _trim() -> Callable[[int], int] | None:
    """`malloc_trim` of the GNU C library; others have none, or need none."""
    if not sys.platform.startswith("linux"):
        return None
    return getattr(ctypes.CDLL(None), "malloc_trim", None)
