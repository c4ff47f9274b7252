"""Follow the logs of a lake's live lanes: which segments exist, the watermark, and which events are lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from schemas.arrays import U8
from schemas.commits import CommitRecord, Segment
from schemas.errors import LakeError
from stitch.closing import NEVER
from stitch.lake.chain import lanes, last_number, read_records, read_tail
from stitch.lake.event_log import INDEX_TYPE, Index, SegmentReader, open_index, open_segment
from stitch.lake.layout import segment_folder, segment_part, segment_seq
from stitch.lake.store import Store
from stitch.lake.upkeep.hidden import UPKEEP_LANE

_NO_KEYS: Final = np.zeros(0, np.uint64)


@dataclass(eq=False, slots=True)
class LogSegment:
    """A segment (file of events) of a lane's log, with the times and windows of its events if known."""

    lane: int
    seq: int
    """Number of the commit whose events the segment contains."""
    file: Segment
    """The segment's file, as named in the commit."""
    n_loose: int
    """Number of records without a request id."""
    part: int = 0
    """Number of the segment among those of its commit."""
    loose: Index = field(default_factory=lambda: np.zeros(0, INDEX_TYPE))
    """Index of the requests of those records that have no request id; set by `LooseRecords.name`."""
    loose_key: U8 = field(default_factory=lambda: _NO_KEYS)
    """[records without a request id, in order] key of the record's request; set by `LooseRecords.name`."""
    first_ns: int = -int(NEVER)
    """Lower bound of the times of its events, ns; -NEVER: unknown, or an event has no time. Set by `LogView`
    with `last_ns`."""
    last_ns: int = int(NEVER)
    """Upper bound of the times of its events, ns."""
    rows_of: dict[int, int] = field(default_factory=dict)
    """Start of a window, ns -> number of events in this segment whose request begins in that window; set by
    `RequestPlan`."""

    @property
    def place(self) -> tuple[int, int, int]:
        """Identity of the segment: (lane, commit, part). A restored segment keeps its identity."""
        return self.lane, self.seq, self.part


class UnreadableSegmentError(LakeError):
    """A segment is missing or damaged; the next call of `LogFollower.follow` reports it as removed and counts
    its events as missing."""

    def __init__(self, message: str, *, remedy: str = "", place: tuple[int, int, int] = (0, 0, 0)) -> None:
        """place: `LogSegment.place` of the segment."""
        super().__init__(message, remedy=remedy)
        self.place = place


@dataclass(slots=True)
class _LaneLog:
    """Progress of reading one lane's commits, and what they say of the lane's log: the available and lost
    segments (files of events), watermark and settings."""

    head: int = 0
    """Number of the last commit read; 0: none."""
    kept_from: int = 1
    """Number of the first commit whose segment the lane retains."""
    lost: dict[tuple[int, int], int] = field(default_factory=dict)
    """(Commit, part) of a segment that is gone or damaged -> number of its events counted as missing; those
    before `kept_from` are dropped when the lane is next read."""
    watermark_ns: int | None = None
    """Watermark of the last commit read, ns; None: not known yet."""
    ended: bool = False
    """True if an operator ended the lane."""
    has_positions: bool = False
    """True if the lane reads partitions; False for a lane of imported files."""
    logs: bool = False
    """True if the lane has a log: it reads partitions, or events of imported files were kept."""
    config: dict[str, Any] = field(default_factory=dict)
    """Settings recorded by the latest commit read that records any."""

    @property
    def start(self) -> int:
        """Number of the first commit whose segments, and those of all later commits, are available."""
        return max([self.kept_from, *(seq + 1 for seq, _ in self.lost)])

    def note(self, record: CommitRecord) -> None:
        """Update watermark, `ended` and settings from a commit of the lane."""
        standing = record.standing
        self.has_positions = bool(standing.positions)
        self.logs = self.has_positions or standing.logs
        self.watermark_ns, self.ended = standing.watermark_ns, standing.ended_to_ns is not None
        if "stitch" in record.config:
            self.config = record.config


