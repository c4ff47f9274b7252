"""Messages fetched by librdkafka (confluent-kafka), for topics with one record a message.

Members of a group stay kafka-python's: lanes, static members, ids of topics and offsets are the same for
both, and a group may have members of both kinds. This client is told what to fetch and knows no group.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Collection
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from kafka import KafkaConsumer
from kafka import TopicPartition as MemberPartition
from kafka.errors import LogTruncationError

from ingest.kafka.bearer_tokens import token_provider
from ingest.kafka.fetched_batches import DamagedBatch, FetchedBatch
from ingest.kafka.fetching import MIN_POLL_S, Bite, OwnFetching
from ingest.kafka.kafka_security import needed_secret, secret
from ingest.kafka.kafka_settings import (
    FETCH_BYTES,
    MAX_RECONNECT_BACKOFF_MS,
    KafkaSettings,
    Mechanism,
)
from ingest.kafka.record_layout import Messages
from ingest.source import StreamId
from schemas.errors import ConfigError

try:
    from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, Message, TopicPartition
except ImportError as missing:
    raise ConfigError(
        "client = 'fast' needs the package confluent-kafka.", remedy="Run: pip install 'flowdiff[fast]'."
    ) from missing

MESSAGES: Final = 10_000
"""In one call to librdkafka."""
_MEMBER_EVERY_S: Final = 0.1
"""Between looks at the group while messages come."""
_TOKEN_LIFE_S: Final = 60.0
"""How long librdkafka keeps a token before it asks for another; the provider keeps the real one."""
_QUEUE_KB: Final = 64 * 1024
"""Fetched ahead, over all partitions."""
_NO_EPOCH: Final = -1
"""As in Kafka's protocol."""
SILENT_S: Final = 30.0
"""A stream of which nothing came for so long is begun anew where it is. Most are just idle, to which it does
nothing; but when a broker was away, librdkafka asks whether the log is still the one that was read, and now
and then (1 in 60 restarts) waits for the answer for ever."""


LOOKED_AT: Final = frozenset(
    {
        KafkaError.OFFSET_OUT_OF_RANGE,
        KafkaError._AUTO_OFFSET_RESET,
        KafkaError._BAD_MSG,
        KafkaError._BAD_COMPRESSION,
    }
)
"""Errors of a stream after which the other client reads on."""
_TRUNCATED: Final = "truncation"
"""In librdkafka's text of what has no code of its own where there is no place to go back to."""


