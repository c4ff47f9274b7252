"""Ask a live run to end: by a signal, within a budget."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Final

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class StopOnSignal:
    """While it is entered: the first signal asks for an orderly end, the second ends the process at once.

    The orderly end has `budget_s`; when that is over, `too_slow` is called, in a thread of its own. Nothing
    is lost where it then ends the process: whoever takes a lane over goes on at its last commit.
    """

    def __init__(self, budget_s: float, too_slow: Callable[[], None]) -> None:
        self._budget_s = budget_s
        self._too_slow = too_slow
        self._timer: threading.Timer | None = None
        self._before: dict[signal.Signals, Any] = {}

    @property
    def asked(self) -> bool:
        """Whether to end."""
        return self._timer is not None

    def __enter__(self) -> StopOnSignal:
        self._before = {each: signal.signal(each, self._caught) for each in SIGNALS}
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for each, before in self._before.items():
            signal.signal(each, before)

    def _caught(self, number: int, _frame: FrameType | None) -> None:
        if self.asked:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        self._timer = threading.Timer(self._budget_s, self._too_slow)
        self._timer.daemon = True
        self._timer.start()
