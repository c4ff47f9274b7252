"""Read the messages inside a record batch: decompress it up to a size limit, then parse it by columns.

A record is its length, a byte of attributes, time delta, offset delta, key, value, headers; numbers are
varints, zigzag; lengths of -1 stand for null (Kafka protocol, record batches of format 2).

The limit is needed because 300 kilobytes of gzip may contain 300 megabytes.
"""

from __future__ import annotations

import io
import struct
import zlib
from dataclasses import dataclass
from itertools import compress
from typing import Final

import lz4.frame
import numpy as np
import snappy
import zstandard
from numpy.typing import NDArray

GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4
"""Number of the codec zstd in the attributes of a record batch."""
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES: Final = 16
_LENGTH: Final = struct.Struct(">i")
_ZSTD_BLOCK_BYTES: Final = 2**17
"""Maximum decompressed size of a block of zstd (RFC 8878, 3.1.1.2.4)."""
_GZIP_WINDOW: Final = 31
"""Window bits for zlib: the largest window, and data with gzip's header and checksum."""


class UnpackError(ValueError):
    """Data are not valid for their codec, or exceed the size limit."""


def unpack(codec: int, packed: bytes, limit: int) -> bytes:
    """Decompress the contents of a record batch, up to `limit` bytes. Memory: `limit` and the codec's window.
    Raises UnpackError."""
    try:
        unpacked = _UNPACK[codec](packed, limit)
    except KeyError:
        raise UnpackError(f"compression codec {codec} is not known") from None
    except (
        zlib.error,
        RuntimeError,
        struct.error,
        zstandard.ZstdError,
        snappy.UncompressError,
        OSError,
    ) as error:
        raise UnpackError(f"cannot be unpacked: {error}") from None
    if len(unpacked) > limit:
        raise UnpackError(f"unpacks to more than {limit} bytes")
    return unpacked


def _gunzip(packed: bytes, limit: int) -> bytes:
    parts: list[bytes] = []
    room = limit + 1
    while packed and room > 0:
        member = zlib.decompressobj(_GZIP_WINDOW)
        part = member.decompress(packed, room)
        parts.append(part)
        room -= len(part)
        if not member.eof and room > 0:
            raise UnpackError("cannot be unpacked: it ends early")
        packed = member.unused_data
    return b"".join(parts)


def _unsnap(packed: bytes, limit: int) -> bytes:
    if not packed.startswith(_XERIAL_MAGIC):
        return _unsnap_block(packed, limit)
    parts: list[bytes] = []
    room, at = limit, _XERIAL_HEADER_BYTES
    while at < len(packed) and room >= 0:
        (length,) = _LENGTH.unpack_from(packed, at)
        end = at + _LENGTH.size + length
        if length < 0 or end > len(packed):
            raise UnpackError("cannot be unpacked: it ends early")
        parts.append(_unsnap_block(packed[at + _LENGTH.size : end], room))
        room -= len(parts[-1])
        at = end
    return b"".join(parts)


def _unsnap_block(block: bytes, limit: int) -> bytes:
    """Decompress a block of snappy, which begins with its decompressed length, a varint."""
    length = 0
    for i, byte in enumerate(block[:5]):
        length |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            break
    if length > limit:
        raise UnpackError("unpacks to more than the limit")
    return bytes(snappy.decompress(block))


def _unlz4(packed: bytes, limit: int) -> bytes:
    frame = lz4.frame.LZ4FrameDecompressor()
    unpacked: bytes = frame.decompress(packed, max_length=limit + 1)
    if not frame.eof and len(unpacked) <= limit:
        raise UnpackError("cannot be unpacked: it ends early")
    return unpacked


def _unzstd(packed: bytes, limit: int) -> bytes:
    # A window as large as the limit, 8 MB at least: what every decoder takes (RFC 8878, 3.1.1.1.2).
    window = max(1 << (limit - 1).bit_length(), 2**23)
    reader = zstandard.ZstdDecompressor(max_window_size=window).stream_reader(
        io.BytesIO(packed), read_across_frames=True
    )
    parts: list[bytes] = []
    room = limit + 1
    with reader:  # a read of `limit` bytes would reserve as many, whatever the size of the batch
        while room > 0 and (part := reader.read(min(room, _ZSTD_BLOCK_BYTES))):
            parts.append(part)
            room -= len(part)
    return b"".join(parts)


_UNPACK: Final = {GZIP: _gunzip, SNAPPY: _unsnap, LZ4: _unlz4, ZSTD: _unzstd}


_FEW: Final = 24
"""Maximum number of messages in a batch for which a loop is faster than column operations."""
_VARINT_BYTES: Final = 10
"""Maximum bytes of a varint."""


class LayoutError(ValueError):
    """The contents of a record batch do not match the number of messages in its header."""


