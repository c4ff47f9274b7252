"""Read a file as payloads: decompress it, recognise its format, and split it at the ends of lines or
messages.

Format and framing are recognised from the first bytes.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Set
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np

from ingest import formats
from ingest.codecs.payloads import is_json, without_bom
from ingest.compressed import ByteSource
from ingest.decoding import BATCH_EVENTS, DecodedBatch, decode_polls
from ingest.formats import FileLayout, Format, format_of
from ingest.framing import Fit, Framing, fit_of, read_length
from ingest.source import Payloads
from ingest.table_file import read_table
from schemas.config import DecodeConfig, SpanColumns
from schemas.errors import InputError
from schemas.rejects import MAX_RAW_BYTES, Reason, Reject
from schemas.visible import readable_name

_KEY = re.compile(r'"((?:[^"\\]|\\.){1,64})"\s*:')
_WRAPPERS: Final = ("trace", "result")
"""Keys under which the responses of Tempo's API and of Jaeger's contain a request."""
_LINES_TRIED = 20
_HEAD_BYTES = 4 * 2**20
"""Maximum bytes of JSON text that are examined to recognise a format: enough for several lines, even long
ones."""


def sniff_format(head: bytes, *, is_whole: bool) -> Format | None:
    """Recognise the format of a file from its first bytes `head`, decompressed; None if unknown. is_whole:
    True if `head` is the whole file.

    JSON is recognised by the keys of its first object, protobuf by walking its fields, a table by its first
    bytes.
    """
    for row in formats.FORMATS:
        if row.magic and head.startswith(row.magic):
            return row
    text = without_bom(head[:_HEAD_BYTES]).lstrip()
    if text[:1] in (b"{", b"["):
        return _format_of_json(text)
    # The first line may be damaged: try the others.
    for line in first_lines(text):
        if is_object_line(line) and (found := _format_of_json(line)) is not None:
            return found
    fit = _best_fit(head, formats.FORMATS, is_whole=is_whole)
    return None if fit is None else fit[0]


def framing_of(head: bytes, format_: Format, *, is_whole: bool) -> Framing | None:
    """Recognise the framing of a file of messages in a known format from its first bytes; None if no framing
    matches."""
    found = _best_fit(head, (format_,), is_whole=is_whole)
    return None if found is None else found[1]


def _best_fit(head: bytes, rows: Iterable[Format], *, is_whole: bool) -> tuple[Format, Framing] | None:
    """First format and framing that match perfectly; else the pair with most bytes in matching frames; None
    if no pair matches."""
    best, best_fit = None, Fit()
    for framing in Framing:
        for row in rows:
            fit = Fit() if row.shape is None else fit_of(head, framing, row.shape, is_whole=is_whole)
            if fit.n_bytes and fit.is_perfect:
                return row, framing
            if fit.n_bytes > best_fit.n_bytes:
                best, best_fit = (row, framing), fit
    return best


def is_lines(head: bytes) -> bool:
    """True if JSON text has one value per line, not one document.

    True if the first line is one value. If it is not (it may be damaged), most of the first lines must be
    objects.
    """
    text = without_bom(head[:_HEAD_BYTES]).lstrip()
    lines = first_lines(text)
    if not lines:
        return False
    if text[:1] == b"{" and is_object_line(lines[0]):
        return True
    if text[:1] == b"[" and is_json(lines[0]):
        return True
    return 2 * sum(is_object_line(line) for line in lines) > len(lines)


def first_lines(text: bytes) -> list[bytes]:
    """First few complete lines that are not blank; the only line of a text may be incomplete."""
    lines = text.split(b"\n", 10 * _LINES_TRIED)
    if len(lines) > 1:
        lines.pop()
    return [line for line in lines if line and not line.isspace()][:_LINES_TRIED]


def is_object_line(line: bytes) -> bool:
    """True if a line is one complete JSON object that starts in the first column."""
    return line.startswith(b"{") and is_json(line)


def _format_of_json(text: bytes) -> Format | None:
    keys = _keys_of_first_object(text.decode("utf-8", "replace"))
    return next((row for row in formats.FORMATS if any(signs <= keys for signs in row.keys)), None)


def _keys_of_first_object(text: str) -> Set[str]:
    """Keys of the outermost JSON object, or of the first object in a list; if the text is cut off, keys of
    all objects read so far.

    Includes the keys of an object wrapped in it as `trace` or `result`.
    """
    start = text.find("{")
    if start < 0 or text[:start].strip(" \t\r\n["):
        return frozenset()
    try:
        value, _ = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return frozenset(_KEY.findall(text))
    wrapped = [value.get(name) for name in _WRAPPERS]
    return frozenset(value).union(*(inner for inner in wrapped if isinstance(inner, dict)))


CHUNK_BYTES: Final = 16 * 2**20
"""Approximate bytes of the payloads in one poll."""
MIN_PAYLOAD_BYTES: Final = 64
"""Minimum bytes that a line or message is assumed to have: a poll has at most `chunk_bytes` divided by this,
because tiny ones take more than their bytes."""
MAX_DOCUMENT_BYTES: Final = 512 * 2**20
"""Maximum bytes of a document that must be read as a whole, as it cannot be split at line ends."""
PAGE_BYTES: Final = 256 * 2**20
"""Maximum decompressed bytes of a page of a Parquet file: pages usually have a few megabytes."""
_EMPTY_BYTES = 4096
"""Maximum bytes of a file that is checked for containing nothing but empty brackets."""
_LINE_END = ord("\n")
_COLUMNS: Final = SpanColumns()


def decode_file(
    path: str | Path,
    format_: str | None,
    config: DecodeConfig,
    *,
    chunk_bytes: int = CHUNK_BYTES,
    batch_events: int = BATCH_EVENTS,
    pool: Executor | None = None,
    ahead: int = 0,
    columns: SpanColumns = _COLUMNS,
    page_bytes: int = PAGE_BYTES,
) -> Iterator[DecodedBatch]:
    """Decode a file, and yield batches as `decode_polls` does. format_: name of the format; None: recognised.

    columns: names of the columns of a table of spans. page_bytes: maximum decompressed size of a page of a
    Parquet file. Raises UnknownFormatError for an unknown `format_`, InputError.
    """
    source = FileSource(path, format_, config, chunk_bytes, columns, page_bytes)
    # The source applies the limit, except to whole documents.
    largest = max(config.max_payload_bytes, MAX_DOCUMENT_BYTES)
    unlimited = config.model_copy(update={"max_payload_bytes": largest})
    return decode_polls(source.polls(), unlimited, batch_events=batch_events, pool=pool, ahead=ahead)


class FileSource:
    """Reader of a file's payloads, decompressed; the format is recognised from the content if it is not
    given.

    Memory: about 2 · chunk_bytes and the largest payload; whole documents up to MAX_DOCUMENT_BYTES. A damaged
    archive gives its readable part and a reject; an empty file, or a file of unknown format, gives a reject.
    """

    def __init__(
        self,
        path: str | Path,
        format_: str | None,
        config: DecodeConfig,
        chunk_bytes: int = CHUNK_BYTES,
        columns: SpanColumns = _COLUMNS,
        page_bytes: int = PAGE_BYTES,
    ) -> None:
        """Store the arguments; the file is opened by `polls`. Raises UnknownFormatError for an unknown
        `format_`."""
        self._path = path
        self._stream = readable_name(str(path))
        self._format = None if format_ is None else format_of(format_)
        self._limit = config.max_payload_bytes
        self._chunk_bytes = chunk_bytes
        self._config = config
        self._columns = columns
        self._page_bytes = page_bytes
        self._max_payloads = max(1, chunk_bytes // MIN_PAYLOAD_BYTES)

    def polls(self) -> Iterator[Payloads]:
        """Yield the payloads of the file, in polls of about a chunk or one document. Raises InputError if the
        file cannot be read."""
        with _opened(self._path) as raw:
            source = ByteSource(raw)
            head = source.read(self._chunk_bytes)
            is_whole = len(head) < self._chunk_bytes
            nothing = _nothing(head) if is_whole else None
            format_ = self._format
            if format_ is None and nothing is None:
                format_ = sniff_format(head, is_whole=is_whole)
            if format_ is None or nothing is not None:
                # For a damaged archive this reject is sufficient.
                if source.failure is None:
                    detail = "no format is known by these contents"
                    yield Payloads.refused(
                        self._stream, nothing or Reject(Reason.UNKNOWN_FORMAT, detail, head)
                    )
            elif format_.layout is FileLayout.TABLE:
                yield from read_table(
                    self._path,
                    self._stream,
                    format_.name,
                    self._columns,
                    self._config,
                    self._chunk_bytes,
                    self._page_bytes,
                )
            elif format_.layout is FileLayout.MESSAGES:
                framing = framing_of(head, format_, is_whole=is_whole)
                if framing is None or framing is Framing.BARE:
                    yield self._document(format_, head, source)
                else:
                    yield from self._messages(format_, framing, head, source)
            elif format_.layout is not FileLayout.DOCUMENT and (
                is_lines(head) or _is_long_line(format_, head)
            ):
                yield from self._lines(format_, head, source)
            else:
                yield self._document(format_, head, source)
            if source.failure is not None:
                detail = f"the archive is damaged or cut off: {source.failure}"
                yield Payloads.refused(self._stream, Reject(Reason.BAD_COMPRESSION, detail, b""))

    def _document(self, format_: Format, head: bytes, source: ByteSource) -> Payloads:
        """Read the whole file as one payload."""
        text = head + source.read(MAX_DOCUMENT_BYTES + 1 - len(head))
        if len(text) <= MAX_DOCUMENT_BYTES:
            return Payloads(self._stream, format_.name, [text], [0], 1)
        limit = f"{MAX_DOCUMENT_BYTES // 2**20} MB"
        detail = f"one document of more than {limit}: split it, or write one object a line"
        return Payloads.refused(self._stream, Reject(Reason.TOO_LARGE, detail, text[:MAX_RAW_BYTES]))

    def _lines(self, format_: Format, head: bytes, source: ByteSource) -> Iterator[Payloads]:
        """Yield payloads of whole lines. A line over the size limit is rejected, and never in memory as a
        whole."""
        number = 0
        held: list[bytes] = []
        """Parts of the current line, which is not complete yet."""
        n_held = 0
        long: _Skipped | None = None
        block = head
        while block:
            first = block.find(b"\n") + 1
            if long is None and n_held + (first - 1 if first else len(block)) > self._limit:
                long = _Skipped(held)
            if long is not None:
                # The current line ends at the first line end of the block.
                long.add(block[: first - 1] if first else block)
                if first:
                    yield Payloads.refused(self._stream, long.reject("line", number))
                    number, long, held, n_held = number + 1, None, [], 0
                    block = block[first:] or source.read(self._chunk_bytes)
                else:
                    block = source.read(self._chunk_bytes)
                continue
            end = block.rfind(b"\n") + 1
            if end:
                text = b"".join([*held, block[:end]])
                held, n_held = [], 0
                for polled in self._blocks(format_, text, number):
                    yield polled
                    number = polled.until
            if end < len(block):
                held.append(block[end:])
                n_held += len(block) - end
            block = source.read(self._chunk_bytes)
        if long is not None:
            yield Payloads.refused(self._stream, long.reject("line", number))
        elif (rest := b"".join(held)).strip():
            yield self._of_lines(format_, rest, number, number + 1)

    def _blocks(self, format_: Format, text: bytes, number: int) -> Iterator[Payloads]:
        """Yield payloads of whole lines, split if there are more lines than a poll may have. number: number
        of the first line."""
        ends = np.flatnonzero(np.frombuffer(text, np.uint8) == _LINE_END)
        for at in range(0, len(ends), self._max_payloads):
            last = min(at + self._max_payloads, len(ends))
            begin = int(ends[at - 1]) + 1 if at else 0
            part = text if last - at == len(ends) else text[begin : int(ends[last - 1]) + 1]
            yield self._of_lines(format_, part, number + at, number + last)

    def _of_lines(self, format_: Format, text: bytes, number: int, until: int) -> Payloads:
        stream, name = self._stream, format_.name
        if format_.layout is FileLayout.LINE_BLOCKS and len(text) <= self._limit:
            is_full = bool(text.strip())
            return Payloads(stream, name, [text] if is_full else [], [number] if is_full else [], until)
        lines = [(line, i) for i, line in enumerate(text.split(b"\n"), number) if line and not line.isspace()]
        rejects = []
        if len(text) > self._limit:
            rejects = [_Skipped([line]).reject("line", i) for line, i in lines if len(line) > self._limit]
            lines = [(line, i) for line, i in lines if len(line) <= self._limit]
        return Payloads(stream, name, [line for line, _ in lines], [i for _, i in lines], until, rejects)

    def _messages(
        self, format_: Format, framing: Framing, head: bytes, source: ByteSource
    ) -> Iterator[Payloads]:
        """Yield the messages of a framed file. A message over the size limit is rejected, and never in memory
        as a whole."""
        stream, name = self._stream, format_.name
        rest, number = head, 0
        while True:
            view = memoryview(rest)
            payloads: list[bytes] = []
            at, frame = 0, None
            while (
                len(payloads) < self._max_payloads and (frame := read_length(view, at, framing)) is not None
            ):
                end = frame.start + frame.length
                if end > len(view) or frame.length > self._limit:
                    break
                payloads.append(bytes(view[frame.start : end]))
                at = end
            until = number + len(payloads)
            if payloads:
                yield Payloads(stream, name, payloads, list(range(number, until)), until)
            number = until
            if len(payloads) == self._max_payloads:
                rest = rest[at:]
                continue
            if frame is not None and frame.length > self._limit:
                end = frame.start + frame.length
                long = _Skipped([rest[frame.start : end]])
                rest = rest[end:] or self._skip(long, frame.length, source)
                yield Payloads.refused(self._stream, long.reject("message", number))
                number += 1
                continue
            rest = rest[at:]
            more = source.read(self._chunk_bytes)
            if not more:
                break
            rest += more
        if rest:
            detail = f"the file ends {len(rest)} bytes into a message"
            yield Payloads.refused(self._stream, Reject(Reason.BAD_PROTOBUF, detail, rest, number))

    def _skip(self, long: _Skipped, length: int, source: ByteSource) -> bytes:
        """Read past a message of `length` bytes, which is too long; return the bytes read after it."""
        while long.size < length and (block := source.read(self._chunk_bytes)):
            missing = length - long.size
            long.add(block[:missing])
            if len(block) > missing:
                return block[missing:]
        return b""


class _Skipped:
    """A line or message that is too long to buffer: its start, hash and size."""

    def __init__(self, parts: list[bytes]) -> None:
        self._start = b""
        self._hash = hashlib.sha256()
        self.size = 0
        for part in parts:
            self.add(part)

    def add(self, part: bytes) -> None:
        """Add the next bytes of the line or message."""
        if len(self._start) < MAX_RAW_BYTES:
            self._start += part[: MAX_RAW_BYTES - len(self._start)]
        self._hash.update(part)
        self.size += len(part)

    def reject(self, what: str, position: int) -> Reject:
        """Reject for the skipped line or message. what: `line` or `message`, for the text; position: its
        position in the file."""
        detail = f"a {what} of {self.size} bytes is over the limit"
        return Reject(
            Reason.TOO_LARGE, detail, self._start, position, sha256=self._hash.hexdigest(), size=self.size
        )


@contextmanager
def _opened(path: str | Path) -> Iterator[BinaryIO]:
    try:
        file = Path(path).open("rb")  # noqa: SIM115  closed by the with below; only opening may fail here
    except OSError as error:
        raise InputError(
            f"Cannot read '{path}': {error.strerror}.", remedy="Check the path and its permissions."
        ) from error
    with file:
        yield file


def _is_long_line(format_: Format, head: bytes) -> bool:
    """True if the first bytes of a file are part of a single line: the file is then read as a line, which is
    rejected if too long, and never in memory as a whole."""
    return format_.layout is FileLayout.LINE_BLOCKS and head[:1] == b"{" and b"\n" not in head


def _nothing(content: bytes) -> Reject | None:
    """Reject for a file that contains only white space, or JSON without members; None for any other
    content."""
    text = content.strip()
    if len(text) <= _EMPTY_BYTES and b"".join(text.split()) in (b"", b"[]", b"{}"):
        return Reject(Reason.EMPTY, "the file holds nothing", content)
    return None