class FastFetching:
    """See `Fetching`."""

    def __init__(self, settings: KafkaSettings, consumer: KafkaConsumer) -> None:
        self._member = consumer
        self._client = Consumer(_configuration(settings), logger=logging.getLogger("kafka.librdkafka"))
        self._begun: set[StreamId] = set()
        self._until: dict[StreamId, int] = {}
        """After what was fetched last."""
        self._epoch: dict[StreamId, tuple[int, int]] = {}
        """Position after the last message, and epoch of the leader that wrote it: by both librdkafka tells a
        log that was cut back from the one that was read."""
        self._heard_s: dict[StreamId, float] = {}
        """When a stream was begun, or gave something, by `time.monotonic`."""
        self._held: set[StreamId] = set()
        self._own = OwnFetching(settings, consumer)
        self._looked_at: set[StreamId] = set()
        """With a damaged batch next, fetched by the other client: it tells where the batch ends."""
        self._truncated: list[StreamId] = []
        """Whose log was cut back behind what was fetched; told once what was fetched before is given."""
        self._waiting: deque[tuple[StreamId, Bite]] = deque()
        self._polled = 0.0

    def fetch(self, timeout_s: float) -> tuple[StreamId, Bite] | None:
        """See `Fetching.fetch`."""
        now_s = time.monotonic()
        coordinator = self._member._coordinator
        is_joining = (
            not self._begun
            or bool(self._looked_at)
            or coordinator.rejoin_needed
            or coordinator._join_task is not None
        )
        if is_joining or now_s >= self._polled + _MEMBER_EVERY_S:
            self._polled = now_s
            self._begin_silent_ones_anew(now_s)
            # All is held there but what is looked at: this is the group's turn.
            looked = self._own.fetch(MIN_POLL_S if is_joining else 0.001)
            # What was fetched before comes first. A damaged batch is found again.
            if looked is not None and not (self._waiting and isinstance(looked[1][0], DamagedBatch)):
                self._waiting.append(self._seen(*looked))
        if self._truncated and not self._waiting:
            streams, self._truncated = self._truncated, []
            raise LogTruncationError({MemberPartition(s.topic, s.partition): None for s in streams})
        if self._begun and not self._waiting:
            self._sort(self._client.consume(MESSAGES, timeout_s))
        return self._waiting.popleft() if self._waiting else None

    def begin(self, stream: StreamId, position: int) -> None:
        """See `Fetching.begin`."""
        self.drop([stream])
        self._assign(stream, position)

    def hold(self, streams: Collection[StreamId]) -> None:
        """See `Fetching.hold`."""
        self._held |= set(streams)
        self._own.hold([stream for stream in streams if stream in self._looked_at])
        self._client.pause(self._named(streams))

    def go_on(self, streams: Collection[StreamId]) -> None:
        """See `Fetching.go_on`."""
        self._held -= set(streams)
        self._heard_s.update(dict.fromkeys(streams, time.monotonic()))
        self._own.go_on([stream for stream in streams if stream in self._looked_at])
        self._client.resume(self._named(streams))

    def drop(self, streams: Collection[StreamId]) -> None:
        """See `Fetching.drop`."""
        self._own.hold([stream for stream in streams if stream in self._looked_at])
        named = self._named(streams)
        if named:
            self._client.incremental_unassign(named)
        self._looked_at -= set(streams)
        self._begun -= set(streams)
        self._held -= set(streams)
        for stream in streams:
            self._until.pop(stream, None)
            self._epoch.pop(stream, None)
            self._heard_s.pop(stream, None)
        self._waiting = deque(bite for bite in self._waiting if bite[0] not in streams)
        self._truncated = [stream for stream in self._truncated if stream not in streams]

    def end_of(self, stream: StreamId) -> int | None:
        """See `Fetching.end_of`."""
        if stream not in self._begun:
            return None
        _, high = self._client.get_watermark_offsets(
            TopicPartition(stream.topic, stream.partition), cached=True
        )
        return None if high == OFFSET_INVALID or high < 0 else int(high)

    def close(self) -> None:
        """See `Fetching.close`."""
        self._client.close()

    def _seen(self, stream: StreamId, bite: Bite) -> tuple[StreamId, Bite]:
        """What the other client found; where that is sound, librdkafka goes on behind it."""
        last = bite[-1]
        if isinstance(last, FetchedBatch):
            self._own.hold([stream])
            self._assign(stream, last.until)
        return stream, bite

    def _assign(self, stream: StreamId, position: int) -> None:
        """Not by `seek`, which librdkafka refuses while it is not at work on a partition."""
        epoch = self._epoch_at(stream, position)
        partition = TopicPartition(stream.topic, stream.partition, position, leader_epoch=epoch)
        if stream in self._begun and stream not in self._looked_at:
            self._client.incremental_unassign([partition])
        self._looked_at.discard(stream)
        self._client.incremental_assign([partition])
        # It remembers that a partition was paused.
        self._client.resume([partition])
        self._begun.add(stream)
        self._until[stream] = position
        self._heard_s[stream] = time.monotonic()

    def _begin_silent_ones_anew(self, now_s: float) -> None:
        """See `SILENT_S`."""
        for stream in self._begun - self._held - self._looked_at:
            position = self._until[stream]
            # Without an epoch it has nothing to ask, and does not wait.
            if now_s > self._heard_s[stream] + SILENT_S and self._epoch_at(stream, position) != _NO_EPOCH:
                self._assign(stream, position)

    def _epoch_at(self, stream: StreamId, position: int) -> int:
        after, epoch = self._epoch.get(stream, (position, _NO_EPOCH))
        return epoch if after == position else _NO_EPOCH

    def _named(self, streams: Collection[StreamId]) -> list[Any]:
        return [TopicPartition(s.topic, s.partition) for s in streams if s in self._begun - self._looked_at]

    def _sort(self, messages: list[Any]) -> None:
        """Messages by stream, in their order. What comes after a damaged one is left for the next fetch.

        librdkafka gives long runs of one stream. All that is asked of every message is asked by `map`, in C.
        """
        topics: list[Any] = list(map(Message.topic, messages))
        partitions: list[Any] = list(map(Message.partition, messages))
        by_stream: dict[tuple[str, int], list[Any]] = {}
        at = 0
        for key, run in groupby(zip(topics, partitions, strict=True)):
            end = at + len(list(run))
            by_stream.setdefault(key, []).extend(messages[at:end])
            at = end
        # It may tell of one damage twice, the second time after it was told to leave the stream.
        ours = self._begun - self._looked_at
        for (topic, partition), those in by_stream.items():
            stream = StreamId(topic, partition)
            if stream in ours:
                self._take(stream, those)

    def _take(self, stream: StreamId, messages: list[Any]) -> None:
        errors = list(map(Message.error, messages))
        failed = next((i for i, error in enumerate(errors) if error is not None), None)
        good = messages if failed is None else messages[:failed]
        if good:
            batch, epoch = _batch(good), good[-1].leader_epoch()
            if epoch is not None:
                self._epoch[stream] = batch.until, epoch
            self._give(stream, batch)
        if failed is None:
            return
        code, offset, rest = (
            messages[failed].error().code(),
            messages[failed].offset(),
            messages[failed + 1 :],
        )
        if code == KafkaError._PARTITION_EOF and offset > self._until[stream]:
            # Markers of transactions and what was compacted away count as passed.
            self._give(stream, FetchedBatch(Messages([], [], 0), offset, -1))
        elif code == KafkaError._AUTO_OFFSET_RESET and _TRUNCATED in messages[failed].error().str():
            # The other client, which begins at a position without its epoch, could not see it.
            self._client.incremental_unassign([TopicPartition(stream.topic, stream.partition)])
            self._begun.discard(stream)
            self._truncated.append(stream)
            return
        elif code in LOOKED_AT:
            # What librdkafka tells after a damaged batch may be anything (that its own position is out of
            # range, too), and so may its offsets: the other client has a look, and says what it is.
            self._looked_at.add(stream)
            self._client.incremental_unassign([TopicPartition(stream.topic, stream.partition)])
            self._own.begin(stream, self._until[stream])
            return
        # Of other errors (a broker that is away, rights) librdkafka recovers by itself; `trouble` says why.
        if rest:
            self._take(stream, rest)

    def _give(self, stream: StreamId, batch: FetchedBatch) -> None:
        self._until[stream] = batch.until
        self._heard_s[stream] = time.monotonic()
        self._waiting.append((stream, [batch]))


