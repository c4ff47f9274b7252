"""Keep a process within its memory limit for months: one heap for all threads, freed memory returned to the
system, and a limit on the lanes.

By default the GNU C library gives each thread a heap of its own, whose holes only that thread can fill. These
grow under a steady load while memory in use does not, and a backlog takes a fifth more. Allocators also keep
freed memory: within minutes as much as is in use, on top of the budget.
"""

from __future__ import annotations

import math
import os
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from schemas.errors import ConfigError
from stitch.heap import ARENA_MAX, give_back, set_heap

if TYPE_CHECKING:
    from flowdiff.settings.ingest_config import HeapSettings

STEP: Final = 16 * 2**20
"""Step, bytes: in messages the minimum memory is rounded up to a multiple of it, plus one more step, as the
size of a process at its start varies."""


def lanes_share(memory_bytes: int, program_bytes: int, shares: HeapSettings) -> int:
    """Bytes that all lanes may use together so that the process stays within `memory_bytes`.

    program_bytes: memory of the process before it read anything. Raises ConfigError if too little remains.
    """
    taken = program_bytes + shares.buffers_bytes
    held = int((memory_bytes - taken) * shares.held_share)
    if held < shares.least_held_bytes:
        least = (-(-(taken + int(shares.least_held_bytes / shares.held_share)) // STEP) + 1) * STEP
        raise ConfigError(
            f"live.memory is {memory_bytes // 2**20}MB, and the process takes {program_bytes // 2**20} MB "
            "before it reads anything.",
            remedy=f"Set live.memory to {least // 2**20}MB or more.",
        )
    return held


def resident_bytes() -> int:
    """Memory that this process uses now, bytes; if the system does not report that, the peak until now."""
    known = Path("/proc/self/statm")
    if known.exists():
        return int(known.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def share_one_heap() -> bool:
    """Make all threads share one heap; return True on success. Must be called before libraries that start
    threads, such as numpy, are loaded.

    Settings in the environment take precedence; other C libraries are not affected.
    """
    return set_heap(ARENA_MAX, 1, "MALLOC_ARENA_MAX", "malloc.arena_max")


@contextmanager
def giving_back(kept_bytes: float, kept_s: float = math.inf, every_s: float = 1.0) -> Iterator[None]:
    """Return freed memory to the system in a background thread while the block runs.

    A single return at the end would take many seconds. While the process uses more than `kept_bytes`, memory
    is returned at each check (every `every_s` seconds), else once per `kept_s` seconds.
    """
    over = threading.Event()

    def work() -> None:
        looks = 0
        while not over.wait(every_s):
            looks += 1
            if looks * every_s >= kept_s or resident_bytes() > kept_bytes:
                give_back()
                looks = 0

    thread = threading.Thread(target=work, name="spare memory", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
