"""Fixtures and options shared by every kind of test."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest
from fixtures import folder_times, left_behind, session_end
from hypothesis import settings
from oracles import fork_server

from flowdiff.__main__ import GC_THRESHOLDS

MEMORY, ROOM_BYTES = Path("/dev/shm"), 4 * 2**30
"""A file system in memory, and what the suite leaves there at the most, twice."""
if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK):
    # Lakes are synced file by file. No test takes the power away, so none needs to wait for a disk.
    shm = os.statvfs(MEMORY)
    if shm.f_bavail * shm.f_frsize >= ROOM_BYTES and not shm.f_flag & os.ST_NOEXEC:
        os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)

REPOSITORY = Path(__file__).resolve().parent.parent
BESIDE = f"{REPOSITORY.parent}/"
OURS = tuple(
    place
    for place in (f"{REPOSITORY}/", f"{BESIDE}.", sys.base_prefix, sys.prefix, tempfile.gettempdir())
    if f"{place}/".startswith(BESIDE)
)
"""What above the clone is no neighbour: the clone, hidden folders (caches), Python, temporary files."""


def _only_the_clone(event: str, arguments: tuple[object, ...]) -> None:
    """Refuse to open what lies beside the clone: nobody else has it. DuckDB's opens are not seen."""
    if event != "open" or not isinstance(arguments[0], str | bytes):
        return
    text = os.fsdecode(arguments[0])
    if ".." in text:
        text = os.path.abspath(text)  # noqa: PTH100 - `resolve` follows links, and opens nothing less
    if text.startswith(BESIDE) and not text.startswith(OURS):
        raise PermissionError(f"{text} lies beside the clone, and tests have the clone only")


if BESIDE != "//":
    sys.addaudithook(_only_the_clone)

RUNS_TESTS: set[int] = set()
"""Processes that run tests. What tests start is none of them, and neither is a fork."""


def _limits_in_children_only(event: str, arguments: tuple[object, ...]) -> None:
    """Refuse a resource limit on a process that runs tests: its log and its reports are under it, too."""
    limits = event == "resource.setrlimit" or (
        event == "resource.prlimit" and arguments[0] in (0, os.getpid())
    )
    if limits and os.getpid() in RUNS_TESTS:
        raise PermissionError("resource limits are for processes that a test starts")


sys.addaudithook(_limits_in_children_only)

# Even where the environment forbids byte code: hundreds of processes are started, here and as workers, and to
# compile all modules anew takes each of them half a CPU second.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Where the environment forbids buffers, a program that wants them could not be forked from one that has none.
os.environ.pop("PYTHONUNBUFFERED", None)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell that runs the tests in the background lets them, and all that they start, ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Threads of OpenMP that have nothing to do sleep: where more processes run than there are cores, they would
# take as much time by waiting as by working.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def pytest_configure(config: pytest.Config) -> None:
    """Load what watches over all tests."""
    for plugin in (session_end, left_behind, folder_times):
        config.pluginmanager.register(plugin)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return two workers more than there are cores: many tests wait for a server, or for a process."""
    return (os.cpu_count() or 1) + 2


@pytest.hookimpl(wrapper=True)
def pytest_sessionstart(session: pytest.Session) -> Generator[None, object, object]:
    """Fork the workers from one process, which has collected: each of them would import all tests."""
    config = session.config
    RUNS_TESTS.add(os.getpid())
    if config.getoption("numprocesses", None) and sys.platform == "linux":
        with fork_server.forked_tests([*map(str, config.invocation_params.args)]):
            return (yield)
    return (yield)


def pytest_collection() -> None:
    """Collect no garbage: to collect tests makes half a million objects, and hardly any garbage."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Keep what was collected out of the garbage collections of all tests."""
    gc.enable()
    gc.set_threshold(*GC_THRESHOLDS)  # as commands do, which some tests run here
    gc.freeze()
    atexit.register(gc.unfreeze)  # extension modules complain at the exit of what was not collected


# Loaded before any test module, whose `@examples` take the rest from here. `repeatable` is what everyone
# runs: the same examples everywhere and always, a quarter of what each test is worth. `make fuzz` asks for
# `fuzz`: all of them, from fresh seeds, failures kept.
settings.register_profile("repeatable", derandomize=True, database=None, deadline=None, max_examples=25)
settings.register_profile("fuzz", derandomize=False, deadline=None, print_blob=True, max_examples=100)
settings.load_profile("repeatable")


def pytest_addoption(parser: pytest.Parser) -> None:
    # Here and not in tests/golden: pytest asks only the first conftest files for options.
    parser.addoption(
        "--rewrite-golden",
        action="store_true",
        help="write what the golden tests find to tests/golden/expected",
    )
    parser.addini("leaves_nothing", "beginnings of tests that fail for what they leave behind", type="args")
    parser.addini("patience_s", "seconds in which what a test leaves behind may end by itself", default="10")


@pytest.fixture(scope="session")
def repository() -> Path:
    """Root of the checkout."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real traces, which nobody here wrote; see the README there."""
    return REPOSITORY / "tests" / "data"
