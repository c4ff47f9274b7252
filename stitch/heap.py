"""Configure the heap of the GNU C library, so that freed memory is reused; does nothing with other C
libraries.

By default, freed memory at the end of the heap and every array of some megabytes are returned to the system
at once, which clears each page again for the next array: a third of the CPU of work that goes through large
arrays one after the other.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Final

ARENA_MAX: Final = -8
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Numbers of the parameters M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of mallopt(3)."""
_KEPT: Final = 1 << 28
"""Maximum bytes of freed memory at the end of the heap that the process keeps instead of returning them to
the system."""
_LARGE: Final = 1 << 28
"""Bytes from which a freed array is returned to the system immediately: such arrays are few, and would leave
holes."""


def set_heap(parameter: int, value: int, variable: str, tunable: str) -> bool:
    """Set a parameter of mallopt(3), unless the environment sets it by `variable` or `tunable`; return True
    if it was set."""
    if variable in os.environ or tunable in os.environ.get("GLIBC_TUNABLES", ""):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform.startswith("linux") else None
    return mallopt is not None and bool(mallopt(parameter, value))


def keep_freed() -> bool:
    """Keep up to 256 MB of freed memory for later arrays; return True if this could be configured."""
    return set_heap(_MMAP_THRESHOLD, _LARGE, "MALLOC_MMAP_THRESHOLD_", "malloc.mmap_threshold") and set_heap(
        _TRIM_THRESHOLD, _KEPT, "MALLOC_TRIM_THRESHOLD_", "malloc.trim_threshold"
    )


def give_back() -> None:
    """Return free memory, Arrow's too, to the system; takes some milliseconds per gigabyte."""
    pool = getattr(sys.modules.get("pyarrow"), "default_memory_pool", None)  # none while it is imported
    if pool is not None:
        pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform.startswith("linux") else None
    if trim is not None:
        trim(0)
