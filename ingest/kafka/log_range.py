"""Ask brokers what a log has, and whether it is still the one that was read (KIP-320).

Every leader of a partition has an epoch, larger than those before it, and every batch has that of the leader
that wrote it. A log that lost its end (an unclean election, a disk restored from a backup) goes on under a
larger epoch, so an older one ends where it was cut, however long the log has grown since.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError, LeaderNotAvailableError, NoError, for_code
from kafka.protocol.consumer import OffsetForLeaderEpochRequest, OffsetSpec

_CONSUMER: Final = -1
"""In place of the id of a replica."""
_PAUSE_S: Final = 0.1
"""Between two tries, with metadata asked for anew."""


@dataclass(frozen=True, slots=True)
class LogRange:
    """What a log has at this moment."""

    first: int
    end: int
    """Offset of the message to be written next."""
    epoch: int | None
    """Largest epoch; None: brokers do not tell."""


def range_of(consumer: KafkaConsumer, partition: TopicPartition, timeout_ms: int) -> LogRange:
    """First offset of a log and its end; `timeout_ms` for each. Raises what kafka-python raises."""
    first: int = consumer.beginning_offsets([partition], timeout_ms)[partition]
    latest = consumer._fetcher.offsets_by_times({partition: OffsetSpec.LATEST}, timeout_ms)[partition]
    return LogRange(first, latest.offset, None if latest.leader_epoch < 0 else latest.leader_epoch)


def end_of_epoch(consumer: KafkaConsumer, partition: TopicPartition, epoch: int, timeout_ms: int) -> int:
    """Offset after the last message that the log has of an epoch and all before it.

    -1: it does not know the epoch, which is larger than all of its own. Raises what kafka-python raises.
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
    told = answer.topics[0].partitions[0]
    if (error := for_code(told.error_code)) is not NoError:
        raise error
    end: int = told.end_offset
    return end
