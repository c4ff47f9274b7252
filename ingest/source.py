"""The port through which payloads come in: files today, a consumer of Kafka beside them.

Who reads calls `poll` until `ended`. A poll gives payloads of one stream, in its order; together the polls
of a stream cover its positions without a gap, so that a driver can commit `[from, until)` and a source made
anew from a committed position goes on where it was. What the outside did to a payload (an archive cut off, a
message over the limit) comes as a reject at its position, never as an exception.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from schemas.rejects import Reject


@dataclass(frozen=True, slots=True)
class Payloads:
    """Some payloads of one stream, and what could not be made a payload."""

    stream: str
    """What positions count in: the name of a file, or topic/partition."""
    format: str | None
    """None: there is nothing to decode."""
    payloads: list[bytes]
    positions: list[int]
    """Of each payload, ascending: message offset, or number of the message or of the first line in a file."""
    until: int
    """Position after the last one that this poll covers, payload or gap."""
    rejects: list[Reject] = field(default_factory=list)
    """`Reject.payload` is the position here."""


class RecordSource(Protocol):
    """Payloads with positions. Used by one thread.

    A source of several streams also pauses, resumes and seeks them; a file has no use for that.
    """

    @property
    def ended(self) -> bool:
        """Nothing will ever come again. Never true of a topic."""
        ...

    def poll(self, timeout_s: float) -> Payloads | None:
        """The next payloads; None where none came in time, or at the end.

        Bounded: of a chunk's size, or one payload. Only a source that waits for others looks at the time-out.
        Raises InputError where the source cannot be read.
        """
        ...

    def close(self) -> None:
        """Give back what is open. May be called twice."""
        ...


def drain(source: RecordSource) -> Iterator[Payloads]:
    """Every poll of a source that ends; closes it."""
    try:
        while not source.ended:
            payloads = source.poll(0.0)
            if payloads is not None:
                yield payloads
    finally:
        source.close()
