"""OTLP over HTTP: `POST /v1/traces` in protobuf or JSON. An ASGI application, and the server's
connections."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from http import HTTPStatus
from typing import Any, Final

import msgspec
import uvicorn
from google.rpc.code_pb2 import Code
from google.rpc.status_pb2 import Status
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ingest.receiver.bodies import ENCODINGS
from ingest.receiver.intake import Answer, Intake, Outcome
from ingest.receiver.partial_success import response_bytes
from ingest.receiver.receiver_settings import JSON, PROTOBUF, ReceiverSettings
from schemas.windows import NS_PER_SECOND

PATH: Final = "/v1/traces"
MAX_HEAD: Final = 64 * 1024
"""Maximum bytes of a request line and its headers."""
_FORMATS: Final = {b"application/x-protobuf": PROTOBUF, b"application/json": JSON}
_STATUS: Final = {
    Outcome.UNREADABLE: (HTTPStatus.BAD_REQUEST, Code.INVALID_ARGUMENT),
    Outcome.TOO_LARGE: (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, Code.INVALID_ARGUMENT),
    Outcome.NOT_ALLOWED: (HTTPStatus.UNAUTHORIZED, Code.UNAUTHENTICATED),
    Outcome.TOO_MANY: (HTTPStatus.TOO_MANY_REQUESTS, Code.RESOURCE_EXHAUSTED),
    Outcome.NO_ROOM: (HTTPStatus.SERVICE_UNAVAILABLE, Code.UNAVAILABLE),
    Outcome.TOO_SLOW: (HTTPStatus.REQUEST_TIMEOUT, Code.DEADLINE_EXCEEDED),
}
_AGAIN: Final = (Outcome.TOO_MANY, Outcome.NO_ROOM)
"""Outcomes after which the response asks the sender to retry."""

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class OtlpHttp:
    """ASGI application that receives OTLP over HTTP."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._retry_after = str(-(-intake.settings.retry_after_ns // NS_PER_SECOND)).encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        headers: Mapping[bytes, bytes] = dict(scope["headers"])
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        format_ = _FORMATS.get(kind, JSON)
        encoding = headers.get(b"content-encoding", b"identity").decode("latin-1").strip().lower()
        refusal = self._refusal(scope, headers, kind, encoding)
        if refusal is not None:
            status, code, why, extra = refusal
            outcome = (
                Outcome.NOT_ALLOWED
                if status == HTTPStatus.UNAUTHORIZED
                else Outcome.TOO_LARGE
                if status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
                else Outcome.OTHER
            )
            self._intake.counted("http", Answer(outcome, why))
            # What is still coming of the body is not read.
            await _send(send, status, format_, _error(format_, code, why), [*extra, _CLOSE])
            return
        answer = self._intake.counted("http", await self._taken(receive, encoding, format_))
        if answer.outcome is Outcome.TAKEN:
            await _send(send, HTTPStatus.OK, format_, response_bytes(answer.refused, format_), [])
            return
        status, code = _STATUS[answer.outcome]
        extra = [(b"retry-after", self._retry_after)] if answer.outcome in _AGAIN else []
        if answer.outcome not in (Outcome.UNREADABLE, Outcome.NO_ROOM):
            extra.append(_CLOSE)
        await _send(send, status, format_, _error(format_, code, answer.why), extra)

    def _refusal(
        self, scope: Scope, headers: Mapping[bytes, bytes], kind: bytes, encoding: str
    ) -> tuple[HTTPStatus, int, str, list[tuple[bytes, bytes]]] | None:
        """Check the headers of a request: None if it is accepted, else the refusal (status, gRPC code,
        sentence, extra headers)."""
        if scope["path"] != PATH:
            return HTTPStatus.NOT_FOUND, Code.NOT_FOUND, f"Spans go to {PATH}.", []
        if scope["method"] != "POST":
            return HTTPStatus.METHOD_NOT_ALLOWED, Code.UNIMPLEMENTED, "Send by POST.", [(b"allow", b"POST")]
        if b"origin" in headers:
            # A page of anybody's, under a name that leads to this machine (DNS rebinding).
            return HTTPStatus.FORBIDDEN, Code.PERMISSION_DENIED, "Browsers do not send here.", []
        if not self._intake.tokens.allow(headers.get(b"authorization")):
            challenge = [(b"www-authenticate", b"Bearer")]
            return HTTPStatus.UNAUTHORIZED, Code.UNAUTHENTICATED, "A bearer token is wanted.", challenge
        if kind not in _FORMATS:
            why = "Send application/x-protobuf or application/json."
            return HTTPStatus.UNSUPPORTED_MEDIA_TYPE, Code.INVALID_ARGUMENT, why, []
        if encoding not in ENCODINGS:
            known = ", ".join(ENCODINGS)
            why = f"Content encodings are {known}."
            accept = [(b"accept-encoding", known.encode())]
            return HTTPStatus.UNSUPPORTED_MEDIA_TYPE, Code.INVALID_ARGUMENT, why, accept
        limit = self._intake.settings.max_body_bytes
        length = headers.get(b"content-length", b"")
        if length.isdigit() and int(length) > limit:
            why = f"The body has more than {limit} bytes."
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, Code.INVALID_ARGUMENT, why, []
        return None

    async def _taken(self, receive: Receive, encoding: str, format_: str) -> Answer:
        """Receive a body, piece by piece, and pass it to the intake; return the answer."""
        limit, held = self._intake.settings.max_body_bytes, 0
        parts: list[bytes] = []
        try:
            is_whole = False
            while not is_whole:
                event = await receive()
                if event["type"] != "http.request":
                    return Answer(Outcome.TOO_SLOW, "The sender left, or was too slow.")
                part = event.get("body", b"")
                if not self._intake.hold(len(part)):
                    return Answer(Outcome.TOO_MANY, "Too many requests are in memory.")
                held += len(part)
                if held > limit:
                    return Answer(Outcome.TOO_LARGE, f"The body has more than {limit} bytes.")
                parts.append(part)
                is_whole = not event.get("more_body", False)
            return await self._intake.take(b"".join(parts), encoding, format_)
        finally:
            self._intake.release(held)


