"""Ask a command that runs for long to end, by a signal."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Final

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


@dataclass(slots=True)
class Stop:
    """Whether to end. No Event: a signal may interrupt its own handler, which would wait for itself then."""

    asked: bool = False


@contextmanager
def stopped_by_signal(
    budget_s: float | None = None, too_slow: Callable[[], None] = lambda: None
) -> Iterator[Stop]:
    """Give what the first signal sets, to ask for an orderly end; the second ends the process.

    When `budget_s` are over, `too_slow` is called, in a thread of its own. None: the end takes what it takes.
    """
    stop = Stop()
    timer = None if budget_s is None else threading.Timer(budget_s, too_slow)

    def caught(number: int, _frame: FrameType | None) -> None:
        if stop.asked:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        stop.asked = True
        if timer is not None:
            timer.daemon = True
            timer.start()

    before = {each: signal.signal(each, caught) for each in SIGNALS}
    try:
        yield stop
    finally:
        if timer is not None:
            timer.cancel()
        for each, handler in before.items():
            signal.signal(each, handler)
