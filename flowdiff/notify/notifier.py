"""Forward events of the watch to every receiver, without blocking the watch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from flowdiff.notify.outlet import Context, outlets
from flowdiff.notify.senders import Counts, Sender
from flowdiff.notify.settings import NotifySettings
from schemas.incidents import IncidentEvent
from schemas.windows import NS_PER_SECOND
from stitch.drivers.live.steady_clock import SteadyClock
from stitch.lake.store import Store


class Notifier:
    """Forwards events of the watch to all receivers (an implementation of `Notify`); it sends while
    `running`.
    """

    def __init__(
        self,
        settings: NotifySettings,
        lake: str,
        store: Store,
        events: Callable[[], Sequence[IncidentEvent]],
        say: Callable[[str], None],
        now_ns: Callable[[], int] | None = None,
    ) -> None:
        """events: returns all events in the lake; say: prints a line. Raises ConfigError, InputError."""
        self._events = events
        self._say: Callable[[str], None] = lambda text: say(f"notify: {text}")
        clock = now_ns or SteadyClock().steady_ns
        self._outlets = outlets(Context(lake, settings, store, clock, self._say))
        self._patience_s = settings.patience_ns / NS_PER_SECOND
        self._senders: list[Sender] = []
        self._is_behind = False

    @contextmanager
    def running(self) -> Iterator[None]:
        """Send while the block runs, and for up to `patience_ns` afterwards.

        Called only by the process whose watch is active.
        """
        self._is_behind = bool(self._outlets)
        if self._is_behind:
            self._begin()
        try:
            yield
        finally:
            until = time.monotonic() + self._patience_s
            senders, self._senders = self._senders, []
            for sender in senders:
                sender.end(max(0.0, until - time.monotonic()))

    def __call__(self, events: Sequence[IncidentEvent]) -> None:
        """Queue events. A call without events retries a start that failed."""
        if self._is_behind:
            self._begin()
        for sender in self._senders:
            sender.take(events)

    @property
    def counts(self) -> list[Counts]:
        """Counters of each receiver."""
        return [sender.counts for sender in self._senders]

    def _begin(self) -> None:
        """Start one thread per receiver, each with the events not delivered to it yet."""
        try:
            known = self._events()
            made = [outlet.sender(known) for outlet in self._outlets]
        except OSError as error:  # the next call tries again; all events are in the lake
            self._say(f"what is to be sent cannot be read: {error.strerror or error}.")
            return
        self._is_behind = False
        self._senders = made
        for sender in made:
            sender.start()
