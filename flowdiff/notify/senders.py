"""Send to one receiver from a separate thread, so that receivers do not delay each other."""

from __future__ import annotations

import random
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from flowdiff.notify.ledger import Ledger
from flowdiff.notify.post import Message, SendError, post
from flowdiff.notify.settings import NotifySettings
from schemas.incidents import Incident, IncidentEvent
from schemas.windows import NS_PER_SECOND


@dataclass(slots=True)
class Counts:
    """Counters of the messages to one receiver."""

    receiver: str
    pending: int = 0
    """Number of events waiting to be sent; for Alertmanager, number of alerts that are being sent."""
    sent: int = 0
    failed: int = 0
    """Number of failed attempts to send."""
    refused: int = 0
    """Number of events that will not be sent: refused by the receiver, or too large."""
    restarts: int = 0
    """Number of times that the thread was restarted after an unexpected error (a bug, a template that
    fails)."""
    is_sending: bool = False
    """True while the thread is working."""


class Sender(ABC):
    """Thread that sends messages to one receiver; it can be ended promptly even while it waits."""

    def __init__(self, receiver: str, say: Callable[[str], None], settings: NotifySettings) -> None:
        self.counts = Counts(receiver)
        self._say = say
        self._settings = settings
        self._changed = threading.Condition()
        self._ended = False
        self._failures = 0
        self._thread = threading.Thread(target=self._run, name=f"notify-{receiver}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def end(self, patience_s: float) -> None:
        """End the thread once everything is sent, or after `patience_s`; events not sent remain in the
        outbox.
        """
        until = time.monotonic() + patience_s
        with self._changed:
            self._changed.wait_for(self._is_idle, patience_s)
            self._ended = True
            self._changed.notify_all()
        self._thread.join(max(0.0, until - time.monotonic()) + 0.1)

    @abstractmethod
    def take(self, events: Sequence[IncidentEvent]) -> None:
        """Accept events of the watch, to send them later from the thread."""

    @abstractmethod
    def _is_idle(self) -> bool:
        """True if nothing waits to be sent; called under the lock."""

    @abstractmethod
    def _turn(self) -> float:
        """Send all messages that are due; return the seconds until the next turn."""

    def _run(self) -> None:
        self.counts.is_sending = True
        try:
            self._turns()
        finally:
            self.counts.is_sending = False

    def _turns(self) -> None:
        while True:
            try:
                wait_s = self._turn()
            except Exception as error:  # noqa: BLE001 - a bug: the thread would end, and nobody hear of it
                wait_s = self._begun_anew(error)
            with self._changed:
                self._changed.notify_all()
                # New events do not shorten the pause after a failure.
                self._changed.wait_for(lambda: self._ended or not (self._failures or self._is_idle()), wait_s)
                if self._ended:
                    return

    def _begun_anew(self, error: Exception) -> float:
        """Count and report an unexpected error of the thread; return the seconds until its next turn."""
        self._failures += 1
        self.counts.failed += 1
        self.counts.restarts += 1
        if self._failures == 1:
            # The exception's text may contain a secret.
            *_, last = traceback.extract_tb(error.__traceback__)
            where = f"{Path(last.filename).name}:{last.lineno}"
            self._say(
                f"{self.counts.receiver}: sending failed ({type(error).__name__} at {where}). Trying again."
            )
        return self._wait_s(SendError("failed"))

    def _posted(self, message: Message) -> SendError | None:
        """Post a message and count the result; return the error, or None if the message was delivered."""
        try:
            if len(message.body) > self._settings.max_message_bytes:
                raise SendError("gets a message that is too large", is_refused=True)
            post(message, self._settings.timeout_ns / NS_PER_SECOND)
        except SendError as error:
            self._failures += 1
            self.counts.failed += 1
            if self._failures == 1:
                self._say(f"{self.counts.receiver} at {message.address} {error}. Trying again.")
            return error
        if self._failures:
            self._say(f"{self.counts.receiver} at {message.address} answers again.")
        self._failures = 0
        self.counts.sent += 1
        return None

    def _wait_s(self, error: SendError) -> float:
        first_ns, most_ns = self._settings.first_wait_ns, self._settings.longest_wait_ns
        longest_s = min(most_ns, first_ns * 2.0 ** min(self._failures - 1, 16)) / NS_PER_SECOND
        return max(min(error.wait_s, most_ns / NS_PER_SECOND), longest_s * random.uniform(0.5, 1))


class EventSender(Sender):
    """Sends every event, in order, until it is delivered."""

    def __init__(
        self,
        receiver: str,
        message: Callable[[IncidentEvent], Message],
        ledger: Ledger,
        backlog: Iterable[IncidentEvent],
        say: Callable[[str], None],
        settings: NotifySettings,
    ) -> None:
        super().__init__(receiver, say, settings)
        self._message = message
        self._ledger = ledger
        self._waiting = {event.id: event for event in backlog}
        self._refusals = 0
        self.counts.pending = len(self._waiting)

    def take(self, events: Sequence[IncidentEvent]) -> None:
        """Queue events; events in the ledger are skipped."""
        with self._changed:
            self._waiting |= {event.id: event for event in events if not self._ledger.has(event.id)}
            self.counts.pending = len(self._waiting)
            self._changed.notify_all()

    def _is_idle(self) -> bool:
        return not self._waiting

    def _turn(self) -> float:
        while not self._ended:
            with self._changed:
                event = next(iter(self._waiting.values()), None)
            if event is None:
                return self._settings.longest_wait_ns / NS_PER_SECOND
            try:
                message = self._message(event)
            except Exception:  # a user's template may raise anything
                self._refusals += 1
                if self._refusals < self._settings.refusals:
                    raise
                self._done(event, refused=True)  # otherwise it would block all other events
                continue
            error = self._posted(message)
            if error is not None:
                self._refusals += error.is_refused
                if not error.is_refused or self._refusals < self._settings.refusals:
                    return self._wait_s(error)
            self._done(event, refused=error is not None)
        return 0.0

    def _done(self, event: IncidentEvent, *, refused: bool) -> None:
        self._failures = self._refusals = 0
        if refused:
            self.counts.refused += 1
            self._say(f"{self.counts.receiver}: event {event.id} is refused: it is given up.")
        try:
            self._ledger.add([event.id], refused=refused)
        except OSError as error:  # stored with the next event, or sent again under the same id
            self._say(f"what {self.counts.receiver} had cannot be kept: {error.strerror or error}.")
        with self._changed:
            self._waiting.pop(event.id, None)
            self.counts.pending = len(self._waiting)


class AlertSender(Sender):
    """Sends every open incident to Alertmanager repeatedly, and, for a while, the end of each resolved
    incident."""

    def __init__(
        self,
        receiver: str,
        message: Callable[[list[Incident], int], Message],
        incidents: Iterable[Incident],
        say: Callable[[str], None],
        settings: NotifySettings,
        now_ns: Callable[[], int],
    ) -> None:
        super().__init__(receiver, say, settings)
        self._message = message
        self._repeat_s = settings.repeat_ns / NS_PER_SECOND
        self._now_ns = now_ns
        self._open = {incident.id: incident for incident in incidents if incident.goes_on}
        self._over: dict[tuple[str, str], tuple[Incident, int]] = {}
        """(Incident id, severity) -> (ended incident, time in ns since the epoch until which its end is
        sent)."""
        self._is_news = bool(self._open)
        self.counts.pending = len(self._open)

    def take(self, events: Sequence[IncidentEvent]) -> None:
        """Update the open and ended incidents from events, and send them at once."""
        with self._changed:
            for incident in (event.incident for event in events):
                self._over.pop((incident.id, incident.severity), None)
                known = self._open.pop(incident.id, None)
                if known is not None and known.severity != incident.severity:
                    # The severity is a label, so this is another alert: end the former one.
                    self._end(known.model_copy(update={"state": "resolved"}))
                if incident.goes_on:
                    self._open[incident.id] = incident
                elif known is not None:
                    self._end(incident)
                self._is_news = True
            self.counts.pending = len(self._open)
            self._changed.notify_all()

    def _end(self, incident: Incident) -> None:
        self._over[incident.id, incident.severity] = (incident, self._now_ns() + self._settings.over_ns)

    def _is_idle(self) -> bool:
        return not self._is_news

    def _turn(self) -> float:
        now_ns = self._now_ns()
        with self._changed:
            self._over = {key: until for key, until in self._over.items() if until[1] > now_ns}
            shown = [*self._open.values(), *(incident for incident, _ in self._over.values())]
            self._is_news = False
        if not shown:
            return self._repeat_s
        error = self._posted(self._message(shown, now_ns))
        if error is None:
            return self._repeat_s
        with self._changed:
            self._is_news = True
        return min(self._wait_s(error), self._repeat_s)
