"""Read offset ranges of partitions without joining a consumer group: for imports, and to restore damaged
segments."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from typing import Final

from kafka import KafkaConsumer
from kafka.errors import KafkaTimeoutError

from ingest.content_format import ContentFormat
from ingest.kafka.diagnosis import explained
from ingest.kafka.fetching import USUAL_SIZES, DamagedBatch, FetchedBatch, Fetching, FetchSizes
from ingest.kafka.kafka_settings import KafkaSettings
from ingest.kafka.log_range import end_of_epoch, partition_of, range_of, topic_id_of
from ingest.kafka.membership import lone_consumer
from ingest.messages import payloads_of_messages
from ingest.source import LogPart, Payloads, Place, StreamId
from schemas.config import DecodeConfig
from schemas.errors import InputError

PATIENCE_S: Final = 30.0
"""Time without a message, s, after which reading fails although the log should have more."""


class LogReader:
    """Reader of offset ranges of partitions (`RangeSource`), and of whole parts of a log. Used by one
    thread."""

    def __init__(
        self, settings: KafkaSettings, decode: DecodeConfig, sizes: FetchSizes = USUAL_SIZES
    ) -> None:
        """Connect to the brokers. Raises InputError, with the reason, if no broker can be used;
        ConfigError."""
        self._settings = settings
        self._decode = decode
        self._consumer: KafkaConsumer = lone_consumer(settings)
        self._fetching = Fetching(settings, self._consumer, sizes)

    def read(self, stream: StreamId, start: int, end: Place) -> tuple[list[Payloads], list[tuple[int, int]]]:
        """Read a range of a partition again: (payloads, missing ranges), as `RangeSource.read`."""
        polls: list[Payloads] = []
        missing: list[tuple[int, int]] = []
        with explained(f"{stream.name} is not read", self._settings):
            first, last = self._there(stream, start, end)
            missing.append((start, first))
            for poll in self._polls(stream, first, last, self._settings.format_of_topic(stream.topic)):
                if isinstance(poll, DamagedBatch):
                    missing.append((poll.first, min(poll.until, last)))
                else:
                    polls.append(poll)
            missing.append((last, end.offset))
        return polls, [(low, high) for low, high in missing if low < high]

    def part(self, part: LogPart) -> Iterator[Payloads]:
        """Yield the payloads of a part of the log.

        Raises InputError if the log no longer has all of its offsets, or a batch cannot be read.
        """
        stream = part.stream
        with explained(f"{stream.name} is not read", self._settings):
            first, last = self._there(stream, part.start, Place(part.end, part.topic_id))
            if (first, last) != (part.start, part.end):
                raise InputError(
                    f"{stream.name}: the log no longer has {part.start} to {part.end - 1} whole.",
                    remedy="Nothing was imported. Ask for what it has, or import from elsewhere.",
                )
            for poll in self._polls(stream, first, last, part.format):
                if isinstance(poll, DamagedBatch):
                    where = f"offsets {poll.first} to {poll.until - 1}"
                    raise InputError(
                        f"{stream.name}: {where} cannot be read: {poll.detail}.",
                        remedy="Raise kafka.max_unpacked if a batch is too large, restore them from a "
                        "replica, or ask for what is before and behind them.",
                    )
                yield poll

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close(autocommit=False)

    def _there(self, stream: StreamId, start: int, end: Place) -> tuple[int, int]:
        """Restrict `[start, end)` to the offsets that the log still has: `(start, end)`.

        Raises kafka-python's exceptions.
        """
        partition, timeout_ms = partition_of(stream), self._settings.request_timeout_ms
        # Before it is assigned: the client requests metadata of an assigned topic by itself, and if there is
        # no such topic, a query that waits for the same answer fails instead of finding no partition.
        if partition.partition not in self._consumer.partitions_for_topic(stream.topic):
            return end.offset, end.offset
        self._consumer.assign([partition])
        if end.topic_id not in (None, topic_id_of(self._consumer, stream.topic)):
            return end.offset, end.offset
        there = range_of(self._consumer, partition, timeout_ms)
        last = there.end
        if end.epoch is not None:
            last = max(0, end_of_epoch(self._consumer, partition, end.epoch, timeout_ms))
        first = min(max(start, there.first), end.offset)
        return first, max(first, min(last, end.offset))

    def _polls(
        self, stream: StreamId, first: int, last: int, format_: str
    ) -> Iterator[Payloads | DamagedBatch]:
        """Yield the payloads of the offsets `[first, last)`, and damaged batches among them. Raises
        kafka-python's exceptions."""
        at, deadline = first, time.monotonic() + PATIENCE_S
        content = ContentFormat(self._decode)
        self._fetching.begin(stream, first, None)
        while at < last:
            fetched = self._fetching.fetch(1.0)
            if fetched is None:
                if time.monotonic() > deadline:
                    raise KafkaTimeoutError(f"nothing comes from {at} on")
                continue
            deadline = time.monotonic() + PATIENCE_S
            good = [batch for batch in fetched[1] if isinstance(batch, FetchedBatch)]
            if good:
                at = min(good[-1].until, last)
                messages = [
                    (offset, value)
                    for batch in good
                    for offset, value in zip(batch.messages.offsets, batch.messages.values, strict=True)
                    if offset < last
                ]
                offsets = [offset for offset, _ in messages]
                values = [value for _, value in messages]
                made = payloads_of_messages(stream.name, format_, values, offsets, at, self._decode)
                yield from map(content.named, made)
            if isinstance(damaged := fetched[1][-1], DamagedBatch) and at < last:
                yield damaged
                at = damaged.until
                self._fetching.begin(stream, at, None)


def opened_part(
    part: LogPart, settings: KafkaSettings, decode: DecodeConfig, poll_bytes: int
) -> Iterator[Payloads]:
    """Connect, and yield the payloads of a part of a log, about `poll_bytes` at a time. Raises InputError,
    ConfigError."""
    sizes = FetchSizes(poll_bytes=poll_bytes)
    log = LogReader(settings.model_copy(update={"bootstrap": part.servers}), decode, sizes)
    with closing(log):
        yield from log.part(part)
