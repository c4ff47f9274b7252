"""Protobuf messages made from their schema, then hurt field by field as no byte flip would.

Every varint (tag, length or value) may be overlong, too large or endless, at any depth; fields have the wrong
wire type, come twice, are cut off or of no schema; groups open and do not close; values nest deep.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from typing import Any

T0 = 1_700_000_000_000_000_000
MAX_DEPTH = 6
_VARINT, _FIXED64, _BYTES, _GROUP, _END_GROUP, _FIXED32 = range(6)
_HUGE = (2**64 - 1, 2**64 - 12, 2**63, 2**63 - 1, 2**32, 2**31, 2**31 - 1, 10**9)


class HostileMessages:
    """Messages of one class, more or less hurt. The same seed gives the same messages."""

    def __init__(self, descriptor: Any, seed: int) -> None:
        self._descriptor = descriptor
        self._random = random.Random(seed)
        self._rate = 0.0

    def make(self, n: int) -> Iterator[bytes]:
        """`n` messages; one in ten is sound."""
        for i in range(n):
            self._rate = 0.0 if i % 10 == 0 else self._random.choice((0.0005, 0.002, 0.01, 0.2))
            message = self._message(self._descriptor, 0)
            yield self._cut(message) if self._hurts() else message

    def _hurts(self) -> bool:
        return self._random.random() < self._rate

    def _message(self, descriptor: Any, depth: int) -> bytes:
        parts = []
        for field in descriptor.fields:
            if self._random.random() < (0.2 if depth else 0.02):
                continue
            repeats = self._random.choice((1, 1, 2, 3)) if field.is_repeated and depth < MAX_DEPTH else 1
            parts += [self._field(field, depth) for _ in range(repeats)]
        if self._hurts():
            parts.append(self._odd_field())
        if self._hurts():
            self._random.shuffle(parts)
        if self._hurts() and parts:
            parts.append(self._random.choice(parts))
        return b"".join(parts)

    def _field(self, field: Any, depth: int) -> bytes:
        kind = field.type
        if kind == field.TYPE_MESSAGE:
            if self._hurts():
                return self._nested(field.number, self._random.choice((50, 99, 101, 300, 1_200)))
            body = b"" if depth >= MAX_DEPTH else self._message(field.message_type, depth + 1)
            return self._delimited(field.number, body)
        if kind in (field.TYPE_STRING, field.TYPE_BYTES):
            return self._delimited(field.number, self._text(field))
        if kind in (field.TYPE_FIXED64, field.TYPE_DOUBLE, field.TYPE_SFIXED64):
            return self._tag(field.number, _FIXED64) + self._eight_bytes(field)
        if kind in (field.TYPE_FIXED32, field.TYPE_FLOAT, field.TYPE_SFIXED32):
            return self._tag(field.number, _FIXED32) + self._random.randbytes(4)
        value = self._random.choice((0, 1, 2, 3, 5, 200, T0 // 10**9, 2**64 - 1, 2**64 - 7))
        return self._tag(field.number, _VARINT) + self._varint(value)

    def _text(self, field: Any) -> bytes:
        if field.type == field.TYPE_BYTES and field.name.endswith("id") and not self._hurts():
            return self._random.randbytes(16 if "trace" in field.name else 8)
        if field.name == "key" and not self._hurts():
            return self._random.choice(
                (b"a", b"http.url", b"cookie", b"service.name", b"span.kind", b"error")
            )
        if self._hurts():
            return self._random.choice((b"\xff\xfe", b"\x00", b"\xff" * 12, b"\xed\xa0\x80", b"x" * 5_000))
        return self._random.choice((b"", b"mark", b"GET /a/17", "é…".encode(), b'{"cookie":"v"}', b"{"))

    def _eight_bytes(self, field: Any) -> bytes:
        if "time" in field.name:
            return struct.pack("<Q", T0 + self._random.randrange(10**9))
        if self._hurts():
            return self._random.choice((b"\xff" * 8, b"\0" * 6 + b"\xf0\x7f", b"\0" * 6 + b"\xf8\xff"))
        return struct.pack("<d", self._random.choice((0.0, 1.5, -2.0, 1e300)))

    def _delimited(self, number: int, body: bytes) -> bytes:
        length = len(body)
        if self._hurts():
            length = self._random.choice((length + 1, max(length - 1, 0), 0, *_HUGE))
        return self._tag(number, _BYTES) + self._varint(length) + body

    def _tag(self, number: int, wire: int) -> bytes:
        if self._hurts():
            wire = self._random.randrange(8)
        if self._hurts():
            number = self._random.choice((0, 15, 16, 2_047, 2**28, 2**29 - 1, 2**32))
        return self._varint(number << 3 | wire)

    def _varint(self, value: int) -> bytes:
        if self._hurts():
            value = self._random.choice(_HUGE)
        out = bytearray()
        while value > 0x7F:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        out.append(value)
        if self._hurts():
            # The same number in more bytes than it needs, up to one more than there may be; or no end.
            size = self._random.randrange(len(out) + 1, 13)
            out[-1] |= 0x80
            out += b"\x80" * (size - len(out))
            out[-1] = self._random.choice((0x00, 0x01, 0x7F, 0x80, 0xFF))
        return bytes(out)

    def _nested(self, number: int, levels: int) -> bytes:
        """Arrays of arrays: AnyValue 5 → ArrayValue 1 → AnyValue; a message in a message to others."""
        body = b""
        for level in range(levels):
            body = self._plain(5 if level % 2 else 1, body)
        return self._plain(number, body)

    def _plain(self, number: int, body: bytes) -> bytes:
        length, out = len(body), bytearray([number << 3 & 0x7F | _BYTES])
        while length > 0x7F:
            out.append(length & 0x7F | 0x80)
            length >>= 7
        return bytes([*out, length]) + body

    def _odd_field(self) -> bytes:
        """What the schema has not."""
        makers: tuple[Callable[[], bytes], ...] = (
            lambda: self._tag(19, _GROUP) + self._tag(3, _VARINT) + b"\x05" + self._tag(19, _END_GROUP),
            lambda: self._tag(19, _GROUP),
            lambda: self._tag(19, _END_GROUP),
            lambda: self._tag(77, _BYTES) + self._varint(self._random.choice(_HUGE)),
            lambda: self._tag(77, _VARINT) + b"\xff" * self._random.randrange(12),
            lambda: self._random.randbytes(self._random.randrange(40)),
        )
        return self._random.choice(makers)()

    def _cut(self, message: bytes) -> bytes:
        return message[: self._random.randrange(len(message) + 1)]
