"""Payloads, and the protocol of the logs from which they are read: `LiveSource`.

A poll returns payloads of one stream, in order; together the polls of a stream cover all its positions, so
that a driver can commit `[from, until)` and a new source can continue from a committed position. Finite
inputs (a file, a part of a log) are iterators of polls. Damaged input (a truncated archive, a message over
the size limit) becomes a reject at its position, never an exception.
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
    """Payloads of one stream that were read together, and rejects of items that could not become payloads."""

    stream: str
    """Name of the stream to which positions refer: a file's name, or topic/partition."""
    format: str | None
    """Name of the payloads' format; `formats.AUTO` until `ContentFormat` recognises it. None: there is no
    payload to decode."""
    payloads: list[bytes]
    positions: list[int]
    """Position of each payload, ascending: offset of the message, or in a file the number of the message or
    of the payload's first line."""
    until: int
    """Position after the last one (of a message or a gap) that this poll covers."""
    rejects: list[Reject] = field(default_factory=list)
    """Rejects of items that are no payloads; `payload` of each is a position in the stream."""
    latest_ns: int | None = None
    """Latest timestamp that the log has for a message of this poll, ns since the epoch; None: no
    timestamps."""
    epoch: int | None = None
    """Leader epoch of the last message of this poll, see `Place`; None: the log has no epochs."""

    @classmethod
    def refused(cls, stream: str, reject: Reject) -> Payloads:
        """Make a poll without payloads that has one reject."""
        return cls(stream, None, [], [], reject.payload + 1, [reject])


@dataclass(frozen=True, slots=True, order=True)
class StreamId:
    """One partition of one topic."""

    topic: str
    partition: int

    @property
    def name(self) -> str:
        """Name of the stream, `topic/partition`, as in `Payloads.stream`."""
        return f"{self.topic}/{self.partition:d}"

    @property
    def lane(self) -> int:
        """Number of the stream's lane: partition number + 1, for all topics; lane 0 is for files."""
        return self.partition + 1


@dataclass(frozen=True, slots=True)
class Place:
    """Position in a stream, with the identity of the log: an offset is meaningless in another log."""

    offset: int
    """Offset of the next message."""
    topic_id: str | None = None
    """Id that distinguishes the topic from a later one with the same name; None: unknown."""
    epoch: int | None = None
    """Leader epoch of the messages before the place, or a larger one. A truncated log continues under a
    larger epoch, so the previous epoch ends where it was truncated. None: unknown."""


TOPIC_SCHEME: Final = "kafka://"
"""Prefix of the names of inputs that are parts of a topic."""


