"""Detect the framing of protobuf messages in a file by walking them.

`length32`: each message after its length in 4 bytes, big endian (the Collector's file exporter).
`varint`: each message after its length as a varint (`writeDelimitedTo`). `bare`: the file is one message.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ingest.codecs.values.wire import BYTES, MAX_VARINT, fields_of, varint


class Framing(StrEnum):
    """Framing of protobuf messages in a file: the way in which the end of a message is marked."""

    LENGTH32 = "length32"
    VARINT = "varint"
    BARE = "bare"


@dataclass(frozen=True, slots=True)
class MessageShape:
    """Outermost fields of every message of a format."""

    fields: frozenset[int]
    """Numbers of all fields that a message may have."""
    bytes_only: bool = False
    """True if all fields of a message are length-delimited."""
    begins: tuple[tuple[int, int], ...] = ()
    """(Field number, size in bytes) of the length-delimited fields at the beginning of a message, in
    order.
    """
    sizes: tuple[tuple[int, frozenset[int]], ...] = ()
    """(Field number, legal sizes in bytes) of length-delimited fields."""
    needs: frozenset[int] = frozenset()
    """Numbers of the required fields."""
    inner: MessageShape | None = None
    """Shape of the message in the first field; None: not examined. Damage in that message is tolerated,
    foreign fields are not.
    """

    def fits(self, body: memoryview, *, is_complete: bool) -> bool:
        """True if `body` consists of fields of such a message; a complete body must be filled exactly."""
        end = self._end(body, is_complete=is_complete)
        if end is None:
            return False
        return end == len(body) if is_complete else end > 0

    def _end(self, body: memoryview, *, is_complete: bool) -> int | None:
        """Offset of the end of the last field; None if a field is foreign, or a required one is missing."""
        end, seen = 0, 0
        sizes, missing = dict(self.sizes), set(self.needs)
        for number, wire, size, after in fields_of(body):
            if number not in self.fields or (self.bytes_only and wire != BYTES):
                return None
            if seen < len(self.begins) and (wire, (number, size)) != (BYTES, self.begins[seen]):
                return None
            if number in sizes and (wire != BYTES or size not in sizes[number]):
                return None
            if seen == 0 and self.inner is not None:
                first = body[after - size : after]
                if self.inner._end(first, is_complete=after <= len(body)) is None:
                    return None
            missing.discard(number)
            end, seen = after, seen + 1
        return None if seen < len(self.begins) or (is_complete and missing) else end


LENGTH32_BYTES: Final = 4
"""Size of the length field in front of a message, bytes."""
_MAX_ODD = 1_000
"""Maximum surplus of foreign over matching frames; with more, a file is of another format."""


@dataclass(frozen=True, slots=True)
class Fit:
    """Number of a file's first bytes that are messages of one shape in one framing."""

    n_bytes: int = 0
    """Bytes in matching frames; 0: no match."""
    is_perfect: bool = False
    """True if all frames match."""


def fit_of(head: bytes, framing: Framing, shape: MessageShape, *, is_whole: bool) -> Fit:
    """Match a file's first bytes (or the whole file) with messages in a framing, by walking the frames.

    The lengths must lead from frame to frame to the end of `head`; only the last frame may be cut off. A
    foreign frame does not rule out the framing: it is refused individually, later.
    """
    view = memoryview(head)
    if framing is Framing.BARE:
        fits = len(head) > 0 and shape.fits(view, is_complete=is_whole)
        return Fit(len(head), is_perfect=True) if fits else Fit()
    at, fitting, good, odd = 0, 0, 0, 0
    while at < len(view) and odd - good <= _MAX_ODD:
        frame = read_length(view, at, framing)
        if frame is None:
            is_cut = len(view) - at < MAX_VARINT
            return Fit(fitting, is_perfect=odd == 0) if is_cut else Fit()
        end = frame.start + frame.length
        is_complete = end <= len(view)
        if is_complete or not is_whole:
            body = view[frame.start : end]
            if len(body) and shape.fits(body, is_complete=is_complete):
                fitting, good = fitting + len(body), good + 1
            else:
                odd += 1
        at = end
    return Fit(fitting, is_perfect=odd == 0) if odd - good <= _MAX_ODD else Fit()


@dataclass(frozen=True, slots=True)
class Frame:
    """Message in a frame: offset of its start, and its length in bytes."""

    start: int
    length: int


def read_length(view: memoryview, at: int, framing: Framing) -> Frame | None:
    """Frame whose length field is at `at`; None if the length is cut off or invalid."""
    if framing is Framing.LENGTH32:
        if at + LENGTH32_BYTES > len(view):
            return None
        return Frame(at + LENGTH32_BYTES, int.from_bytes(view[at : at + LENGTH32_BYTES], "big"))
    length = varint(view, at)
    return None if length is None else Frame(length[1], length[0])
