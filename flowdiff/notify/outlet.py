"""Interface of a kind of receiver: the form of its messages, and where they are sent.

To add a kind: a file with a subclass of `EventOutlet` (or `Outlet`), and a row in `settings.NotifySettings`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import ClassVar, Final, Generic, TypeVar, cast

from pydantic import SecretStr

from flowdiff.notify.ledger import Ledger
from flowdiff.notify.post import Message
from flowdiff.notify.senders import EventSender, Sender
from flowdiff.notify.settings import NotifySettings, Receiver
from flowdiff.settings.given import read_secret
from ingest.http.address import address_of
from schemas.errors import ConfigError
from schemas.incidents import IncidentEvent
from stitch.lake.store import Store

JSON: Final = "application/json"
R_co = TypeVar("R_co", bound=Receiver, covariant=True)


@dataclass(frozen=True, slots=True)
class Context:
    """Lake, settings and functions that all outlets share."""

    lake: str
    """Name of the lake, for messages."""
    settings: NotifySettings
    store: Store
    """Store of the lake, in which ledgers are."""
    now_ns: Callable[[], int]
    say: Callable[[str], None]
    """Function that prints a line."""


class Outlet(ABC, Generic[R_co]):
    """Receiver of incidents: its address and secrets (checked), and the form of its messages."""

    below: ClassVar[str] = ""
    """Path that is appended to the receiver's address."""

    def __init__(self, name: str, receiver: R_co, context: Context) -> None:
        """Read the receiver's secrets.

        name: key of the receiver below `notify` in the settings. Raises ConfigError, InputError; their texts
        contain no secret.
        """
        self.name, self.receiver, self.context = name, receiver, context
        url = receiver.url or self.secret("url", None, receiver.url_file).decode("latin-1")
        self._token = self.secret("token", receiver.token, receiver.token_file)
        try:
            self._address = address_of(url, self.below)
        except ValueError as error:
            raise ConfigError(f"notify.{name}.url_file holds no address: {error}.") from None
        if self._token and not self._address.is_private:
            raise ConfigError(f"notify.{name}: the token would be sent readable: use https.")

    @abstractmethod
    def sender(self, known: Sequence[IncidentEvent]) -> Sender:
        """Make the sender to this receiver, without starting it.

        known: all events in the lake. Raises OSError.
        """

    def addressed(self, body: bytes, kind: str, **headers: str) -> Message:
        """Message with a body of media type `kind`, addressed to this receiver."""
        all_headers = {"Content-Type": kind, "User-Agent": "flowdiff", **headers}
        if self._token:
            all_headers["Authorization"] = f"Bearer {self._token.decode('latin-1')}"
        return Message(self._address, body, all_headers)

    def secret(self, key: str, value: SecretStr | None, file: Path | None) -> bytes:
        """Secret from a setting, else from a file; empty if neither is set. Raises InputError,
        ConfigError."""
        name = f"notify.{self.name}.{key}"
        if value is not None:
            found = value.get_secret_value().encode()
        elif file is None:
            return b""
        else:
            found = read_secret(f"{name}_file", file)
        if not found or any(not 32 < byte < 127 for byte in found):
            raise ConfigError(f"{name} holds nothing, or more than printable ASCII.")
        return found


class EventOutlet(Outlet[R_co]):
    """Receiver that gets every event as one message."""

    @abstractmethod
    def message(self, event: IncidentEvent) -> Message:
        """Make the message about an event, addressed to the receiver."""

    def sender(self, known: Sequence[IncidentEvent]) -> Sender:
        """Make the sender of all events that are not in the receiver's ledger."""
        ledger = Ledger(self.context.store, self.name, self.context.settings.kept_events)
        say, settings = self.context.say, self.context.settings
        return EventSender(self.name, self.message, ledger, ledger.outbox(known), say, settings)


def outlets(context: Context) -> list[Outlet[Receiver]]:
    """Outlets of the receivers that have an address. Raises ConfigError, InputError."""
    return [
        _class_of(receiver)(name, receiver, context)
        for name in NotifySettings.model_fields
        if isinstance(receiver := getattr(context.settings, name), Receiver) and receiver.is_on
    ]


def _class_of(receiver: Receiver) -> type[Outlet[Receiver]]:
    module, _, name = receiver.outlet.partition(":")
    return cast("type[Outlet[Receiver]]", getattr(import_module(module), name))
