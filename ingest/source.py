"""Payloads, and the port of logs that provide them: `LiveSource`.

A poll returns payloads of one stream, in order; together the polls of a stream cover its positions without a
gap, so that a driver can commit `[from, until)` and a new source continues from a committed position. Finite
inputs (a file, a part of a log) are iterators of polls. Damaged input (a truncated archive, a message over
the limit) becomes a reject at its position, never an exception.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from schemas.errors import InputError
from schemas.rejects import Reject


@dataclass(frozen=True, slots=True)
class Payloads:
    """Payloads of one stream, and rejects of items that could not become payloads."""

    stream: str
    """Name of the stream that positions refer to: a file's name, or topic/partition."""
    format: str | None
    """Format of the payloads; `formats.AUTO` until `ContentFormat` determines it. None: no payload to
    decode."""
    payloads: list[bytes]
    positions: list[int]
    """Position of each payload, ascending: message offset, or number of the message or of the first line in a
    file.
    """
    until: int
    """Position after the last one that this poll covers, be it a payload or a gap."""
    rejects: list[Reject] = field(default_factory=list)
    """Rejects of items that are no payloads; their field `payload` is a position of the stream."""
    latest_ns: int | None = None
    """Largest timestamp of this poll's messages in the log, ns since the epoch; None: no timestamps."""
    epoch: int | None = None
    """Leader epoch of this poll's last message, see `Place`; None: the log has no epochs."""

    @classmethod
    def refused(cls, stream: str, reject: Reject) -> Payloads:
        """Poll without payloads, with a single reject."""
        return cls(stream, None, [], [], reject.payload + 1, [reject])


@dataclass(frozen=True, slots=True, order=True)
class StreamId:
    """One partition of one topic."""

    topic: str
    partition: int

    @property
    def name(self) -> str:
        """Name of the stream, topic/partition, as in `Payloads.stream`."""
        return f"{self.topic}/{self.partition:d}"

    @property
    def lane(self) -> int:
        """Lane of the stream: one per partition number, shared by all topics; lane 0 is for files."""
        return self.partition + 1


@dataclass(frozen=True, slots=True)
class Place:
    """Position in a stream together with the identity of the log: an offset alone is meaningless in another
    log.
    """

    offset: int
    """Offset of the next message."""
    topic_id: str | None = None
    """Id that distinguishes a topic from another one created under the same name; None: unknown."""
    epoch: int | None = None
    """Leader epoch of the messages before the place, or larger: a truncated log continues under a larger
    epoch, and the older one ends at the truncation. None: unknown.
    """


TOPIC_SCHEME: Final = "kafka://"
"""Prefix of the names of inputs that are parts of a topic."""


