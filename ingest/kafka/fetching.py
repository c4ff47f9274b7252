"""What fetches the messages of streams: a port with an implementation a client."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, Protocol

from kafka import KafkaConsumer, TopicPartition

from ingest.kafka.fetched_batches import BatchRecords, DamagedBatch, FetchedBatch
from ingest.kafka.kafka_settings import Client, KafkaSettings
from ingest.source import StreamId

MIN_POLL_S: Final = 0.05
"""A poll that waits less may never see the answer to a join."""
Bite = list[FetchedBatch | DamagedBatch]
"""Not empty; a damaged batch is the last one."""


class Fetching(Protocol):
    """Used by one thread, that of the source."""

    def fetch(self, timeout_s: float) -> tuple[StreamId, Bite] | None:
        """The next batches of one stream; also what lets the membership go on.

        After a damaged batch the stream is fetched from there once more. Raises what kafka-python raises.
        """
        ...

    def begin(self, stream: StreamId, position: int) -> None:
        """Fetch a stream from a position on."""
        ...

    def hold(self, streams: Collection[StreamId]) -> None:
        """Fetch nothing more of them."""
        ...

    def go_on(self, streams: Collection[StreamId]) -> None:
        """Fetch them again."""
        ...

    def drop(self, streams: Collection[StreamId]) -> None:
        """They are no longer ours."""
        ...

    def end_of(self, stream: StreamId) -> int | None:
        """Position of the message to be written next, as far as known."""
        ...

    def close(self) -> None:
        """Give back what is open; the consumer of the membership is not."""
        ...


def fetching_of(settings: KafkaSettings, consumer: KafkaConsumer) -> Fetching:
    """By the client that the settings name. Raises ConfigError where it is not installed."""
    if settings.client is Client.FAST:
        from ingest.kafka.fast_fetching import FastFetching

        return FastFetching(settings, consumer)
    return OwnFetching(settings, consumer)


class OwnFetching:
    """By the consumer that is the member of the group."""

    def __init__(self, settings: KafkaSettings, consumer: KafkaConsumer) -> None:
        self._consumer = consumer
        limits = {"max_unpacked_bytes": settings.max_unpacked_bytes}
        consumer._fetcher.PartitionRecords = type("LimitedRecords", (BatchRecords,), limits)

    def fetch(self, timeout_s: float) -> tuple[StreamId, Bite] | None:
        """See `Fetching.fetch`."""
        # One record is one bite of batches (`BatchRecords.take`).
        fetched = self._consumer.poll(int(timeout_s * 1000), max_records=1)
        for partition, bite in fetched.items():
            return StreamId(partition.topic, partition.partition), bite
        return None

    def begin(self, stream: StreamId, position: int) -> None:
        """See `Fetching.begin`."""
        for partition in self._assigned([stream]):
            self._consumer.seek(partition, position)
            self._consumer.resume(partition)

    def hold(self, streams: Collection[StreamId]) -> None:
        """See `Fetching.hold`."""
        self._consumer.pause(*self._assigned(streams))

    def go_on(self, streams: Collection[StreamId]) -> None:
        """See `Fetching.go_on`."""
        self._consumer.resume(*self._assigned(streams))

    def drop(self, streams: Collection[StreamId]) -> None:
        """See `Fetching.drop`: the group did it."""

    def end_of(self, stream: StreamId) -> int | None:
        """See `Fetching.end_of`."""
        for partition in self._assigned([stream]):
            end: int | None = self._consumer.highwater(partition)
            return end
        return None

    def close(self) -> None:
        """See `Fetching.close`: there is nothing else."""

    def _assigned(self, streams: Iterable[StreamId]) -> list[TopicPartition]:
        assigned = self._consumer.assignment()
        named = [TopicPartition(stream.topic, stream.partition) for stream in streams]
        return [partition for partition in named if partition in assigned]
