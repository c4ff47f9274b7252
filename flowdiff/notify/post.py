"""Post to a receiver that may be slow or hostile: of the answer the status is used and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ingest.http import exchange
from ingest.http.address import Address
from ingest.http.exchange import ExchangeError

MOST_BYTES: Final = 256 * 1024
"""Of a message; what Alertmanager and chat take is more, what we send is less."""
LONGEST_WAIT_S: Final = 300.0
"""That a receiver may ask for (Retry-After)."""
_AGAIN: Final = (401, 403, 404, 407, 408, 425, 429)
"""Of 4xx: what somebody may set right, or time does. Of others the message itself is refused."""


class SendError(Exception):
    """A message did not arrive. Its text holds nothing that the receiver said, and no path."""

    def __init__(self, why: str, *, wait_s: float = 0.0, is_refused: bool = False) -> None:
        super().__init__(why)
        self.wait_s = wait_s
        """The receiver asks for at least so long."""
        self.is_refused = is_refused
        """The same message would be refused again."""


@dataclass(frozen=True, slots=True)
class Message:
    """What is posted."""

    address: Address
    body: bytes
    headers: Mapping[str, str]


def post(message: Message, timeout_s: float) -> None:
    """Post it; returns where the answer is 2xx. Raises SendError within the time-out."""
    address = message.address
    if len(message.body) > MOST_BYTES:
        raise SendError("the message is too large", is_refused=True)
    try:
        answer = exchange.post(address, message.body, message.headers, timeout_s)
    except ExchangeError as error:
        raise SendError(str(error)) from None
    status, wait = answer.status, answer.headers.get("Retry-After", "")
    if not 200 <= status < 300:
        wait_s = min(float(wait), LONGEST_WAIT_S) if wait.isascii() and wait.isdigit() else 0.0
        raise SendError(
            f"answered {status}{answer.moved}",
            wait_s=wait_s,
            is_refused=400 <= status < 500 and status not in _AGAIN,
        )
