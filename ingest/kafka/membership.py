"""Membership in a consumer group: which streams are assigned to this member, revoked (*asked* for by another
member) or lost.

A `KafkaConsumer` of kafka-python does the group's work; this module also creates consumers without a group.
The rebalance listener runs in the client's own thread while this process's thread waits in `poll`, so it only
records events. Revoked streams move to another member when this member rejoins the group, which is delayed
until they are released.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Collection
from importlib.util import find_spec
from typing import Any, Final

from kafka import AsyncConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.errors import KafkaError
from kafka.future import Future
from kafka.structs import OffsetAndMetadata

from ingest.kafka.diagnosis import connected
from ingest.kafka.fetching import FETCH_BYTES, USUAL_SIZES, FetchSizes
from ingest.kafka.kafka_settings import KafkaSettings
from ingest.kafka.lane_assignor import LaneAssignor
from ingest.kafka.log_range import partition_of
from ingest.source import Place, StreamChange, StreamId
from schemas.errors import ConfigError


def group_consumer(
    settings: KafkaSettings, assignor: LaneAssignor, sizes: FetchSizes = USUAL_SIZES
) -> KafkaConsumer:
    """Create a consumer that will join the group. Raises InputError, ConfigError."""
    return _consumer(
        settings,
        group_id=settings.group,
        group_instance_id=settings.static_member_id,
        partition_assignment_strategy=[assignor],
        session_timeout_ms=settings.session_timeout_ms,
        heartbeat_interval_ms=settings.heartbeat_interval_ms,
        max_poll_interval_ms=settings.max_poll_interval_ms,
        max_partition_fetch_bytes=sizes.fetch_bytes,
    )


def lone_consumer(settings: KafkaSettings) -> KafkaConsumer:
    """Create a consumer without a group. Raises InputError, ConfigError."""
    return _consumer(settings, group_id=None, max_partition_fetch_bytes=FETCH_BYTES)


def _consumer(settings: KafkaSettings, **group: Any) -> KafkaConsumer:
    if find_spec("crc32c") is None:
        raise ConfigError(
            "The package crc32c is missing: checksums would take 25 times as long.",
            remedy="Run: pip install crc32c.",
        )
    return connected(
        settings,
        KafkaConsumer,
        auto_offset_reset="none",
        enable_auto_commit=False,
        allow_auto_create_topics=False,
        isolation_level="read_committed",
        metadata_max_age_ms=settings.metadata_max_age_ms,
        metrics_enabled=False,
        **group,
    )


_FENCED_S: Final = 1.0
"""Time without heartbeats, s, after which a joined member is considered fenced (another one has its static
id)."""
_ANSWER_S: Final = 0.02
"""Delay, s, before the answer to a join is given to the client again. By then the next poll waits for the
answer, as it starts within microseconds; if no poll waited, the client would join once more."""
_REFRESH_MS: Final = 2_000
_CHECK_S: Final = 5.0
"""Interval between checks for unassigned partitions, s."""


class _Notes(AsyncConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python is not typed
    """Rebalance events in order of arrival. The client's thread appends them, the polling thread removes
    them."""

    def __init__(self, assignor: LaneAssignor, hold: Callable[[Collection[TopicPartition]], None]) -> None:
        self.reports: deque[tuple[str, frozenset[TopicPartition]]] = deque()
        self.blocks_rejoin = False
        """True while revoked streams are not released; set by the listener, before the client can rejoin the
        group."""
        self._assignor = assignor
        self._hold = hold

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Record assigned partitions, and pause them until the offsets to read from are known."""
        self._hold(assigned)
        self.reports.append(("gained", frozenset(assigned)))

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Record revoked partitions: another member gets them once this member rejoins."""
        self.blocks_rejoin = True
        self.reports.append(("asked", frozenset(revoked)))

    async def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        """Record lost partitions, which may already belong to another member. The inherited method would call
        `on_partitions_revoked`."""
        self._assignor.forget()
        self.reports.append(("lost", frozenset(lost)))


class Membership:
    """Streams of this member of the group, as far as this process knows. Used by one thread."""

    def __init__(self, consumer: KafkaConsumer, assignor: LaneAssignor, settings: KafkaSettings) -> None:
        self._consumer = consumer
        self._assignor = assignor
        self._settings = settings
        self._notes = _Notes(assignor, self._hold)
        self._wants_to_join = consumer._coordinator.need_rejoin
        consumer._coordinator.need_rejoin = self._may_join
        self._known: set[StreamId] = set()
        """Streams that were reported as gained and are not released yet."""
        self._asked: dict[StreamId, float] = {}
        """Revoked streams that are not released yet -> deadline, monotonic s, after which they count as
        lost."""
        self._given_up: set[StreamId] = set()
        """Revoked streams that were not released by their deadline, to be reported as lost."""
        self._pending: tuple[set[StreamId], set[StreamId], set[StreamId]] = (set(), set(), set())
        """(gained, revoked, lost) streams since the last call of `change`."""
        self._checked = 0.0
        self._beating = time.monotonic()
        self._topics: frozenset[str] = frozenset()
        self._topics_as_of = -1.0
        if settings.topic_pattern is None:
            self._subscribe(frozenset(settings.topics))
        else:
            consumer._cluster.need_all_topic_metadata = True
            consumer._cluster.request_update()

    def _may_join(self) -> bool:
        """True if the client may rejoin the group now; replaces the client's method `need_rejoin`."""
        return not self._notes.blocks_rejoin and bool(self._wants_to_join())

    def expire_revoked(self, now_s: float) -> None:
        """Treat revoked streams as lost if they were not released by their deadline, because other members
        wait for them."""
        self._take_notes(now_s)
        late = {stream for stream, deadline in self._asked.items() if now_s >= deadline}
        for stream in late:
            del self._asked[stream]
        self._given_up |= late & self._known
        self._notes.blocks_rejoin = bool(self._asked or self._notes.reports)

    def change(self, now_s: float) -> StreamChange:
        """Change of the assigned partitions since the last call (`LiveSource.change`)."""
        gained, asked, lost = self._take_notes(now_s)
        lost |= self._given_up
        self._given_up = set()
        # A stream that was lost and assigned again is ours.
        self._known -= lost - gained
        self._pending = (set(), set(), set())
        return StreamChange(tuple(sorted(gained)), tuple(sorted(asked)), tuple(sorted(lost)))

    def _take_notes(self, now_s: float) -> tuple[set[StreamId], set[StreamId], set[StreamId]]:
        """Collect the recorded events: (assigned, revoked, lost) streams since the last call of `change`.

        Streams that were assigned and lost again in between are not reported.
        """
        gained, asked, lost = self._pending
        while self._notes.reports:
            what, those = self._notes.reports.popleft()
            streams = {StreamId(each.topic, each.partition) for each in those}
            if what == "gained":
                gained |= streams
                self._known |= streams
                continue
            unseen = streams & gained
            gained -= unseen
            self._known -= unseen
            streams &= self._known
            if what == "asked":
                asked |= streams
                deadline = now_s + self._settings.release_timeout_ms / 1000
                self._asked.update(dict.fromkeys(streams, deadline))
            else:
                asked -= streams
                lost |= streams
                for stream in streams:
                    self._asked.pop(stream, None)
        self._pending = (gained, asked, lost)
        return self._pending

    def release(self, streams: Collection[StreamId]) -> None:
        """Release revoked streams after their messages were committed."""
        for stream in streams:
            self._asked.pop(stream, None)
        self._known -= set(streams)
        self._notes.blocks_rejoin = bool(self._asked or self._notes.reports)

    def follow_pattern(self) -> None:
        """Subscribe to the topics that currently match the pattern.

        kafka-python's own pattern subscription requests all metadata in every poll while it joins a group,
        and starts over if that takes longer than the poll: then it never joins.
        """
        pattern, cluster = self._settings.topic_pattern, self._consumer._cluster
        if pattern is None or cluster._last_successful_refresh_ms == self._topics_as_of:
            return
        self._topics_as_of = cluster._last_successful_refresh_ms
        topics = frozenset(topic for topic in cluster.topics() if re.fullmatch(pattern, topic))
        if topics and topics != self._topics:
            self._subscribe(topics)
            cluster.need_all_topic_metadata = True

    def _subscribe(self, topics: frozenset[str]) -> None:
        self._topics = topics
        self._consumer.subscribe(topics=sorted(topics), listener=self._notes)
        # A leader that joins before it knows the partitions would assign none, and rejoin.
        self.refresh_topics(_REFRESH_MS)

    def finish_joining(self) -> None:
        """Let the next poll continue a join of the group that the last poll did not finish.

        kafka-python 3.0.12 drops such a join if its reason was a change of topics or partitions and the poll
        ended before the join: the reason is cleared as soon as the leader assigns, and the answer is never
        read. A partition added at such a moment would never be assigned.
        """
        coordinator = self._consumer._coordinator
        join = coordinator._join_task
        if join is not None and join.succeeded():
            # It ended between two polls: the client would discard the answer and join again.
            coordinator._join_task = self._answered_again(join.value)
        if join is not None or self._wants_to_join():
            coordinator.request_rejoin()

    def _answered_again(self, answer: object) -> Future:
        """Future of a join of the group that succeeds with `answer` once the next poll waits for it."""
        join, net = Future(), self._consumer._net

        async def give() -> None:
            await net.sleep(_ANSWER_S)
            join.success(answer)

        net.call_soon_threadsafe(give)
        return join

    def is_fenced(self, now_s: float) -> bool:
        """True if another member took over this member's static id; the only sign in the client is that its
        heartbeats stop."""
        coordinator = self._consumer._coordinator
        if coordinator._heartbeat_enabled or not coordinator.stable():
            self._beating = now_s
        return now_s > self._beating + _FENCED_S

    def rejoin_for_unassigned(self, now_s: float) -> None:
        """Rejoin the group if this member leads it and any partition is unassigned."""
        if now_s < self._checked + _CHECK_S:
            return
        self._checked = now_s
        shared = self._assignor.assigned_from
        if shared is None:
            return
        for topic, numbers in shared.items():
            there = self._consumer._cluster.partitions_for_topic(topic)
            if there and not numbers >= there:
                self._consumer._coordinator.request_rejoin()
                return

    def refresh_topics(self, timeout_ms: int) -> bool:
        """Request the current topics, partitions and leaders; True if brokers answered in time."""
        consumer = self._consumer
        try:
            if consumer._cluster.metadata_refresh_in_progress:
                # The answer to the earlier request may be outdated, so wait for it and request again.
                on_the_way = consumer._cluster.request_update()
                consumer._net.run(consumer._manager.wait_for, on_the_way, timeout_ms)
            asked = consumer._cluster.request_update()
            consumer._net.run(consumer._manager.wait_for, asked, timeout_ms)
        except KafkaError:
            return False
        return True

    def commit(self, places: dict[StreamId, Place], timeout_ms: int) -> None:
        """Commit places of streams to the group. Raises kafka-python's exceptions."""
        offsets = {
            partition_of(stream): OffsetAndMetadata(
                place.offset, "", -1 if place.epoch is None else place.epoch
            )
            for stream, place in places.items()
        }
        self._consumer.commit(offsets, timeout_ms=timeout_ms)

    def _hold(self, assigned: Collection[TopicPartition]) -> None:
        """Prevent the client from fetching partitions, and from requesting their start offsets from the
        group."""
        for partition in assigned:
            self._consumer.seek(partition, 0)
            self._consumer.pause(partition)
