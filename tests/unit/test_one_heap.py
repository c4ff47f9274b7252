"""How many heaps the threads of a process have."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

HEAPS = """
import ctypes, sys, threading
from flowdiff.live.memory import share_one_heap
print(share_one_heap(), flush=True)
import duckdb, numpy, pyarrow
ready, over = threading.Barrier(5), threading.Event()
def work():
    kept = [bytes(1_000 + number) for number in range(3_000)]
    ready.wait()
    over.wait()
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
ready.wait()
libc = ctypes.CDLL(None)
libc.fdopen.restype = ctypes.c_void_p
out = ctypes.c_void_p(libc.fdopen(1, b"w"))
libc.malloc_info(0, out)
libc.fflush(out)
over.set()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the GNU C library's")
@pytest.mark.parametrize(("outside", "is_shared"), [({}, True), ({"MALLOC_ARENA_MAX": "3"}, False)])
def test_threads_share_a_heap_unless_it_is_set_otherwise(outside: dict[str, str], is_shared: bool) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    env |= {"PYTHONPATH": os.pathsep.join(sys.path), **outside}
    done = subprocess.run(
        [sys.executable, "-c", HEAPS], env=env, stdout=subprocess.PIPE, check=True, text=True
    )
    told, _, info = done.stdout.partition("\n")
    assert told == str(is_shared)
    assert info.count("<heap nr=") == (1 if is_shared else 3)
