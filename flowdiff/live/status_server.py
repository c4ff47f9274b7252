"""Metrics and health over HTTP, in threads of their own, read only.

/metrics in Prometheus' text format; /healthz: 200 while the loop turns (a supervisor restarts what does not);
/readyz: 200 while it does its work, else 503 and why.
"""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Final

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from flowdiff.settings.ingest_config import split_address
from schemas.errors import ConfigError
from schemas.visible import visible
from stitch.drivers.live.steady_clock import Clock
from stitch.drivers.live.watch import LaneState, LiveStatus

MAX_CONNECTIONS: Final = 16
"""Answered at once; more are closed unanswered."""
SOCKET_TIMEOUT_S: Final = 10.0
"""A client that neither asks nor listens for so long is left."""
_TEXT: Final = "text/plain; charset=utf-8"


class StatusServer:
    """Serves from construction to `close`. Raises ConfigError where the address cannot be had."""

    def __init__(
        self,
        address: str,
        registry: CollectorRegistry,
        status: Callable[[], LiveStatus],
        clock: Clock,
        stalled_after_ns: int,
    ) -> None:
        host, port = split_address(address)

        class Handler(_Handler):
            pages: ClassVar = {
                "/metrics": lambda accept: _metrics(registry, accept),
                "/healthz": lambda _: _health(status(), clock().now_ns, stalled_after_ns),
                "/readyz": lambda _: _readiness(status()),
            }

        try:
            self._server = _server(host, port, Handler)
        except OSError as error:
            raise ConfigError(
                f"serve.address '{address}' cannot be listened on: {error.strerror or error}.",
                remedy="Take another with --serve-address, or '' to serve nothing.",
            ) from error
        self._thread = threading.Thread(target=self._server.serve_forever, name="status", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


Page = tuple[HTTPStatus, str, bytes]


def _metrics(registry: CollectorRegistry, accept: str) -> Page:
    encode, content_type = choose_encoder(accept)
    return HTTPStatus.OK, content_type, encode(registry)


def _health(status: LiveStatus, now_ns: int, stalled_after_ns: int) -> Page:
    age_ns = now_ns - status.now_ns
    if age_ns > stalled_after_ns:
        told = f"the loop has not turned for {age_ns / 1e9:.0f} s\n"
        return HTTPStatus.SERVICE_UNAVAILABLE, _TEXT, told.encode()
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


class _Handler(BaseHTTPRequestHandler):
    """GET and HEAD of some pages."""

    pages: ClassVar[dict[str, Callable[[str], Page]]]
    timeout = SOCKET_TIMEOUT_S
    server_version = "flowdiff"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer."""
        page = self.pages.get(self.path.partition("?")[0])
        if page is None:
            self._answer(HTTPStatus.NOT_FOUND, _TEXT, "".join(f"{name}\n" for name in self.pages).encode())
        else:
            self._answer(*page(self.headers.get("Accept", "")))

    do_HEAD = do_GET  # noqa: N815

    def _answer(self, status: HTTPStatus, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Who asked is nothing for the log."""


class _Server(ThreadingHTTPServer):
    """So many connections at a time, and no more."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._free = threading.BoundedSemaphore(MAX_CONNECTIONS)
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """In a thread, where one is free."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Give the place back in the end."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that left in the middle is its own business; anything else is a bug, and is shown."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Server6(_Server):
    address_family = socket.AF_INET6


def _server(host: str, port: int, handler: type[BaseHTTPRequestHandler]) -> _Server:
    return (_Server6 if ":" in host else _Server)((host, port), handler)
