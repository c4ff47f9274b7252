"""Send to one receiver from a thread of its own, so that receivers do not delay each other."""

from __future__ import annotations

import random
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from flowdiff.notify.ledger import Ledger
from flowdiff.notify.post import Message, SendError, post
from schemas.incidents import Incident, IncidentEvent
from schemas.windows import NS_PER_SECOND

FIRST_WAIT_S: Final = 1.0
LONGEST_WAIT_S: Final = 300.0
REFUSALS: Final = 3
"""Attempts at an event that the receiver refuses as invalid."""
OVER_NS: Final = 15 * 60 * NS_PER_SECOND
"""Time for which Alertmanager is told that an incident is over."""


@dataclass(slots=True)
class Counts:
    """Counters of a receiver's messages."""

    receiver: str
    pending: int = 0
    """Waiting events; for Alertmanager, alerts being sent."""
    sent: int = 0
    failed: int = 0
    """Failed attempts."""
    refused: int = 0
    """Dropped events."""
    restarts: int = 0
    """Times that sending failed by a bug, and began anew."""
    is_sending: bool = False
    """True while its thread is at work."""


class Sender:
    """Thread that waits for work, and ends promptly while it waits."""

    def __init__(self, receiver: str, say: Callable[[str], None], timeout_s: float) -> None:
        self.counts = Counts(receiver)
        self._say = say
        self._timeout_s = timeout_s
        self._changed = threading.Condition()
        self._ended = False
        self._failures = 0
        self._thread = threading.Thread(target=self._run, name=f"notify-{receiver}", daemon=True)

    def start(self) -> None:
        """Start sending."""
        self._thread.start()

    def end(self, patience_s: float) -> None:
        """End when everything is sent, or after `patience_s`; unsent events stay in the outbox."""
        until = time.monotonic() + patience_s
        with self._changed:
            self._changed.wait_for(self._is_idle, patience_s)
            self._ended = True
            self._changed.notify_all()
        self._thread.join(max(0.0, until - time.monotonic()) + 0.1)

    def _is_idle(self) -> bool:
        raise NotImplementedError

    def _turn(self) -> float:
        """Send what is due; returns the seconds until more may be."""
        raise NotImplementedError

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
        """Count and report an error that is none of the receiver's; seconds until the next turn."""
        self._failures += 1
        self.counts.failed += 1
        self.counts.restarts += 1
        if self._failures == 1:
            # Its text may hold what is secret.
            *_, last = traceback.extract_tb(error.__traceback__)
            where = f"{Path(last.filename).name}:{last.lineno}"
            self._say(
                f"{self.counts.receiver}: sending failed ({type(error).__name__} at {where}). Trying again."
            )
        return self._wait_s(SendError("failed"))

    def _posted(self, message: Message) -> SendError | None:
        """Post a message and count it; returns the error, if any."""
        try:
            post(message, self._timeout_s)
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
        longest = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(self._failures - 1, 16))
        return max(error.wait_s, longest * random.uniform(0.5, 1))


class EventSender(Sender):
    """Sends every event until it arrives, in order."""

    def __init__(
        self,
        receiver: str,
        message: Callable[[IncidentEvent], Message],
        ledger: Ledger,
        backlog: Iterable[IncidentEvent],
        say: Callable[[str], None],
        timeout_s: float,
    ) -> None:
        super().__init__(receiver, say, timeout_s)
        self._message = message
        self._ledger = ledger
        self._waiting = {event.id: event for event in backlog}
        self._refusals = 0
        self.counts.pending = len(self._waiting)

    def take(self, events: Iterable[IncidentEvent]) -> None:
        """Add events; delivered ones are skipped."""
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
                return LONGEST_WAIT_S
            try:
                message = self._message(event)
            except Exception:  # of a template that somebody wrote, whatever it raises
                self._refusals += 1
                if self._refusals < REFUSALS:
                    raise
                self._done(event, refused=True)  # else it would hold up all others
                continue
            error = self._posted(message)
            if error is not None:
                self._refusals += error.is_refused
                if not error.is_refused or self._refusals < REFUSALS:
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
        except OSError as error:  # kept with the next one; else it is sent again, with its id
            self._say(f"what {self.counts.receiver} had cannot be kept: {error.strerror or error}.")
        with self._changed:
            self._waiting.pop(event.id, None)
            self.counts.pending = len(self._waiting)


class AlertSender(Sender):
    """Repeats every open incident to Alertmanager, and for a while the end of each."""

    def __init__(
        self,
        message: Callable[[list[Incident], int], Message],
        incidents: Iterable[Incident],
        say: Callable[[str], None],
        timeout_s: float,
        repeat_s: float,
        now_ns: Callable[[], int],
    ) -> None:
        super().__init__("alertmanager", say, timeout_s)
        self._message = message
        self._repeat_s = repeat_s
        self._now_ns = now_ns
        self._open = {incident.id: incident for incident in incidents if incident.goes_on}
        self._over: dict[tuple[str, str], tuple[Incident, int]] = {}
        """(Incident id, severity) -> (incident, time until which its end is sent)."""
        self._is_news = bool(self._open)
        self.counts.pending = len(self._open)

    def take(self, events: Iterable[IncidentEvent]) -> None:
        """Update the open and ended incidents."""
        with self._changed:
            for incident in (event.incident for event in events):
                self._over.pop((incident.id, incident.severity), None)
                known = self._open.pop(incident.id, None)
                if known is not None and known.severity != incident.severity:
                    # Another alert, as the severity is a label: the first one ends with it.
                    self._end(known.model_copy(update={"state": "resolved"}))
                if incident.goes_on:
                    self._open[incident.id] = incident
                elif known is not None:
                    self._end(incident)
                self._is_news = True
            self.counts.pending = len(self._open)
            self._changed.notify_all()

    def _end(self, incident: Incident) -> None:
        self._over[incident.id, incident.severity] = (incident, self._now_ns() + OVER_NS)

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
