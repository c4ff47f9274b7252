"""OTLP receiver: HTTP and gRPC servers in an event loop that runs in a separate thread."""

from __future__ import annotations

import asyncio
import ssl
import threading
from concurrent.futures import Future
from contextlib import suppress
from typing import Final

from ingest.http.listening import listening_socket
from ingest.receiver.intake import Intake
from ingest.receiver.otlp_grpc import GrpcServer
from ingest.receiver.otlp_http import HttpServer
from ingest.receiver.receiver_settings import ReceiverSettings
from ingest.receiver.spool import Spool
from schemas.config import DecodeConfig
from schemas.errors import ConfigError


class Receiver:
    """Running OTLP receiver: serves from its construction until `close`.

    Raises ConfigError if an address is not available, or the certificate is invalid.
    """

    def __init__(
        self, spool: Spool, settings: ReceiverSettings, http: str, grpc: str, decode: DecodeConfig
    ) -> None:
        """http, grpc: addresses `host:port` to listen on, of which one may be empty. decode: settings with
        which live ingestion will decode the requests."""
        _check_certificate(settings)
        self.intake: Final = Intake(spool, settings, decode)
        self._listening = listening_socket(http, "otlp", "Take another with --otlp.") if http else None
        self._grpc_address = grpc
        started: Future[int | None] = Future()
        self._stopping: asyncio.Event | None = None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=[started], name="receiver", daemon=True)
        self._thread.start()
        try:
            port = started.result()
        except BaseException:
            if self._listening is not None:
                self._listening.close()
            raise
        self.http: Final = None if self._listening is None else _with_port(http, self._port)
        """`host:port` on which HTTP is served, with the actual port; None: not served."""
        self.grpc: Final = None if port is None else _with_port(grpc, port)
        """`host:port` on which gRPC is served, with the actual port; None: not served."""

    def check(self) -> None:
        """Raise the exception that stopped the receiver's thread, if it failed."""
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Refuse new requests, answer the requests in progress, and stop. May be called twice."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._stop)
        self._thread.join()

    def _stop(self) -> None:
        assert self._stopping is not None
        self._stopping.set()

    def _run(self, started: Future[int | None]) -> None:
        with asyncio.Runner() as runner:
            self._loop = runner.get_loop()
            try:
                runner.run(self._serve(started))
            except BaseException as error:  # noqa: BLE001 - raised again, by `check` or the constructor
                if started.done():
                    self._failure = error
                else:
                    started.set_exception(error)

    async def _serve(self, started: Future[int | None]) -> None:
        self._stopping = asyncio.Event()
        port = None
        http = grpc = None
        if self._listening is not None:
            self._port: int = self._listening.getsockname()[1]
            http = HttpServer(self.intake, self._listening)
        if self._grpc_address:
            grpc = GrpcServer(self.intake, self._grpc_address)
            port = grpc.port
            await grpc.start()
        started.set_result(port)
        serving = asyncio.ensure_future(http.serve()) if http is not None else None
        stopping = asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait({stopping, *([serving] if serving else [])}, return_when=asyncio.FIRST_COMPLETED)
        if http is not None:
            http.stop()
        if grpc is not None:
            await grpc.stop()
        if serving is not None:
            await serving
        if not stopping.done():
            stopping.cancel()
            raise RuntimeError("the HTTP server ended by itself")


def _check_certificate(settings: ReceiverSettings) -> None:
    """Raise ConfigError if the certificate or its key cannot be used for a server."""
    if settings.certificate_file is None or settings.key_file is None:
        return
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # A password is never asked for: nobody is there.
        context.load_cert_chain(settings.certificate_file, settings.key_file, password=lambda: b"")
    except OSError as error:
        why = (
            error.strerror if not isinstance(error, ssl.SSLError) else "no PEM of a pair, or with a password"
        )
        raise ConfigError(
            f"'{settings.certificate_file}' and '{settings.key_file}' cannot be used: {why}.",
            remedy="Check receiver.certificate_file and receiver.key_file.",
        ) from error


def _with_port(address: str, port: int) -> str:
    return f"{address.rpartition(':')[0]}:{port}"