def _batch(messages: list[Any]) -> FetchedBatch:
    values: list[Any] = list(map(Message.value, messages))
    offsets: list[Any] = list(map(Message.offset, messages))
    latest_ms = max(map(itemgetter(1), map(Message.timestamp, messages)))
    return FetchedBatch(Messages(values, offsets, 0), offsets[-1] + 1, latest_ms)


def _configuration(settings: KafkaSettings) -> dict[str, Any]:
    security = settings.security
    configuration: dict[str, Any] = {
        "bootstrap.servers": ",".join(settings.bootstrap),
        "client.id": settings.client_name,
        # It never joins: librdkafka wants a name all the same.
        "group.id": settings.group,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
        "check.crcs": True,
        "isolation.level": "read_committed",
        "max.partition.fetch.bytes": FETCH_BYTES,
        "queued.max.messages.kbytes": _QUEUE_KB,
        "topic.metadata.refresh.interval.ms": settings.metadata_max_age_ms,
        "reconnect.backoff.max.ms": MAX_RECONNECT_BACKOFF_MS,
        "socket.timeout.ms": settings.request_timeout_ms,
        "security.protocol": security.protocol.value,
    }
    if security.protocol.has_tls:
        if security.ca_file is not None:
            configuration["ssl.ca.location"] = str(security.ca_file)
        if not security.check_hostname:
            configuration["ssl.endpoint.identification.algorithm"] = "none"
        if security.certificate_file is not None:
            configuration["ssl.certificate.location"] = str(security.certificate_file)
            configuration["ssl.key.location"] = str(security.key_file or security.certificate_file)
            password = secret(security.key_password, security.key_password_file)
            if password is not None:
                configuration["ssl.key.password"] = password
    if security.protocol.has_sasl:
        configuration["sasl.mechanisms"] = security.mechanism.value
        if security.mechanism is Mechanism.OAUTHBEARER:
            provider = token_provider(security)
            configuration["oauth_cb"] = lambda _: (provider.token(), time.time() + _TOKEN_LIFE_S)
        else:
            configuration["sasl.username"] = security.username
            configuration["sasl.password"] = needed_secret(security, "password")
    return configuration
