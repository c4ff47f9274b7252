"""Files in: bytes → payloads with positions → events and dead letters, in bounded memory."""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from ingest.codecs.port import Decoded
from ingest.compressed import ByteSource
from ingest.formats import codec_for, require_format
from ingest.framing import Framing, Message, framing_of, read_length
from ingest.sniff import is_lines, sniff_format
from schemas.config import DecodeConfig
from schemas.errors import InputError
from schemas.events import concat_events, empty_events
from schemas.rejects import REJECT_SCHEMA, Reason, Reject, rejects_table

STDIN = "-"
CHUNK_BYTES = 16 * 2**20
"""Bytes of payload in a chunk, about."""
MAX_DOCUMENT_BYTES = 512 * 2**20
"""A document that cannot be cut at line ends is held in memory whole, up to this size."""
BATCH_EVENTS = 100_000
"""Events in a batch of `decode_file`, at least (the last one excepted)."""

_PROTOBUF = frozenset(m.value for m in Message)
_BLOCKS_OF_LINES = frozenset({"native"})
"""Formats whose codec takes a block of lines as one payload."""
_EMPTY_BYTES = 4096
"""Brackets around nothing are no further apart."""
_NEVER_LINES = frozenset({"jaeger-ui", "xtrace"})


@dataclass(frozen=True, slots=True)
class PayloadChunk:
    """Some payloads of one file, and what could not be made a payload."""

    format: str | None
    """None: there is nothing to decode."""
    payloads: list[bytes]
    positions: list[int]
    """Number of the first line, or of the message, of each payload, from 0."""
    rejects: list[Reject] = field(default_factory=list)
    """`Reject.payload` is the position here."""


@dataclass(frozen=True, slots=True)
class DecodedBatch:
    """A step of `decode_file`."""

    events: pa.Table
    rejects: pa.Table
    """REJECT_SCHEMA."""
    oddities: Counter[str]


