"""Read Kafka as a `LiveSource`: combines membership, fetching and their errors."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from kafka.errors import FencedInstanceIdError, KafkaError, LogTruncationError, OffsetOutOfRangeError

from ingest.kafka.diagnosis import broker_problem, explained, missing_permission, missing_topic
from ingest.kafka.fetching import MIN_POLL_S, USUAL_SIZES, DamagedBatch, FetchedBatch, Fetching, FetchSizes
from ingest.kafka.kafka_settings import KafkaSettings
from ingest.kafka.lane_assignor import LaneAssignor
from ingest.kafka.log_range import LogRange, StreamEnds, end_of_epoch, partition_of, range_of, topic_id_of
from ingest.kafka.membership import Membership, group_consumer
from ingest.messages import payloads_of_messages
from ingest.source import (
    CorruptStreamError,
    CutBackError,
    GapError,
    Payloads,
    Place,
    StreamChange,
    StreamError,
    StreamId,
    TopicChangedError,
)
from schemas.config import DecodeConfig
from schemas.errors import InputError
from schemas.rejects import Reason, Reject

REFETCHES: Final = 3
"""Maximum number of times that a damaged batch is fetched again; if it is damaged each time, it counts as
damaged on the broker's disk."""
_PROBE_EVERY_S: Final = 10.0
"""Interval between diagnoses of the brokers, s, while no messages arrive."""
_IDLE_S: Final = 5.0
"""Time without an answer to metadata requests, s, after which the brokers are diagnosed; two requests must
have gone unanswered."""
_RANGE_MS: Final = 2_000
"""Time limit, ms, of each of the two requests for the offset range of a log, during which other streams
wait."""
_NS_PER_MS: Final = 1_000_000


@dataclass(slots=True)
class _Stream:
    """State of one stream that was started."""

    place: Place
    """Place (offset and identity) at which the next message will be fetched."""
    damaged_at: int = -1
    """Offset of the last batch that was found damaged; -1: none was."""
    damaged_times: int = 0
    """Number of times that the damaged batch at `damaged_at` was fetched."""


