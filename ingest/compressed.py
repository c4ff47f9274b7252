"""Decompress the bytes of a file while reading; gzip and zstd are recognised by their magic numbers."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO

import pyarrow as pa

GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
_SKIPPABLE = tuple(bytes((first, 0x2A, 0x4D, 0x18)) for first in range(0x50, 0x60))
"""Magic numbers of zstd frames that contain no data and are skipped; a file made by pzstd begins with one."""
PACKED = (GZIP, ZSTD, *_SKIPPABLE)
"""Magic numbers of compressed files: gzip, zstd, and zstd frames without content."""
_STEP = 1 << 16
"""Maximum bytes read and decompressed at a time, so that a decompression bomb takes time but no memory."""
_ZSTD_STEP = 1 << 12
"""Bytes read at a time from a zstd stream: few, because the output of a call that fails is lost."""


class ByteSource:
    """Reader of a binary stream, which is decompressed if it is gzip or zstd.

    A damaged or truncated archive ends the stream at the damage; `failure` then has the reason.
    """

    def __init__(self, raw: BinaryIO) -> None:
        head = _read_exactly(raw, len(ZSTD))
        stream: Any = _Rejoined(head, raw)
        self._read_some: Callable[[int], bytes] = stream.read
        self._step = _STEP
        if head.startswith(GZIP):
            # One raw read a call, so that all data before the damage have been returned when a call fails.
            self._read_some = gzip.GzipFile(fileobj=stream, mode="rb").read1
        elif head.startswith(PACKED):
            self._read_some = _ZstdFrames(stream).read
            self._step = _ZSTD_STEP
        self.failure: str | None = None

    def read(self, size: int) -> bytes:
        """Read `size` bytes; fewer only at the end of the stream."""
        parts: list[bytes] = []
        missing = size
        while missing > 0 and self.failure is None:
            try:
                part = self._read_some(min(missing, self._step))
            except (OSError, EOFError, zlib.error) as error:
                # gzip.BadGzipFile is an OSError; Arrow's zstd raises OSError too.
                self.failure = str(error) or type(error).__name__
                break
            if not part:
                break
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)


class _Rejoined:
    """Stream in front of which bytes that were already read are put back; enough of a file for gzip and
    Arrow."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self._head = head
        self._rest = rest

    def read(self, size: int = -1, /) -> bytes:
        if not self._head:
            return self._rest.read(size)
        out, self._head = (self._head, b"") if size < 0 else (self._head[:size], self._head[size:])
        return out if size >= 0 else out + self._rest.read()


class _ZstdFrames:
    """Reader of the content of consecutive zstd frames.

    Arrow decompresses each frame, but it is given one block at a time and nothing that follows the frame. So
    when a damaged block fails, all data before it were already returned, and garbage after a frame does not
    affect the frame.
    """

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        self._frame: Any = None

    def read(self, size: int) -> bytes:
        """Read up to `size` bytes; empty only at the end. Raises OSError if the archive is damaged."""
        while True:
            if self._frame is not None:
                part: bytes = self._frame.read(size)
                if part:
                    return part
            magic = _read_exactly(self._raw, len(ZSTD))
            if not magic:
                return b""
            if magic == ZSTD:
                pieces = pa.PythonFile(_ZstdPieces(self._raw), mode="r")
                self._frame = pa.CompressedInputStream(pieces, "zstd")
            elif magic in _SKIPPABLE:
                self._skip(int.from_bytes(_read_exactly(self._raw, 4), "little"))
            else:
                raise OSError("what follows the last zstd frame is none")

    def _skip(self, size: int) -> None:
        while size > 0:
            part = self._raw.read(min(size, _STEP))
            if not part:
                raise OSError("cut off in a skippable zstd frame")
            size -= len(part)


class _ZstdPieces:
    """Reader of one zstd frame (after its magic number) in pieces: the header, then each block."""

    closed = False

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        descriptor = _read_exactly(raw, 1)
        flags = descriptor[0] if descriptor else 0
        is_single = bool(flags & 0x20)
        self._checksum_bytes = 4 if flags & 0x04 else 0
        window, dictionary = 0 if is_single else 1, (0, 1, 2, 4)[flags & 3]
        content_size = (1 if is_single else 0, 2, 4, 8)[flags >> 6]
        self._piece = ZSTD + descriptor + _read_exactly(raw, window + dictionary + content_size)
        self._is_last = False

    def read(self, size: int = _STEP, /) -> bytes:
        """Next piece of the frame, or the next `size` bytes of the current piece; empty at the end."""
        if not self._piece and not self._is_last:
            header = _read_exactly(self._raw, 3)
            value = int.from_bytes(header, "little")
            self._is_last = bool(value & 1) or len(header) < 3
            # A run-length block holds one byte, whatever its size.
            length = 1 if (value >> 1) & 3 == 1 else value >> 3
            tail = self._checksum_bytes if self._is_last else 0
            self._piece = header + _read_exactly(self._raw, length + tail)
        out, self._piece = self._piece[:size], self._piece[size:]
        return out

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        """Do nothing: the caller closes the underlying stream."""


def _read_exactly(raw: BinaryIO | _Rejoined, size: int) -> bytes:
    """Next `size` bytes, or fewer at the end; a single read of a pipe may return fewer."""
    out = b""
    while len(out) < size and (part := raw.read(size - len(out))):
        out += part
    return out
