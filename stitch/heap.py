"""Tell the heap of the GNU C library how to work; other C libraries are left alone.

By default what is freed at the end of the heap, and every array of some megabytes, goes back to the system at
once, which clears each page again when the next array asks for it: a third of the CPU of work that goes
through large arrays one after the other.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Final

ARENA_MAX: Final = -8
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of mallopt(3)."""
_KEPT: Final = 1 << 28
"""Bytes at the end of the heap that stay with the process when they are freed."""
_LARGE: Final = 1 << 28
"""Arrays of so many bytes go back one by one: there are few, and they leave holes."""


def set_heap(parameter: int, value: int, variable: str, tunable: str) -> bool:
    """Set a parameter; tell whether it is so now. What the environment says stays."""
    if variable in os.environ or tunable in os.environ.get("GLIBC_TUNABLES", ""):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform.startswith("linux") else None
    return mallopt is not None and bool(mallopt(parameter, value))


def keep_freed() -> bool:
    """Keep up to 256 MB of what is freed for the next arrays; tell whether it will be."""
    return set_heap(_MMAP_THRESHOLD, _LARGE, "MALLOC_MMAP_THRESHOLD_", "malloc.mmap_threshold") and set_heap(
        _TRIM_THRESHOLD, _KEPT, "MALLOC_TRIM_THRESHOLD_", "malloc.trim_threshold"
    )


def give_back() -> None:
    """Give what is free back to the system; what is asked for next takes new pages."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform.startswith("linux") else None
    if trim is not None:
        trim(0)
