"""Kafka as a `LiveSource`, by kafka-python."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain
from typing import Any, Final

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import (
    FencedInstanceIdError,
    KafkaError,
    KafkaTimeoutError,
    LogTruncationError,
    OffsetOutOfRangeError,
)

from ingest.kafka.diagnosis import silence_client, what_is_wrong
from ingest.kafka.fetched_batches import BatchRecords, DamagedBatch, FetchedBatch
from ingest.kafka.kafka_security import client_security
from ingest.kafka.kafka_settings import (
    FETCH_BYTES,
    MAX_METADATA_AGE_MS,
    MAX_RECONNECT_BACKOFF_MS,
    KafkaSettings,
    OnCorrupt,
    StartAt,
)
from ingest.kafka.lane_assignor import LaneAssignor
from ingest.kafka.membership import Membership, monotonic_s
from ingest.source import Change, CorruptStreamError, GapError, Payloads, StreamId, TopicChangedError
from schemas.errors import ConfigError, InputError
from schemas.rejects import Reason, Reject

REFETCHES: Final = 3
"""How often a damaged batch is fetched before it counts as damaged on the disk."""
MIN_POLL_MS: Final = 50
"""A poll that waits less may never see the answer to a join."""
_PROBE_EVERY_S: Final = 10.0
"""Between looks for the reason why nothing comes."""
_NS_PER_MS: Final = 1_000_000


@dataclass(slots=True)
class _Stream:
    """What is kept of a stream that was started."""

    topic_id: str | None
    end: int
    damaged_at: int = -1
    damaged_times: int = 0


class KafkaSource:
    """Partitions of topics, shared out among the members of a group. See `LiveSource`.

    Memory: FETCH_BYTES of each partition, as the broker stores them, and one poll unpacked: 16 MB, or one
    batch of up to `max_unpacked_bytes`.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        """Raises InputError where no broker can be used, saying why; ConfigError."""
        self._settings = settings
        self._assignor = LaneAssignor()
        self._consumer = _consumer(settings, self._assignor)
        self._membership = Membership(self._consumer, self._assignor, settings)
        self._streams: dict[StreamId, _Stream] = {}
        self._is_unconfirmed = True
        """Messages came since the ids of topics were looked up."""
        self._trouble: str | None = None
        self._probed = 0.0
        self._is_closed = False

    @property
    def cluster_id(self) -> str | None:
        """See `LiveSource.cluster_id`."""
        cluster_id: str | None = self._consumer._cluster.cluster_id
        return cluster_id

    @property
    def trouble(self) -> str | None:
        """See `LiveSource.trouble`."""
        return self._trouble

    def change(self) -> Change:
        """See `LiveSource.change`."""
        change = self._membership.change(monotonic_s())
        for stream in change.lost:
            self._streams.pop(stream, None)
        return change

    def poll(self, timeout_s: float) -> Payloads | None:
        """See `LiveSource.poll`. Raises InputError where another member took our static id."""
        now_s = monotonic_s()
        self._membership.give_up_late(now_s)
        if self._membership.is_fenced(now_s):
            raise self._fenced()
        self._membership.follow_pattern()
        self._membership.look_for_forgotten(now_s)
        self._membership.finish_joining()
        self._refuse_other_topics()
        try:
            # One record is one bite of batches (`BatchRecords.take`).
            fetched = self._consumer.poll(max(MIN_POLL_MS, int(timeout_s * 1000)), max_records=1)
        except OffsetOutOfRangeError as error:
            raise self._out_of_range(error) from error
        except LogTruncationError as error:
            raise self._truncated(error) from error
        except FencedInstanceIdError as error:
            raise self._fenced() from error
        except KafkaError as error:
            self._trouble = self._probed_trouble(now_s) or self._trouble or f"Kafka: {error}."
            return None
        self._watch(bool(fetched), now_s)
        for partition, bite in fetched.items():
            self._is_unconfirmed = True
            return self._payloads(StreamId(partition.topic, partition.partition), bite)
        return None

    def start(self, stream: StreamId, position: int | None, topic_id: str | None) -> int:
        """See `LiveSource.start`."""
        current = self.topic_id(stream.topic)
        if topic_id is not None and current != topic_id:
            raise _other_topic(stream)
        partition = TopicPartition(stream.topic, stream.partition)
        first, end = self._bounds(partition)
        if position is None:
            position = first if self._settings.start_at is StartAt.EARLIEST else end
        elif position < first:
            raise _gap(stream, position, first)
        elif position > end:
            raise _cut_back(stream, position, end)
        self._streams[stream] = _Stream(current, end)
        if partition in self._consumer.assignment():
            self._consumer.seek(partition, position)
            self._consumer.resume(partition)
        return position

    def release(self, streams: Collection[StreamId]) -> None:
        """See `LiveSource.release`."""
        self._membership.release(streams)
        for stream in streams:
            self._streams.pop(stream, None)

    def pause(self, streams: Collection[StreamId]) -> None:
        """See `LiveSource.pause`."""
        self._consumer.pause(*self._assigned(streams))

    def resume(self, streams: Collection[StreamId]) -> None:
        """See `LiveSource.resume`. What was not started, or stopped for an error, stays paused."""
        self._consumer.resume(*self._assigned(stream for stream in streams if stream in self._streams))

    def ends(self) -> Mapping[StreamId, int]:
        """See `LiveSource.ends`."""
        for partition in self._assigned(self._streams):
            end = self._consumer.highwater(partition)
            if end is not None:
                self._streams[StreamId(partition.topic, partition.partition)].end = end
        return {stream: kept.end for stream, kept in self._streams.items()}

    def topic_id(self, topic: str) -> str | None:
        """See `LiveSource.topic_id`. As of now where anything came since it was asked last: a topic may be
        deleted, made anew and read on within the time between two looks. Bound: 4 s; then as last known."""
        if self._is_unconfirmed:
            self._is_unconfirmed = not self._membership.refresh_topics(timeout_ms=2_000)
        return self._known_topic_id(topic)

    def _known_topic_id(self, topic: str) -> str | None:
        found: uuid.UUID | None = self._consumer._cluster.topic_id(topic)
        return None if found is None or not found.int else str(found)

    def commit_offsets(self, positions: Mapping[StreamId, int]) -> bool:
        """See `LiveSource.commit_offsets`. Bound: 2 s."""
        try:
            self._membership.commit(dict(positions), timeout_ms=2_000)
        except KafkaError:
            return False
        return True

    def close(self) -> None:
        """See `LiveSource.close`."""
        if not self._is_closed:
            self._is_closed = True
            self._consumer.close(autocommit=False, timeout_ms=5_000)

    def _payloads(self, stream: StreamId, bite: list[FetchedBatch | DamagedBatch]) -> Payloads | None:
        kept = self._streams.get(stream)
        if kept is None:
            return None
        good = [batch for batch in bite if isinstance(batch, FetchedBatch)]
        rejects: list[Reject] = []
        until = good[-1].until if good else -1
        if isinstance(damaged := bite[-1], DamagedBatch) and not good:
            passed = self._refetched(stream, kept, damaged)
            if passed is None:
                return None
            rejects.append(passed)
            until = damaged.until
        values = list(chain.from_iterable(batch.messages.values for batch in good))
        offsets = list(chain.from_iterable(batch.messages.offsets for batch in good))
        if None in values:
            empty = [offset for value, offset in zip(values, offsets, strict=True) if value is None]
            rejects += [Reject(Reason.EMPTY, "the message has no value", b"", offset) for offset in empty]
            there = [(value, at) for value, at in zip(values, offsets, strict=True) if value is not None]
            values, offsets = [value for value, _ in there], [at for _, at in there]
        latest_ms = max((batch.latest_ms for batch in good), default=-1)
        return Payloads(
            stream.name,
            self._settings.format_of_topic(stream.topic) if values else None,
            values,  # type: ignore[arg-type]  # no value is None any more
            offsets,
            until,
            rejects,
            None if latest_ms < 0 else latest_ms * _NS_PER_MS,
        )

    def _refuse_other_topics(self) -> None:
        """Raises TopicChangedError for a topic that is not the one its streams were started in."""
        for stream, kept in self._streams.items():
            if kept.topic_id is not None and self._known_topic_id(stream.topic) not in (None, kept.topic_id):
                self._stop(stream)
                raise _other_topic(stream)

    def _refetched(self, stream: StreamId, kept: _Stream, damaged: DamagedBatch) -> Reject | None:
        """The reject of a batch that is to be passed; None: fetch it once more. Raises CorruptStreamError."""
        if kept.damaged_at != damaged.first:
            kept.damaged_at, kept.damaged_times = damaged.first, 0
        kept.damaged_times += 1
        if kept.damaged_times <= REFETCHES:
            return None
        what = f"offsets {damaged.first} to {damaged.until - 1} cannot be read: {damaged.detail}"
        if self._settings.on_corrupt is OnCorrupt.HALT:
            self._stop(stream)
            raise CorruptStreamError(
                f"{stream.name}: {what}.",
                stream=stream,
                remedy="Restore them from a replica, or set on_corrupt = 'skip' to go on without them.",
            )
        partition = TopicPartition(stream.topic, stream.partition)
        self._consumer.seek(partition, damaged.until)
        return Reject(Reason.BAD_COMPRESSION, what, b"", damaged.first)

    def _out_of_range(self, error: OffsetOutOfRangeError) -> InputError:
        """The error of the first stream that the broker named; all of them stop."""
        found: InputError | None = None
        for partition, position in error.args[0].items():
            stream = StreamId(partition.topic, partition.partition)
            kept = self._stop(stream)
            if kept is not None and self.topic_id(stream.topic) not in (None, kept.topic_id):
                return _other_topic(stream)
            first, end = self._bounds(partition)
            of_stream = (
                _gap(stream, position, first) if position < first else _cut_back(stream, position, end)
            )
            found = found or of_stream
        return found or InputError(f"Kafka: {error}.")

    def _truncated(self, error: LogTruncationError) -> TopicChangedError:
        streams = [StreamId(each.topic, each.partition) for each in error.divergent_offsets]
        for stream in streams:
            self._stop(stream)
        names = ", ".join(stream.name for stream in streams)
        return TopicChangedError(
            f"{names}: the log was cut back behind what was read (an unclean election of a leader?).",
            stream=streams[0],
            remedy="Compare the topic with the lake; a lake of its own takes what is left.",
        )

    def _fenced(self) -> InputError:
        return InputError(
            f"Another process took our place in the group, as '{self._settings.static_member_id}'.",
            remedy="Give every process a static_member_id of its own.",
        )

    def _stop(self, stream: StreamId) -> _Stream | None:
        """Nothing more comes of a stream until it is started again."""
        self._consumer.pause(*self._assigned([stream]))
        return self._streams.pop(stream, None)

    def _assigned(self, streams: Iterable[StreamId]) -> list[TopicPartition]:
        assigned = self._consumer.assignment()
        named = [TopicPartition(stream.topic, stream.partition) for stream in streams]
        return [partition for partition in named if partition in assigned]

    def _bounds(self, partition: TopicPartition) -> tuple[int, int]:
        """First offset of a partition and the one after its last. Raises InputError."""
        timeout_ms = self._settings.request_timeout_ms
        try:
            first: int = self._consumer.beginning_offsets([partition], timeout_ms)[partition]
            end: int = self._consumer.end_offsets([partition], timeout_ms)[partition]
        except KafkaError as error:
            raise InputError(
                f"The range of {partition.topic}/{partition.partition} is not told: {error}.",
                remedy=what_is_wrong(self._settings) or "Try again.",
            ) from error
        return first, end

    def _watch(self, has_come: bool, now_s: float) -> None:
        """Say what is wrong where nothing comes because no broker answers, or there is nothing to read."""
        if has_come or self._metadata_age_s(now_s) < 2 * MAX_METADATA_AGE_MS / 1000:
            self._trouble = self._missing_topic()
        else:
            self._trouble = self._probed_trouble(now_s) or self._trouble or "Kafka gives no metadata."

    def _probed_trouble(self, now_s: float) -> str | None:
        """What a look finds wrong; None also where the last look was a moment ago."""
        if now_s < self._probed + _PROBE_EVERY_S:
            return None
        self._probed = now_s
        return what_is_wrong(self._settings)

    def _missing_topic(self) -> str | None:
        there = self._consumer._cluster.topics()
        missing = sorted(set(self._settings.topics) - there)
        return f"Topic '{missing[0]}' does not exist, or may not be read." if missing else None

    def _metadata_age_s(self, now_s: float) -> float:
        """How long ago brokers told of topics and leaders; they are asked every MAX_METADATA_AGE_MS."""
        last_ms: float = self._consumer._cluster._last_successful_refresh_ms
        return now_s - last_ms / 1000


