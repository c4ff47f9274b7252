"""Servers on loopback that are slow at one step, and take far longer than anybody should wait for them."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

AGES_S = 30.0
"""That a server would go on, were its client to wait."""
Talk = Callable[["Slow", socket.socket], None]


class Slow:
    """A server that talks to each connection in a thread."""

    def __init__(self, talk: Talk) -> None:
        self.over = threading.Event()
        """Set when the test is: nobody sleeps on."""
        self.accepted = 0
        self.finished = 0
        """Talks that came to their end, as a client waited for it."""
        self._talk = talk
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self._threads: list[threading.Thread] = []
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()

    def _listen(self) -> None:
        with suppress(OSError):
            while not self.over.is_set():
                connection, _ = self._server.accept()
                self.accepted += 1
                thread = threading.Thread(target=self._serve, args=[connection])
                self._threads.append(thread)
                thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            self._talk(self, connection)
            self.finished += not self.over.is_set()

    def wait(self, seconds: float) -> None:
        """Pass time; raises OSError where the test is over."""
        if self.over.wait(seconds):
            raise OSError

    def close(self) -> None:
        self.over.set()
        with suppress(OSError):  # wakes who accepts
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for thread in (self._listener, *self._threads):
            thread.join()


@contextmanager
def slow(talk: Talk) -> Iterator[Slow]:
    server = Slow(talk)
    try:
        yield server
    finally:
        server.close()


def request_of(connection: socket.socket) -> bytes:
    """Read a request with its body of declared length."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536) or _gone()
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(
        (
            int(line.split(b":")[1])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length")
        ),
        0,
    )
    while len(body) < length:
        body += connection.recv(65536) or _gone()
    return head + b"\r\n\r\n" + body


def _gone() -> bytes:
    raise OSError


def answer(body: bytes, status: str = "200 OK", *more: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *more]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def dripping(data: bytes, pause_s: float) -> Talk:
    """Reads the request, and answers byte by byte."""

    def talk(server: Slow, connection: socket.socket) -> None:
        request_of(connection)
        for at in range(len(data)):
            connection.sendall(data[at : at + 1])
            server.wait(pause_s)

    return talk


def silent(server: Slow, connection: socket.socket) -> None:
    """Accepts, and says nothing: no TLS, no HTTP."""
    server.wait(AGES_S)


def shaking_slowly(folder: Path, pause_s: float) -> Talk:
    """Speaks TLS, a pause before its hello and another one before its answer."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")

    def talk(server: Slow, connection: socket.socket) -> None:
        server.wait(pause_s)
        with context.wrap_socket(connection, server_side=True) as secured:
            server.wait(pause_s)
            request_of(secured)
            server.wait(pause_s)
            secured.sendall(answer(b""))

    return talk
