"""Bytes of a file, decompressed as they are read: gzip and zstd are known by their first bytes."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import pyarrow as pa

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_STEP = 1 << 16
"""Bytes asked for at a time. Never more is held than asked for: a decompression bomb costs time only.

What a failing call had unpacked so far is lost, so it is small: half a block of zstd.
"""


class ByteSource:
    """Reads a binary stream through gzip or zstd, if it is one.

    A damaged or truncated archive ends the stream where the damage is; `failure` then says what happened.
    """

    def __init__(self, raw: BinaryIO) -> None:
        head = _read_exactly(raw, len(_ZSTD))
        stream: Any = _Rejoined(head, raw)
        self._read_some: Callable[[int], bytes] = stream.read
        if head.startswith(_GZIP):
            # One raw read a call: what was unpacked before the damage has been handed out when it fails.
            self._read_some = gzip.GzipFile(fileobj=stream, mode="rb").read1
        elif head == _ZSTD:
            self._read_some = pa.CompressedInputStream(pa.PythonFile(stream, mode="r"), "zstd").read
        self.failure: str | None = None

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end."""
        parts: list[bytes] = []
        missing = size
        while missing > 0 and self.failure is None:
            try:
                part = self._read_some(min(missing, _STEP))
            except (OSError, EOFError, zlib.error) as error:
                # gzip.BadGzipFile is an OSError; Arrow's zstd raises OSError too.
                self.failure = str(error) or type(error).__name__
                break
            if not part:
                break
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    def blocks(self, size: int) -> Iterator[bytes]:
        """The rest in blocks of `size` bytes, the last one shorter."""
        while block := self.read(size):
            yield block


class _Rejoined:
    """A stream with bytes read from it put back in front; just enough of a file for gzip and Arrow."""

    closed = False

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self._head = head
        self._rest = rest

    def read(self, size: int = -1, /) -> bytes:
        if not self._head:
            return self._rest.read(size)
        out, self._head = (self._head, b"") if size < 0 else (self._head[:size], self._head[size:])
        return out if size >= 0 else out + self._rest.read()

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        """The caller closes its own stream."""


def _read_exactly(raw: BinaryIO, size: int) -> bytes:
    """`size` bytes, or all there are (a pipe may give fewer at a time)."""
    out = b""
    while len(out) < size and (part := raw.read(size - len(out))):
        out += part
    return out
