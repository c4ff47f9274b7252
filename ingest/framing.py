"""How protobuf messages lie in a file, told apart by walking them.

`length32`: each message after its length in 4 bytes, big endian (the Collector's file exporter).
`varint`: each message after its length as a varint (`writeDelimitedTo`). `bare`: the file is one message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum


class Framing(StrEnum):
    """Where one message ends and the next begins."""

    LENGTH32 = "length32"
    VARINT = "varint"
    BARE = "bare"


class Message(StrEnum):
    """Which message a file is of, and so its format."""

    OTLP = "otlp-proto"
    JAEGER = "jaeger-proto"


_LENGTH32 = 4
_MAX_VARINT = 10
_JAEGER_TAGS = frozenset(range(1, 13))


def recognise(head: bytes, *, is_whole: bool) -> tuple[Message, Framing] | None:
    """What the first bytes of a file (or all of it) are; None if they are neither message in any framing.

    A framing fits if every frame that lies in `head` is filled exactly by fields of the message (the last one
    may be cut off if others came before it). A message is OTLP if all its fields are number 1 (a request has
    no other), Jaeger if it begins with trace id and span id.
    """
    if not head:
        return None
    for framing in Framing:
        for message, fits in ((Message.JAEGER, _is_jaeger), (Message.OTLP, _is_otlp)):
            if _walk(head, framing, fits, is_whole=is_whole):
                return message, framing
    return None


def framing_of(head: bytes, message: Message, *, is_whole: bool) -> Framing | None:
    """The framing of a file of known messages, or None."""
    fits = _is_jaeger if message is Message.JAEGER else _is_otlp
    return next((f for f in Framing if _walk(head, f, fits, is_whole=is_whole)), None)


def _walk(head: bytes, framing: Framing, fits: Callable[[memoryview, bool], bool], *, is_whole: bool) -> bool:
    """Whether all frames of `head` fit, and at least one does."""
    view = memoryview(head)
    if framing is Framing.BARE:
        return fits(view, is_whole)
    at, seen = 0, 0
    while at < len(view):
        frame = read_length(view, at, framing)
        if frame is None:
            return seen > 0 and not is_whole and len(view) - at < _MAX_VARINT
        body = view[frame.start : frame.start + frame.length]
        complete = len(body) == frame.length
        if frame.length == 0 or not fits(body, complete):
            return False
        if is_whole and not complete:
            # A file cut off in its last message still shows itself by the messages before it.
            return seen > 0
        seen += 1
        at = frame.start + frame.length
    return seen > 0


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame's message: where it starts, and its length in bytes."""

    start: int
    length: int


def read_length(view: memoryview, at: int, framing: Framing) -> Frame | None:
    """The frame whose length stands at `at`; None if the length is cut off or no length."""
    if framing is Framing.LENGTH32:
        if at + _LENGTH32 > len(view):
            return None
        return Frame(at + _LENGTH32, int.from_bytes(view[at : at + _LENGTH32], "big"))
    varint = _varint(view, at)
    return None if varint is None else Frame(varint[1], varint[0])


def _varint(view: memoryview, at: int) -> tuple[int, int] | None:
    """(value, position after it), or None if it is cut off or too long."""
    value = 0
    for i, byte in enumerate(view[at : at + _MAX_VARINT]):
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return value, at + i + 1
    return None


def _is_otlp(body: memoryview, complete: bool) -> bool:
    return _all_fields(body, complete, lambda number, wire: number == 1 and wire == 2)


def _is_jaeger(body: memoryview, complete: bool) -> bool:
    """Fields of a span, the first two being a trace id of 16 bytes and a span id of 8."""
    start = list(_fields(body[: 1 + 1 + 16 + 1 + 1 + 8]))
    if [(n, w, s) for n, w, s, _ in start[:2]] != [(1, 2, 16), (2, 2, 8)]:
        return False
    return _all_fields(body, complete, lambda number, _: number in _JAEGER_TAGS)


def _all_fields(body: memoryview, complete: bool, legal: Callable[[int, int], bool]) -> bool:
    """Whether the body is legal fields, filling it exactly if it is complete."""
    end = 0
    for number, wire, _, after in _fields(body):
        if not legal(number, wire):
            return False
        end = after
    return end == len(body) if complete else end > 0


def _fields(body: memoryview) -> Iterator[tuple[int, int, int, int]]:
    """(number, wire type, size, position after) of each field; stops at what is no field.

    A field that runs past the end is given with its position after, which then is past the end.
    """
    at = 0
    while at < len(body):
        tag = _varint(body, at)
        if tag is None:
            return
        number, wire, at = tag[0] >> 3, tag[0] & 7, tag[1]
        if wire == 2:
            length = _varint(body, at)
            if length is None:
                return
            size, at = length[0], length[1] + length[0]
        elif wire == 0:
            value = _varint(body, at)
            if value is None:
                return
            size, at = value[1] - at, value[1]
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
            at += size
        else:
            return
        yield number, wire, size, at