def read_payloads(
    path: str | Path, format_: str | None, config: DecodeConfig, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[PayloadChunk]:
    """Payloads of a file (`-`: standard input), gzip and zstd unpacked; the format is sniffed if not given.

    Memory: about 2 · chunk_bytes and the largest payload; whole documents up to MAX_DOCUMENT_BYTES. A damaged
    archive gives what could be read, and a reject; an empty file, and one whose format neither is given nor
    shows, a reject. Raises UnknownFormatError for a `format_` that is none, InputError.
    """
    if format_ is not None:
        require_format(format_)
    with _opened(path) as raw:
        source = ByteSource(raw)
        head = source.read(chunk_bytes)
        is_whole = len(head) < chunk_bytes
        nothing = _nothing(head) if is_whole else None
        if format_ is None and nothing is None:
            format_ = sniff_format(head, is_whole=is_whole)
        chunks: Iterator[PayloadChunk]
        if format_ is None or nothing is not None:
            # Of a damaged archive that is all to be said.
            refused = nothing or Reject(Reason.UNKNOWN_FORMAT, "no format is known by these contents", head)
            chunks = iter([PayloadChunk(None, [], [], [refused])] if source.failure is None else [])
        elif format_ in _PROTOBUF:
            chunks = _messages(format_, head, source, config, chunk_bytes, is_whole=is_whole)
        elif format_ not in _NEVER_LINES and is_lines(head):
            chunks = _lines(format_, head, source, config, chunk_bytes)
        else:
            chunks = _document(format_, head, source)
        yield from chunks
        if source.failure is not None:
            detail = f"the archive is damaged or cut off: {source.failure}"
            yield PayloadChunk(None, [], [], [Reject(Reason.BAD_COMPRESSION, detail, b"")])


def decode_file(
    path: str | Path,
    format_: str | None,
    config: DecodeConfig,
    *,
    chunk_bytes: int = CHUNK_BYTES,
    batch_events: int = BATCH_EVENTS,
    pool: Executor | None = None,
    ahead: int = 0,
) -> Iterator[DecodedBatch]:
    """Events, dead letters and oddities of a file, in batches of at least `batch_events` but for the last.

    With a pool, up to `ahead` chunks are decoded in it while others are read; the batches are the same. A
    file always gives at least one batch. Raises UnknownFormatError for a `format_` that is none, InputError.
    """
    whole_documents = config.model_copy(
        update={"max_payload_bytes": max(config.max_payload_bytes, MAX_DOCUMENT_BYTES)}
    )
    tables: list[pa.Table] = []
    rejects: list[pa.Table] = []
    oddities: Counter[str] = Counter()
    rows = 0
    yielded = False
    chunks = read_payloads(path, format_, config, chunk_bytes)
    for chunk, decoded in _decoded(chunks, whole_documents, pool, ahead):
        tables.append(decoded.events)
        rejects.append(rejects_table(decoded.rejects, str(path), chunk.positions))
        if chunk.rejects:
            last = max(r.payload for r in chunk.rejects)
            rejects.append(rejects_table(chunk.rejects, str(path), list(range(last + 1))))
        oddities.update(decoded.oddities)
        rows += decoded.events.num_rows
        if rows >= batch_events:
            yield _batch(tables, rejects, oddities)
            tables, rejects, oddities, rows, yielded = [], [], Counter(), 0, True
    if tables or not yielded:
        yield _batch(tables, rejects, oddities)


def _decoded(
    chunks: Iterator[PayloadChunk], config: DecodeConfig, pool: Executor | None, ahead: int
) -> Iterator[tuple[PayloadChunk, Decoded]]:
    """Every chunk with its events, in order; at most `ahead` chunks are in the pool at a time."""
    waiting: deque[tuple[PayloadChunk, Future[Decoded]]] = deque()
    for chunk in chunks:
        decode = _refused_whole if chunk.format is None else codec_for(chunk.format).decode
        if pool is None:
            yield chunk, decode(chunk.payloads, config)
            continue
        if len(waiting) == ahead:
            done, future = waiting.popleft()
            yield done, future.result()
        waiting.append((chunk, pool.submit(decode, chunk.payloads, config)))
    for done, future in waiting:
        yield done, future.result()


def _refused_whole(_payloads: Sequence[bytes], _config: DecodeConfig) -> Decoded:
    """What a chunk of rejects alone is decoded to."""
    return Decoded(empty_events(), [])


def _batch(tables: list[pa.Table], rejects: list[pa.Table], oddities: Counter[str]) -> DecodedBatch:
    return DecodedBatch(
        concat_events(tables), pa.concat_tables([REJECT_SCHEMA.empty_table(), *rejects]), oddities
    )


@contextmanager
def _opened(path: str | Path) -> Iterator[BinaryIO]:
    if str(path) == STDIN:
        yield sys.stdin.buffer
        return
    try:
        file = Path(path).open("rb")  # noqa: SIM115  closed by the with below; only opening may fail here
    except OSError as error:
        raise InputError(
            f"Cannot read '{path}': {error.strerror}.", remedy="Check the path and its permissions."
        ) from error
    with file:
        yield file


def _nothing(content: bytes) -> Reject | None:
    """The reject for a whole file that holds only white space, or JSON without a member; else None."""
    text = content.strip()
    if len(text) <= _EMPTY_BYTES and b"".join(text.split()) in (b"", b"[]", b"{}"):
        return Reject(Reason.EMPTY, "the file holds nothing", content)
    return None


def _lines(
    format_: str, head: bytes, source: ByteSource, config: DecodeConfig, chunk_bytes: int
) -> Iterator[PayloadChunk]:
    """Blocks cut at line ends. A line over `max_payload_bytes` is refused and skipped."""
    rest, number, skipped = b"", 0, 0
    block = head
    while block:
        end = block.rfind(b"\n") + 1
        rejects: list[Reject] = []
        if skipped:
            # Inside a line that is too long: it ends at the first line end.
            first = block.find(b"\n") + 1
            skipped += first or len(block)
            if not first:
                block = source.read(chunk_bytes)
                continue
            rejects.append(_too_long(rest, skipped, number))
            number, skipped, rest = number + 1, 0, b""
            block, end = block[first:], max(end - first, 0)
        text, rest = (rest + block[:end], block[end:]) if end else (b"", rest + block)
        if len(rest) > config.max_payload_bytes:
            skipped = len(rest)
        yield _chunk_of_lines(format_, text, number, rejects, config)
        number += text.count(b"\n")
        block = source.read(chunk_bytes)
    if skipped:
        yield PayloadChunk(format_, [], [], [_too_long(rest, skipped, number)])
    elif rest.strip():
        yield _chunk_of_lines(format_, rest, number, [], config)


def _too_long(start: bytes, size: int, number: int) -> Reject:
    return Reject(Reason.TOO_LARGE, f"a line of {size} bytes is over the limit", start, number)


def _chunk_of_lines(
    format_: str, text: bytes, number: int, rejects: list[Reject], config: DecodeConfig
) -> PayloadChunk:
    if format_ in _BLOCKS_OF_LINES and len(text) <= config.max_payload_bytes:
        full = bool(text.strip())
        return PayloadChunk(format_, [text] if full else [], [number] if full else [], rejects)
    lines = [(line, i) for i, line in enumerate(text.split(b"\n"), number) if line and not line.isspace()]
    return PayloadChunk(format_, [line for line, _ in lines], [i for _, i in lines], rejects)


def _document(format_: str, head: bytes, source: ByteSource) -> Iterator[PayloadChunk]:
    """The whole file as one payload."""
    text = head + source.read(MAX_DOCUMENT_BYTES + 1 - len(head))
    if len(text) <= MAX_DOCUMENT_BYTES:
        yield PayloadChunk(format_, [text], [0])
        return
    limit = f"{MAX_DOCUMENT_BYTES // 2**20} MB"
    detail = f"one document of more than {limit}: split it, or write one object a line"
    yield PayloadChunk(format_, [], [], [Reject(Reason.TOO_LARGE, detail, text[:CHUNK_BYTES])])


def _messages(
    format_: str, head: bytes, source: ByteSource, config: DecodeConfig, chunk_bytes: int, *, is_whole: bool
) -> Iterator[PayloadChunk]:
    """Protobuf messages in whatever framing the first bytes show."""
    framing = framing_of(head, Message(format_), is_whole=is_whole)
    if framing is None or framing is Framing.BARE:
        yield from _document(format_, head, source)
        return
    rest, number = head, 0
    while True:
        view = memoryview(rest)
        payloads: list[bytes] = []
        at = 0
        while (frame := read_length(view, at, framing)) is not None:
            end = frame.start + frame.length
            if end > len(view):
                break
            payloads.append(bytes(view[frame.start : end]))
            at = end
        yield PayloadChunk(format_, payloads, list(range(number, number + len(payloads))))
        number += len(payloads)
        rest = rest[at:]
        if frame is not None and frame.length > config.max_payload_bytes:
            rest = rest[: frame.start - at]
            detail = f"a message of {frame.length} bytes is over the limit; what follows it is not read"
            yield PayloadChunk(format_, [], [], [Reject(Reason.TOO_LARGE, detail, rest, number)])
            return
        more = source.read(chunk_bytes)
        if not more:
            break
        rest += more
    if rest:
        detail = f"the file ends {len(rest)} bytes into a message"
        yield PayloadChunk(format_, [], [], [Reject(Reason.BAD_PROTOBUF, detail, rest, number)])
