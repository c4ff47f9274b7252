"""Ctrl-C while DuckDB computes."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Final, TypeVar

_Result = TypeVar("_Result")
_ASK_AGAIN_SECONDS: Final = 0.05
"""DuckDB forgets to stop where it is asked just before it begins."""


def run_interruptible(work: Callable[[], _Result], stop: Callable[[], None]) -> _Result:
    """Result of a part of a query; on Ctrl-C `stop` is called from another thread than the query's.

    It computes in a thread of its own: in the one that is told of Ctrl-C, DuckDB looks for it in some
    places only, and not while it computes the next batch. Raises what the work raises, KeyboardInterrupt.
    """
    with ThreadPoolExecutor(1, "query") as thread:
        part = thread.submit(work)
        try:
            wait([part])
        finally:
            while not part.done():
                stop()
                wait([part], _ASK_AGAIN_SECONDS)
    return part.result()
