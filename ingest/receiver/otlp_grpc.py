"""OTLP over gRPC: the service `TraceService` with its one method, `Export`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from grpc import aio

from ingest.receiver.bodies import encoding_of
from ingest.receiver.intake import Answer, Intake, Outcome
from ingest.receiver.partial_success import response_bytes
from ingest.receiver.receiver_settings import PROTOBUF
from schemas.errors import ConfigError
from schemas.windows import NS_PER_SECOND

SERVICE: Final = "opentelemetry.proto.collector.trace.v1.TraceService"
_CODES: Final = {
    Outcome.UNREADABLE: grpc.StatusCode.INVALID_ARGUMENT,
    Outcome.TOO_LARGE: grpc.StatusCode.INVALID_ARGUMENT,
    Outcome.NOT_ALLOWED: grpc.StatusCode.UNAUTHENTICATED,
    Outcome.TOO_MANY: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Outcome.NO_ROOM: grpc.StatusCode.UNAVAILABLE,
    Outcome.TOO_SLOW: grpc.StatusCode.DEADLINE_EXCEEDED,
}
_AGAIN: Final = (Outcome.TOO_MANY, Outcome.NO_ROOM)
"""Outcomes that are answered with a RetryInfo: without it a sender does not retry after
RESOURCE_EXHAUSTED."""
_MS_PER_NS: Final = 1e-6


class GrpcServer:
    """gRPC server listening on one address. Used by one event loop, in which it must be created."""

    def __init__(self, intake: Intake, address: str) -> None:
        """Bind the address. Raises ConfigError if the address is not available."""
        settings = intake.settings
        self._intake = intake
        self._coming = 0
        """Number of calls whose message is still arriving."""
        self._server = aio.server(
            options=[
                # Messages arrive compressed as sent: gRPC would decompress them without a limit.
                ("grpc.per_message_decompression", 0),
                ("grpc.max_receive_message_length", settings.max_body_bytes),
                ("grpc.max_concurrent_streams", settings.max_calls),
                ("grpc.max_connection_idle_ms", int(settings.keep_alive_ns * _MS_PER_NS)),
                ("grpc.keepalive_time_ms", int(settings.keep_alive_ns * _MS_PER_NS)),
                ("grpc.server_handshake_timeout_ms", int(settings.request_timeout_ns * _MS_PER_NS)),
                ("grpc.so_reuseport", 0),
            ]
        )
        # Unary for the sender; as a stream here, so that the handler runs before the message is read.
        method = grpc.stream_unary_rpc_method_handler(self._export)
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(SERVICE, {"Export": method}),)
        )
        try:
            if settings.certificate_file is None or settings.key_file is None:
                self.port = self._server.add_insecure_port(address)
            else:
                pair = (_content(settings.key_file), _content(settings.certificate_file))
                self.port = self._server.add_secure_port(address, grpc.ssl_server_credentials([pair]))
        except RuntimeError as error:
            raise ConfigError(
                f"otlp_grpc '{address}' cannot be listened on.", remedy="Take another with --otlp-grpc."
            ) from error

    async def start(self) -> None:
        """Start serving."""
        await self._server.start()

    async def stop(self) -> None:
        """Refuse new calls, and wait for calls in progress."""
        await self._server.stop(self._intake.settings.stop_ns / NS_PER_SECOND)

    async def _export(self, _: Any, context: Any) -> bytes:
        """Answer one call of `Export`."""
        answer = self._intake.counted("grpc", await self._taken(context))
        if answer.outcome is Outcome.TAKEN:
            return response_bytes(answer.refused, PROTOBUF)
        details: tuple[tuple[str, bytes], ...] = ()
        code = _CODES[answer.outcome]
        if answer.outcome in _AGAIN:
            details = (("grpc-status-details-bin", self._retry(code, answer.why)),)
        await context.abort(code, answer.why, details)
        raise AssertionError("abort raises")

    async def _taken(self, context: Any) -> Answer:
        authorization = dict(context.invocation_metadata() or ()).get("authorization")
        if not self._intake.tokens.allow(None if authorization is None else authorization.encode()):
            return Answer(Outcome.NOT_ALLOWED, "A bearer token is wanted.")
        settings = self._intake.settings
        if self._coming >= settings.max_calls:
            return Answer(Outcome.TOO_MANY, "Too many requests come at once.")
        self._coming += 1
        try:
            async with asyncio.timeout(settings.request_timeout_ns / NS_PER_SECOND):
                message = await context.read()
        except TimeoutError:
            return Answer(Outcome.TOO_SLOW, "The sender was too slow.")
        finally:
            self._coming -= 1
        if message is aio.EOF:
            return Answer(Outcome.UNREADABLE, "The call has no message.")
        if not self._intake.hold(len(message)):
            return Answer(Outcome.TOO_MANY, "Too many requests are in memory.")
        try:
            return await self._intake.take(message, encoding_of(message), PROTOBUF)
        finally:
            self._intake.release(len(message))

    def _retry(self, code: grpc.StatusCode, why: str) -> bytes:
        """Serialised gRPC Status with a RetryInfo, which tells the sender after which delay to retry."""
        delay = Duration()
        delay.FromNanoseconds(self._intake.settings.retry_after_ns)
        detail = AnyMessage()
        detail.Pack(RetryInfo(retry_delay=delay))
        number: int = code.value[0]
        status: bytes = Status(code=number, message=why, details=[detail]).SerializeToString()
        return status


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"'{path}' cannot be read: {error.strerror or error}.",
            remedy="Check receiver.certificate_file and receiver.key_file.",
        ) from error
