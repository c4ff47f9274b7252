"""Run tasks in threads of this process, or in the calling thread."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
SWITCH_SECONDS: Final = 0.0005
"""Switch interval of Python's lock, s: how long a thread that returns from numpy or Arrow waits for the lock.
With the default of 5 ms two threads kept fewer cores busy: 0.2 s of an import of 3.4 s."""


class Here(Executor):
    """Executor that runs each task immediately, in the calling thread."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a call immediately, and return its finished future. Raises what the call raises."""
        done: Future[T] = Future()
        done.set_result(fn(*args, **kwargs))
        return done


@contextmanager
def task_threads(n: int) -> Iterator[Executor]:
    """Context manager: executor of `n` threads; if `n` is 1, the calling thread. Threads hand over Python's
    lock sooner than by default."""
    if n == 1:
        yield Here()
        return
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        with ThreadPoolExecutor(n, thread_name_prefix="task") as pool:
            yield pool
    finally:
        sys.setswitchinterval(before)
