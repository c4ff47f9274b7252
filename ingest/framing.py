"""Detect how protobuf messages are framed in a file, by walking from message to message.

`length32`: each message follows its length in 4 bytes, big endian (the Collector's file exporter). `varint`:
each message follows its length as a varint (`writeDelimitedTo`). `bare`: the file is one message.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ingest.codecs.values.wire import BYTES, MAX_VARINT, fields_of, varint


class Framing(StrEnum):
    """Framing of protobuf messages in a file: how the end of each message is found."""

    LENGTH32 = "length32"
    VARINT = "varint"
    BARE = "bare"


@dataclass(frozen=True, slots=True)
class MessageShape:
    """Outermost fields of every message of a format, by which a file of the format is recognised."""

    fields: frozenset[int]
    """Numbers of all fields that a message may contain."""
    bytes_only: bool = False
    """True if all fields of a message are length-delimited."""
    begins: tuple[tuple[int, int], ...] = ()
    """(field number, size in bytes) of the length-delimited fields with which every message begins, in
    order."""
    sizes: tuple[tuple[int, frozenset[int]], ...] = ()
    """(field number, valid sizes in bytes) of length-delimited fields whose size is restricted."""
    needs: frozenset[int] = frozenset()
    """Numbers of the required fields."""
    inner: MessageShape | None = None
    """Shape of the message in the first field; None: not examined. Damage inside that message is tolerated,
    unknown fields are not."""

    def fits(self, body: memoryview, *, is_complete: bool) -> bool:
        """True if `body` consists of fields of a message of this shape. is_complete: True if `body` must end
        with the end of a field."""
        end = self._end(body, is_complete=is_complete)
        if end is None:
            return False
        return end == len(body) if is_complete else end > 0

    def _end(self, body: memoryview, *, is_complete: bool) -> int | None:
        """Offset after the last field in `body`; None if a field is not of this shape, or a required one is
        missing."""
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
"""Bytes of the length before each message in the framing `length32`."""
_MAX_ODD = 1_000
"""Maximum difference between the numbers of frames that do not match and that match a shape; above it the
file is of another format."""


@dataclass(frozen=True, slots=True)
class Fit:
    """Match of a file's first bytes with messages of one shape in one framing."""

    n_bytes: int = 0
    """Number of bytes in frames that match; 0: no match."""
    is_perfect: bool = False
    """True if all frames match."""


def fit_of(head: bytes, framing: Framing, shape: MessageShape, *, is_whole: bool) -> Fit:
    """Match the first bytes of a file with messages of one shape in one framing. is_whole: True if `head` is
    the whole file.

    The lengths must lead from frame to frame to the end of `head`; only the last frame may be cut off. A
    frame that is no message of this shape does not rule out the framing: it is rejected when the file is
    read.
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
    """Location of one message: offset of its first byte, and its length in bytes."""

    start: int
    length: int


def read_length(view: memoryview, at: int, framing: Framing) -> Frame | None:
    """Read the length at offset `at`, and return the frame that follows; None if the length is cut off or
    invalid."""
    if framing is Framing.LENGTH32:
        if at + LENGTH32_BYTES > len(view):
            return None
        return Frame(at + LENGTH32_BYTES, int.from_bytes(view[at : at + LENGTH32_BYTES], "big"))
    length = varint(view, at)
    return None if length is None else Frame(length[1], length[0])