class KafkaSource:
    """`LiveSource` of partitions of topics, which the members of a consumer group share.

    Memory: one fetch of each partition and one poll, with sizes from `sizes`; or one batch of up to
    `max_unpacked_bytes`.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        decode: DecodeConfig | None = None,
        sizes: FetchSizes = USUAL_SIZES,
    ) -> None:
        """decode: settings that limit the size of payloads. Raises InputError, with the reason, if no broker
        can be used; ConfigError."""
        self._settings = settings
        self._decode = decode or DecodeConfig()
        self._pieces: deque[tuple[StreamId, Iterator[Payloads]]] = deque()
        """(stream, payloads) from earlier fetches that `poll` has not returned yet."""
        self._paused: set[StreamId] = set()
        self._assignor = LaneAssignor()
        self._consumer = group_consumer(settings, self._assignor, sizes)
        self._fetching = Fetching(settings, self._consumer, sizes)
        self._membership = Membership(self._consumer, self._assignor, settings)
        self._streams: dict[StreamId, _Stream] = {}
        self._errors: deque[StreamError] = deque()
        """Errors of stopped streams; each call of `poll` raises one of them."""
        self._lost: dict[StreamId, Place] = {}
        """Stopped stream -> place of its next message. The stream's error is raised once the brokers have
        answered which offsets the log has."""
        self._lost_asked = 0.0
        self._lost_trouble: str | None = None
        self._ends = StreamEnds(self._consumer)
        self._is_unconfirmed = True
        """True if messages were fetched since the ids of topics were last refreshed."""
        self._trouble: str | None = None
        self._probed = 0.0
        self._is_closed = False

    @property
    def cluster_id(self) -> str | None:
        """Id of the cluster; None if the brokers report none or were not reached yet."""
        cluster_id: str | None = self._consumer._cluster.cluster_id
        return cluster_id

    @property
    def trouble(self) -> str | None:
        """Reason why polls return no messages, as a sentence; None: no problem."""
        return self._trouble

    def change(self) -> StreamChange:
        """Change of the assigned partitions since the last call (`LiveSource.change`)."""
        change = self._membership.change(time.monotonic())
        for stream in change.lost:
            self._forget(stream)
        return change

    def poll(self, timeout_s: float) -> Payloads | None:
        """Next payloads of one partition; None if no message arrived in time (`LiveSource.poll`). Raises
        InputError if another member joined with this member's static id."""
        now_s = time.monotonic()
        self._membership.expire_revoked(now_s)
        if self._membership.is_fenced(now_s):
            raise self._fenced()
        self._membership.follow_pattern()
        self._membership.rejoin_for_unassigned(now_s)
        self._membership.finish_joining()
        self._refuse_other_topics()
        self._explain_lost(now_s)
        if self._errors:
            raise self._errors.popleft()
        if (piece := self._next_piece()) is not None:
            return piece
        try:
            fetched = self._fetching.fetch(max(timeout_s, MIN_POLL_S))
        except OffsetOutOfRangeError as error:
            for partition, offset in error.args[0].items():
                self._lose(StreamId(partition.topic, partition.partition), offset)
            return None
        except LogTruncationError as error:
            for partition in error.divergent_offsets:
                self._lose(StreamId(partition.topic, partition.partition))
            return None
        except FencedInstanceIdError as error:
            raise self._fenced() from error
        except KafkaError as error:
            self._trouble = (
                missing_permission(error, self._settings)
                or self._probed_trouble(now_s)
                or self._trouble
                or f"Kafka: {error}."
            )
            return None
        # The client requests topics and leaders every metadata_max_age_ms.
        age_s = now_s - self._consumer._cluster._last_successful_refresh_ms / 1000
        if fetched is not None or age_s < max(_IDLE_S, 2e-3 * self._settings.metadata_max_age_ms):
            missing = sorted(set(self._settings.topics) - self._consumer._cluster.topics())
            self._trouble = missing_topic(missing[0], self._settings) if missing else None
            self._trouble = self._trouble or (self._lost_trouble if self._lost else None)
        else:
            self._trouble = self._probed_trouble(now_s) or self._trouble or "Kafka gives no metadata."
        if fetched is None:
            return None
        self._is_unconfirmed = True
        return self._payloads(*fetched)

    def start(self, stream: StreamId, place: Place | None) -> Place:
        """Start reading an assigned partition at `place`; return the place at which it really starts
        (`LiveSource.start`)."""
        topic_id = self.topic_id(stream.topic)
        if place is not None and place.topic_id not in (None, topic_id):
            if topic_id is not None:
                raise TopicChangedError(stream)
            raise InputError(
                f"Brokers do not say the id of topic '{stream.topic}' at the moment.",
                remedy="Check the topic and the right to describe it, and try again.",
            )
        with explained(f"The range of {stream.name} is not known", self._settings):
            there = range_of(self._consumer, partition_of(stream), self._settings.request_timeout_ms)
            error = None if place is None else self._not_there(stream, place, there)
        if error is not None:
            raise error
        if place is None:
            offset = there.first if self._settings.start_at == "earliest" else there.end
        else:
            offset = place.offset
        epoch = there.epoch if place is None or place.epoch is None else place.epoch
        self._forget(stream)
        started = Place(offset, topic_id, epoch)
        self._streams[stream] = _Stream(started)
        self._ends.begin(stream, there.end, time.monotonic())
        self._fetching.begin(stream, offset, epoch)
        return started

    def release(self, streams: Collection[StreamId]) -> None:
        """Release revoked partitions after their messages were committed."""
        self._membership.release(streams)
        for stream in streams:
            self._forget(stream)

    def committed(self, stream: StreamId) -> Place | None:
        """Place in a stream that the consumer group committed last (`commit_offsets`); None: none yet. Raises
        InputError."""
        with explained(f"The group's offset of {stream.name} is not known", self._settings):
            found = self._consumer.committed(
                partition_of(stream),
                metadata=True,
                timeout_ms=self._settings.request_timeout_ms,
            )
        if found is None:
            return None
        return Place(found.offset, epoch=None if found.leader_epoch < 0 else found.leader_epoch)

    def pause(self, streams: Collection[StreamId]) -> None:
        """Stop fetching partitions; the membership in the group continues."""
        self._paused |= set(streams)
        self._fetching.pause(streams)

    def resume(self, streams: Collection[StreamId]) -> None:
        """Resume fetching partitions. Partitions not started, or stopped by an error, stay paused."""
        self._paused -= set(streams)
        self._fetching.resume([stream for stream in streams if stream in self._streams])

    def ends(self) -> Mapping[StreamId, int]:
        """Partition -> offset of the next message to be written, for partitions whose end was confirmed
        recently (`LiveSource.ends`)."""
        now_s = time.monotonic()
        for stream in self._streams:
            self._ends.record(stream, self._fetching.end_of(stream), now_s)
        return self._ends.known(now_s)

    def topic_id(self, topic: str) -> str | None:
        """Id that distinguishes a topic from a later one with the same name; None: unknown.

        Refreshed if anything was fetched since the last refresh, because a topic may be deleted, created
        again and read between two refreshes. Takes at most 4 s, then returns the last known id.
        """
        if self._is_unconfirmed:
            self._is_unconfirmed = not self._membership.refresh_topics(timeout_ms=2_000)
        return topic_id_of(self._consumer, topic)

    def commit_offsets(self, positions: Mapping[StreamId, int]) -> bool:
        """Commit offsets to the brokers; return True if they accepted (`LiveSource.commit_offsets`). Takes at
        most 2 s."""
        if self._trouble is not None:
            return False  # otherwise each lane would wait for an answer
        try:
            known = {stream: kept.place.epoch for stream, kept in self._streams.items()}
            places = {stream: Place(at, epoch=known.get(stream)) for stream, at in positions.items()}
            self._membership.commit(places, timeout_ms=2_000)
        except KafkaError:
            return False
        return True

    def close(self) -> None:
        """Leave the consumer group. May be called twice."""
        if not self._is_closed:
            self._is_closed = True
            self._consumer.close(autocommit=False, timeout_ms=5_000)

    def _payloads(self, stream: StreamId, batches: list[FetchedBatch | DamagedBatch]) -> Payloads | None:
        kept = self._streams.get(stream)
        if kept is None:
            return None
        if isinstance(damaged := batches[-1], DamagedBatch) and len(batches) == 1:
            reject = self._refetched(stream, kept, damaged)
            if reject is None:
                return None
            return Payloads(stream.name, None, [], [], damaged.until, [reject], epoch=kept.place.epoch)
        good = [batch for batch in batches if isinstance(batch, FetchedBatch)]
        latest_ms = max(batch.latest_ms for batch in good)
        latest_ns = None if latest_ms < 0 else latest_ms * _NS_PER_MS
        last = good[-1]
        kept.place = Place(last.until, kept.place.topic_id, last.epoch)
        pieces = payloads_of_messages(
            stream.name,
            self._settings.format_of_topic(stream.topic),
            list(chain.from_iterable(batch.messages.values for batch in good)),
            list(chain.from_iterable(batch.messages.offsets for batch in good)),
            last.until,
            self._decode,
        )
        self._pieces.append(
            (stream, (replace(piece, latest_ns=latest_ns, epoch=last.epoch) for piece in pieces))
        )
        return self._next_piece()

    def _next_piece(self) -> Payloads | None:
        """Next payloads from earlier fetches, except those of paused streams; None if there are none."""
        for _ in range(len(self._pieces)):
            stream, pieces = self._pieces[0]
            if stream not in self._streams:
                self._pieces.popleft()
            elif stream in self._paused:
                self._pieces.rotate(-1)
            elif (piece := next(pieces, None)) is not None:
                return piece
            else:
                self._pieces.popleft()
        return None

    def _refuse_other_topics(self) -> None:
        """Raise TopicChangedError if a topic was deleted and created again since its streams were started."""
        for stream, kept in self._streams.items():
            topic_id = kept.place.topic_id
            if topic_id is not None and topic_id_of(self._consumer, stream.topic) not in (None, topic_id):
                self._stop(stream)
                raise TopicChangedError(stream)

    def _refetched(self, stream: StreamId, kept: _Stream, damaged: DamagedBatch) -> Reject | None:
        """Handle a damaged batch: None if it is fetched again, a reject if it is skipped. Raises
        CorruptStreamError if it may not be skipped."""
        if kept.damaged_at != damaged.first:
            kept.damaged_at, kept.damaged_times = damaged.first, 0
        kept.damaged_times += 1
        if kept.damaged_times <= REFETCHES:
            return None
        what = f"offsets {damaged.first} to {damaged.until - 1} cannot be read: {damaged.detail}"
        if self._settings.on_corrupt == "halt":
            self._stop(stream)
            raise CorruptStreamError(
                f"{stream.name}: {what}.",
                stream=stream,
                remedy="Restore them from a replica, or set on_corrupt = 'skip' to go on without them.",
            )
        kept.place = replace(kept.place, offset=damaged.until)
        self._fetching.begin(stream, damaged.until, kept.place.epoch)
        return Reject(Reason.BAD_COMPRESSION, what, b"", damaged.first)

    def _lose(self, stream: StreamId, offset: int | None = None) -> None:
        """Stop a stream because the broker does not have its next message, at `offset`; `_explain_lost` later
        finds the reason."""
        kept = self._stop(stream)
        if kept is not None:
            self._lost[stream] = kept.place if offset is None else replace(kept.place, offset=offset)
            self._lost_asked = 0.0

    def _explain_lost(self, now_s: float) -> None:
        """Find the reasons why streams lost messages, and add them to `_errors`; if brokers do not answer,
        retry after a pause."""
        if not self._lost or now_s < self._lost_asked + _PROBE_EVERY_S:
            return
        for stream, place in list(self._lost.items()):
            try:
                if place.topic_id is not None and self.topic_id(stream.topic) not in (None, place.topic_id):
                    found: StreamError = TopicChangedError(stream)
                else:
                    found = self._not_there(
                        stream, place, range_of(self._consumer, partition_of(stream), _RANGE_MS)
                    ) or CutBackError(stream, place.offset, None)
            except KafkaError as error:
                self._lost_trouble = (
                    missing_permission(error, self._settings)
                    or self._probed_trouble(now_s)
                    or f"The range of {stream.name} is not known: {error}."
                )
                self._trouble = self._lost_trouble
                # Ask for it last next time: the ranges of the others may be known.
                self._lost[stream] = self._lost.pop(stream)
                self._lost_asked = time.monotonic()
                return
            del self._lost[stream]
            self._errors.append(found)

    def _not_there(self, stream: StreamId, place: Place, there: LogRange) -> StreamError | None:
        """Error that explains why reading cannot continue at `place`; None if it can. there: offset range of
        the log. Raises kafka-python's exceptions."""
        if place.offset < there.first:
            return GapError(stream, place.offset, there.first)
        end = there.end
        if place.epoch is not None:
            end = end_of_epoch(self._consumer, partition_of(stream), place.epoch, _RANGE_MS)
        return CutBackError(stream, place.offset, None if end < 0 else end) if end < place.offset else None

    def _fenced(self) -> InputError:
        return InputError(
            f"Another process took our place in the group, as '{self._settings.static_member_id}'.",
            remedy="Give every process a static_member_id of its own.",
        )

    def _stop(self, stream: StreamId) -> _Stream | None:
        """Stop a stream until it is started again; return its state, None if it was not started."""
        self._fetching.pause([stream])
        kept = self._streams.get(stream)
        self._forget(stream)
        return kept

    def _forget(self, stream: StreamId) -> None:
        """Discard the state of a stream and the payloads fetched from it."""
        self._streams.pop(stream, None)
        self._ends.forget(stream)
        self._lost.pop(stream, None)
        self._errors = deque(error for error in self._errors if error.stream != stream)
        self._paused.discard(stream)
        self._pieces = deque((of, pieces) for of, pieces in self._pieces if of != stream)

    def _probed_trouble(self, now_s: float) -> str | None:
        """Problem of the brokers as found by a new diagnosis; None if there is none, or if the last diagnosis
        is recent."""
        if now_s < self._probed + _PROBE_EVERY_S:
            return None
        self._probed = now_s
        return broker_problem(self._settings)