class LogFollower:
    """Reader of the logs of a lake: of live lanes, and of imports that kept their events. Used by one thread.
    Raises LakeError, OSError."""

    def __init__(self, store: Store, *, only_logging: bool = False) -> None:
        """only_logging: ignore segments written by lanes of an earlier version of this program, which
        published windows themselves."""
        self._store = store
        self._only_logging = only_logging
        self._lanes: dict[int, _LaneLog] = {}
        self.segments: dict[tuple[int, int, int], LogSegment] = {}
        """`LogSegment.place` -> available segment."""
        self._unreadable: set[tuple[int, int, int]] = set()
        """`LogSegment.place` of segments that could not be read since the last `follow`."""
        self.missing = 0
        """Number of lost events: commits count them, but they are neither in a built window nor in any
        segment."""

    def follow(self, known: Mapping[int, int]) -> tuple[list[LogSegment], list[LogSegment]]:
        """Read the lanes' commits since the last call: (new segments, segments that are gone or replaced by a
        new one).

        known: lane number -> number of the last commit that the last build had read; used the first time a
        lane is read. O(commits since the last call).
        """
        fresh: list[LogSegment] = []
        left: list[LogSegment] = []
        for lane in lanes(self._store):
            if lane == UPKEEP_LANE:
                continue
            new, gone = self._follow_lane(lane, known.get(lane, 0))
            fresh += new
            left += gone
        self._unreadable.clear()
        return fresh, left

    def _follow_lane(self, lane: int, known: int) -> tuple[list[LogSegment], list[LogSegment]]:
        """Read one lane's commits since the last call: (new segments, removed segments).

        known: number of the lane's last commit that the last build had read.
        """
        log = self._lanes.setdefault(lane, _LaneLog())
        lost = {at for at in self._unreadable if at[0] == lane}
        if last_number(self._store, lane, log.head) == log.head and not lost:
            return [], []
        last = read_tail(self._store, lane).records[-1].record
        if not (last.standing.positions or last.standing.logs):
            log.head = last.seq
            return [], []
        kept_from = last.seq + 1 if last.standing.kept_from is None else last.standing.kept_from
        known = max(known, log.head)
        # Records of what is not kept need not be read, but for what nobody has built.
        begin = log.head + 1 if log.head else max(1, min(known + 1, kept_from))
        named: dict[tuple[int, int], Segment] = {}
        for link in read_records(self._store, lane, range(begin, last.seq + 1)):
            record = link.record
            log.note(record)
            if self._only_logging and not record.standing.logs:
                continue
            self.missing += record.counters.events_unlogged if record.seq > known else 0
            named |= {_place(one): one for one in record.standing.segments}
        log.head = last.seq
        there = {*self._store.names(segment_folder(lane))}
        gone = {
            at: one
            for at, one in self.segments.items()
            if at[0] == lane and (at[1] < kept_from or at in lost or _file(one.file) not in there)
        }
        fresh: list[LogSegment] = []
        log.kept_from = max(log.kept_from, kept_from)
        for place, segment in sorted(named.items()):
            (seq, part), at = place, (lane, *place)
            before = self.segments.get(at)
            if before is not None and before.file.name == segment.name:
                continue
            is_kept = seq >= kept_from and _file(segment) in there
            opened = self._opened(segment) if is_kept else None
            if opened is not None:
                fresh.append(LogSegment(lane, seq, segment, opened.n_loose, part))
                self.missing -= log.lost.pop(place, 0)  # it was read again
                if before is not None:
                    gone[at] = before
            elif before is None and place not in log.lost:  # swept, or lost: what was built of it stays
                log.lost[place] = segment.rows if seq > known else 0
                self.missing += log.lost[place]
        # Whole segments before one that is gone stay: windows that nobody built need them.
        replaced = {one.place for one in fresh}
        log.lost |= {at[1:]: 0 for at in gone if at not in replaced}
        log.lost = {place: events for place, events in log.lost.items() if place[0] >= kept_from}
        for at in gone:
            self.segments.pop(at, None)
        self.segments |= {one.place: one for one in fresh}
        return fresh, [*gone.values()]

    def lost(self) -> list[tuple[int, int]]:
        """(lane number, commit number) of segments that should exist, as their lane retains them, but are
        missing or damaged."""
        return [
            (lane, seq)
            for lane, log in self._lanes.items()
            for seq, _ in sorted(log.lost)
            if seq >= log.kept_from
        ]

    def lose(self, segment: LogSegment, events: int) -> None:
        """Note that a segment is gone, and count `events` of its events as missing."""
        self._lanes[segment.lane].lost[segment.seq, segment.part] = events
        self.missing += events

    def _opened(self, segment: Segment) -> SegmentReader | None:
        """Open a segment to read its index; None if it is gone or damaged. Raises LakeError if it has no
        index."""
        try:
            opened = open_index(self._store, segment)
        except LakeError:
            return None
        if not opened.has_index:
            raise LakeError(
                f"'{segment.name}' has no index: an older version wrote it.",
                remedy="Let `flowdiff ingest` run for as long as live.keep_events, then build.",
            )
        return opened

    @property
    def through(self) -> dict[int, int]:
        """Lane -> number of the last commit read, for lanes with a log."""
        return {lane: log.head for lane, log in sorted(self._lanes.items()) if log.logs}

    def start(self, lane: int) -> int:
        """Number of the lane's first commit such that its segment and all later ones are available."""
        return self._lanes[lane].start if lane in self._lanes else 1

    def kept_from(self, lane: int) -> int:
        """Number of the lane's first commit whose segment, like all later ones, the lane retains: those that
        are missing nevertheless were lost."""
        return self._lanes[lane].kept_from if lane in self._lanes else 1

    def first(self, lane: int) -> int:
        """Number of the lane's first commit whose segment is available; without one, as `start`."""
        return min((seq for own, seq, _ in self.segments if own == lane), default=self.start(lane))

    @property
    def config(self) -> dict[str, Any]:
        """Settings recorded by the first lane whose commits record any, those that read partitions before
        those of imported files; empty if none do."""
        own = sorted(self._lanes.items(), key=lambda at: (not at[1].has_positions, at[0]))
        return next((log.config for _, log in own if log.config), {})

    @property
    def watermark_ns(self) -> int | None:
        """Minimum watermark, ns, of the lanes that have not ended. None: a lane has no watermark yet, or all
        lanes have ended (see `over`)."""
        going = [log for log in self._lanes.values() if log.has_positions and not log.ended]
        times = [log.watermark_ns for log in going if log.watermark_ns is not None]
        return min(times) if times and len(times) == len(going) else None

    @property
    def ended(self) -> list[int]:
        """Numbers of the lanes that an operator ended, ascending."""
        return [lane for lane, log in sorted(self._lanes.items()) if log.ended]

    @property
    def over(self) -> bool:
        """True if there is a log and nothing more is expected: all lanes that read partitions were ended, or
        there are only kept events of imported files."""
        own = [log for log in self._lanes.values() if log.logs]
        return bool(own) and all(log.ended or not log.has_positions for log in own)

    def open(self, segment: LogSegment, columns: list[str] | None = None) -> SegmentReader:
        """Open a segment to read its events. columns: names of the columns to read; None: all. Raises
        UnreadableSegmentError if the segment is gone or damaged."""
        try:
            return open_segment(self._store, segment.file, columns)
        except LakeError as error:
            raise self._noted(segment, error) from error

    def index(self, segment: LogSegment) -> Index:
        """Read the index of a segment's requests that have a request id. Raises UnreadableSegmentError if the
        segment is gone or damaged."""
        try:
            return open_index(self._store, segment.file).index
        except LakeError as error:
            raise self._noted(segment, error) from error

    def note(self, error: UnreadableSegmentError) -> None:
        """Note a segment that another process could not read."""
        self._unreadable.add(error.place)

    def _noted(self, segment: LogSegment, error: LakeError) -> UnreadableSegmentError:
        unreadable = UnreadableSegmentError(error.message, remedy=error.remedy, place=segment.place)
        self.note(unreadable)
        return unreadable


def _place(segment: Segment) -> tuple[int, int]:
    """(Number of the commit whose events a segment holds, number of the segment in it)."""
    file = _file(segment)
    seq = segment_seq(file)
    assert seq is not None
    return seq, segment_part(file)


def _file(segment: Segment) -> str:
    return segment.name.rpartition("/")[2]
