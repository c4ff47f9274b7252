"""Send a POST request to an address, with one deadline for name lookup, connection, TLS, request and response
together.

The standard library's client follows no redirects, and limits lines and headers. Its time-outs apply to each
step, and within a step to each byte. So this module makes each step with the remaining time, and a thread
closes the connection at the deadline. Addresses are checked when connecting, after the name was resolved
(`address.refusal`). Proxies set in the environment are not used.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPMessage, HTTPSConnection
from typing import Any

from ingest.http.address import Address, refusal


class ExchangeError(Exception):
    """No complete response arrived. The text contains nothing from the server, and no path of the address."""


@dataclass(frozen=True, slots=True)
class Answer:
    """HTTP response of the server."""

    status: int
    headers: HTTPMessage
    body: bytes

    @property
    def moved(self) -> str:
        """Sentence that says that the response is a redirect, which is not followed; empty if it is not."""
        return ", a redirect, which is not followed" if 300 <= self.status < 400 else ""


def post(
    address: Address, body: bytes, headers: Mapping[str, str], timeout_s: float, *, most_bytes: int = 0
) -> Answer:
    """Send a POST request; at most `most_bytes` of the response's body are read. Raises ExchangeError, at the
    latest after `timeout_s`."""
    line = _Line(time.monotonic() + timeout_s)
    try:
        return _exchanged(line, address, body, headers, most_bytes)
    except (OSError, HTTPException, ValueError) as error:
        raise ExchangeError(_LATE if line.is_late else _why(error)) from None
    finally:
        line.close()


_LATE = "no whole answer in time"


def _exchanged(
    line: _Line, address: Address, body: bytes, headers: Mapping[str, str], most_bytes: int
) -> Answer:
    line.connect(address)
    connection: HTTPConnection
    if address.is_tls:
        context = ssl.create_default_context()
        line.encrypt(context, address.host)
        connection = HTTPSConnection(address.host, address.port, context=context)
    else:
        connection = HTTPConnection(address.host, address.port)
    connection.sock = line.socket
    connection.request("POST", address.target, body, {"Connection": "close", **headers})
    answer = connection.getresponse()
    with answer:
        content = answer.read(most_bytes + 1) if most_bytes else b""
    line.check()  # a cut answer looks complete to the client
    if len(content) > most_bytes:
        raise ExchangeError(f"answered more than {most_bytes:,} bytes")
    return Answer(answer.status, answer.headers, content)


class _Line:
    """Connection that is closed at a deadline, whatever step it is in."""

    def __init__(self, deadline: float) -> None:
        self.socket: Any = None
        self.is_late = False
        self._deadline = deadline
        self._lock = threading.Lock()
        self._timer = threading.Timer(max(0.0, deadline - time.monotonic()), self._cut)
        self._timer.daemon = True
        self._timer.start()

    def connect(self, address: Address) -> None:
        """Resolve the name, and connect to the first of its addresses that answers. Raises OSError,
        ExchangeError."""
        found = self._resolved(address)
        for each in found:
            if why := refusal(str(each[4][0])):
                raise ExchangeError(f"nothing is sent there: {why}")
        for left, (family, kind, protocol, _, place) in zip(range(len(found), 0, -1), found, strict=True):
            made = socket.socket(family, kind, protocol)
            try:
                made.settimeout(self._left_s() / left)  # leaves time for the other addresses
                made.connect(place)
            except OSError:
                made.close()
                if left == 1:
                    raise
                continue
            self._hold(made)
            return

    def encrypt(self, context: ssl.SSLContext, host: str) -> None:
        """Make the TLS handshake on the connection. Raises OSError."""
        # Registered before the handshake, so that the deadline can close it.
        self._hold(context.wrap_socket(self.socket, server_hostname=host, do_handshake_on_connect=False))
        self.socket.do_handshake()
        self.socket.settimeout(self._left_s())

    def check(self) -> None:
        """Raise TimeoutError if the deadline has passed."""
        if self.is_late:
            raise TimeoutError

    def close(self) -> None:
        """Close the connection."""
        self._timer.cancel()
        with self._lock:
            if self.socket is not None:
                self.socket.close()

    def _resolved(self, address: Address) -> list[Any]:
        """Addresses of the host, looked up in a separate thread, as the resolver has no time limit."""
        found: Future[list[Any]] = Future()

        def look_up() -> None:
            try:
                found.set_result(socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM))
            except (OSError, UnicodeError) as error:
                found.set_exception(error)

        threading.Thread(target=look_up, name="resolve", daemon=True).start()
        try:
            return found.result(self._left_s())
        except UnicodeError:
            raise ExchangeError("its name cannot be resolved") from None
        except TimeoutError:
            self.is_late = True
            raise

    def _hold(self, made: socket.socket) -> None:
        with self._lock:
            self.socket = made
            made.settimeout(self._left_s())
        self.check()

    def _left_s(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            self.is_late = True
            raise TimeoutError
        return left

    def _cut(self) -> None:
        with self._lock:
            self.is_late = True
            if self.socket is not None:
                with suppress(OSError):
                    # Not SSLSocket.shutdown, which removes the TLS state while another thread reads.
                    socket.socket.shutdown(self.socket, socket.SHUT_RDWR)


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, TimeoutError) and error.errno is None:
        return _LATE
    if isinstance(error, OSError) and error.errno is not None:
        return error.strerror or "cannot be reached"
    return "cannot be reached" if isinstance(error, OSError) else "answered no HTTP"
