"""Write files to a topic, or the messages of topics to another topic, with all messages of a request in one
partition."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from kafka import KafkaProducer
from kafka.errors import KafkaError, TopicAlreadyExistsError

from ingest.files import FileSource
from ingest.kafka.diagnosis import broker_problem, connected
from ingest.kafka.kafka_settings import KafkaSettings, ProduceSettings
from ingest.kafka.kafka_source import KafkaSource
from ingest.kafka.request_parts import PartError, RequestPart, joined, partition_of, request_parts
from ingest.source import StreamId
from schemas.config import DecodeConfig
from schemas.errors import InputError

_BATCH_BYTES: Final = 512 * 1024
"""Maximum bytes sent to one partition in one request; a broker accepts 1 MB."""
_BUFFER_BYTES: Final = 32 * 2**20
"""Maximum bytes that are sent and not yet acknowledged: the client itself has no limit."""
_MAX_UNREAD_BYTES: Final = 512 * 1024
"""Maximum bytes of an unreadable part that is written: a message that the broker refuses would end the
run."""
_FLUSH_S: Final = 30.0
_TELL_S: Final = 0.5
_COMMIT_S: Final = 1.0
_LAST_COMMITS: Final = 3
"""Maximum number of attempts to commit offsets at the end, up to 2 s each."""


@dataclass(slots=True)
class Written:
    """Counts of messages and items written so far."""

    messages: int = 0
    items: int = 0
    """Number of spans or records written."""
    unread: int = 0
    """Number of spans or records, included in `items`, that are unreadable or have no id and were written
    unchanged."""
    refused: int = 0
    """Number of payloads skipped because they are empty, too large, damaged or of another format."""
    bytes: int = 0
    seconds: float = 0.0


OnWritten = Callable[[Written], None]


@dataclass(slots=True)
class _Pace:
    """Delays messages to keep a given rate, or the speed of their event times."""

    settings: ProduceSettings
    began: float = field(default_factory=time.monotonic)
    first_ns: int | None = None

    def wait(self, items: int, ts_ns: int) -> None:
        """Wait until the next item is due. items: number of items before it; ts_ns: event time of the item,
        ns since the epoch, 0 if unknown."""
        due = self.began
        if self.settings.rate is not None:
            due = max(due, self.began + items / self.settings.rate)
        if self.settings.speed is not None and ts_ns:
            self.first_ns = ts_ns if self.first_ns is None else self.first_ns
            due = max(due, self.began + (ts_ns - self.first_ns) / 1e9 / self.settings.speed)
        while (left := due - time.monotonic()) > 0:
            time.sleep(min(left, 0.2))

    @property
    def is_paced(self) -> bool:
        """True if the settings limit the rate or the speed, so that messages are delayed."""
        return self.settings.rate is not None or self.settings.speed is not None


def produce_files(
    kafka: KafkaSettings,
    topic: str,
    files: Iterable[str],
    format_: str | None,
    settings: ProduceSettings,
    on_written: OnWritten = lambda _: None,
) -> Written:
    """Write the traces in files to a topic, in the files' format.

    Raises InputError if a file or the topic cannot be used; messages already written stay in the topic.
    """
    written = Written()
    with _producer(kafka) as producer:
        if settings.make_topic is not None:
            make_topic(kafka, topic, settings.make_topic)
        partitions = _partitions(producer, topic)
        writer = _Writer(producer, topic, partitions, settings, written, on_written)
        for file in files:
            for polled in FileSource(file, format_, DecodeConfig()).polls():
                writer.refuse(len(polled.rejects))
                for payload in polled.payloads:
                    writer.write(polled.format or "", payload)
        writer.flush()
    return written


def rekey(
    kafka: KafkaSettings,
    topic: str,
    settings: ProduceSettings,
    stop: Callable[[], bool],
    on_written: OnWritten = lambda _: None,
    *,
    until_end: bool = False,
) -> Written:
    """Write the messages of topics to another topic, keyed by request, each at least once.

    The group's offsets are committed after the messages before them were written: after a crash, the messages
    of the last second are written again. Ends when `stop` returns True or, with `until_end`, at the end of
    the topics.
    """
    written = Written()
    source = KafkaSource(kafka)
    try:
        with _producer(kafka) as producer:
            if settings.make_topic is not None:
                make_topic(kafka, topic, settings.make_topic)
            writer = _Writer(producer, topic, _partitions(producer, topic), settings, written, on_written)
            _Rekeying(source, writer).run(stop, until_end=until_end)
    finally:
        source.close()
    return written


class _Rekeying:
    """Loop of `rekey`: reads messages, writes them, and commits the group's offsets."""

    def __init__(self, source: KafkaSource, writer: _Writer) -> None:
        self._source, self._writer = source, writer
        self._positions: dict[StreamId, int] = {}
        self._dirty = False

    def run(self, stop: Callable[[], bool], *, until_end: bool) -> None:
        committed = time.monotonic()
        while not stop():
            change = self._source.change()
            for stream in change.gained:
                place = self._source.start(stream, self._source.committed(stream))
                self._positions[stream] = place.offset
            for stream in change.lost:
                self._positions.pop(stream, None)
            if change.asked:
                self._commit()
                self._source.release(change.asked)
                for stream in change.asked:
                    self._positions.pop(stream, None)
            polled = self._source.poll(0.2)
            if polled is not None:
                self._writer.refuse(len(polled.rejects))
                for payload in polled.payloads:
                    self._writer.write(polled.format or "", payload)
                topic, _, partition = polled.stream.rpartition("/")
                self._positions[StreamId(topic, int(partition))] = polled.until
                self._dirty = True
            elif until_end and self._positions:
                ends = self._source.ends()  # an unknown end counts as not reached
                if all(stream in ends and at >= ends[stream] for stream, at in self._positions.items()):
                    break
            if time.monotonic() > committed + _COMMIT_S:
                self._commit()
                committed = time.monotonic()
        for _ in range(_LAST_COMMITS):
            self._commit()
            if not self._dirty:
                return
        raise InputError(
            "The group does not take its offsets: the next run writes the last of the messages again.",
            remedy="Check the broker; what is written twice is dropped where it is ingested.",
        )

    def _commit(self) -> None:
        if self._dirty:
            self._writer.flush()
            self._dirty = not self._source.commit_offsets(self._positions)