def _consumer(settings: KafkaSettings, assignor: LaneAssignor) -> KafkaConsumer:
    """A member of the group that has not joined yet. Raises InputError, ConfigError."""
    if find_spec("crc32c") is None:
        raise ConfigError(
            "The package crc32c is missing: checksums would take 25 times as long.",
            remedy="Run: pip install crc32c.",
        )
    silence_client()
    arguments: dict[str, Any] = client_security(settings.security)
    try:
        consumer = KafkaConsumer(
            bootstrap_servers=list(settings.bootstrap),
            client_id=settings.client_name,
            group_id=settings.group,
            group_instance_id=settings.static_member_id,
            partition_assignment_strategy=[assignor],
            auto_offset_reset="none",
            enable_auto_commit=False,
            allow_auto_create_topics=False,
            isolation_level="read_committed",
            max_partition_fetch_bytes=FETCH_BYTES,
            session_timeout_ms=settings.session_timeout_ms,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
            max_poll_interval_ms=settings.max_poll_interval_ms,
            request_timeout_ms=settings.request_timeout_ms,
            bootstrap_timeout_ms=settings.request_timeout_ms,
            metadata_max_age_ms=MAX_METADATA_AGE_MS,
            reconnect_backoff_max_ms=MAX_RECONNECT_BACKOFF_MS,
            metrics_enabled=False,
            **arguments,
        )
    except KafkaTimeoutError as error:
        raise InputError(
            what_is_wrong(settings) or f"No broker of {', '.join(settings.bootstrap)} answers.",
            remedy="Check the settings of Kafka.",
        ) from error
    except KafkaError as error:
        raise InputError(
            what_is_wrong(settings) or f"Kafka: {error}.", remedy="Check the settings of Kafka."
        ) from error
    limited = type("LimitedRecords", (BatchRecords,), {"max_unpacked_bytes": settings.max_unpacked_bytes})
    consumer._fetcher.PartitionRecords = limited
    return consumer


def _other_topic(stream: StreamId) -> TopicChangedError:
    return TopicChangedError(
        f"Topic '{stream.topic}' was deleted and made anew: offsets of the old one say nothing of it.",
        stream=stream,
        remedy="Read it into a lake of its own, or under another name.",
    )


def _gap(stream: StreamId, position: int, first: int) -> GapError:
    return GapError(
        f"{stream.name}: {first - position} messages from {position} on are gone, the log begins at {first}.",
        stream=stream,
        remedy="--accept-gap goes on behind them; a longer retention keeps it from happening.",
        first=first,
    )


def _cut_back(stream: StreamId, position: int, end: int) -> TopicChangedError:
    return TopicChangedError(
        f"{stream.name}: {position} is behind the end of the log, {end}: it was made anew or cut back.",
        stream=stream,
        remedy="Read it into a lake of its own, or under another name.",
    )
