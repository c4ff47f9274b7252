"""Run tasks in processes of this machine, which end with the process that started them.

A task is a function of a module with its arguments; both, and its result, are pickled. A process with threads
cannot be forked safely. So the starter spawns one process, which imports the modules of the first task and
forks the others before it starts a thread (a fork server): imports cost time and memory only once. Threads
that libraries start on import tolerate a fork: OpenBLAS ends its threads before it, and jemalloc's thread,
from Arrow, works under locks that jemalloc takes around the fork; nothing here allocates from jemalloc. A
thread of the starter waits for each process, so that a process that dies fails its own task, at once. (The
standard library's process pool hung when a process was killed while others started; its fork server survives
its starter, and keeps an old environment.) Every process holds the reading end of a pipe that is never
written to: the writing end closes when the starter ends, for whatever reason, and then the process exits.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

import pyarrow as pa

from schemas.errors import LakeError

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")
_SPAWN: Final = get_context("spawn")
_SHARED: Final[ContextVar[Executor | None]] = ContextVar("shared processes", default=None)
_ORPHANED: Final = 1
"""Exit code of a process whose starter has ended."""


def cores(quota: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """Number of CPU cores that this process may use, rounded up. quota: file with the limit of a
    container."""
    n = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        allowed, period = quota.read_text().split()
    except OSError:  # no such quota on this system
        return n
    return n if allowed == "max" else max(1, min(n, -(-int(allowed) // int(period))))


def room_for(process_bytes: int, limit: Path = Path("/sys/fs/cgroup/memory.max")) -> int:
    """Number of processes of `process_bytes` each that fit into half of the memory, at least one; the other
    half is for the starting process and other programs. limit: file with the memory limit of a container."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        allowed = limit.read_text().strip()
    except OSError:  # no such limit on this system
        allowed = "max"
    return max(1, (memory if allowed == "max" else min(memory, int(allowed))) // 2 // process_bytes)


@contextmanager
def worker_processes(n: int) -> Iterator[Executor]:
    """Context manager: executor of `n` processes, which are started with the first task; inside
    `shared_processes`, the executor of the shared processes.

    An exception in the block ends the processes even during tasks. A task raises LakeError if its process
    died: killed, or out of memory.
    """
    shared = _SHARED.get()
    if shared is not None:
        yield shared
        return
    orphaned, starter = _SPAWN.Pipe(duplex=False)
    workers = _Workers(n, orphaned)
    try:
        with orphaned, starter:
            yield workers
            workers.shutdown()
    finally:
        workers.shutdown(cancel_futures=True)


@contextmanager
def shared_processes(n: int) -> Iterator[None]:
    """Context manager in which all `worker_processes` blocks use the same `n` processes, as starting
    processes takes 1 s of CPU."""
    with worker_processes(n) as pool:
        before = _SHARED.set(pool)
        try:
            yield
        finally:
            _SHARED.reset(before)


def map_in_order(pool: Executor, do: Callable[[A], T], items: Iterable[A], most: int) -> Iterator[T]:
    """Yield the results of `do` for the items, in order; calls run concurrently. most: maximum number of
    pending calls."""
    under_way: deque[Future[T]] = deque()
    for one in items:
        under_way.append(pool.submit(do, one))
        if len(under_way) >= most:
            yield under_way.popleft().result()
    while under_way:
        yield under_way.popleft().result()


class _Workers(Executor):
    """Executor in which each thread has a process that runs its tasks."""

    def __init__(self, n: int, orphaned: Connection) -> None:
        self._n = n
        self._orphaned = orphaned
        self._threads = ThreadPoolExecutor(n, thread_name_prefix="worker")
        self._own = threading.local()
        self._starting = threading.Lock()
        self._server: SpawnProcess | None = None
        self._pipes: list[Connection] = []
        self._unused: list[Connection] = []
        """Pipes to processes that no thread uses yet."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a call in a process; return a future with its result."""
        return self._threads.submit(self._run, fn, args, kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let the processes finish their tasks and end; after an error in `worker_processes` they have
        already ended."""
        self._threads.shutdown(wait, cancel_futures=cancel_futures)
        for tasks in self._pipes:
            tasks.close()
        if self._server is not None:
            self._server.join()

    def _run(self, fn: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
        """Run a task in the process of this thread, and return its result."""
        if not hasattr(self._own, "tasks"):
            with self._starting:
                if self._server is None:
                    self._start(fn)
                self._own.tasks = self._unused.pop()
        try:
            self._own.tasks.send((fn, args, kwargs))
            result, error = self._own.tasks.recv()
        except (EOFError, OSError) as ended:
            raise LakeError(
                "A worker process ended before its work was done: killed, or out of memory.",
                remedy="Run it again, with fewer --workers if memory is short.",
            ) from ended
        if error is not None:
            raise error
        done: T = result
        return done

    def _start(self, fn: Callable[..., object]) -> None:
        """Start the fork server and all processes, for tasks like `fn`."""
        pipes = [_SPAWN.Pipe() for _ in range(self._n)]
        self._pipes = [ours for ours, _ in pipes]
        self._unused = [*self._pipes]
        theirs = [end for _, end in pipes]
        # Unpickling `fn` imports its module.
        server = _SPAWN.Process(target=_fork, args=(theirs, self._orphaned, fn), daemon=True)
        # The keyboard interrupts the starter, which ends the others: they inherit a mask.
        resource_tracker.ensure_running()  # its start unblocks the signal again
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            server.start()
            self._server = server
        finally:
            for end in theirs:
                end.close()


def _fork(pipes: list[Connection], orphaned: Connection, _imported: object) -> None:
    """Fork one process for each pipe, and wait until all of them have ended."""
    # Arrow's default pool takes a third more CPU here, in page faults.
    pa.set_memory_pool(pa.system_memory_pool())
    # Freeing every module at exit takes as long as importing it, and copies shared pages.
    atexit.register(os._exit, 0)
    gc.freeze()  # imported objects stay in shared pages: no collection writes to them
    forked = []
    for position, tasks in enumerate(pipes):
        pid = os.fork()
        if not pid:
            for other in pipes[position + 1 :]:
                other.close()
            _serve(tasks, orphaned)
            break
        forked.append(pid)
        tasks.close()
    else:
        for pid in forked:
            os.waitpid(pid, 0)


def _serve(tasks: Connection, orphaned: Connection) -> None:
    """Run tasks in this forked process, one after the other, until the starting process closes the pipe."""
    # A service manager sends this signal to all processes of a service, and the starter may need this one
    # until its last commit. It ends with the starter.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    threading.Thread(target=_leave_with, args=(orphaned,), name="starter", daemon=True).start()
    while True:
        try:
            fn, args, kwargs = tasks.recv()
        except EOFError:
            return
        done: tuple[Any, Exception | None]
        try:
            done = fn(*args, **kwargs), None
        except Exception as error:  # noqa: BLE001 - handed to the starter, which raises it
            error.add_note(traceback.format_exc())
            done = None, error
        tasks.send(done)


def _leave_with(orphaned: Connection) -> None:
    orphaned.poll(None)  # until its other end is closed
    os._exit(_ORPHANED)
