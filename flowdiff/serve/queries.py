"""Queries of a lake, each in a child process.

Statements come from pages and from users: a process serves one borrower and is then ended, so that nothing is
carried over to the next one. Starting a process takes most of a second, so one is started in advance.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from analyze.sql.asked_comparison import Comparing
from analyze.sql.session_process import SessionProcess
from flowdiff.serve.busy import BusyError
from flowdiff.serve.settings import ServeSettings
from schemas.errors import FlowdiffError


class Queries:
    """Pool that lends processes which query one lake, limited in number. Must be closed."""

    def __init__(
        self, lake: str, settings: ServeSettings, clock_ns: Callable[[], int], comparing: Comparing
    ) -> None:
        """comparing: function that runs the comparisons requested by queries."""
        self._lake = lake
        self._settings = settings
        self._clock_ns = clock_ns
        self._comparing = comparing
        self._room = threading.BoundedSemaphore(settings.queries)
        self._lock = threading.Lock()
        self._spare: tuple[str, SessionProcess] | None = None
        self._starting: threading.Thread | None = None
        self._closed = False

    @contextmanager
    def borrowed(
        self, token: str, period: str = "all", seconds: float | None = None
    ) -> Iterator[SessionProcess]:
        """Lend a process with a session on a period of the lake; the process is ended after the block.

        token: state of the lake (`Known.token`); seconds: time limit of a query, None: `query_seconds`.
        Raises BusyError if no process is free in time, and what `SessionProcess` raises.
        """
        if not self._room.acquire(timeout=self._settings.query_wait_seconds):
            raise BusyError("Too many queries run at once.", remedy="Try again in a moment.")
        try:
            taken = self._taken(token) if period == "all" else None
            session = self._started(period, seconds) if taken is None else taken
            try:
                yield session
            finally:
                session.close()
                if period == "all":
                    self.prepare(token)
        finally:
            self._room.release()

    def prepare(self, token: str) -> None:
        """Start a spare process in the background, unless there is one for the lake's state `token`."""
        with self._lock:
            if self._closed or self._starting is not None or (self._spare and self._spare[0] == token):
                return
            self._starting = threading.Thread(target=self._start_spare, args=(token,), daemon=True)
            self._starting.start()

    def close(self) -> None:
        """End the spare process; `borrowed` ends each lent process after the block that uses it."""
        with self._lock:
            self._closed = True
            starting = self._starting
        if starting is not None:
            starting.join()
        if self._spare is not None:
            self._spare[1].close()
            self._spare = None

    def _started(self, period: str, seconds: float | None = None) -> SessionProcess:
        settings = self._settings
        return SessionProcess(
            self._lake,
            period,
            now_ns=self._clock_ns(),
            memory=settings.query_memory,
            seconds=settings.query_seconds if seconds is None else seconds,
            comparing=self._comparing,
        )

    def _taken(self, token: str) -> SessionProcess | None:
        with self._lock:
            spare, self._spare = self._spare, None
        if spare is None:
            return None
        if spare[0] == token:
            return spare[1]
        spare[1].close()  # it has an older state of the lake
        return None

    def _start_spare(self, token: str) -> None:
        try:
            spare = self._started("all")
        except (FlowdiffError, OSError):
            spare = None  # whoever asks next gets the error
        with self._lock:
            before, self._spare = self._spare, None if spare is None else (token, spare)
            self._starting = None
        if before is not None:
            before[1].close()
