"""A partitioned log in memory with one consumer group: members come and go, all else is exact.

A rebalance is told to members in their next `change`: what they hold is asked back first, and goes to another
member once it was released or its holder was declared dead. A member that was declared dead is told `lost`
when it wakes, after it has had time to do harm.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from ingest.source import CutBackError, GapError, Payloads, Place, StreamChange, StreamId, TopicChangedError
from schemas.errors import InputError


@dataclass
class Message:
    value: bytes
    at_ns: int
    epoch: int


@dataclass
class MemoryLog:
    """Topics with their partitions, and the group."""

    format: str = "native"
    per_poll: int = 50
    topic_ids: dict[str, str] = field(default_factory=dict)
    messages: dict[StreamId, list[Message]] = field(default_factory=dict)
    first: dict[StreamId, int] = field(default_factory=dict)
    """Retention: positions before it are gone."""
    epoch: int = 0
    """Of the leader that writes."""
    committed: dict[StreamId, int] = field(default_factory=dict)
    members: list[Member] = field(default_factory=list)
    unreachable: bool = False
    silent_on_start: bool = False
    """Members are told nothing of where streams begin."""

    def create(self, topic: str, partitions: int, topic_id: str = "id-1") -> None:
        self.topic_ids[topic] = topic_id
        for partition in range(partitions):
            self.messages[StreamId(topic, partition)] = []
            self.first[StreamId(topic, partition)] = 0

    def create_partition(self, topic: str, partition: int) -> None:
        """One more, which members learn of."""
        self.messages[StreamId(topic, partition)] = []
        self.first[StreamId(topic, partition)] = 0
        self.rebalance()

    def write(self, topic: str, partition: int, value: bytes, at_ns: int) -> None:
        self.messages[StreamId(topic, partition)].append(Message(value, at_ns, self.epoch))

    def cut_back(self, stream: StreamId, end: int) -> list[Message]:
        """An unclean election: the new leader lacks what was written last; gives that."""
        lost = self.messages[stream][end:]
        del self.messages[stream][end:]
        self.epoch += 1
        return lost

    def cut_at(self, stream: StreamId, place: Place) -> int | None:
        """Where a log was cut back, of which somebody is at a place; None: it was not, before that."""
        if place.epoch is None:
            end = len(self.messages[stream])
        else:
            end = sum(message.epoch <= place.epoch for message in self.messages[stream])
        end = max(end, self.first[stream])
        return end if end < place.offset else None

    def read(self, stream: StreamId, start: int, end: Place) -> tuple[list[Payloads], list[tuple[int, int]]]:
        """A `RangeSource`."""
        if end.topic_id != self.topic_ids.get(stream.topic):
            return [], [(start, end.offset)]
        first, last = max(start, self.first[stream]), min(end.offset, self.cut_at(stream, end) or end.offset)
        taken = self.messages[stream][first:last]
        polls = [
            Payloads(stream.name, self.format, [message.value], [at], at + 1)
            for at, message in enumerate(taken, first)
        ]
        missing = [(start, min(first, end.offset)), (max(last, start), end.offset)]
        return polls, [(low, high) for low, high in missing if low < high]

    def join(self) -> Member:
        member = Member(self)
        self.members.append(member)
        self.rebalance()
        return member

    def rebalance(self) -> None:
        """Deal the lanes out anew, by number; what changes hands is asked back first."""
        streams = sorted(self.messages)
        lanes = sorted({stream.lane for stream in streams})
        for place, member in enumerate(self.members):
            mine = {lane for i, lane in enumerate(lanes) if i % len(self.members) == place}
            member.wanted = {stream for stream in streams if stream.lane in mine}
        self._settle()

    def _settle(self) -> None:
        held = {stream for member in self.members for stream in member.held}
        for member in self.members:
            member.asked |= member.held - member.wanted
            free = member.wanted - held
            member.gained |= free
            member.held |= free
            held |= free

    def declare_dead(self, member: Member) -> None:
        """Its session is over: others get its streams, and it does not know."""
        self.members.remove(member)
        member.evicted = True
        if self.members:
            self.rebalance()


@dataclass
class Member:
    """A `LiveSource`."""

    log: MemoryLog
    wanted: set[StreamId] = field(default_factory=set)
    held: set[StreamId] = field(default_factory=set)
    gained: set[StreamId] = field(default_factory=set)
    asked: set[StreamId] = field(default_factory=set)
    evicted: bool = False
    _at: dict[StreamId, int] = field(default_factory=dict)
    _epoch: dict[StreamId, int] = field(default_factory=dict)
    _paused: set[StreamId] = field(default_factory=set)
    _last: StreamId | None = None

    @property
    def cluster_id(self) -> str | None:
        return "memory"

    @property
    def trouble(self) -> str | None:
        return "The log does not answer." if self.log.unreachable else None

    def change(self) -> StreamChange:
        if self.evicted:
            lost, self.held, self._at, self.evicted = tuple(sorted(self.held)), set(), {}, False
            self.log.members.append(self)
            self.log.rebalance()
            return StreamChange(lost=lost)
        told = StreamChange(gained=tuple(sorted(self.gained)), asked=tuple(sorted(self.asked)))
        self.gained, self.asked = set(), set()
        return told

    def poll(self, timeout_s: float) -> Payloads | None:
        if self.log.unreachable:
            return None
        ready = [
            stream
            for stream, at in sorted(self._at.items())
            if stream not in self._paused
            and at != max(self.log.first[stream], len(self.log.messages[stream]))
        ]
        if not ready:
            return None
        stream = next((s for s in ready if self._last is None or s > self._last), ready[0])
        self._last = stream
        at = self._at[stream]
        self._refuse(stream, Place(at, epoch=self._epoch[stream]))
        taken = self.log.messages[stream][at : at + self.log.per_poll]
        self._at[stream] = at + len(taken)
        self._epoch[stream] = taken[-1].epoch
        return Payloads(
            stream=stream.name,
            format=self.log.format,
            payloads=[message.value for message in taken],
            positions=list(range(at, at + len(taken))),
            until=at + len(taken),
            latest_ns=max(message.at_ns for message in taken),
            epoch=taken[-1].epoch,
        )

    def start(self, stream: StreamId, place: Place | None) -> Place:
        if self.log.silent_on_start:
            raise InputError(f"The range of {stream.name} is not known.")
        first, topic_id = self.log.first[stream], self.log.topic_ids[stream.topic]
        if place is None:
            place = Place(first)
        if place.topic_id not in (None, topic_id):
            raise TopicChangedError(stream)
        if place.offset < first:
            raise GapError(stream, place.offset, first)
        self._refuse(stream, place)
        self._at[stream] = place.offset
        self._epoch[stream] = self.log.epoch if place.epoch is None else place.epoch
        self._paused.discard(stream)
        return Place(place.offset, topic_id, self._epoch[stream])

    def _refuse(self, stream: StreamId, place: Place) -> None:
        """Raises CutBackError; the stream is stopped then."""
        cut_at = self.log.cut_at(stream, place)
        if cut_at is not None:
            self._at.pop(stream, None)
            raise CutBackError(stream, place.offset, cut_at)

    def release(self, streams: Collection[StreamId]) -> None:
        for stream in streams:
            self.held.discard(stream)
            self._at.pop(stream, None)
        self.log._settle()

    def pause(self, streams: Collection[StreamId]) -> None:
        self._paused |= set(streams)

    def resume(self, streams: Collection[StreamId]) -> None:
        self._paused -= set(streams)

    def ends(self) -> Mapping[StreamId, int]:
        return {stream: len(self.log.messages[stream]) for stream in self._at}

    def commit_offsets(self, positions: Mapping[StreamId, int]) -> bool:
        self.log.committed.update(positions)
        return not self.log.unreachable

    def close(self) -> None:
        if self in self.log.members:
            self.log.members.remove(self)
            self.release(list(self.held))
            if self.log.members:
                self.log.rebalance()
