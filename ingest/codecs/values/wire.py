"""Walk the fields of a protobuf message by its wire format, without its schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

BYTES: Final = 2
"""Wire type number of length-delimited fields."""
MAX_VARINT: Final = 10
"""Maximum bytes of a varint."""


def varint(view: memoryview, at: int) -> tuple[int, int] | None:
    """Read the varint at offset `at`: (value, offset after the varint); None if it is cut off or too long."""
    value = 0
    for i, byte in enumerate(view[at : at + MAX_VARINT]):
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return value, at + i + 1
    return None


def fields_of(body: memoryview) -> Iterator[tuple[int, int, int, int]]:
    """Yield (field number, wire type, size in bytes, offset after the field) for each field of a message;
    stops at an invalid one.

    A field that is cut off is yielded with an offset beyond the end of `body`.
    """
    at = 0
    while at < len(body):
        tag = varint(body, at)
        if tag is None:
            return
        number, wire, at = tag[0] >> 3, tag[0] & 7, tag[1]
        if wire == BYTES:
            length = varint(body, at)
            if length is None:
                return
            size, at = length[0], length[1] + length[0]
        elif wire == 0:
            value = varint(body, at)
            if value is None:
                return
            size, at = value[1] - at, value[1]
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
            at += size
        else:
            return
        yield number, wire, size, at
