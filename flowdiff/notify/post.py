"""Post to a receiver that may be slow or hostile: one deadline for everything, few bytes read, no redirects.

The standard library's client follows no redirects and bounds lines and headers. Its time-out applies to
single reads only, so a thread closes the connection at the deadline. Only the status of the answer is used.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Final

from flowdiff.notify.address import Address

MOST_BYTES: Final = 256 * 1024
"""Bytes of a message, at most: less than Alertmanager and chats accept, more than we send."""
LONGEST_WAIT_S: Final = 300.0
"""Longest pause that a receiver can request (Retry-After)."""
_AGAIN: Final = (401, 403, 404, 407, 408, 425, 429)
"""Statuses 4xx that may pass: configuration may be corrected, or time helps. Others refuse the message
itself.
"""


class SendError(Exception):
    """A message did not arrive. Its text has nothing from the receiver, and no path."""

    def __init__(self, why: str, *, wait_s: float = 0.0, is_refused: bool = False) -> None:
        super().__init__(why)
        self.wait_s = wait_s
        """Pause that the receiver requested, at least."""
        self.is_refused = is_refused
        """True if the same message would be refused again."""


@dataclass(frozen=True, slots=True)
class Message:
    """Message to be posted."""

    address: Address
    body: bytes
    headers: Mapping[str, str]


def post(message: Message, timeout_s: float) -> None:
    """Post a message; returns on an answer 2xx. Raises SendError within the time-out."""
    address = message.address
    if len(message.body) > MOST_BYTES:
        raise SendError("the message is too large", is_refused=True)
    connection: HTTPConnection = (
        HTTPSConnection(address.host, address.port, timeout=timeout_s, context=ssl.create_default_context())
        if address.is_tls
        else HTTPConnection(address.host, address.port, timeout=timeout_s)
    )
    is_late = threading.Event()

    def cut() -> None:
        is_late.set()
        if connection.sock is not None:
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)

    deadline = threading.Timer(timeout_s, cut)
    deadline.daemon = True
    deadline.start()
    try:
        connection.request("POST", address.target, message.body, {"Connection": "close", **message.headers})
        answer = connection.getresponse()
        status, wait = answer.status, answer.getheader("Retry-After", "")
    except (OSError, HTTPException, ValueError) as error:
        why = "no whole answer in time" if is_late.is_set() else _why(error)
        raise SendError(why) from None
    finally:
        deadline.cancel()
        connection.close()
    if is_late.is_set():  # a connection cut at the deadline looks complete to the client
        raise SendError("no whole answer in time")
    if not 200 <= status < 300:
        wait_s = min(float(wait), LONGEST_WAIT_S) if wait.isascii() and wait.isdigit() else 0.0
        raise SendError(
            f"answered {status}", wait_s=wait_s, is_refused=400 <= status < 500 and status not in _AGAIN
        )


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, OSError) and error.errno is not None:
        return error.strerror or "cannot be reached"
    return "cannot be reached" if isinstance(error, OSError) else "answered no HTTP"
