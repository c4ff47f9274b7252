"""Serve metrics and health over HTTP from a separate thread, read only.

/metrics in Prometheus' text format; /healthz: 200 while the loop iterates (a supervisor restarts a process
that fails it); /readyz: 200 while the process does its work, else 503 with the reason.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.parser import BytesHeaderParser
from http import HTTPStatus
from typing import Final

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.exposition import choose_encoder

from ingest.http.listening import listening_socket
from schemas.visible import visible
from stitch.drivers.live.steady_clock import Clock
from stitch.drivers.live.watch import LaneState, LiveStatus

BACKLOG: Final = 100
"""Maximum number of connections waiting to be accepted, and of connections accepted in one iteration of the
loop.
"""
MAX_CONNECTIONS: Final = 256
"""Maximum number of open connections; with more, the oldest connection is dropped.

The number is more than 2 * BACKLOG: a request sent at once is answered two iterations of the loop later,
before it can become the oldest, however fast others arrive.
"""
DEADLINE_S: Final = 10.0
"""Time limit from connecting to the last byte of the answer, s: Prometheus' default scrape time-out."""
MAX_REQUEST: Final = 16 * 1024
"""Maximum size of a request line and its headers, bytes."""
REFUSALS: Final = (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND)
"""Statuses of refused requests that have a counter, which starts at 0."""

_TEXT: Final = "text/plain; charset=utf-8"


class StatusServer:
    """HTTP server that runs from construction to `close`. Raises ConfigError if the address is not
    available."""

    def __init__(
        self,
        address: str,
        registry: CollectorRegistry,
        status: Callable[[], LiveStatus],
        clock: Clock,
        stalled_after_ns: int,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        self._pages: dict[str, Callable[[str], Page]] = {
            "/metrics": lambda accept: _metrics(registry, accept),
            "/healthz": lambda _: _health(status(), clock().now_ns, stalled_after_ns),
            "/readyz": lambda _: _readiness(status()),
        }
        self._refused = Counter(
            "flowdiff_http_refused",
            "Requests to this server that were refused.",
            ["status"],
            registry=registry,
        )
        for refusal in REFUSALS:
            self._refused.labels(str(refusal.value))  # from 0, or `rate` misses the first increment
        self._deadline_s = deadline_s
        self._open: dict[asyncio.StreamWriter, None] = {}
        """Open connections as keys, in order of opening; the values are unused (None)."""
        listening = listening_socket(
            address, "serve.address", "Take another with --serve-address, or '' to serve nothing."
        )
        self.port: Final[int] = listening.getsockname()[1]
        """Port on which the server listens."""
        self._ended = asyncio.Event()
        self._runner = asyncio.Runner()
        self._loop = self._runner.get_loop()
        self._thread = threading.Thread(target=self._run, args=[listening], name="status", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening, and drop open connections."""
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()

    def _run(self, listening: socket.socket) -> None:
        with self._runner:
            self._runner.run(self._serve(listening))

    async def _serve(self, listening: socket.socket) -> None:
        async with await asyncio.start_server(
            self._connected, sock=listening, limit=MAX_REQUEST, backlog=BACKLOG
        ) as server:
            await self._ended.wait()
            server.close()
            for writer in self._open:
                writer.transport.abort()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request; the connection is dropped if the client leaves, does not speak HTTP, or is too
        slow."""
        self._open[writer] = None
        if len(self._open) > MAX_CONNECTIONS:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.transport.abort()
        try:
            async with asyncio.timeout(self._deadline_s):
                writer.write(self._answer(await reader.readuntil(b"\r\n\r\n")))
                writer.close()
                await writer.wait_closed()
        except (OSError, EOFError, asyncio.LimitOverrunError):  # TimeoutError is an OSError
            pass
        finally:
            self._open.pop(writer, None)
            writer.transport.abort()

    def _answer(self, request: bytes) -> bytes:
        """Response to a request line and its headers."""
        line, _, headers = request.partition(b"\r\n")
        method, path, *_ = *line.decode("latin-1").split(" "), ""
        page = self._pages.get(path.partition("?")[0])
        if not request.isascii():
            status, kind, body = HTTPStatus.BAD_REQUEST, _TEXT, b"a request is ASCII\n"
        elif method not in ("GET", "HEAD"):
            status, kind, body = HTTPStatus.NOT_IMPLEMENTED, _TEXT, b"GET or HEAD\n"
        elif page is None:
            status, kind, body = HTTPStatus.NOT_FOUND, _TEXT, "".join(f"{p}\n" for p in self._pages).encode()
        else:
            status, kind, body = page(BytesHeaderParser().parsebytes(headers).get("Accept", ""))
        if status >= HTTPStatus.BAD_REQUEST and status < HTTPStatus.INTERNAL_SERVER_ERROR:
            self._refused.labels(str(status.value)).inc()
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\nServer: flowdiff\r\nContent-Type: {kind}\r\n"
            f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
        )
        return head.encode() + (b"" if method == "HEAD" else body)


@contextmanager
def served(
    address: str,
    registry: CollectorRegistry,
    status: Callable[[], LiveStatus],
    clock: Clock,
    stalled_after_ns: int,
) -> Iterator[str | None]:
    """Serve metrics and health while the block runs; yields the actual address, None if `address` is empty.

    Raises ConfigError.
    """
    if not address:
        yield None
        return
    server = StatusServer(address, registry, status, clock, stalled_after_ns)
    try:
        yield f"{address.rpartition(':')[0]}:{server.port}"
    finally:
        server.close()


Page = tuple[HTTPStatus, str, bytes]


def _metrics(registry: CollectorRegistry, accept: str) -> Page:
    encode, content_type = choose_encoder(accept)
    return HTTPStatus.OK, content_type, encode(registry)


def _health(status: LiveStatus, now_ns: int, stalled_after_ns: int) -> Page:
    age_ns = now_ns - status.now_ns
    if age_ns > stalled_after_ns:
        message = f"the loop has not turned for {age_ns / 1e9:.0f} s\n"
        return HTTPStatus.SERVICE_UNAVAILABLE, _TEXT, message.encode()
    return HTTPStatus.OK, _TEXT, b"ok\n"


def _readiness(status: LiveStatus) -> Page:
    if status.ready:
        return HTTPStatus.OK, _TEXT, b"ready\n"
    reasons = [
        *(["stopping"] if status.stopping else []),
        *([status.trouble] if status.trouble is not None else []),
        *(f"lane {lane} is halted: {why}" for lane, why in status.halted),
        *(f"lane {x.lane} is waiting: {x.why}" for x in status.lanes if x.state is LaneState.WAITING),
    ]
    text = "".join(f"{visible(reason)}\n" for reason in reasons)
    return HTTPStatus.SERVICE_UNAVAILABLE, _TEXT, text.encode("utf-8", "replace")
