"""How many heaps the threads of a process have, and whether they keep what is freed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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


COMPARED = """
import sys
import flowdiff.__main__ as script
try:
    script.main(["diff", *sys.argv[1:]])
except SystemExit as ended:
    import pyarrow
    sys.stderr.write(f"{ended.code} {pyarrow.default_memory_pool().backend_name}")
"""


def test_a_comparison_leaves_the_pool_that_is_set(tmp_path: Path) -> None:
    """`diff` imports and compares in the process itself; 29 requests of one moment are too few to tell: 3."""
    traces = (
        '{"traceId": "%032x", "spanId": "%016x", "name": "get", "kind": 2,'
        ' "startTimeUnixNano": "1767571200000000000", "endTimeUnixNano": "1767571200001000000"}'
    )
    files = []
    for name in ("before", "after"):
        spans = ", ".join(traces % (n, n) for n in range(1, 30))
        files.append(tmp_path / f"{name}.json")
        files[-1].write_text(f'{{"resourceSpans": [{{"scopeSpans": [{{"spans": [{spans}]}}]}}]}}')
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "ARROW_DEFAULT_MEMORY_POOL": "mimalloc"}
    done = subprocess.run([sys.executable, "-c", COMPARED, *files], env=env, capture_output=True, text=True)
    assert done.stderr == "3 mimalloc", done.stdout


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


HUGE_PAGES = """
from stitch.heap import avoid_huge_pages
avoid_huge_pages()
import numpy
array = numpy.ones(1 << 27, numpy.uint8)
print(sum("hg" in line.split() for line in open("/proc/self/smaps") if line.startswith("VmFlags")))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux's")
@pytest.mark.parametrize("setting", [None, "1"])
def test_arrays_do_not_ask_for_huge_pages_unless_it_is_set_otherwise(setting: str | None) -> None:
    env = {name: value for name, value in os.environ.items() if name != "NUMPY_MADVISE_HUGEPAGE"}
    env |= {"PYTHONPATH": os.pathsep.join(sys.path)}
    env |= {} if setting is None else {"NUMPY_MADVISE_HUGEPAGE": setting}
    done = subprocess.run([sys.executable, "-c", HUGE_PAGES], env=env, stdout=subprocess.PIPE, check=True)
    assert (int(done.stdout) > 0) is (setting == "1")
