"""Live lane: buffers the events of its streams, tracks the watermark, and commits both to the lane's log.

A commit holds the streams' offsets, the watermark, the events read (a segment of the log) and dead letters; a
lane has no other state. A takeover begins with a commit, which fences off the previous owner, and reading
resumes at the committed offsets. An elected builder builds windows from the log (`stitch.drivers.build`).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ingest.codecs.port import Decoded
from ingest.source import Payloads, Place, StreamId
from schemas.commits import CommitBody, CommitRecord, Counters, PartitionRange, Segment, Standing
from schemas.errors import LakeError
from schemas.periods import format_instant
from schemas.rejects import Reason, Reject, rejects_table
from schemas.windows import NS_PER_SECOND
from stitch.drivers.live.arrivals import Arrivals
from stitch.drivers.live.keys import log_rows
from stitch.drivers.live.live_settings import RECORDED, LiveSettings
from stitch.drivers.live.older_segments import open_events
from stitch.drivers.live.steady_clock import Moment
from stitch.drivers.live.streams import StreamTimes
from stitch.drivers.live.topic_format import refuse_other_format
from stitch.drivers.live.watch import LaneState, LaneStatus, StreamStatus
from stitch.drivers.live.young_segments import YoungSegments
from stitch.lake.chain import read_tail
from stitch.lake.event_log import KeptSegments, LogRows
from stitch.lake.lane import Lane
from stitch.lake.layout import LakeInfo
from stitch.lake.store import Store
from stitch.lake.upkeep.hidden import UPKEEP_LANE, upkeep_of

KEPT_LETTERS_BYTES: Final = 32 * 2**20
"""Maximum bytes of dead letters buffered for a commit; further ones are only counted."""


class LiveLane:
    """A lane that this process owns. Used by one thread at a time.

    Opening it takes the lane over. Raises LakeError if the lane's files differ from its commits, or the lane
    belongs to another Kafka cluster; CommitTakenError if another process took the lane at the same time;
    OSError.
    """

    def __init__(
        self,
        store: Store,
        info: LakeInfo,
        lane: int,
        settings: LiveSettings,
        *,
        owner: str,
        created_by: str,
        cluster_id: str | None,
        young: YoungSegments | None = None,
    ) -> None:
        """cluster_id: id of the Kafka cluster that is read; None: unknown. young: cache to which the rows of
        committed segments are added for a builder in this process; None: no cache."""
        self._store = store
        self._length_ns = info.window_length_ns
        self._settings = settings
        self._cluster_id = cluster_id
        self._young = young
        self._lane = Lane(store, info, owner=owner, created_by=created_by, lane=lane, fence=True)
        standing = self._lane.standing
        self._refuse_other_cluster(standing)
        self._arrivals = Arrivals(settings.max_dead_letters_per_commit)
        self._carried = 0
        """Number of open events that were read from the segments of an earlier version at takeover and are
        not committed yet."""
        if not standing.logs and standing.segments:
            before = open_events(store, lane, standing.segments, self._lane.events_open)
            self._carried = before.num_rows
            self._arrivals.add(before)
        self._ranges = {StreamId(p.topic, p.partition): p for p in standing.positions}
        """Stream -> offset range recorded by the last commit, for all streams that the lane ever had."""
        self._places: dict[StreamId, Place] = {}
        """Stream assigned to this process -> offset and identity (`Place`) of the next message to read."""
        self._begun: dict[StreamId, int] = {}
        """Stream -> offset of the first message read, for streams without a usable position in the last
        commit."""
        self._times = StreamTimes(settings.lateness_ns, settings.idle_ns, standing.watermark_ns)
        self._watermark_ns = self._said_ns = standing.watermark_ns
        self._idle: tuple[StreamId, ...] = ()
        self._formats: dict[str, str] = dict(self._lane.config.get("formats", {}))
        """Topic -> format in which its messages decoded to events; the last one if there were several."""
        self._gaps: list[PartitionRange] = []
        self._counts: Counter[str] = Counter()
        self._oddities: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._letters: list[pa.Table] = []
        self._committed_at_ns: int | None = None
        self._latest_ns: int | None = None
        """Latest event time, ns since the epoch, committed to the lane by this process; None: none yet."""
        self._changed = self._carried > 0
        self.state = LaneState.RUNNING
        self.why = ""
        kept_from = standing.kept_from
        if kept_from is not None and standing.ended_to_ns is not None:  # what was built is gone
            kept_from = max(kept_from, self._built_to() + 1)
        self._kept = KeptSegments(store, lane, settings.keep_events_ns, self._lane.seq - 1, kept_from)

    @property
    def changed_settings(self) -> str:
        """Text that lists the differences between the settings recorded in the lane's commits and the current
        ones; empty if there are none."""
        return self._lane.changed_settings(self._config())

    def _config(self) -> dict[str, Any]:
        settings = self._settings.model_dump(mode="json", include={"decode", *RECORDED})
        return {**settings, "formats": dict(sorted(self._formats.items()))}

    def format_of(self, topic: str) -> str | None:
        """Format in which the latest messages of `topic` decoded to events, also under previous owners of the
        lane; None if no message of the topic was decoded yet."""
        return self._formats.get(topic)

    @property
    def number(self) -> int:
        """Number of the lane."""
        return self._lane.lane

    @property
    def streams(self) -> tuple[StreamId, ...]:
        """Streams of the lane that are assigned to this process, sorted."""
        return tuple(sorted(self._places))

    @property
    def bytes(self) -> int:
        """Bytes of events buffered since the last commit."""
        return self._arrivals.bytes

    def read_to(self, stream: StreamId) -> int:
        """Offset of the next message to read from an assigned stream. Raises KeyError for other streams."""
        return self._places[stream].offset

    def place(self, stream: StreamId) -> Place | None:
        """Place of a stream's next message as recorded in the lane's commits; None if no commit mentions the
        stream."""
        known = self._ranges.get(stream)
        return None if known is None else Place(known.end, known.topic_id, known.epoch)

    def begin(self, stream: StreamId, place: Place, now: Moment) -> None:
        """Add a stream, which is read from `place` on. If `place` is not the committed one, a gap is
        recorded, which the operator has accepted (`accept_gaps`)."""
        known = self._ranges.get(stream)
        # Where a side has no id, the topic's name has to do.
        is_same = known is not None and (
            None in (known.topic_id, place.topic_id) or known.topic_id == place.topic_id
        )
        if known is not None and is_same and place.offset != known.end:
            start, end = sorted((known.end, place.offset))
            self._gaps.append(known.model_copy(update={"start": start, "end": end}))
        if known is None or not is_same or place.offset < known.end:
            self._ranges.pop(stream, None)
            self._begun[stream] = place.offset
        self._places[stream] = place
        self._times.begin(stream, now)
        self._changed = self._changed or known is None or known.end != place.offset

    def end(self, stream: StreamId) -> None:
        """Remove a stream that is no longer assigned; its buffered events stay in the lane and are
        committed."""
        self._places.pop(stream, None)
        self._times.end(stream)

    def take(self, stream: StreamId, payloads: Payloads, decoded: Decoded, now: Moment) -> None:
        """Buffer the events and dead letters of one poll of a stream; polls of a stream must come in order.

        Raises OtherFormatError if no message of the poll decoded to an event and the messages have another
        format than configured.
        """
        events, format_ = decoded.events, payloads.format
        if format_ is not None and self._formats.get(stream.topic) != format_:
            if events.num_rows:
                self._formats[stream.topic] = format_
            else:
                refuse_other_format(stream.topic, format_, payloads.payloads, self._settings.decode)
        latest = pc.max(pc.coalesce(events["end_ns"], events["ts_ns"])).as_py() if events.num_rows else None
        limit = now.latest_ns + self._settings.max_future_ns
        if latest is not None and latest > limit:
            times = pc.coalesce(events["end_ns"], events["ts_ns"])
            latest = pc.max(times.filter(pc.less_equal(times, limit))).as_py()
        self._times.heard(stream, latest, payloads.latest_ns, now)
        self._counts["messages"] += len(payloads.payloads) + len(payloads.rejects)
        self._oddities.update(decoded.oddities)
        self._refuse(decoded.rejects, decoded.refused, payloads)
        before = self._places[stream]
        epoch = before.epoch if payloads.epoch is None else payloads.epoch
        self._places[stream] = Place(payloads.until, before.topic_id, epoch)
        self._changed = True
        self._arrivals.take(events, limit)

    def _refuse(self, rejects: list[Reject], refused: Mapping[str, int], payloads: Payloads) -> None:
        """Buffer the dead letters of one poll: rejected items of payloads (`rejects`), and messages that gave
        no payload (`payloads.rejects`). refused: reason -> number of rejected items, stored or not."""
        self._refused.update(refused)
        self._refused.update(reject.reason.value for reject in payloads.rejects)
        room = self._settings.max_dead_letters_per_commit - sum(table.num_rows for table in self._letters)
        if sum(table.nbytes for table in self._letters) > KEPT_LETTERS_BYTES:
            room = 0
        inside = rejects[: max(0, room)]
        outside = payloads.rejects[: max(0, room - len(inside))]
        if inside:
            self._letters.append(rejects_table(inside, payloads.stream, payloads.positions))
        if outside:
            own = [replace(reject, payload=place) for place, reject in enumerate(outside)]
            positions = [reject.payload for reject in outside]
            self._letters.append(rejects_table(own, payloads.stream, positions))

    def advance(self, ends: Mapping[StreamId, int], now: Moment) -> None:
        """Recompute the watermark and the set of idle streams. ends: stream -> end offset of its
        partition."""
        reached = self._times.watermark(now, self._positions(), ends)
        self._watermark_ns, self._idle = reached.ns, reached.idle

    def is_due(self, now_ns: int) -> bool:
        """True if the lane should commit: it has not committed yet, the commit interval is over, its buffers
        are full, or builders wait for its watermark."""
        if self._committed_at_ns is None:
            return True
        waited = now_ns - self._committed_at_ns >= self._settings.commit_interval_ns
        return (
            (waited and self._changed)
            or self._arrivals.bytes > self._settings.commit_share * self._settings.memory_bytes
            or self._ends_a_window
        )

    @property
    def _ends_a_window(self) -> bool:
        """True if a window became ready to build since the last commit, as the watermark passed the window's
        end plus `linger_ns` or `patience_ns`."""
        if self._watermark_ns is None:
            return False
        waits = (self._settings.linger_ns, self._settings.patience_ns)
        now, before = (
            [None if at is None else (at - wait) // self._length_ns for wait in waits]
            for at in (self._watermark_ns, self._said_ns)
        )
        return now != before

    @property
    def latest_ns(self) -> int | None:
        """Latest event time, ns since the epoch, that this process read from the lane's streams; None before
        the first event with a time."""
        times = [at for at in (self._arrivals.latest_ns, self._latest_ns) if at is not None]
        return max(times, default=None)

    def commit(
        self, now_ns: int, *, whole: bool = False, latest_ns: int | None = None
    ) -> tuple[CommitRecord, float]:
        """Commit everything buffered since the last commit; return (record of the commit, duration in s).

        whole: the input has ended, so the watermark is moved past all events and past `latest_ns` (ns).
        Raises CommitTakenError if another process took the lane; OSError if nothing was committed, or the
        next commit must publish the files; UncertainError if it is unknown whether the commit was stored, so
        that the lane must be taken over again.
        """
        began = time.monotonic()
        self._refuse_own_clock(now_ns)
        if whole:
            self._watermark_ns = self._past(latest_ns)
        seq, events = self._lane.seq, self._arrivals.events()
        rows = log_rows(events) if events.num_rows else None
        segment = None
        try:
            with self._lane.stage() as staging:
                staging.add_side(
                    "dead_letters", 0, pa.concat_tables([*self._letters, self._arrivals.letters()])
                )
                if rows is not None:
                    segment = staging.add_segment(rows)
                kept_from = self._kept.kept_from(seq, now_ns, self._built_to())
                record = self._lane.commit(staging, self._body(events.num_rows, segment, kept_from))
        except OSError:
            if self._lane.seq != seq:  # the commit stands; publishing is done with the next one
                self._forget(rows, segment, now_ns)
            raise
        self._forget(rows, segment, now_ns)
        self._kept.sweep([] if segment is None else [segment])
        return record, time.monotonic() - began

    def _past(self, latest_ns: int | None) -> int | None:
        """Watermark, ns, with which all windows that contain events or begin by `latest_ns` may be built;
        None if there are no events."""
        latest = [at for at in (self._watermark_ns, self.latest_ns, latest_ns) if at is not None]
        if not latest:
            return None
        end = max(latest) // self._length_ns * self._length_ns + self._length_ns
        return end + max(self._settings.patience_ns, self._settings.stitch.idle_ns)

    def _built_to(self) -> int:
        """Commit number n of the lane such that builders no longer need the segments of commits 1 to n; 0:
        they need all."""
        built_to = upkeep_of(read_tail(self._store, UPKEEP_LANE).standing).built_to
        return dict(built_to).get(self.number, 0)

    def _refuse_own_clock(self, now_ns: int) -> None:
        """Raise LakeError if all events since the last commit are ahead of the clock and there are more than
        `max_dead_letters_per_commit`: this host's clock is then likely wrong."""
        read, absurd = self._arrivals.n_read, self._arrivals.refused[Reason.ABSURD_TIME.value]
        if absurd == read > self._settings.max_dead_letters_per_commit:
            raise LakeError(
                f"All {read:,} events that came by lane {self.number} are more than "
                f"{self._settings.max_future_ns // NS_PER_SECOND} s ahead of the clock of this host, "
                f"{format_instant(now_ns)}.",
                remedy="Set the clock right, or raise live.max_future where those of senders are wrong; "
                "then restart. Nothing was passed.",
            )

    def _body(self, n_events: int, segment: Segment | None, kept_from: int) -> CommitBody:
        rejects = self._refused + self._arrivals.refused
        kept = sum(table.num_rows for table in self._letters) + self._arrivals.letters().num_rows
        assert rejects.total() >= kept
        return CommitBody(
            kind="live",
            counters=Counters(
                messages=self._counts["messages"],
                events_read=self._arrivals.n_read,
                events_carried=self._carried,
                events_rejected=self._arrivals.refused.total(),
                events_logged=n_events,
                rejects=dict(sorted(rejects.items())),
                rejects_not_kept=rejects.total() - kept,
                oddities=dict(sorted(self._oddities.items())),
            ),
            gaps=tuple(self._gaps),
            config=self._config(),
            standing=Standing(
                cluster_id=self._cluster_id,
                positions=tuple(self._now().values()),
                watermark_ns=self._watermark_ns,
                sealed_to_ns=self._lane.standing.sealed_to_ns,
                idle=tuple(stream.name for stream in self._idle),
                segments=() if segment is None else (segment,),
                kept_from=kept_from,
                logs=True,
            ),
        )

    def _positions(self) -> dict[StreamId, int]:
        """Assigned stream -> offset of the next message to read."""
        return {stream: place.offset for stream, place in self._places.items()}

    def _now(self) -> dict[StreamId, PartitionRange]:
        """Stream -> offset range to record in the next commit; the range is empty for streams not assigned to
        this process."""
        ranges = {s: p.model_copy(update={"start": p.end}) for s, p in self._ranges.items()}
        for stream, place in self._places.items():
            before = self._ranges.get(stream)
            ranges[stream] = PartitionRange(
                topic=stream.topic,
                topic_id=place.topic_id,
                partition=stream.partition,
                start=self._begun[stream] if before is None else before.end,
                end=place.offset,
                epoch=place.epoch,
            )
        return dict(sorted(ranges.items()))

    def _forget(self, rows: LogRows | None, segment: Segment | None, now_ns: int) -> None:
        """Clear the buffers after a commit, and add the rows of the committed segment to the builder's
        cache."""
        if rows is not None and segment is not None and self._young is not None:
            self._young.add(segment.name, rows, self._arrivals.bytes)
        self._latest_ns = self.latest_ns
        self._arrivals = Arrivals(self._settings.max_dead_letters_per_commit)
        self._carried = 0
        self._said_ns = self._watermark_ns
        self._ranges = self._now()
        self._gaps = []
        self._letters = []
        for counter in (self._counts, self._oddities, self._refused):
            counter.clear()
        self._committed_at_ns = now_ns
        self._changed = False

    def _refuse_other_cluster(self, standing: Standing) -> None:
        if None not in (standing.cluster_id, self._cluster_id) and standing.cluster_id != self._cluster_id:
            raise LakeError(
                f"Lane {self.number} holds positions of cluster '{standing.cluster_id}'; "
                f"this one is '{self._cluster_id}'.",
                remedy="Ingest into a lake of its own, or point --bootstrap at the old cluster.",
            )

    def status(self, ends: Mapping[StreamId, int]) -> LaneStatus:
        """Current status of the lane, for display. ends: stream -> end offset of its partition."""
        return LaneStatus(
            lane=self.number,
            state=self.state,
            why=self.why,
            streams=tuple(
                StreamStatus(stream.name, position, ends.get(stream), stream in self._idle)
                for stream, position in sorted(self._positions().items())
            ),
            watermark_ns=self._watermark_ns,
            commit=self._lane.seq - 1,
            committed_at_ns=self._committed_at_ns,
            bytes=self._arrivals.bytes,
        )