_CLOSE: Final = (b"connection", b"close")
_TYPES: Final = {format_: kind for kind, format_ in _FORMATS.items()}


def _error(format_: str, code: int, why: str) -> bytes:
    """Body of an error response: a google.rpc.Status, as OTLP specifies."""
    if format_ == JSON:
        return msgspec.json.encode({"code": code, "message": why})
    status: bytes = Status(code=code, message=why).SerializeToString()
    return status


async def _send(
    send: Send, status: HTTPStatus, format_: str, body: bytes, extra: list[tuple[bytes, bytes]]
) -> None:
    headers = [
        (b"content-type", _TYPES[format_]),
        (b"content-length", str(len(body)).encode()),
        *extra,
    ]
    await send({"type": "http.response.start", "status": status.value, "headers": headers})
    await send({"type": "http.response.body", "body": body})


_LOGGER: Final = logging.getLogger(__name__)
"""Logger of connections, for errors only: a line for every mistake of a sender would be too much; these are
counted."""
_LOGGER.setLevel(logging.ERROR)


class _Connection(HttpToolsProtocol):
    """HTTP connection with a time limit per request. If there are more connections than allowed, the one that
    has waited longest for data is closed.

    uvicorn itself limits neither the duration of a request nor the size of its headers.
    """

    intake: Intake
    settings: ReceiverSettings
    waiting: dict[_Connection, None]
    """Connections that wait for a request or for the rest of one, in the order in which they began to wait (a
    dict used as an ordered set)."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Register a new connection; if there are too many, close the one that has waited longest."""
        super().connection_made(transport)
        self.logger = _LOGGER
        self._deadline: asyncio.TimerHandle | None = None
        self._begin()
        if len(self.connections) > self.settings.max_connections and self.waiting:
            next(iter(self.waiting)).transport.abort()
        self.waiting[self] = None
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection from `waiting`."""
        self.waiting.pop(self, None)
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Process received bytes, a part of a request."""
        if self._head_bytes == 0:
            self._start_timer()
        self._head_bytes += len(data)
        super().data_received(data)
        if self._is_head and self._head_bytes > MAX_HEAD:
            self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        """Refuse and count a request that is not valid HTTP."""
        self.intake.counted("http", Answer(Outcome.UNREADABLE, msg))
        super().send_400_response(msg)

    def on_headers_complete(self) -> None:
        """Called when the headers of a request are complete."""
        self._is_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Called when a request is complete; another request may follow on the connection."""
        self.waiting.pop(self, None)
        self._stop_timer()
        self._begin()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Called when the response is sent: add the connection to `waiting`."""
        super().on_response_complete()
        if not self.transport.is_closing():
            self.waiting[self] = None

    def _begin(self) -> None:
        self._is_head, self._head_bytes = True, 0

    def _start_timer(self) -> None:
        if self._deadline is None:
            seconds = self.settings.request_timeout_ns / NS_PER_SECOND
            self._deadline = self.loop.call_later(seconds, self.transport.abort)

    def _stop_timer(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class HttpServer:
    """uvicorn server that runs the application on a listening socket. Used by one event loop."""

    def __init__(self, intake: Intake, listening: socket.socket) -> None:
        settings = intake.settings
        waiting: dict[_Connection, None] = {}
        for name in ("uvicorn.error", "uvicorn.access"):
            logging.getLogger(name).propagate = False
        connection = type(
            "Connection", (_Connection,), {"intake": intake, "settings": settings, "waiting": waiting}
        )
        self._listening = listening
        self._server = uvicorn.Server(
            uvicorn.Config(
                OtlpHttp(intake),
                http=connection,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                backlog=min(settings.max_connections, socket.SOMAXCONN),
                timeout_keep_alive=settings.keep_alive_ns // NS_PER_SECOND,
                timeout_graceful_shutdown=settings.stop_ns // NS_PER_SECOND,
                ssl_certfile=settings.certificate_file,
                ssl_keyfile=settings.key_file,
            )
        )

    async def serve(self) -> None:
        """Serve requests until `stop` is called."""
        await self._server.serve(sockets=[self._listening])

    def stop(self) -> None:
        """Refuse new connections, and answer the requests in progress."""
        self._server.should_exit = True
