"""Fetch whole record batches of partitions with kafka-python's consumer; unreadable batches are returned, not
raised.

The size of a fetch depends on the available memory. kafka-python makes an object of every message,
decompresses without a limit, and retries forever on a batch that fails its checksum. `BatchRecords` replaces
its `Fetcher.PartitionRecords`: it returns whole batches, and a damaged one as `DamagedBatch`.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from kafka import KafkaConsumer, TopicPartition
from kafka.consumer.fetcher import Fetcher
from kafka.errors import KafkaError
from kafka.protocol.consumer import IsolationLevel
from kafka.structs import OffsetAndMetadata

from ingest.kafka.kafka_settings import KafkaSettings
from ingest.kafka.log_range import partition_of
from ingest.kafka.record_layout import LayoutError, Messages, UnpackError, messages_of, unpack
from ingest.source import StreamId

FETCH_BYTES: Final = 4 * 2**20
"""Maximum bytes of a partition in one fetch: 1.5 times as fast as the usual 1 MB; more would cost memory."""
LEAST_FETCH_BYTES: Final = 2**19
POLL_BYTES: Final = 16 * 2**20
FETCH_SHARE: Final = 192
"""The memory budget divided by this is the maximum bytes of one fetch: decompressed batches may be ten times
as large."""
POLL_SHARE: Final = 96
"""The memory budget divided by this is the bytes of one poll: its decoded events take ten times as much, and
several polls are in progress at once."""


class FetchSizes(NamedTuple):
    """Sizes of fetches and polls of one partition."""

    fetch_bytes: int = FETCH_BYTES
    """Maximum bytes of one fetch, compressed as the broker stores them."""
    poll_bytes: int = POLL_BYTES
    """Decompressed bytes after which a poll includes no further batch."""


USUAL_SIZES: Final = FetchSizes()


def fetch_sizes(memory_bytes: int) -> FetchSizes:
    """Sizes of fetches and polls for a given memory budget in bytes."""
    return FetchSizes(
        max(LEAST_FETCH_BYTES, min(FETCH_BYTES, memory_bytes // FETCH_SHARE)),
        min(POLL_BYTES, memory_bytes // POLL_SHARE),
    )


MIN_POLL_S: Final = 0.05
"""Minimum time-out of a poll, s: during a shorter poll the answer to a request to join the group may never be
seen."""
_MAGIC: Final = 2
"""Version (`magic`) of the record batch format since Kafka 0.11; brokers from 4.0 on write no other
version."""


@dataclass(frozen=True, slots=True)
class FetchedBatch:
    """The messages of a record batch that are at or after the fetch position, without those of aborted
    transactions."""

    messages: Messages
    until: int
    """Offset after the batch. Some offsets before it may have no message."""
    latest_ms: int
    """Largest timestamp of the batch's messages, ms since the epoch, set by producer or broker as configured
    for the topic; negative if there is none."""
    epoch: int
    """Epoch of the leader that wrote the batch."""


@dataclass(frozen=True, slots=True)
class DamagedBatch:
    """A record batch that fails its checksum, or is too large when decompressed."""

    first: int
    until: int
    """Offset after the batch, as far as it can be determined; at least `first` + 1."""
    detail: str


class BatchRecords(Fetcher.PartitionRecords):  # type: ignore[misc]  # kafka-python is not typed
    """Result of a fetch of one partition: `take` returns its batches, up to and including the first damaged
    one."""

    max_unpacked_bytes = 64 * 2**20
    poll_bytes = 16 * 2**20
    next_fetch_offset: int

    @staticmethod
    def epoch_before(_partition: TopicPartition) -> int:
        """Leader epoch of the fetch position; negative if unknown."""
        return -1

    def _maybe_skip_record(self, _record: object) -> bool:
        return False

    def take(self, _n: int | None = None) -> list[FetchedBatch | DamagedBatch]:
        """Return the next batches; an empty list at the end. kafka-python counts the returned list as one
        record."""
        batches: list[FetchedBatch | DamagedBatch] = []
        size = 0
        while size < self.poll_bytes:
            # Read the attribute at every step: at its end the generator replaces itself by None.
            item = next(self.record_iterator, None)
            if item is None:
                break
            batches.append(item)
            if isinstance(item, DamagedBatch):
                self.drain()
                break
            size += item.messages.bytes + len(item.messages.values)
        return batches

    def _unpack_records(self, _tp: Any, records: Any, *_deserializers: Any) -> Iterator[object]:
        """Yield the items that `take` returns. `next_fetch_offset` is always the offset after the last item,
        but the offset of the item if it is damaged."""
        is_committed = self.isolation_level == IsolationLevel.READ_COMMITTED
        # kafka-python uses it as the epoch of the position, even if a fetch returns nothing.
        self.leader_epoch = self.epoch_before(self.topic_partition)
        while True:
            try:
                batch = records.next_batch()
                if batch is None:
                    break
                if batch.magic != _MAGIC:
                    detail = f"message format {batch.magic}, older than Kafka 0.11"
                    yield self._damaged(batch.base_offset, batch.next_offset, detail, records)
                    return
                if not batch.validate_crc():
                    yield self._damaged(
                        batch.base_offset, batch.next_offset, "the checksum is wrong", records
                    )
                    return
                is_aborted = is_committed and self._is_aborted(batch)
                is_marker = batch.is_control_batch or is_aborted
                try:
                    fetched = FetchedBatch(
                        Messages([], [], 0) if is_marker else self._messages(batch),
                        batch.next_offset,
                        -1 if is_marker else batch.max_timestamp,
                        batch.leader_epoch,
                    )
                except (UnpackError, LayoutError) as error:
                    yield self._damaged(batch.base_offset, batch.next_offset, str(error), records)
                    return
            except (KafkaError, struct.error, ValueError, IndexError) as error:
                yield self._damaged(self.next_fetch_offset, 0, f"not a batch: {error}", None)
                return
            self.leader_epoch = batch.leader_epoch
            self.bytes_read += batch.size_in_bytes
            self.next_fetch_offset = batch.next_offset
            yield fetched
        self.drain()

    def _messages(self, batch: Any) -> Messages:
        body = memoryview(batch._buffer)[batch.HEADER_STRUCT.size : batch.size_in_bytes]
        if batch.compression_type:
            contents = unpack(batch.compression_type, bytes(body), self.max_unpacked_bytes)
        else:
            contents = bytes(body)
        return messages_of(contents, batch.records_count, batch.base_offset).from_offset(self.fetch_offset)

    def _is_aborted(self, batch: Any) -> bool:
        """True if the messages of a batch belong to an aborted transaction, decided as kafka-python does."""
        if not batch.has_producer_id():
            return False
        self._consume_aborted_transactions_up_to(batch.last_offset)
        if self._contains_abort_marker(batch):
            self.aborted_producer_ids.discard(batch.producer_id)
            return False
        return bool(self._is_batch_aborted(batch))

    def _damaged(self, first: int, stated_end: int, detail: str, records: Any) -> DamagedBatch:
        """Make a DamagedBatch. Its end is the start of the next batch if there is one, because the end stated
        in its own header may be damaged."""
        first = max(first, self.next_fetch_offset)
        until = stated_end
        try:
            following = records.next_batch() if records is not None else None
            if following is not None and first < following.base_offset < stated_end:
                until = following.base_offset
        except (KafkaError, struct.error, ValueError, IndexError):
            pass
        return DamagedBatch(first, max(until, first + 1), detail)


class Fetching:
    """Fetches the partitions assigned to a member of a consumer group. Used by one thread."""

    def __init__(self, settings: KafkaSettings, consumer: KafkaConsumer, sizes: FetchSizes) -> None:
        self._consumer = consumer
        methods = {
            "max_unpacked_bytes": settings.max_unpacked_bytes,
            "poll_bytes": sizes.poll_bytes,
            "epoch_before": staticmethod(lambda partition: self._state(partition).position.leader_epoch),
        }
        consumer._fetcher.PartitionRecords = type("RecordsOfOurs", (BatchRecords,), methods)

    def fetch(self, timeout_s: float) -> tuple[StreamId, list[FetchedBatch | DamagedBatch]] | None:
        """Fetch the next batches of one stream, at least one; None: none arrived in time.

        Also keeps the group membership alive. A damaged batch is the last in the list, and the next fetch of
        the stream begins with it again. Raises kafka-python's exceptions.
        """
        # One record is one list of batches (`BatchRecords.take`).
        fetched = self._consumer.poll(int(timeout_s * 1000), max_records=1)
        for partition, batches in fetched.items():
            return StreamId(partition.topic, partition.partition), batches
        return None

    def begin(self, stream: StreamId, position: int, epoch: int | None) -> None:
        """Start fetching a stream at the offset `position`.

        epoch: leader epoch of the messages before the position, needed to detect a truncated log; None:
        unknown.
        """
        for partition in self._assigned([stream]):
            self._consumer.seek(partition, position)
            self._state(partition).seek(OffsetAndMetadata(position, "", -1 if epoch is None else epoch))
            self._consumer.resume(partition)

    def pause(self, streams: Collection[StreamId]) -> None:
        """Stop fetching the streams until `resume`."""
        self._consumer.pause(*self._assigned(streams))

    def resume(self, streams: Collection[StreamId]) -> None:
        """Resume fetching paused streams."""
        self._consumer.resume(*self._assigned(streams))

    def end_of(self, stream: StreamId) -> int | None:
        """End offset of a stream, that of the next message to be written, as of the last fetch; None:
        unknown."""
        for partition in self._assigned([stream]):
            end: int | None = self._consumer.highwater(partition)
            return end
        return None

    def _state(self, partition: TopicPartition) -> Any:
        """kafka-python's internal state of a partition."""
        return self._consumer._subscription.assignment[partition]

    def _assigned(self, streams: Iterable[StreamId]) -> list[TopicPartition]:
        assigned = self._consumer.assignment()
        named = [partition_of(stream) for stream in streams]
        return [partition for partition in named if partition in assigned]
