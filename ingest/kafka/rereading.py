"""Read parts of partitions once more, as a member of no group: what a damaged segment held."""

from __future__ import annotations

import time
from itertools import takewhile
from typing import Final

from kafka import KafkaConsumer
from kafka.errors import KafkaError, OffsetOutOfRangeError

from ingest.kafka.diagnosis import missing_right, what_is_wrong
from ingest.kafka.fetching import USUAL_SIZES, DamagedBatch, Fetching
from ingest.kafka.kafka_settings import KafkaSettings
from ingest.kafka.log_range import end_of_epoch, partition_of, range_of
from ingest.kafka.membership import lone_consumer
from ingest.messages import payloads_of_messages
from ingest.source import Payloads, Place, StreamId
from schemas.config import DecodeConfig
from schemas.errors import InputError

PATIENCE_S: Final = 30.0
"""A log that has messages and gives none for so long is given up."""


class Rereading:
    """A `RangeSource`. Used by one thread."""

    def __init__(self, settings: KafkaSettings, decode: DecodeConfig) -> None:
        """Raises InputError where no broker can be used, and why; ConfigError."""
        self._settings = settings
        self._decode = decode
        self._consumer: KafkaConsumer = lone_consumer(settings)
        self._fetching = Fetching(settings, self._consumer, USUAL_SIZES)

    def read(self, stream: StreamId, start: int, end: Place) -> tuple[list[Payloads], list[tuple[int, int]]]:
        """See `RangeSource.read`."""
        try:
            first, last = self._there(stream, start, end)
            polls, damaged = self._read(stream, first, last)
        except KafkaError as error:
            raise InputError(
                f"{stream.name} is not read: {error}.",
                remedy=missing_right(error, self._settings) or what_is_wrong(self._settings) or "Try again.",
            ) from error
        return polls, [
            (low, high) for low, high in [(start, first), *damaged, (last, end.offset)] if low < high
        ]

    def close(self) -> None:
        """Give the connections back."""
        self._consumer.close(autocommit=False)

    def _there(self, stream: StreamId, start: int, end: Place) -> tuple[int, int]:
        """Read what is still there of `[start, end)`. Raises what kafka-python raises."""
        partition, timeout_ms = partition_of(stream), self._settings.request_timeout_ms
        self._consumer.assign([partition])
        if partition.partition not in (self._consumer.partitions_for_topic(stream.topic) or ()):
            return end.offset, end.offset
        topic_id = self._consumer._cluster.topic_id(stream.topic)
        if end.topic_id is not None and str(topic_id) != end.topic_id:
            return end.offset, end.offset
        there = range_of(self._consumer, partition, timeout_ms)
        last = there.end
        if end.epoch is not None:
            last = max(0, end_of_epoch(self._consumer, partition, end.epoch, timeout_ms))
        first = min(max(start, there.first), end.offset)
        return first, max(first, min(last, end.offset))

    def _read(self, stream: StreamId, first: int, last: int) -> tuple[list[Payloads], list[tuple[int, int]]]:
        """Payloads of `[first, last)`, and what cannot be read of it. Raises what kafka-python raises."""
        polls: list[Payloads] = []
        damaged: list[tuple[int, int]] = []
        at, deadline = first, time.monotonic() + PATIENCE_S
        self._fetching.begin(stream, first, None)
        while at < last:
            fetched = self._fetching.fetch(1.0)
            if fetched is None:
                if time.monotonic() > deadline:
                    raise OffsetOutOfRangeError(f"nothing comes from {at} on")
                continue
            deadline = time.monotonic() + PATIENCE_S
            for batch in fetched[1]:
                if isinstance(batch, DamagedBatch):
                    damaged.append((batch.first, min(batch.until, last)))
                    self._fetching.begin(stream, batch.until, None)
                else:
                    offsets = [*takewhile(lambda offset: offset < last, batch.messages.offsets)]
                    values = batch.messages.values[: len(offsets)]
                    format_ = self._settings.format_of_topic(stream.topic)
                    polls += payloads_of_messages(
                        stream.name, format_, values, offsets, min(batch.until, last), self._decode
                    )
                at = batch.until
        return polls, damaged
