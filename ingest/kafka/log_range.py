"""Query which offsets partitions have, and detect truncated logs by leader epochs (KIP-320).

Every leader of a partition has an epoch, larger than those before it, and every batch has the epoch of the
leader that wrote it. A log that lost its end (an unclean election, a disk restored from a backup) continues
under a larger epoch, so the older epoch ends where the log was truncated, however long it has grown since.

A fetch reports the end offset of its partition, which becomes outdated while nothing is fetched. A partition
that is paused, has no leader, or cannot be reached would seem to be read to its end forever, and messages
written meanwhile would be late. So end offsets that are not recent are requested from brokers in the
background.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError, LeaderNotAvailableError, NoError, for_code
from kafka.protocol.consumer import OffsetForLeaderEpochRequest, OffsetSpec

from ingest.source import StreamId

ASK_S: Final = 2.0
"""Age, s, from which a known end offset is requested again, and minimum time between two requests."""
FRESH_S: Final = 10.0
"""Age, s, from which a known end offset is ignored. Less than the usual lateness."""
_TIMEOUT_MS: Final = 8_000


@dataclass(slots=True)
class _EndSeen:
    end: int
    as_of_s: float


@dataclass(slots=True)
class _Question:
    """A pending request for the end offsets of streams, filled in by the client's thread."""

    asked_s: float
    """Time at which the request was sent, monotonic s."""
    ends: dict[StreamId, int] = field(default_factory=dict)
    """Stream -> end offset (that of the next message to be written), as answered by the brokers."""
    is_over: bool = False
    """True once the request was answered or failed."""


class StreamEnds:
    """Known end offsets of streams: that of the next message to be written. Used by one thread.

    Times are monotonic seconds.
    """

    def __init__(self, consumer: KafkaConsumer) -> None:
        self._consumer = consumer
        self._seen: dict[StreamId, _EndSeen] = {}
        self._question: _Question | None = None
        self._asked_s = float("-inf")

    def begin(self, stream: StreamId, end: int, now_s: float) -> None:
        """Set the end offset of a stream that is started; discards what was known before."""
        self._seen[stream] = _EndSeen(end, now_s)

    def record(self, stream: StreamId, end: int | None, now_s: float) -> None:
        """Record the end offset that the last fetch of a stream, possibly long ago, reported; it is ignored
        if it is not beyond the known one."""
        seen = self._seen[stream]
        if end is not None and end > seen.end:
            seen.end, seen.as_of_s = end, now_s

    def forget(self, stream: StreamId) -> None:
        """Remove a stream."""
        self._seen.pop(stream, None)

    def known(self, now_s: float) -> dict[StreamId, int]:
        """Stream -> end offset, for end offsets that are recent; requests the others in the background."""
        self._take_answer()
        old = [stream for stream, seen in self._seen.items() if now_s - seen.as_of_s >= ASK_S]
        if old and self._question is None and now_s - self._asked_s >= ASK_S:
            self._ask(old, now_s)
        return {stream: seen.end for stream, seen in self._seen.items() if now_s - seen.as_of_s < FRESH_S}

    def _take_answer(self) -> None:
        question = self._question
        if question is None or not question.is_over:
            return
        self._question = None
        for stream, end in question.ends.items():
            seen = self._seen.get(stream)
            if seen is not None and seen.as_of_s < question.asked_s:
                seen.end, seen.as_of_s = max(end, seen.end), question.asked_s

    def _ask(self, streams: Collection[StreamId], now_s: float) -> None:
        question = self._question = _Question(now_s)
        self._asked_s = now_s
        fetcher = self._consumer._fetcher
        partitions = {partition_of(each): OffsetSpec.LATEST for each in streams}

        async def ask() -> None:
            try:
                found = await fetcher._fetch_offsets_by_times_async(partitions, _TIMEOUT_MS)
                question.ends.update(
                    (StreamId(each.topic, each.partition), answer.offset) for each, answer in found.items()
                )
            except KafkaError:
                pass  # the range stays unknown
            finally:
                question.is_over = True

        self._consumer._net.call_soon_threadsafe(ask)


_CONSUMER: Final = -1
"""Replica id that a consumer sends in its requests."""
_PAUSE_S: Final = 0.1
"""Pause, s, between two attempts at a request, during which metadata are refreshed."""


@dataclass(frozen=True, slots=True)
class LogRange:
    """Offsets that a partition currently has."""

    first: int
    end: int
    """End offset: that of the next message to be written."""
    epoch: int | None
    """Largest leader epoch of the partition; None: unknown."""


def range_of(consumer: KafkaConsumer, partition: TopicPartition, timeout_ms: int) -> LogRange:
    """Query the first offset of a partition, its end offset, and its leader epoch; timeout_ms: time limit of
    each request.

    Raises kafka-python's exceptions.
    """
    first: int = consumer.beginning_offsets([partition], timeout_ms)[partition]
    latest = consumer._fetcher.offsets_by_times({partition: OffsetSpec.LATEST}, timeout_ms)[partition]
    return LogRange(first, latest.offset, None if latest.leader_epoch < 0 else latest.leader_epoch)


def end_of_epoch(consumer: KafkaConsumer, partition: TopicPartition, epoch: int, timeout_ms: int) -> int:
    """Query the end of a leader epoch: the offset after the last message of this epoch or an earlier one.

    -1 if the epoch is unknown, because it is larger than all epochs of the log. Raises kafka-python's
    exceptions.
    """
    deadline = time.monotonic() + timeout_ms / 1000
    while True:
        try:
            end: int = consumer._net.run(_end_of_epoch, consumer, partition, epoch, timeout_ms)
        except KafkaError as error:
            if not error.retriable or time.monotonic() > deadline:
                raise
        else:
            return end
        consumer._cluster.request_update()
        time.sleep(_PAUSE_S)


async def _end_of_epoch(
    consumer: KafkaConsumer, partition: TopicPartition, epoch: int, timeout_ms: int
) -> int:
    leader = consumer._cluster.leader_for_partition(partition)
    if leader is None or leader < 0:
        raise LeaderNotAvailableError
    topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    asked = topic.OffsetForLeaderPartition(partition=partition.partition, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(
        replica_id=_CONSUMER, topics=[topic(topic=partition.topic, partitions=[asked])]
    )
    answer = await consumer._manager.wait_for(consumer._manager.send(request, leader), timeout_ms)
    partition_end = answer.topics[0].partitions[0]
    if (error := for_code(partition_end.error_code)) is not NoError:
        raise error
    end: int = partition_end.end_offset
    return end


def partition_of(stream: StreamId) -> TopicPartition:
    """Convert a stream to kafka-python's name of the partition."""
    return TopicPartition(stream.topic, stream.partition)


def topic_id_of(consumer: KafkaConsumer, topic: str) -> str | None:
    """Id that distinguishes a topic from a later one with the same name; None: unknown."""
    found: uuid.UUID | None = consumer._cluster.topic_id(topic)
    return None if found is None or not found.int else str(found)
