"""Do work in the thread that asks for its result: schedules of live ingestion repeat exactly."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any


class InPlace(Executor):
    """Work is done where its result is asked for."""

    def submit(self, work: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        """See Executor."""
        return _Later(partial(work, *args, **named))


class _Later(Future[Any]):
    """Counts as done, and is done when it is asked for."""

    def __init__(self, work: Callable[[], Any]) -> None:
        super().__init__()
        self._do = work
        self.set_result(None)

    def result(self, timeout: float | None = None) -> Any:
        """See Future."""
        del timeout
        return self._do()