@dataclass(frozen=True, slots=True)
class LogPart:
    """Range of messages of one partition, used as an input like a file: its offsets are fixed, so reading it
    again gives the same messages."""

    servers: tuple[str, ...]
    """Brokers to contact first, `host:port`; not part of `sha256`."""
    cluster_id: str | None
    topic_id: str | None
    stream: StreamId
    start: int
    end: int
    """Offset after the last message of the range."""
    format: str
    """Name of the format of all messages, or `formats.AUTO`."""

    @property
    def name(self) -> str:
        """Name of an input that denotes exactly this range, so that it can be imported again."""
        return f"{TOPIC_SCHEME}{','.join(self.servers)}/{self.stream.name}@{self.start}:{self.end}"

    @property
    def sha256(self) -> str:
        """Hash of log, partition and offsets, hex; it does not depend on which brokers are named."""
        said = (self.cluster_id, self.topic_id, self.stream.name, self.start, self.end)
        return hashlib.sha256(repr(said).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class StreamChange:
    """Change of the streams assigned to this member of a consumer group."""

    gained: tuple[StreamId, ...] = ()
    """Newly assigned streams; none is read before `start` is called for it."""
    asked: tuple[StreamId, ...] = ()
    """Streams that the group revokes: commit their messages, then call `release`."""
    lost: tuple[StreamId, ...] = ()
    """Streams that are no longer assigned to this member; another member may already read them."""

    def __bool__(self) -> bool:
        """True if anything changed."""
        return bool(self.gained or self.asked or self.lost)


class StreamError(InputError):
    """A failure of one stream; other streams continue."""

    slug = "stream"

    def __init__(self, message: str, *, stream: StreamId, remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.stream = stream


class GapError(StreamError):
    """The log no longer has the next message of a stream, because retention deleted it."""

    slug = "gap"

    def __init__(self, stream: StreamId, position: int, first: int) -> None:
        lost = f"{first - position} messages from {position} on are gone, the log begins at {first}"
        remedy = "--accept-gaps goes on behind them; a longer retention keeps it from happening."
        super().__init__(f"{stream.name}: {lost}.", stream=stream, remedy=remedy)
        self.first = first
        """Offset of the first message that is still in the log."""


class TopicChangedError(StreamError):
    """A topic was deleted and created again, so that recorded positions in it are invalid."""

    slug = "topic-changed"

    def __init__(self, stream: StreamId) -> None:
        super().__init__(
            f"Topic '{stream.topic}' was deleted and made anew: offsets of the old one say nothing of it.",
            stream=stream,
            remedy="Read it into a lake of its own, or under another name.",
        )


class CutBackError(StreamError):
    """The log was truncated before the position up to which it was read; messages written after the
    truncation were not read."""

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
        """Offset of the first message written after the truncation; None: unknown."""


class CorruptStreamError(StreamError):
    """A part of a stream cannot be read, although it was fetched repeatedly."""

    slug = "corrupt-stream"


class LiveSource(Protocol):
    """Partitions of a log that are assigned to this member of a consumer group. Used by one thread.

    It never ends. While brokers cannot be reached, polls return None and `trouble` has the reason.
    """

    @property
    def cluster_id(self) -> str | None:
        """Id of the cluster; None if it has none or was not reached yet."""
        ...

    @property
    def trouble(self) -> str | None:
        """Reason why polls return nothing, or why a receiver refuses messages, as a sentence; None: no
        problem."""
        ...

    def change(self) -> StreamChange:
        """Change of the assigned streams since the last call.

        Never blocks; usually empty.
        """
        ...

    def poll(self, timeout_s: float) -> Payloads | None:
        """Next payloads of one stream; None if no message arrived within `timeout_s` seconds.

        Messages that cannot become payloads are rejects. Raises CorruptStreamError (the stream is then
        paused), GapError, TopicChangedError, CutBackError.
        """
        ...

    def start(self, stream: StreamId, place: Place | None) -> Place:
        """Start reading a gained stream at `place` (None: where the settings say); return the place at which
        it really starts.

        Raises GapError, TopicChangedError, CutBackError; InputError if the log does not answer in time.
        """
        ...

    def release(self, streams: Collection[StreamId]) -> None:
        """Release revoked streams; call it after their messages were committed."""
        ...

    def pause(self, streams: Collection[StreamId]) -> None:
        """Stop fetching streams; the membership in the group continues as long as `poll` is called."""
        ...

    def resume(self, streams: Collection[StreamId]) -> None:
        """Resume fetching streams."""
        ...

    def ends(self) -> Mapping[StreamId, int]:
        """Stream -> offset of the next message to be written, only for streams whose end was confirmed
        recently: a caller does not wait for messages of a stream that seems to be read to its end."""
        ...

    def commit_offsets(self, positions: Mapping[StreamId, int]) -> bool:
        """Report the positions before which the lake has all messages; return True if they were accepted.
        Takes limited time.

        Kafka stores them for tools that show lag; a spool then deletes files, which matters most when it is
        full.
        """
        ...

    def close(self) -> None:
        """Leave the consumer group. May be called twice."""
        ...


class RangeSource(Protocol):
    """Reader of ranges of a log that were read before, to restore their events."""

    def read(self, stream: StreamId, start: int, end: Place) -> tuple[list[Payloads], list[tuple[int, int]]]:
        """Read a range again: (payloads of the part of `[start, end)` that the log still has, missing ranges
        as (start, end) offsets).

        The whole range is missing if the log is not the one of `end` any more. Raises InputError if the log
        does not answer.
        """
        ...
