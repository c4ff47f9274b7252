"""Post to a receiver that may be slow or hostile: of the answer only the status and Retry-After are used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ingest.http import exchange
from ingest.http.address import Address
from ingest.http.exchange import ExchangeError

_DIGITS: Final = 9
"""Maximum number of digits that are read of a requested pause in seconds: 30 years."""
_AGAIN: Final = (401, 403, 404, 407, 408, 425, 429)
"""4xx statuses after which a message is sent again, as a change of configuration or time may help. All other
4xx statuses refuse the message itself.
"""


class SendError(Exception):
    """A message was not delivered.

    The text contains no path, and nothing that the receiver sent.
    """

    def __init__(self, why: str, *, wait_s: float = 0.0, is_refused: bool = False) -> None:
        super().__init__(why)
        self.wait_s = wait_s
        """Pause that the receiver requested (Retry-After), s; the sender limits it."""
        self.is_refused = is_refused
        """True if the receiver would refuse the same message again."""


@dataclass(frozen=True, slots=True)
class Message:
    """Message for a receiver: address, body, headers."""

    address: Address
    body: bytes
    headers: Mapping[str, str]


def post(message: Message, timeout_s: float) -> None:
    """Post a message; returns on a 2xx answer. Raises SendError within the time-out."""
    address = message.address
    try:
        answer = exchange.post(address, message.body, message.headers, timeout_s)
    except ExchangeError as error:
        raise SendError(str(error)) from None
    status, wait = answer.status, answer.headers.get("Retry-After", "")
    if not 200 <= status < 300:
        wait_s = float(wait[:_DIGITS]) if wait.isascii() and wait.isdigit() else 0.0
        raise SendError(
            f"answered {status}{answer.moved}",
            wait_s=wait_s,
            is_refused=400 <= status < 500 and status not in _AGAIN,
        )
