"""Fetch whole batches of streams with kafka-python's consumer; what cannot be read is data, not an exception.

How much is read of a partition at a time follows from the memory that there is.

kafka-python makes an object of every message, unpacks without a limit, and after a batch that fails its
checksum spins for ever. `BatchRecords` takes the place of its `Fetcher.PartitionRecords`: it gives whole
batches, and a damaged one as what it is.
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
"""Of a partition in one fetch: 1.5 times as fast as the usual megabyte; more only costs memory."""
LEAST_FETCH_BYTES: Final = 2**19
POLL_BYTES: Final = 16 * 2**20
FETCH_SHARE: Final = 192
"""One part in so many of the memory is enough for a fetch: what is fetched is packed to a tenth."""
POLL_SHARE: Final = 96
"""One part in so many is enough for a poll: its events take ten times as much, and some polls are on their
way at once."""


class FetchSizes(NamedTuple):
    """Bytes of one partition."""

    fetch_bytes: int = FETCH_BYTES
    """As the broker stores them."""
    poll_bytes: int = POLL_BYTES
    """A poll takes batches until it has so many bytes, unpacked."""


USUAL_SIZES: Final = FetchSizes()


def fetch_sizes(memory_bytes: int) -> FetchSizes:
    """Choose sizes for a budget of memory."""
    return FetchSizes(
        max(LEAST_FETCH_BYTES, min(FETCH_BYTES, memory_bytes // FETCH_SHARE)),
        min(POLL_BYTES, memory_bytes // POLL_SHARE),
    )


MIN_POLL_S: Final = 0.05
"""A poll that waits less may never see the answer to a join."""
_MAGIC: Final = 2
"""Format of batches since Kafka 0.11, the only one that a broker from 4.0 on writes."""


@dataclass(frozen=True, slots=True)
class FetchedBatch:
    """The messages of a batch, from where the fetch began; none of a transaction that was given up."""

    messages: Messages
    until: int
    """Offset after the batch; messages may be missing before it."""
    latest_ms: int
    """Largest time of its messages, of the producer or of the broker as the topic says; negative: none."""
    epoch: int
    """Of the leader that wrote it."""


@dataclass(frozen=True, slots=True)
class DamagedBatch:
    """A batch that is not as it was written, or is too large unpacked."""

    first: int
    until: int
    """Offset after it as far as can be known, `first` + 1 at least."""
    detail: str


class BatchRecords(Fetcher.PartitionRecords):  # type: ignore[misc]  # kafka-python is not typed
    """A fetch of one partition: `take` gives its batches, and at most one damaged one, the last."""

    max_unpacked_bytes = 64 * 2**20
    poll_bytes = 16 * 2**20
    next_fetch_offset: int

    @staticmethod
    def epoch_before(_partition: TopicPartition) -> int:
        """Epoch of the position that is fetched from; negative: not known."""
        return -1

    def _maybe_skip_record(self, _record: object) -> bool:
        return False

    def take(self, _n: int | None = None) -> list[FetchedBatch | DamagedBatch]:
        """The next batches; none at the end. A poll that asks for one record gets one list of them."""
        batches: list[FetchedBatch | DamagedBatch] = []
        size = 0
        while size < self.poll_bytes:
            # Read anew at every step: at its end the generator puts None in its own place.
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
        """Items of `take`. `next_fetch_offset` is always after the last one given, before a damaged one."""
        is_committed = self.isolation_level == IsolationLevel.READ_COMMITTED
        # kafka-python takes it for that of the position, also where a fetch brings nothing.
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
        """Whether the messages are of a transaction that was given up (as kafka-python does it)."""
        if not batch.has_producer_id():
            return False
        self._consume_aborted_transactions_up_to(batch.last_offset)
        if self._contains_abort_marker(batch):
            self.aborted_producer_ids.discard(batch.producer_id)
            return False
        return bool(self._is_batch_aborted(batch))

    def _damaged(self, first: int, stated_end: int, detail: str, records: Any) -> DamagedBatch:
        """Find where a damaged batch ends: its own head may be damaged, a batch behind it is better."""
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
    """The streams that are fetched, by the consumer that is the member of the group. Used by one thread."""

    def __init__(self, settings: KafkaSettings, consumer: KafkaConsumer, sizes: FetchSizes) -> None:
        self._consumer = consumer
        methods = {
            "max_unpacked_bytes": settings.max_unpacked_bytes,
            "poll_bytes": sizes.poll_bytes,
            "epoch_before": staticmethod(lambda partition: self._state(partition).position.leader_epoch),
        }
        consumer._fetcher.PartitionRecords = type("RecordsOfOurs", (BatchRecords,), methods)

    def fetch(self, timeout_s: float) -> tuple[StreamId, list[FetchedBatch | DamagedBatch]] | None:
        """The next batches of one stream, one at least; also what lets the membership go on.

        A damaged batch is the last one; the stream is fetched from there once more. Raises what kafka-python
        raises.
        """
        # One record is one list of batches (`BatchRecords.take`).
        fetched = self._consumer.poll(int(timeout_s * 1000), max_records=1)
        for partition, batches in fetched.items():
            return StreamId(partition.topic, partition.partition), batches
        return None

    def begin(self, stream: StreamId, position: int, epoch: int | None) -> None:
        """Fetch a stream from a position on, of a log that has an epoch before it: else it was cut back."""
        for partition in self._assigned([stream]):
            self._consumer.seek(partition, position)
            self._state(partition).seek(OffsetAndMetadata(position, "", -1 if epoch is None else epoch))
            self._consumer.resume(partition)

    def hold(self, streams: Collection[StreamId]) -> None:
        """Fetch nothing more of them."""
        self._consumer.pause(*self._assigned(streams))

    def go_on(self, streams: Collection[StreamId]) -> None:
        """Fetch them again."""
        self._consumer.resume(*self._assigned(streams))

    def end_of(self, stream: StreamId) -> int | None:
        """Position of the message to be written next, as far as known."""
        for partition in self._assigned([stream]):
            end: int | None = self._consumer.highwater(partition)
            return end
        return None

    def _state(self, partition: TopicPartition) -> Any:
        """Return what kafka-python keeps of a partition."""
        return self._consumer._subscription.assignment[partition]

    def _assigned(self, streams: Iterable[StreamId]) -> list[TopicPartition]:
        assigned = self._consumer.assignment()
        named = [partition_of(stream) for stream in streams]
        return [partition for partition in named if partition in assigned]
