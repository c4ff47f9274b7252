"""Define payloads, and the port of logs that give them: `LiveSource`.

A poll gives payloads of one stream, in its order; together the polls of a stream cover its positions without
a gap, so that a driver can commit `[from, until)` and a source made anew from a committed position goes on
where it was. What ends, a file or a part of a log, gives its polls as an iterator. What the outside did to a
payload (an archive cut off, a message over the limit) comes as a reject at its position, never as an
exception.
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
    latest_ns: int | None = None
    """Largest time that the log gave a message of this poll, ns since the epoch; None: it gives none."""
    epoch: int | None = None
    """Of the log when it took the last message of this poll, see `Place`; None: the log has none."""

    @classmethod
    def refused(cls, stream: str, reject: Reject) -> Payloads:
        """A poll that says only why something was refused."""
        return cls(stream, None, [], [], reject.payload + 1, [reject])


@dataclass(frozen=True, slots=True, order=True)
class StreamId:
    """One partition of one topic."""

    topic: str
    partition: int

    @property
    def name(self) -> str:
        """`Payloads.stream`."""
        return f"{self.topic}/{self.partition:d}"

    @property
    def lane(self) -> int:
        """The lane that it belongs to: one a partition number, over all topics; lane 0 is that of files."""
        return self.partition + 1


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a stream, and what the log was there: an offset alone says nothing of another log."""

    offset: int
    """Of the next message."""
    topic_id: str | None = None
    """Distinguishes a topic from another one made under the same name; None: not known."""
    epoch: int | None = None
    """Of what is before the place, or larger: a log that is cut back goes on under a larger one, and ends
    there in the older. None: not known."""


TOPIC_SCHEME: Final = "kafka://"
"""How the name of an input begins that is part of a topic."""


@dataclass(frozen=True, slots=True)
class LogPart:
    """Messages of one partition that are an input as a file is: found once, the same whenever it is read."""

    servers: tuple[str, ...]
    """Brokers to ask first, `host:port`; another way to the same log makes no other part of it."""
    cluster_id: str | None
    topic_id: str | None
    stream: StreamId
    start: int
    end: int
    """Offset after the last one."""
    format: str
    """Of every message."""

    @property
    def name(self) -> str:
        """The name by which exactly this part can be asked for again."""
        return f"{TOPIC_SCHEME}{','.join(self.servers)}/{self.stream.name}@{self.start}:{self.end}"

    @property
    def sha256(self) -> str:
        """By what it is known: the log, the partition and the offsets, whatever leads to it. Hex."""
        said = (self.cluster_id, self.topic_id, self.stream.name, self.start, self.end)
        return hashlib.sha256(repr(said).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class StreamChange:
    """What happened to the assignment of streams."""

    gained: tuple[StreamId, ...] = ()
    """Ours from now on; nothing comes of one before `start`."""
    asked: tuple[StreamId, ...] = ()
    """To be given up in an orderly way: commit what came of them, then `release`."""
    lost: tuple[StreamId, ...] = ()
    """No longer ours: another may be at work on them already."""

    def __bool__(self) -> bool:
        """Whether anything happened."""
        return bool(self.gained or self.asked or self.lost)


class StreamError(InputError):
    """Something is wrong with one stream; the others go on."""

    slug = "stream"

    def __init__(self, message: str, *, stream: StreamId, remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.stream = stream


class GapError(StreamError):
    """The log no longer has what comes next: retention went past it."""

    slug = "gap"

    def __init__(self, stream: StreamId, position: int, first: int) -> None:
        lost = f"{first - position} messages from {position} on are gone, the log begins at {first}"
        remedy = "--accept-gaps goes on behind them; a longer retention keeps it from happening."
        super().__init__(f"{stream.name}: {lost}.", stream=stream, remedy=remedy)
        self.first = first
        """First position that the log still has."""


class TopicChangedError(StreamError):
    """A topic is not the one that positions were noted of: deleted and made anew."""

    slug = "topic-changed"

    def __init__(self, stream: StreamId) -> None:
        super().__init__(
            f"Topic '{stream.topic}' was deleted and made anew: offsets of the old one say nothing of it.",
            stream=stream,
            remedy="Read it into a lake of its own, or under another name.",
        )


class CutBackError(StreamError):
    """The log lost its end, and what was read of it with it; what it has there now was not read."""

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
        """First position that is not as it was; None: not known."""


class CorruptStreamError(StreamError):
    """A part of a stream cannot be read, however often it is fetched."""

    slug = "corrupt-stream"


class LiveSource(Protocol):
    """The partitions of a log that were assigned to this member of a group. Used by one thread.

    It never ends. While the other side cannot be reached, polls give nothing and `trouble` says why.
    """

    @property
    def cluster_id(self) -> str | None:
        """Names the log; None where it has no name or was not reached yet."""
        ...

    @property
    def trouble(self) -> str | None:
        """One sentence on what keeps polls from giving anything; None: nothing does."""
        ...

    def change(self) -> StreamChange:
        """Return what happened to the assignment since the last call.

        Never blocks; empty most of the time.
        """
        ...

    def poll(self, timeout_s: float) -> Payloads | None:
        """The next payloads of one stream; None where none came in time.

        Messages that cannot be payloads are rejects. Raises CorruptStreamError (the stream is paused then),
        GapError, TopicChangedError, CutBackError.
        """
        ...

    def start(self, stream: StreamId, place: Place | None) -> Place:
        """Go on with a gained stream at a place, or where the settings say for None; says where that is.

        Raises GapError, TopicChangedError, CutBackError, InputError where the log cannot be reached in time.
        """
        ...

    def release(self, streams: Collection[StreamId]) -> None:
        """Done with streams that were asked for."""
        ...

    def pause(self, streams: Collection[StreamId]) -> None:
        """Fetch nothing more of them; membership is kept as long as `poll` is called."""
        ...

    def resume(self, streams: Collection[StreamId]) -> None:
        """Fetch them again."""
        ...

    def ends(self) -> Mapping[StreamId, int]:
        """Position of the message to be written next, of our streams; only where it is known as of a moment
        ago: who takes a stream for read to its end goes on without what is still to come of it.
        """
        ...

    def commit_offsets(self, positions: Mapping[StreamId, int]) -> bool:
        """Report to the log how far we are, for tools that look at lag; whether it took it, in bounded
        time."""
        ...

    def close(self) -> None:
        """Leave the group. May be called twice."""
        ...


class RangeSource(Protocol):
    """Parts of a log that were read before."""

    def read(self, stream: StreamId, start: int, end: Place) -> tuple[list[Payloads], list[tuple[int, int]]]:
        """Read what the log still has of `[start, end)`, and the ranges that it has no more: also where it is
        another log by now than the one of `end`. Raises InputError where it does not answer.
        """
        ...
