"""Forward events of the watch to every receiver, without blocking the watch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pydantic import SecretStr

from flowdiff.notify import messages
from flowdiff.notify.chat import CHATS, ChatTemplate
from flowdiff.notify.ledger import Ledger
from flowdiff.notify.post import Message
from flowdiff.notify.senders import AlertSender, Counts, EventSender
from flowdiff.notify.settings import NotifySettings, Receiver, WebhookReceiver
from flowdiff.notify.signature import signed, signing_key
from flowdiff.settings.given import read_secret
from ingest.http.address import Address, address_of
from schemas.errors import ConfigError
from schemas.incidents import IncidentEvent
from schemas.windows import NS_PER_SECOND
from stitch.drivers.live.steady_clock import SteadyClock
from stitch.lake.store import Store

_JSON: Final = "application/json"
PATIENCE_S: Final = 5.0
"""Seconds for sending pending messages when the watch ends."""


class Notifier:
    """Implementation of `Notify`; it sends while `running`."""

    def __init__(
        self,
        settings: NotifySettings,
        lake: str,
        store: Store,
        events: Callable[[], Sequence[IncidentEvent]],
        say: Callable[[str], None],
        now_ns: Callable[[], int] | None = None,
    ) -> None:
        """events: returns every event in the lake; say: prints a line. Raises ConfigError, InputError."""
        self._settings, self._lake, self._store, self._events = settings, lake, store, events
        self._now_ns = now_ns or SteadyClock().steady_ns
        self._say: Callable[[str], None] = lambda text: say(f"notify: {text}")
        self._targets = {
            name: _Target.of(name, getattr(settings, name), below)
            for name, below in _BELOW.items()
            if getattr(settings, name).is_on
        }
        self._key = _signing_key(settings.webhook)
        self._chats = {
            name: ChatTemplate.of(name, getattr(settings, name).template)
            for name in CHATS
            if name in self._targets
        }
        self._senders: list[EventSender | AlertSender] = []
        self._waiting: list[IncidentEvent] = []
        """Events queued while the lake could not be read at the start of sending."""
        self._is_behind = False

    @contextmanager
    def running(self, patience_s: float = PATIENCE_S) -> Iterator[None]:
        """Send while the block runs, and for `patience_s` after it; only the active watch does."""
        self._is_behind = bool(self._targets)
        if self._is_behind:
            self._begin()
        try:
            yield
        finally:
            until = time.monotonic() + patience_s
            senders, self._senders = self._senders, []
            for sender in senders:
                sender.end(max(0.0, until - time.monotonic()))

    def __call__(self, events: Sequence[IncidentEvent]) -> None:
        """Queue events; a call without any retries a failed start."""
        if self._is_behind:
            self._begin()
        for sender in self._senders:
            sender.take(events)

    @property
    def counts(self) -> list[Counts]:
        """Counters of each receiver."""
        return [sender.counts for sender in self._senders]

    def _begin(self) -> None:
        """Start one thread a receiver with its undelivered events."""
        try:
            known = self._events()
            made = [self._sender(name, target, known) for name, target in self._targets.items()]
        except OSError as error:  # the next call tries again; all events are in the lake
            self._say(f"what is to be sent cannot be read: {error.strerror or error}.")
            return
        self._is_behind = False
        self._senders = made
        for sender in made:
            sender.start()

    def _sender(
        self, name: str, target: _Target, known: Sequence[IncidentEvent]
    ) -> EventSender | AlertSender:
        timeout_s = self._settings.timeout_ns / NS_PER_SECOND
        if name == "alertmanager":
            last = {event.incident_id: event.incident for event in known}
            return AlertSender(
                lambda shown, now_ns: target.message(
                    messages.alerts(
                        shown, self._lake, self._settings.reports, now_ns, self._settings.runbook
                    ),
                    _JSON,
                ),
                last.values(),
                self._say,
                timeout_s,
                self._settings.repeat_ns / NS_PER_SECOND,
                self._now_ns,
            )
        made = {"webhook": self._cloud_event, "otlp": self._log_record}.get(name, self._chat(name))
        ledger = Ledger(self._store, name)
        return EventSender(
            name, lambda event: made(target, event), ledger, ledger.outbox(known), self._say, timeout_s
        )

    def _cloud_event(self, target: _Target, event: IncidentEvent) -> Message:
        body = messages.cloud_event(event, self._lake, self._settings.reports)
        sign = signed(body, event.id, self._now_ns() // NS_PER_SECOND, self._key) if self._key else {}
        return target.message(body, "application/cloudevents+json", **sign)

    def _chat(self, name: str) -> Callable[[_Target, IncidentEvent], Message]:
        """Maker of a chat's messages."""
        return lambda target, event: target.message(
            self._chats[name].body(event, self._settings.reports), _JSON
        )

    def _log_record(self, target: _Target, event: IncidentEvent) -> Message:
        return target.message(
            messages.log_record(event, self._lake, self._settings.reports, self._now_ns()), _JSON
        )


_BELOW: Final = {
    "webhook": "",
    "slack": "",
    "teams": "",
    "alertmanager": "/api/v2/alerts",
    "otlp": "/v1/logs",
}
"""Path below the address, by receiver."""


class _Target:
    """Destination of a receiver's messages."""

    def __init__(self, address: Address, token: bytes) -> None:
        self._address = address
        self._token = token

    @classmethod
    def of(cls, name: str, receiver: Receiver, below: str) -> _Target:
        """Target with its secrets read from files. Raises ConfigError, InputError, without secrets in
        them.
        """
        url = receiver.url or _secret(f"notify.{name}.url", None, receiver.url_file).decode("latin-1")
        token = _secret(f"notify.{name}.token", receiver.token, receiver.token_file)
        try:
            address = address_of(url, below)
        except ValueError as error:
            raise ConfigError(f"notify.{name}.url_file holds no address: {error}.") from None
        if token and not address.is_private:
            raise ConfigError(f"notify.{name}: the token would be sent readable: use https.")
        return cls(address, token)

    def message(self, body: bytes, kind: str, **headers: str) -> Message:
        """Message to this target."""
        all_headers = {"Content-Type": kind, "User-Agent": "flowdiff", **headers}
        if self._token:
            all_headers["Authorization"] = f"Bearer {self._token.decode('latin-1')}"
        return Message(self._address, body, all_headers)


def _signing_key(webhook: WebhookReceiver) -> bytes:
    """Return the key of the webhook's signature; empty: nothing is signed. Raises InputError, ConfigError."""
    secret = _secret("notify.webhook.secret", webhook.secret, webhook.secret_file)
    try:
        return signing_key(secret) if secret else b""
    except ValueError as error:
        raise ConfigError(
            f"The secret of notify.webhook cannot sign: {error}.", remedy="Take it from the receiver again."
        ) from None


def _secret(key: str, value: SecretStr | None, file: Path | None) -> bytes:
    """Secret from a setting, else the content of a file; empty without either. Raises InputError,
    ConfigError.
    """
    if value is not None:
        found = value.get_secret_value().encode()
    elif file is None:
        return b""
    else:
        found = read_secret(f"{key}_file", file)
    if not found or any(not 32 < byte < 127 for byte in found):
        raise ConfigError(f"{key} holds nothing, or more than printable ASCII.")
    return found