class _Writer:
    """Writer of payloads to a topic: splits each by request, and sends messages."""

    def __init__(
        self,
        producer: KafkaProducer,
        topic: str,
        partitions: int,
        settings: ProduceSettings,
        written: Written,
        on_written: OnWritten,
    ) -> None:
        self._producer, self._topic, self._partitions = producer, topic, partitions
        self._settings, self._written, self._on_written = settings, written, on_written
        self._pace = _Pace(settings)
        self._gatherers: dict[str, Gatherer] = {}
        self._began = self._printed_at = time.monotonic()
        self._taken = 0
        """Number of spans or records that were sent or buffered."""
        self._buffered = 0
        self._failed: list[BaseException] = []

    def write(self, format_: str, payload: bytes) -> None:
        """Write one payload. Raises InputError if the broker refuses a message, or the format cannot be split
        by request."""
        try:
            parts = request_parts(format_, payload)
        except PartError:
            self.refuse(1)
            return
        if self._pace.is_paced:
            parts.sort(key=lambda part: part.ts_ns)
        for part in parts:
            if part.request:
                self._add(format_, part)
            elif len(part.body) > _MAX_UNREAD_BYTES:
                self.refuse(part.items)
            else:
                self._written.unread += part.items
                self._add(format_, part)

    def refuse(self, items: int) -> None:
        """Count spans or records that are skipped because they are unreadable and too large to pass on, or of
        another format."""
        self._written.refused += items

    def _add(self, format_: str, part: RequestPart) -> None:
        # Paced items are sent one a message, each at its time.
        size = 0 if self._settings.speed is not None else self._settings.message_bytes
        gatherer = self._gatherers.setdefault(format_, Gatherer(format_, self._partitions, size))
        self._pace.wait(self._taken, part.ts_ns)
        self._taken += part.items
        for message in gatherer.add(part):
            self._send(*message)

    def flush(self) -> None:
        """Send all buffered items and wait until the broker has acknowledged them. Raises InputError."""
        for gatherer in self._gatherers.values():
            for message in gatherer.rest():
                self._send(*message)
        self._await_acknowledgement()
        self._tell(at_once=True)

    def _await_acknowledgement(self) -> None:
        self._buffered = 0
        try:
            self._producer.flush(_FLUSH_S)
        except KafkaError as error:
            self._failed.append(error)
        self._raise_failed()

    def _send(self, partition: int, value: bytes, key: bytes | None, items: int) -> None:
        self._raise_failed()
        try:
            sent = self._producer.send(self._topic, value, key, partition=partition)
        except KafkaError as error:
            self._failed.append(error)
            self._raise_failed()
            return
        sent.add_errback(self._failed.append)
        self._buffered += len(value)
        if self._buffered > _BUFFER_BYTES:
            self._await_acknowledgement()
        self._written.messages += 1
        self._written.items += items
        self._written.bytes += len(value)
        self._tell(at_once=False)

    def _raise_failed(self) -> None:
        if self._failed:
            raise InputError(
                f"Topic '{self._topic}' does not take messages: {self._failed[0]}.",
                remedy="Check the broker, its limits and the rights on the topic.",
            )

    def _tell(self, *, at_once: bool) -> None:
        now = time.monotonic()
        self._written.seconds = now - self._began
        if at_once or now > self._printed_at + _TELL_S:
            self._printed_at = now
            self._on_written(self._written)


