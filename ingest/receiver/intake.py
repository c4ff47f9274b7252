"""Accept requests, for HTTP and gRPC: check authorization and limits, and answer once a request is durable.

Used only by the receiver's event loop.
"""

from __future__ import annotations

import asyncio
import hmac
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from ingest.codecs.payloads import without_bom
from ingest.receiver.bodies import BodyError, TooLargeError, check_readable, is_empty, unpacked
from ingest.receiver.partial_success import Refused, is_sound, refused_spans
from ingest.receiver.receiver_settings import JSON, ReceiverSettings
from ingest.receiver.spool import PendingFullError, Spool, SpoolFullError
from schemas.config import DecodeConfig
from schemas.errors import InputError


class Outcome(StrEnum):
    """Outcome of a request; the value is a label of a metric."""

    TAKEN = "taken"
    UNREADABLE = "unreadable"
    TOO_LARGE = "too_large"
    NOT_ALLOWED = "not_allowed"
    TOO_MANY = "too_many"
    NO_ROOM = "no_room"
    TOO_SLOW = "too_slow"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer to the sender of a request, independent of the protocol."""

    outcome: Outcome
    why: str = ""
    """Reason for a refusal, as a sentence for the sender; empty if the request was accepted."""
    refused: Refused | None = None
    """Number of spans of an accepted request that will become dead letters, with the reason; None: no span
    will."""


class Tokens:
    """Bearer tokens from a file, which is read again when it changes; without a file every sender is
    allowed."""

    def __init__(self, path: Path | None) -> None:
        """Read the file. Raises InputError if it cannot be read or contains no token."""
        self._path = path
        self._stamp: tuple[int, int, int] | None = None
        self._tokens: tuple[bytes, ...] = ()
        if path is None:
            return
        try:
            self._refresh(path)
        except OSError as error:
            raise InputError(
                f"receiver.token_file: '{path}' cannot be read: {error.strerror or error}.",
                remedy="Check the path.",
            ) from error
        if not self._tokens:
            raise InputError(f"receiver.token_file: '{path}' holds no token.", remedy="Write one a line.")

    def _refresh(self, path: Path) -> None:
        stat = path.stat()
        stamp = (stat.st_mtime_ns, stat.st_ino, stat.st_size)
        if stamp != self._stamp:
            self._tokens = tuple(path.read_bytes().split())
            self._stamp = stamp

    def allow(self, authorization: bytes | None) -> bool:
        """True if the header `authorization` is `Bearer` with one of the tokens. While the token file is
        missing, the tokens read last stay valid."""
        if self._path is None:
            return True
        with suppress(OSError):
            self._refresh(self._path)
        scheme, _, given = (authorization or b"").partition(b" ")
        given = given.strip()
        # All are compared, in constant time, so that the duration reveals nothing.
        fits = [hmac.compare_digest(given, token) for token in self._tokens]
        return scheme.lower() == b"bearer" and any(fits)


class Intake:
    """Accepts bodies of requests: limits memory, decompresses, checks, and waits until they are durable."""

    def __init__(self, spool: Spool, settings: ReceiverSettings, decode: DecodeConfig) -> None:
        """decode: settings with which live ingestion will decode the requests."""
        self.settings: Final = settings
        self.tokens: Final = Tokens(settings.token_file)
        self.counts: Final[Counter[tuple[str, Outcome]]] = Counter()
        """(transport, outcome) -> number of requests with this outcome."""
        self.received_bytes = 0
        """Total bytes of accepted bodies, compressed as they were sent."""
        self._spool = spool
        self._decode = decode
        self._counting: Final = asyncio.Lock()
        self._held_bytes = 0
        """Bytes of bodies that are being received and are not yet counted by the spool."""

    def hold(self, n_bytes: int) -> bool:
        """Reserve memory for a part of a body; False if too much is in use. Return the memory with
        `release`."""
        if self._held_bytes + self._spool.pending_bytes + n_bytes > self.settings.pending_bytes:
            return False
        self._held_bytes += n_bytes
        return True

    def release(self, n_bytes: int) -> None:
        """Return memory that was reserved with `hold`."""
        self._held_bytes -= n_bytes

    async def take(self, body: bytes, encoding: str, format_: str) -> Answer:
        """Decompress and check a body, write it to the spool, wait until it is durable, and return the answer
        to the sender."""
        try:
            content = unpacked(body, encoding, self._decode.max_payload_bytes)
            if format_ == JSON:
                content = without_bom(content)  # as decoders do
            refused = None
            if not is_empty(content, format_):
                if not is_sound(content, format_):
                    check_readable(content, format_)
                    refused = await self._refused(content, format_)
                await asyncio.wrap_future(self._spool.append(format_, content))
        except TooLargeError as error:
            return Answer(Outcome.TOO_LARGE, error.message)
        except BodyError as error:
            return Answer(Outcome.UNREADABLE, error.message)
        except PendingFullError as error:
            return Answer(Outcome.TOO_MANY, error.message)
        except SpoolFullError as error:
            return Answer(Outcome.NO_ROOM, error.message)
        except OSError as error:
            return Answer(Outcome.NO_ROOM, f"The spool cannot be written: {error.strerror or error}.")
        self.received_bytes += len(body)
        return Answer(Outcome.TAKEN, refused=refused)

    async def _refused(self, content: bytes, format_: str) -> Refused | None:
        """Decode a body to count the spans that will become dead letters. Runs outside the event loop, one
        body at a time: it may take a second, and ten times the memory of the body."""
        async with self._counting:
            return await asyncio.to_thread(refused_spans, content, format_, self._decode)

    def counted(self, transport: str, answer: Answer) -> Answer:
        """Add an answer to `counts`, and return it."""
        self.counts[transport, answer.outcome] += 1
        return answer
