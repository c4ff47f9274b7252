"""Unpack compressed batches, up to a limit: 300 kilobytes of gzip may hold 300 megabytes."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Final

import lz4.frame
import snappy
import zstandard

GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4
"""Codecs as the attributes of a batch number them."""
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES: Final = 16
_LENGTH: Final = struct.Struct(">i")
_GZIP_WINDOW: Final = 31
"""For zlib: the largest window, with gzip's header and check."""


class UnpackError(ValueError):
    """Not what its codec says, or more than the limit."""


def unpack(codec: int, packed: bytes, limit: int) -> bytes:
    """The contents of a batch. Memory: `limit` and a codec's window. Raises UnpackError."""
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
    """A block begins with its length unpacked, a varint."""
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
    with reader:
        return reader.read(limit + 1)


_UNPACK: Final = {GZIP: _gunzip, SNAPPY: _unsnap, LZ4: _unlz4, ZSTD: _unzstd}
