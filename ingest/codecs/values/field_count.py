"""How many fields a protobuf message has, on all its levels, without making anything of them."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

MAX_FIELDS: Final = 50_000
"""Of one span over `nested.PART_BYTES`; what has more says nothing with them. SDKs stop at 128 attributes,
events and links each."""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def has_many_fields(message: bytes, descriptor: Any) -> bool:
    """Whether a message has more than MAX_FIELDS. O(MAX_FIELDS); what is malformed ends the count."""
    seen, at = 0, 0
    levels = [(len(message), _inner(descriptor))]
    while levels and seen <= MAX_FIELDS:
        end, inner = levels[-1]
        if at >= end:
            levels.pop()
            continue
        seen += 1
        tag, at = _varint(message, at)
        wire = tag & 7
        if wire == _BYTES:
            length, at = _varint(message, at)
            after = min(at + length, end)
            if tag >> 3 in inner:
                levels.append((after, _inner(inner[tag >> 3])))
            else:
                at = after
        elif wire == _VARINT:
            _, at = _varint(message, at)
        elif wire in (_FIXED64, _FIXED32):
            at += 8 if wire == _FIXED64 else 4
        else:
            return False
    return seen > MAX_FIELDS


@cache
def _inner(descriptor: Any) -> dict[int, Any]:
    """Descriptors of the fields that are messages, by number."""
    return {f.number: f.message_type for f in descriptor.fields if f.message_type is not None}


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """(value, position after it); the end of the message ends it."""
    value, shift = 0, 0
    while at < len(message):
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 63:
            break
    return value, at
