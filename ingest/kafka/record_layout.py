"""Read the messages inside a batch by columns: their values and offsets.

A record is its length, a byte of attributes, time delta, offset delta, key, value, headers; numbers are
varints, zigzag; lengths of -1 stand for null (Kafka protocol, record batches of format 2).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import compress
from typing import Final

import numpy as np
from numpy.typing import NDArray

_FEW: Final = 24
"""Messages of a batch up to which a loop is faster than columns."""
_VARINT_BYTES: Final = 10
"""No number has more."""


class LayoutError(ValueError):
    """The contents of a batch are not the messages that its head tells of."""


@dataclass(frozen=True, slots=True)
class Messages:
    """Values with their offsets, ascending."""

    values: list[bytes | None]
    offsets: list[int]
    bytes: int
    """Size of the batch they are from, unpacked."""

    def from_offset(self, offset: int) -> Messages:
        """Those from an offset on."""
        if not self.offsets or self.offsets[0] >= offset:
            return self
        n = sum(each < offset for each in self.offsets)
        return Messages(self.values[n:], self.offsets[n:], self.bytes)


def messages_of(contents: bytes, count: int, base_offset: int) -> Messages:
    """The `count` messages of a batch. O(messages), 0.5 µs each. Raises LayoutError."""
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
    """A varint, and the position behind it. Raises IndexError, LayoutError."""
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
    """Message by message."""
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
    """All messages at once; only their lengths, which say where the next one is, are read in a loop."""
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
    # A length before the next message makes `room` up to ten bytes larger than the message.
    if bool((np.diff(start) <= 0).any()) or bool((keys < -1).any()) or bool((end > room).any()):
        raise LayoutError("a message is longer than its room")
    values: list[bytes | None] = [contents[a:b] for a, b in zip(begin.tolist(), end.tolist(), strict=True)]
    for index in compress(range(count), (~is_value).tolist()):
        values[index] = None
    return values, deltas.tolist()


def _numbers(data: NDArray[np.uint8], at: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """A varint from each position on, and the positions behind them. Raises LayoutError."""
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