@dataclass(frozen=True, slots=True)
class Messages:
    """Values of messages, with their offsets in ascending order."""

    values: list[bytes | None]
    offsets: list[int]
    bytes: int
    """Decompressed size, bytes, of the record batch that contained the messages."""

    def from_offset(self, offset: int) -> Messages:
        """Copy without the messages before `offset`."""
        if not self.offsets or self.offsets[0] >= offset:
            return self
        n = sum(each < offset for each in self.offsets)
        return Messages(self.values[n:], self.offsets[n:], self.bytes)


def messages_of(contents: bytes, count: int, base_offset: int) -> Messages:
    """Parse the `count` messages of a decompressed batch. O(messages), 0.5 µs each. Raises LayoutError."""
    if count < 0 or count * 7 > len(contents):
        raise LayoutError(f"{len(contents)} bytes cannot be {count} messages")
    try:
        read = _loop if count <= _FEW else _columns
        values, deltas = read(contents, count)
    except IndexError:
        raise LayoutError("the messages are cut off") from None
    offsets = [base_offset + delta for delta in deltas]
    return Messages(values, offsets, len(contents))


def _number(contents: bytes, at: int) -> tuple[int, int]:
    """Read the varint at position `at`: (value, position after it). Raises IndexError, LayoutError."""
    result = shift = 0
    while True:
        byte = contents[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (result >> 1) ^ -(result & 1), at
        shift += 7
        if shift >= 7 * _VARINT_BYTES:
            raise LayoutError("a number has more than 64 bits")


def _loop(contents: bytes, count: int) -> tuple[list[bytes | None], list[int]]:
    """Parse messages one by one: (values, offset deltas)."""
    values: list[bytes | None] = []
    deltas: list[int] = []
    at = 0
    for _ in range(count):
        length, at = _number(contents, at)
        end = at + length
        _, at = _number(contents, at + 1)
        delta, at = _number(contents, at)
        key, at = _number(contents, at)
        size, at = _number(contents, at + max(key, 0))
        if length < 0 or at + max(size, 0) > end or end > len(contents):
            raise LayoutError("a message is longer than its room")
        values.append(contents[at : at + size] if size >= 0 else None)
        deltas.append(delta)
        at = end
    if at != len(contents):
        raise LayoutError(f"{len(contents) - at} bytes behind the last message")
    return values, deltas


def _columns(contents: bytes, count: int) -> tuple[list[bytes | None], list[int]]:
    """Parse messages by columns: (values, offset deltas).

    A loop reads only the lengths of messages, which locate the next message.
    """
    starts: list[int] = []
    at = 0
    for _ in range(count):
        byte = contents[at]
        if byte < 0x80:
            at += 1
            length = byte >> 1
        else:
            second = contents[at + 1]
            if second < 0x80:
                at += 2
                length = ((byte & 0x7F) | (second << 7)) >> 1
            else:
                length, at = _number(contents, at)
        starts.append(at)
        at += length
    if at != len(contents):
        raise LayoutError("the messages do not fill their batch")
    data = np.frombuffer(contents, np.uint8)
    start = np.array(starts, np.int64)
    _, position = _numbers(data, start + 1)
    deltas, position = _numbers(data, position)
    keys, position = _numbers(data, position)
    sizes, begin = _numbers(data, position + np.maximum(keys, 0))
    is_value = sizes >= 0
    end = begin + np.maximum(sizes, 0)
    room = np.append(start[1:], len(contents))
    # The length field of the next message makes `room` up to ten bytes larger than the message.
    if bool((np.diff(start) <= 0).any()) or bool((keys < -1).any()) or bool((end > room).any()):
        raise LayoutError("a message is longer than its room")
    values: list[bytes | None] = [contents[a:b] for a, b in zip(begin.tolist(), end.tolist(), strict=True)]
    for index in compress(range(count), (~is_value).tolist()):
        values[index] = None
    return values, deltas.tolist()


def _numbers(data: NDArray[np.uint8], at: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Read varints at many positions: ([positions] value, [positions] position after the varint). Raises
    LayoutError."""
    byte = data.take(at, mode="clip").astype(np.int64)
    result, position = byte & 0x7F, at + 1
    more = np.flatnonzero(byte >= 0x80)
    shift = 7
    while len(more):
        if shift >= 7 * _VARINT_BYTES:
            raise LayoutError("a number has more than 64 bits")
        byte = data.take(position[more], mode="clip").astype(np.int64)
        result[more] |= (byte & 0x7F) << shift
        position[more] += 1
        more = more[byte >= 0x80]
        shift += 7
    unsigned = result.view(np.uint64)
    return (unsigned >> np.uint64(1)).astype(np.int64) ^ -(result & 1), position