@dataclass(frozen=True, slots=True)
class LogPart:
    """Range of messages of one partition, used as an input like a file: offsets are resolved once, and
    reading it again gives the same messages."""

    servers: tuple[str, ...]
    """Brokers to contact first, `host:port`; not part of the identity."""
    cluster_id: str | None
    topic_id: str | None
    stream: StreamId
    start: int
    end: int
    """Offset after the last message."""
    format: str
    """Format of every message, or `formats.AUTO`."""

    @property
    def name(self) -> str:
        """Name under which exactly this part can be imported again."""
        return f"{TOPIC_SCHEME}{','.join(self.servers)}/{self.stream.name}@{self.start}:{self.end}"

    @property
    def sha256(self) -> str:
        """Identity of the part: hash of log, partition and offsets, without the brokers' addresses. Hex."""
        said = (self.cluster_id, self.topic_id, self.stream.name, self.start, self.end)
        return hashlib.sha256(repr(said).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class StreamChange:
    """Change of the streams that are assigned to this member of a group."""

    gained: tuple[StreamId, ...] = ()
    """Newly assigned streams; each delivers messages only after `start`."""
    asked: tuple[StreamId, ...] = ()
    """Revoked streams: commit their messages, then `release` them."""
    lost: tuple[StreamId, ...] = ()
    """Streams no longer assigned to this member: another one may be processing them already."""

    def __bool__(self) -> bool:
        """True if anything changed."""
        return bool(self.gained or self.asked or self.lost)


class StreamError(InputError):
    """A failure of one stream; the others continue."""

    slug = "stream"

    def __init__(self, message: str, *, stream: StreamId, remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.stream = stream


class GapError(StreamError):
    """The log no longer has the next message: retention deleted it."""

    slug = "gap"

    def __init__(self, stream: StreamId, position: int, first: int) -> None:
        lost = f"{first - position} messages from {position} on are gone, the log begins at {first}"
        remedy = "--accept-gaps goes on behind them; a longer retention keeps it from happening."
        super().__init__(f"{stream.name}: {lost}.", stream=stream, remedy=remedy)
        self.first = first
        """Offset of the first message that is still in the log."""


class TopicChangedError(StreamError):
    """A topic was deleted and created again, so recorded positions are invalid."""

    slug = "topic-changed"

    def __init__(self, stream: StreamId) -> None:
        super().__init__(
            f"Topic '{stream.topic}' was deleted and made anew: offsets of the old one say nothing of it.",
            stream=stream,
            remedy="Read it into a lake of its own, or under another name.",
        )


class CutBackError(StreamError):
    """The log was truncated before the read position; its messages after the truncation were not read."""

    slug = "cut-back"

    def __init__(self, stream: StreamId, position: int, first: int | None) -> None:
        where = "behind what was read" if first is None else f"to {first}"
        super().__init__(
            f"{stream.name}: the log was cut back {where}, and was read to {position} (an unclean election "
            "of a leader, or a disk restored from a backup?).",
            stream=stream,
            remedy="Compare the topic with the lake; --accept-gaps goes on with what the log has there now.",
        )
        self.first = first
        """Offset of the first message after the truncation; None: unknown."""


class CorruptStreamError(StreamError):
    """A part of a stream cannot be read, after repeated fetches."""

    slug = "corrupt-stream"


class LiveSource(Protocol):
    """Partitions of a log that are assigned to this member of a group. Used by one thread.

    It never ends. While brokers cannot be reached, polls return nothing and `trouble` has the reason.
    """

    @property
    def cluster_id(self) -> str | None:
        """Id of the cluster; None if it has none or was not reached yet."""
        ...

    @property
    def trouble(self) -> str | None:
        """Reason why polls return nothing or a receiver takes nothing, one sentence; None: no problem."""
        ...

    def change(self) -> StreamChange:
        """Change of the assignment since the last call.

        Never blocks; usually empty.
        """
        ...

    def poll(self, timeout_s: float) -> Payloads | None:
        """Next payloads of one stream; None if none arrived in time.

        Messages that cannot be payloads are rejects. Raises CorruptStreamError (the stream is then paused),
        GapError, TopicChangedError, CutBackError.
        """
        ...

    def start(self, stream: StreamId, place: Place | None) -> Place:
        """Start a gained stream at a place (None: as configured) and return the actual one.

        Raises GapError, TopicChangedError, CutBackError, InputError where the log cannot be reached in time.
        """
        ...

    def release(self, streams: Collection[StreamId]) -> None:
        """Release revoked streams; called after their messages were committed."""
        ...

    def pause(self, streams: Collection[StreamId]) -> None:
        """Stop fetching streams; membership is kept as long as `poll` is called."""
        ...

    def resume(self, streams: Collection[StreamId]) -> None:
        """Resume fetching streams."""
        ...

    def ends(self) -> Mapping[StreamId, int]:
        """Stream -> offset of the next message to be written; only streams whose end was recently confirmed,
        as a caller does not wait for messages of a stream that seems fully read."""
        ...

    def commit_offsets(self, positions: Mapping[StreamId, int]) -> bool:
        """Report positions before which the lake has all messages; True if accepted, in bounded time.

        Kafka keeps them for lag tools; a spool removes its files by them, most importantly while it is full.
        """
        ...

    def close(self) -> None:
        """Leave the group. May be called twice."""
        ...


class RangeSource(Protocol):
    """Reader of ranges of a log that were read before."""

    def read(self, stream: StreamId, start: int, end: Place) -> tuple[list[Payloads], list[tuple[int, int]]]:
        """(Payloads of the part of `[start, end)` that the log still has, missing ranges as (start, end)
        offsets).

        Everything is missing if the log is no longer the one of `end`. Raises InputError if it does not
        answer.
        """
        ...
