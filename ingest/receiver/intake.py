"""Intake of requests, shared by HTTP and gRPC: authorization, limits, and answers once a request is durable.

Used by the receiver's event loop only.
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

from ingest.receiver.bodies import BodyError, TooLargeError, check_readable, is_empty, unpacked
from ingest.receiver.partial_success import Refused, is_sound, refused_spans
from ingest.receiver.receiver_settings import ReceiverSettings
from ingest.receiver.spool import PendingFullError, Spool, SpoolFullError
from schemas.config import DecodeConfig
from schemas.errors import InputError


class Outcome(StrEnum):
    """Outcome of a request; its value is a label of the metric."""

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
    """Answer to the sender of a request."""

    outcome: Outcome
    why: str = ""
    """Sentence for the sender; empty if the request was accepted."""
    refused: Refused | None = None
    """Spans of an accepted request that will be dead letters."""


class Tokens:
    """Bearer tokens from a file, read again when the file changes; without a file every sender is allowed."""

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
        """True for `Bearer` and one of the tokens. While the file is missing, its last tokens stay valid."""
        if self._path is None:
            return True
        with suppress(OSError):
            self._refresh(self._path)
        scheme, _, given = (authorization or b"").partition(b" ")
        given = given.strip()
        # Each is compared, in constant time: how long it takes tells nothing.
        fits = [hmac.compare_digest(given, token) for token in self._tokens]
        return scheme.lower() == b"bearer" and any(fits)


class Intake:
    """Acceptance of bodies: limits memory, decompresses, checks, and waits until they are durable."""

    def __init__(self, spool: Spool, settings: ReceiverSettings, decode: DecodeConfig) -> None:
        """decode: settings with which the lake decodes received requests."""
        self.settings: Final = settings
        self.tokens: Final = Tokens(settings.token_file)
        self.counts: Final[Counter[tuple[str, Outcome]]] = Counter()
        """(transport, outcome) -> number of requests."""
        self.received_bytes = 0
        """Bytes of accepted bodies, as sent."""
        self._spool = spool
        self._decode = decode
        self._counting: Final = asyncio.Lock()
        self._held_bytes = 0
        """Bytes of bodies that are being received and not yet pending in the spool."""

    def hold(self, n_bytes: int) -> bool:
        """Reserve memory for a part of a body; False if none is left. `release` returns the memory."""
        if self._held_bytes + self._spool.pending_bytes + n_bytes > self.settings.pending_bytes:
            return False
        self._held_bytes += n_bytes
        return True

    def release(self, n_bytes: int) -> None:
        """Return memory that `hold` reserved."""
        self._held_bytes -= n_bytes

    async def take(self, body: bytes, encoding: str, format_: str) -> Answer:
        """Make a body durable, and return the answer to its sender."""
        try:
            content = unpacked(body, encoding, self._decode.max_payload_bytes)
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
        """Decode a body to count its dead letters. Runs outside the event loop, one body at a time: it may
        take a second, and ten times the memory of the body."""
        async with self._counting:
            return await asyncio.to_thread(refused_spans, content, format_, self._decode)

    def counted(self, transport: str, answer: Answer) -> Answer:
        """Count an answer, and return it."""
        self.counts[transport, answer.outcome] += 1
        return answer
