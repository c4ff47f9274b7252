"""Tell how protobuf messages lie in a file, by walking them.

`length32`: each message after its length in 4 bytes, big endian (the Collector's file exporter).
`varint`: each message after its length as a varint (`writeDelimitedTo`). `bare`: the file is one message.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ingest.codecs.values.wire import BYTES, MAX_VARINT, fields_of, varint


class Framing(StrEnum):
    """Where one message ends and the next begins."""

    LENGTH32 = "length32"
    VARINT = "varint"
    BARE = "bare"


@dataclass(frozen=True, slots=True)
class MessageShape:
    """What every message of a format is like, by its outermost fields."""

    fields: frozenset[int]
    """Numbers of its fields."""
    bytes_only: bool = False
    """All of them are length-delimited."""
    begins: tuple[tuple[int, int], ...] = ()
    """Number and size of the length-delimited fields it begins with."""
    sizes: tuple[tuple[int, frozenset[int]], ...] = ()
    """Number and legal sizes of length-delimited fields."""
    needs: frozenset[int] = frozenset()
    """Numbers of fields that a complete message has."""
    inner: MessageShape | None = None
    """What its first field is like. Damage in it does not speak against the message, other fields do."""

    def fits(self, body: memoryview, *, is_complete: bool) -> bool:
        """Whether the body is fields of this message, filling it exactly if it is complete."""
        end = self._end(body, is_complete=is_complete)
        if end is None:
            return False
        return end == len(body) if is_complete else end > 0

    def _end(self, body: memoryview, *, is_complete: bool) -> int | None:
        """Find where the last field ends; None where one is not of this message, or one is missing."""
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


_LENGTH32 = 4
_MAX_ODD = 1_000
"""So many frames that hold something else, less those that fit, and the file is something else."""


@dataclass(frozen=True, slots=True)
class Fit:
    """How well a file's first bytes are messages of one shape in one framing."""

    n_bytes: int = 0
    """In frames that hold such messages; 0: they are none."""
    is_perfect: bool = False
    """No frame holds anything else."""


def fit_of(head: bytes, framing: Framing, shape: MessageShape, *, is_whole: bool) -> Fit:
    """Walk the frames of the first bytes of a file (or of all of it).

    The lengths must lead from frame to frame to the end of `head`; only the last frame may be cut off. A
    frame that holds something else does not speak against the framing: it is refused by itself, later.
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
    """A frame's message: where it starts, and its length in bytes."""

    start: int
    length: int


def read_length(view: memoryview, at: int, framing: Framing) -> Frame | None:
    """The frame whose length stands at `at`; None if the length is cut off or no length."""
    if framing is Framing.LENGTH32:
        if at + _LENGTH32 > len(view):
            return None
        return Frame(at + _LENGTH32, int.from_bytes(view[at : at + _LENGTH32], "big"))
    length = varint(view, at)
    return None if length is None else Frame(length[1], length[0])
