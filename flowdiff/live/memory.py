"""Keep a process within its memory for months: one heap, what is free goes back, lanes get what is left.

By default each thread gets a heap of its own of the GNU C library, with holes that only it can fill. These
grow under a steady load while what is used does not, and a backlog takes a fifth more. And allocators keep
what is freed, in pieces: within minutes as much as is in use, beside the budget.
"""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from schemas.errors import ConfigError
from stitch import heap
from stitch.heap import ARENA_MAX, set_heap

EVERY_S: Final = 1.0
"""Between times at which memory goes back to the system."""
BUFFERS: Final = 160 * 2**20
"""What work takes however little lanes hold, beside the process that has read nothing yet: 103 to 155 MB were
seen. Fetches and decodes on their way, a segment, code that is loaded then, what is free and not returned."""
HELD_SHARE: Final = 0.5
"""Lanes hold so much of the rest: for each byte that they hold, stitching, encoding and what is remembered of
closed requests took up to three quarters of one."""
LEAST_HELD: Final = 32 * 2**20
"""With 12 MB, 1,586 of 40,001 requests of a backlog that does not fit were published in two pieces: more came
late than is remembered of closed requests."""
STEP: Final = 16 * 2**20
"""The least memory that is asked for is a multiple of this, one more than was just enough: no two starts take
exactly the same."""


def lanes_share(memory_bytes: int, program_bytes: int) -> int:
    """Bytes that lanes may hold together so that the process takes `memory_bytes` at most.

    `program_bytes` is what the process took before it read anything. Raises ConfigError where that leaves
    nothing to work with.
    """
    held = int((memory_bytes - program_bytes - BUFFERS) * HELD_SHARE)
    if held < LEAST_HELD:
        least = (-(-(program_bytes + BUFFERS + int(LEAST_HELD / HELD_SHARE)) // STEP) + 1) * STEP
        raise ConfigError(
            f"live.memory is {memory_bytes // 2**20}MB, and the process takes {program_bytes // 2**20} MB "
            "before it reads anything.",
            remedy=f"Set live.memory to {least // 2**20}MB or more.",
        )
    return held


def resident_bytes() -> int:
    """Memory that this process takes now; where the system does not say so, the most that it took so far."""
    known = Path("/proc/self/statm")
    if known.exists():
        return int(known.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def share_one_heap() -> bool:
    """Whether they will. To be called before libraries are loaded that begin threads, as numpy's does.

    What the environment says stays; other C libraries are left alone.
    """
    return set_heap(ARENA_MAX, 1, "MALLOC_ARENA_MAX", "malloc.arena_max")


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
    heap.give_back()
