"""How long a query may compute."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Timer


@dataclass(slots=True)
class TimeLimit:
    """Seconds of one query's computing; the time in which somebody reads its rows is not counted.

    `clock` gives seconds from anywhere, `stop` is called from another thread when they are used up.
    """

    seconds: float
    clock: Callable[[], float]
    stop: Callable[[], None]
    struck: bool = False
    """Whether it stopped the query."""
    _left: float = field(init=False)

    def __post_init__(self) -> None:
        self._left = self.seconds

    @contextmanager
    def running(self) -> Iterator[None]:
        """Around a part of the query."""
        timer = Timer(max(self._left, 0.0), self._strike)
        timer.daemon = True
        started = self.clock()
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            # A thread left at the end of the process would keep DuckDB's objects, which it complains about.
            timer.join()
            self._left -= self.clock() - started

    def _strike(self) -> None:
        self.struck = True
        self.stop()
