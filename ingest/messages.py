"""Convert messages of a log (Kafka) to payloads: each message becomes one payload, at its offset.

A message without a value (a tombstone of a compacted topic), without bytes, over the size limit or with a
damaged archive becomes a reject at its offset. A value that the producer itself compressed (gzip or zstd
inside the message, not the topic's codec) is decompressed up to the limit, as files are; a decompression bomb
becomes a dead letter.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Final, TypeGuard, cast

from ingest.compressed import PACKED, ByteSource
from ingest.formats import AUTO, format_of
from ingest.source import Payloads
from schemas.config import DecodeConfig
from schemas.rejects import Reason, Reject

POLL_BYTES: Final = 32 * 2**20
"""Number of bytes of payload at which the messages of one poll are split into pieces, as 500 messages may
decompress to 8 GB; a piece exceeds it by its last payload at most."""
TOMBSTONE: Final = "a message without a value"
_PACKED_BYTES: Final = frozenset(magic[0] for magic in PACKED)
_HEAD: Final = itemgetter(slice(max(map(len, PACKED))))


def payloads_of_messages(
    stream: str,
    format_: str,
    values: Sequence[bytes | None],
    offsets: Sequence[int],
    until: int,
    config: DecodeConfig,
    *,
    poll_bytes: int = POLL_BYTES,
) -> Iterator[Payloads]:
    """Convert the messages of one poll of one partition; yield their payloads and rejects in pieces, usually
    one.

    format_: name or alias of the format, or AUTO. values: content of each message; None: a tombstone.
    offsets: offset of each message, ascending. until: next offset to read after the poll; larger than the
    last offset + 1 if the partition has a gap there. poll_bytes: size above which a piece ends. The pieces
    cover all offsets: each ends where the next begins, the last at `until`. Raises UnknownFormatError.
    O(bytes), some 0.05 µs per message.
    """
    name = format_ if format_ == AUTO else format_of(format_).name
    if len(values) != len(offsets):
        raise ValueError(f"{len(values)} values have {len(offsets)} offsets")
    limit = config.max_payload_bytes
    if _are_plain(values, limit, poll_bytes):
        yield Payloads(stream, name, list(values), list(offsets), until, [])
        return
    payloads: list[bytes] = []
    positions: list[int] = []
    rejects: list[Reject] = []
    size = 0
    for value, offset in zip(values, offsets, strict=True):
        if size > poll_bytes:
            yield Payloads(stream, name, payloads, positions, offset, rejects)
            payloads, positions, rejects, size = [], [], [], 0
        payload: bytes | Reject
        if value and len(value) <= limit and not value.startswith(PACKED):
            payload = value
        else:
            payload = _content(value, offset, limit)
        if isinstance(payload, Reject):
            rejects.append(payload)
            continue
        payloads.append(payload)
        positions.append(offset)
        size += len(payload)
    yield Payloads(stream, name if payloads else None, payloads, positions, until, rejects)


def _are_plain(values: Sequence[bytes | None], limit: int, poll_bytes: int) -> TypeGuard[Sequence[bytes]]:
    """True if all values are uncompressed bytes within the limits, the common case; takes no Python per
    byte."""
    if not values or not all(values):
        return False
    filled = cast(Sequence[bytes], values)
    sizes = list(map(len, filled))
    first = set(map(itemgetter(0), filled))
    if max(sizes) > limit or sum(sizes) > poll_bytes:
        return False
    # A JSON array may begin with the first byte of a compressed format.
    return first.isdisjoint(_PACKED_BYTES) or not any(h.startswith(PACKED) for h in set(map(_HEAD, filled)))


def _content(value: bytes | None, offset: int, limit: int) -> bytes | Reject:
    """Decompress a message: its content, or a reject if it is empty, damaged or over the size limit."""
    if not value:
        detail = TOMBSTONE if value is None else "the message is empty"
        return Reject(Reason.EMPTY, detail, b"", offset)
    if len(value) > limit:
        detail = f"a message of {len(value)} bytes is over the limit of {limit}"
        return Reject(Reason.TOO_LARGE, detail, value, offset)
    source = ByteSource(io.BytesIO(value))
    content = source.read(limit + 1)
    if source.failure is not None:
        return _packed_reject(
            Reason.BAD_COMPRESSION, f"the archive is damaged or cut off: {source.failure}", value, offset
        )
    if len(content) > limit:
        return _packed_reject(
            Reason.TOO_LARGE, f"{len(value)} bytes unpack to more than the limit of {limit}", value, offset
        )
    return content if content else Reject(Reason.EMPTY, "the archive holds nothing", b"", offset)


def _packed_reject(reason: Reason, detail: str, value: bytes, offset: int) -> Reject:
    """Reject of a compressed message. Its bytes are not stored, as secrets cannot be found in them."""
    return Reject(reason, detail, None, offset, sha256=hashlib.sha256(value).hexdigest(), size=len(value))
