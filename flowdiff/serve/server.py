"""HTTP server: port, connections with deadlines, graceful stop."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from flowdiff.cli.stopping import SIGNALS
from flowdiff.serve.guard import Guard
from flowdiff.serve.settings import ServeSettings
from schemas.errors import ConfigError

_HEAD_BYTES: Final = 32 * 1024
"""Maximum size of a request's head, bytes."""


def listening(host: str, port: int) -> socket.socket:
    """Socket bound to host and port, listening. Raises ConfigError if the address is invalid or in use."""
    try:
        if ":" in host:
            return socket.create_server((host, port), family=socket.AF_INET6, backlog=256)
        return socket.create_server((host, port), backlog=256)
    except OSError as error:
        raise ConfigError(
            f"The address '{host}:{port}' cannot be listened on: {error.strerror or error}.",
            remedy="Choose another one with --listen.",
        ) from error


def run(app: Guard, bound: socket.socket, settings: ServeSettings, started: Callable[[], None]) -> None:
    """Serve until SIGTERM or SIGINT; running requests then have `stop_seconds` to finish.

    started: called once the server answers.
    """
    config = uvicorn.Config(
        app,
        http=_protocol(settings),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=False,
        limit_concurrency=settings.most_connections,
        timeout_keep_alive=settings.keep_alive_seconds,
        timeout_graceful_shutdown=settings.stop_seconds,
        h11_max_incomplete_event_size=_HEAD_BYTES,
    )
    server = _Server(config, started)
    server.run(sockets=[bound])


class _Server(uvicorn.Server):
    """Uvicorn server that reports its start, and stops gracefully on a signal (uvicorn re-raises the
    signal).
    """

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_start = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_start()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        before = {each: signal.signal(each, self.handle_exit) for each in SIGNALS}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)


def _protocol(settings: ServeSettings) -> type[H11Protocol]:
    """Protocol class that closes a connection if the head of a request does not arrive in time, or the client
    accepts no data for too long."""

    class DeadlineProtocol(H11Protocol):
        _deadline: asyncio.TimerHandle | None = None
        _stuck: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._deadline = self.loop.call_later(settings.header_seconds, self._close_late)

        def data_received(self, data: bytes) -> None:
            before = self.cycle
            super().data_received(data)
            if self.cycle is not before:
                self._cancel()
            elif self._deadline is None and (self.cycle is None or self.cycle.response_complete):
                # The first bytes of a further request on the same connection.
                self._deadline = self.loop.call_later(settings.header_seconds, self._close_late)

        def pause_writing(self) -> None:
            super().pause_writing()
            self._stuck = self.loop.call_later(settings.send_seconds, self.transport.abort)

        def resume_writing(self) -> None:
            self._unstick()
            super().resume_writing()

        def _unstick(self) -> None:
            if self._stuck is not None:
                self._stuck.cancel()
                self._stuck = None

        def connection_lost(self, exc: Exception | None) -> None:
            self._cancel()
            self._unstick()
            super().connection_lost(exc)

        def _close_late(self) -> None:
            self._deadline = None
            self.transport.close()

        def _cancel(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

    return DeadlineProtocol


def log_to(handler: Any) -> None:
    """Send warnings of the server and of uvicorn to a logging handler."""
    import logging

    for name in ("flowdiff.serve", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.setLevel(logging.WARNING)
        logger.propagate = False
