"""All threads of a process that runs for months allocate from one heap of the GNU C library.

By default each thread gets a heap of its own, with holes that only it can fill. These grow under a steady
load while what is used does not, and a backlog takes a fifth more.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Final

_ARENA_MAX: Final = -8
"""Parameter of mallopt(3)."""


def share_one_heap() -> bool:
    """Whether they will. To be called before libraries are loaded that begin threads, as numpy's does.

    What the environment says stays; other C libraries are left alone.
    """
    if "MALLOC_ARENA_MAX" in os.environ or "malloc.arena_max" in os.environ.get("GLIBC_TUNABLES", ""):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform.startswith("linux") else None
    return mallopt is not None and bool(mallopt(_ARENA_MAX, 1))