@contextmanager
def _producer(kafka: KafkaSettings) -> Iterator[KafkaProducer]:
    producer = connected(
        kafka,
        KafkaProducer,
        acks="all",
        compression_type="zstd",
        batch_size=_BATCH_BYTES,
        linger_ms=20,
        max_request_size=2**20,
        max_block_ms=kafka.request_timeout_ms,
        allow_auto_create_topics=False,
        metrics_enabled=False,
    )
    try:
        yield producer
    finally:
        producer.close(timeout=5)


def _partitions(producer: KafkaProducer, topic: str) -> int:
    try:
        found = producer.partitions_for(topic)
    except KafkaError:
        found = None
    if not found:
        raise InputError(
            f"Topic '{topic}' does not exist, or may not be written.",
            remedy="Make it first, or add --make-topic PARTITIONS.",
        )
    return len(found)


def make_topic(kafka: KafkaSettings, topic: str, partitions: int) -> None:
    """Create a topic if it is missing, with the brokers' default replication. Raises InputError."""
    from kafka import KafkaAdminClient
    from kafka.admin import NewTopic

    admin = connected(kafka, KafkaAdminClient)
    try:
        admin.create_topics([NewTopic(topic, partitions, -1)], wait_for_metadata=True)
    except TopicAlreadyExistsError:
        pass
    except KafkaError as error:
        raise InputError(
            broker_problem(kafka) or f"Topic '{topic}' cannot be made: {error}.",
            remedy="Check name and rights.",
        ) from error
    finally:
        admin.close()


class Gatherer:
    """Combines parts for the same partition into messages of a given size. Buffers at most one message per
    partition."""

    def __init__(self, format_: str, partitions: int, message_bytes: int) -> None:
        self._format = format_
        self._partitions = partitions
        self._message_bytes = message_bytes
        self._held: dict[int, list[RequestPart]] = defaultdict(list)
        self._sizes: dict[int, int] = defaultdict(int)

    def add(self, part: RequestPart) -> Iterator[tuple[int, bytes, bytes | None, int]]:
        """Add a part; yield the messages that are complete now: (partition, value, key, number of spans or
        records).

        key: id of the request, if the message has only one request; else None.
        """
        partition = partition_of(part.request, self._partitions)
        if not part.request:
            yield partition, part.body, part.request, part.items
            return
        if self._sizes[partition] + len(part.body) > self._message_bytes:
            yield from self._emit(partition)
        self._held[partition].append(part)
        self._sizes[partition] += len(part.body)

    def rest(self) -> Iterator[tuple[int, bytes, bytes | None, int]]:
        """Yield the messages of all parts still buffered, in the form that `add` yields."""
        for partition in sorted(self._held):
            yield from self._emit(partition)

    def _emit(self, partition: int) -> Iterator[tuple[int, bytes, bytes | None, int]]:
        parts, self._held[partition], self._sizes[partition] = self._held[partition], [], 0
        if not parts:
            return
        value = joined(self._format, [part.body for part in parts])
        if value is not None:
            requests = {part.request for part in parts}
            key = parts[0].request if len(requests) == 1 else None
            yield partition, value, key, sum(part.items for part in parts)
            return
        for part in parts:
            yield partition, part.body, part.request, part.items
