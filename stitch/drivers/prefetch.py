"""Run an iterator in a thread of its own, a bounded number of items ahead of its consumer."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterator
from typing import Final, TypeVar

T = TypeVar("T")

_POLL_SECONDS: Final = 0.1
"""How soon the thread notices that nobody reads any more."""


class _End:
    """Last thing in the queue; carries what ended the source."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


def prefetch(source: Iterator[T], ahead: int) -> Generator[T, None, None]:
    """The items of `source`, in order. An exception of the source is raised at its place.

    At most `ahead` items wait in the queue. Closing the result stops the thread at its next item.
    """
    waiting: queue.Queue[T | _End] = queue.Queue(maxsize=ahead)
    closed = threading.Event()

    def put(item: T | _End) -> bool:
        while not closed.is_set():
            try:
                waiting.put(item, timeout=_POLL_SECONDS)
            except queue.Full:
                continue
            return True
        return False

    def run() -> None:
        error: BaseException | None = None
        try:
            for item in source:
                if not put(item):
                    return
        except BaseException as caught:  # noqa: BLE001 - handed to the consumer, which raises it
            error = caught
        put(_End(error))

    thread = threading.Thread(target=run, name="prefetch", daemon=True)
    thread.start()
    try:
        while not isinstance(item := waiting.get(), _End):
            yield item
        if item.error is not None:
            raise item.error
    finally:
        closed.set()
        thread.join()
