"""Stop a long-running command by a signal."""

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
    """Flag that is set when the command should end.

    Not a threading.Event: a signal may interrupt its own handler, which would deadlock.
    """

    asked: bool = False


@contextmanager
def stopped_by_signal(
    budget_s: float | None = None, too_slow: Callable[[], None] = lambda: None
) -> Iterator[Stop]:
    """Yield a Stop, set by the first signal (SIGTERM, SIGINT), so that the command can shut down cleanly; a
    second signal ends the process.

    `too_slow` is called in another thread, `budget_s` seconds after the first signal; None: never.
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
