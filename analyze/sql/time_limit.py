"""How long a query may compute, and Ctrl-C while it does."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from threading import TIMEOUT_MAX
from typing import Final, TypeVar

_Result = TypeVar("_Result")
_ASK_AGAIN_SECONDS: Final = 0.05
"""DuckDB forgets to stop where it is asked just before it begins."""


@dataclass(slots=True)
class TimeLimit:
    """Seconds of one query's computing; the time in which somebody reads its rows is not counted.

    `clock` gives seconds from anywhere, `stop` is called from another thread than the query's, when they are
    used up or on Ctrl-C.
    """

    seconds: float
    clock: Callable[[], float]
    stop: Callable[[], None]
    struck: bool = False
    """Whether it stopped the query."""
    _left: float = field(init=False)

    def __post_init__(self) -> None:
        self._left = self.seconds

    def run(self, work: Callable[[], _Result]) -> _Result:
        """Result of a part of the query.

        It computes in a thread of its own: in the one that is told of Ctrl-C, DuckDB looks for it in some
        places only, and not while it computes the next batch. Raises what the work raises, KeyboardInterrupt.
        """
        started = self.clock()
        with ThreadPoolExecutor(1, "query") as thread:
            part = thread.submit(work)
            try:
                wait([part], min(max(self._left, 0.0), TIMEOUT_MAX))
                self.struck = not part.done()
            finally:
                while not part.done():
                    self.stop()
                    wait([part], _ASK_AGAIN_SECONDS)
                self._left -= self.clock() - started
        return part.result()
