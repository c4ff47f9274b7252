"""Give tasks to threads of this process, or to none beside the one that asks."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Here(Executor):
    """Does each task at once, in the thread that asks for it."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """See Executor. Raises what the task raises."""
        done: Future[T] = Future()
        done.set_result(fn(*args, **kwargs))
        return done


def task_threads(n: int) -> Executor:
    """Give so many threads that do tasks; one is the one that asks."""
    return Here() if n == 1 else ThreadPoolExecutor(n, thread_name_prefix="task")
