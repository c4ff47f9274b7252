"""Give tasks to threads of this process, or to none beside the one that asks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
SWITCH_SECONDS: Final = 0.0005
"""After which a thread that comes back from numpy or Arrow may have Python's lock: with the usual 5 ms two
threads kept fewer cores busy, 0.2 s of an import of 3.4."""


class Here(Executor):
    """Does each task at once, in the thread that asks for it."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """See Executor. Raises what the task raises."""
        done: Future[T] = Future()
        done.set_result(fn(*args, **kwargs))
        return done


@contextmanager
def task_threads(n: int) -> Iterator[Executor]:
    """Give so many threads that do tasks; one is the one that asks. Several hand on Python's lock sooner."""
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
