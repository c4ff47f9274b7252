"""How many heaps the threads of a process have, and whether they keep what is freed."""

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


POOL = """
import flowdiff.__main__ as script
def run(arguments):
    import pyarrow
    print(pyarrow.default_memory_pool().backend_name, end="")
script.run = run
script.main([])
"""


@pytest.mark.parametrize(
    ("outside", "pool"), [({}, "system"), ({"ARROW_DEFAULT_MEMORY_POOL": "mimalloc"}, "mimalloc")]
)
def test_arrow_allocates_from_the_heap_unless_it_is_set_otherwise(outside: dict[str, str], pool: str) -> None:
    """Memory that Arrow frees is then available to numpy and to the system, in every command."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("ARROW_")}
    env |= {"PYTHONPATH": os.pathsep.join(sys.path), **outside}
    done = subprocess.run([sys.executable, "-c", POOL], env=env, stdout=subprocess.PIPE, text=True)
    assert done.stdout == pool


ARRAYS = """
import resource, sys
import numpy
from stitch.heap import keep_freed
print(keep_freed())
def faults():
    arrays = [numpy.ones(1 << 21) for _ in range(8)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
first = faults()
print(faults() - first)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the GNU C library's")
@pytest.mark.parametrize(("outside", "is_kept"), [({}, True), ({"MALLOC_MMAP_THRESHOLD_": "131072"}, False)])
def test_arrays_take_what_was_freed(outside: dict[str, str], is_kept: bool) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    env |= {"PYTHONPATH": os.pathsep.join(sys.path), "NUMPY_MADVISE_HUGEPAGE": "0", **outside}
    done = subprocess.run(
        [sys.executable, "-c", ARRAYS], env=env, stdout=subprocess.PIPE, check=True, text=True
    )
    told, again = done.stdout.split()
    pages = 8 * (1 << 24) // os.sysconf("SC_PAGE_SIZE")
    assert told == str(is_kept)
    assert (int(again) < pages / 10) == is_kept
