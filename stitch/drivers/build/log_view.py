"""Read-only view of a lake's log and of the windows built from it: which requests begin in which window, and
which events are in no built window yet.

`Builder` adds writing; `provisional` stitches unbuilt windows for readers.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow.compute as pc

from schemas.arrays import U8
from schemas.commits import Build, BuiltWindow
from schemas.config import StitchConfig
from schemas.errors import LakeError
from schemas.windows import Window
from stitch.closing import NEVER
from stitch.drivers.build.log_follower import LogFollower, LogSegment, UnreadableSegmentError
from stitch.drivers.build.loose_records import LooseRecords
from stitch.drivers.build.request_plan import Planned, PlannedWindow, RequestPlan, requests_of
from stitch.drivers.build.segment_rows import SegmentRows
from stitch.drivers.live.keys import flow_keys
from stitch.drivers.live.live_settings import recorded_settings
from stitch.drivers.live.young_segments import YoungSegments
from stitch.lake.chain import read_record, read_tail
from stitch.lake.manifest import Manifest, open_manifest, sealed_by_lanes
from stitch.lake.store import Store
from stitch.lake.upkeep.hidden import UPKEEP_LANE, upkeep_of
from stitch.scratch import Scratch

NO_KEYS: Final = np.zeros(0, np.uint64)
"""Empty array of request keys."""


class LogView:
    """Windows of a lake as planned from a log (the lake's or another lake's), compared with the versions
    already built.

    Used by one thread. Raises LakeError, OSError.
    """

    def __init__(
        self,
        source: Store,
        manifest: Manifest,
        young: YoungSegments,
        *,
        is_inside: bool,
        head: int | None = None,
        scratch: Scratch | None = None,
        in_memory: int = 0,
    ) -> None:
        """source: lake with the log. manifest: snapshot of the lake with the built windows. is_inside: True
        if both are the same lake. head: number of the last upkeep commit whose versions are read; None: the
        latest. scratch, in_memory: passed to RequestPlan."""
        self._young = young
        self._target, self._lake = manifest.store, manifest.lake
        self._length_ns = manifest.info.window_length_ns
        self._retired_to_ns = manifest.retired_to_ns
        self._log = LogFollower(source, only_logging=is_inside)
        self._plan = RequestPlan(self._length_ns, self._requests_of, scratch, in_memory)
        self._plan_is_whole = True
        """False if a segment could not be read while windows were planned."""
        self._rows = SegmentRows(self._log, young)
        self._loose = LooseRecords(self._rows.whole)
        self._versions: dict[int, BuiltWindow] = {}
        """Start of a window, ns -> latest built version, for windows of which the log may still contain
        events."""
        self._built_at_ns: dict[int, int | None] = {}
        """Start of a window, ns -> watermark, ns, at which the latest version was built; None: all lanes had
        ended."""
        self._said_in: dict[int, int] = {}
        """Start of a window in `_versions`, ns -> number of the commit that records the latest version."""
        self._past: dict[int, int] = {}
        """Start of a window not in `_versions`, ns -> number of the last commit that records a version."""
        self._unread = 0
        """Number of the latest upkeep commit not yet searched for versions of windows; no earlier one was
        searched either."""
        self._frozen_keys: dict[int, U8] = {}
        """Start, ns, of a window that cannot be rebuilt (`_is_frozen`) -> keys of the requests in its built
        version, ascending."""
        flows = manifest.of_table("flows")
        built = flows.filter(pc.equal(flows["lane"], UPKEEP_LANE))
        self._old_windows = {*built["window_ns"].to_pylist()}
        """Starts, ns, of windows that were built, even if the log no longer contains their events, or that
        lanes of an earlier version of this program published."""
        if is_inside and (before := sealed_by_lanes(source)) is not None:
            by_lanes = flows.filter(
                pc.and_(pc.greater(flows["lane"], 0), pc.less(flows["window_ns"], before))
            )
            self._old_windows |= frozenset(by_lanes["window_ns"].to_pylist())
        tail = read_tail(self._target, UPKEEP_LANE)
        self._sealed_to_ns = tail.standing.sealed_to_ns
        self._learn(tail.head if head is None else head)

    def _learn(self, head: int) -> None:
        """Read versions of windows from upkeep commits, newest first, until no earlier version can concern
        events in the log."""
        last: Build | None = None
        for seq in range(head, 0, -1):
            build = read_record(self._target, UPKEEP_LANE, seq).record.build
            if build is None:
                continue
            if last is None:
                last = build
                self._follow(dict(build.through))
            for window in build.windows:
                if window.start_ns not in self._versions:
                    self._know(window, build, seq)
            self._unread = seq - 1
            if all(at < self._log.first(lane) for lane, at in build.through) and self._is_past(build):
                break
        if last is None:
            self._follow()
        for window in self._versions.values():
            self._plan.move({int(key, 16): start_ns for key, start_ns in window.moved})
        if last is not None and last.waiting is not None:
            try:  # less than nothing is missing where a damaged segment was read again
                self._bind_frozen()
                self._log.missing += last.waiting - self._unbuilt_at(dict(last.through))
            except UnreadableSegmentError:
                self._follow()

    def _know(self, version: BuiltWindow, build: Build, seq: int) -> None:
        """Record the version of a window that commit number `seq` contains."""
        self._versions[version.start_ns] = version
        self._built_at_ns[version.start_ns] = build.watermark_ns
        self._said_in[version.start_ns] = seq

    def _forget_past(self) -> None:
        """Forget versions of windows that cannot be rebuilt and to which no request of the log can belong."""
        horizon = self._horizon_ns()
        for start in [*self._versions]:
            end = max(start + self._length_ns, self._late_to_ns(start))
            is_past = horizon is None or end <= horizon
            if is_past and self._plan.window(start) is None and self._is_frozen(start):
                del self._versions[start], self._built_at_ns[start]
                self._past[start] = self._said_in.pop(start)
                self._old_windows.add(start)

    def _recall(self) -> None:
        """Load the built version of every window of which the log contains events, as late events may belong
        to any window."""
        for window in self._plan.windows():
            start = window.start_ns
            if start not in self._old_windows or start in self._versions:
                continue
            while start not in self._past and self._unread:
                build = read_record(self._target, UPKEEP_LANE, self._unread).record.build
                for version in () if build is None else build.windows:
                    if version.start_ns not in self._versions:
                        self._past.setdefault(version.start_ns, self._unread)
                self._unread -= 1
            if start in self._past:
                seq = self._past.pop(start)
                said = read_record(self._target, UPKEEP_LANE, seq).record.build
                assert said is not None
                self._know(next(one for one in said.windows if one.start_ns == start), said, seq)

    def _is_past(self, build: Build) -> bool:
        """True if no request in the log can belong to a window built before `build`."""
        horizon = self._horizon_ns()
        return horizon is None or (
            build.watermark_ns is not None and build.watermark_ns + self._length_ns < horizon
        )

    def _horizon_ns(self) -> int | None:
        """Time, ns, such that requests whose last event is earlier have no events in the log; None: the log
        has no event with a time."""
        first = min((window.first_ns for window in self._plan.windows()), default=None)
        # A flow lasts no longer without an event.
        return None if first is None else first - self._stitch.max_age_ns

    def _unbuilt_at(self, through: Mapping[int, int]) -> int:
        """Number of events that are in no built window, considering only segments up to the commits `through`
        (lane number -> commit number)."""
        every = [*self._log.segments.values()]
        there = [one for one in every if one.seq <= through.get(one.lane, 0)]
        if len(there) == len(every):
            return self._unbuilt(there)
        self._loose.name(there)
        self._plan.reset(there)
        found = self._unbuilt(there)
        self._loose.name(every)
        self._plan.reset(every)
        return found

    def _follow(self, known: Mapping[int, int] = MappingProxyType({})) -> None:
        """Read new commits of the log and update the plan.

        known: lane number -> number of the last commit that the last build had read.
        """
        while True:
            try:
                self._follow_on(known)
            except UnreadableSegmentError:  # swept just now, or lost: it is among those that left, next time
                continue
            return

    def _follow_on(self, known: Mapping[int, int]) -> None:
        fresh, left = self._log.follow(known)
        if not fresh and not left:
            return
        for one in left:
            if one.place not in self._log.segments:
                self._log.lose(one, self._unbuilt([one]))
        segments = [*self._log.segments.values()]
        replaced = [one for one in left if one.place in self._log.segments]
        renamed = [one for one in self._loose.name(segments) if one not in fresh]
        was_whole, self._plan_is_whole = self._plan_is_whole, False
        if not was_whole:
            self._plan.reset(segments)
        else:
            self._plan.remove([one for one in left if one not in replaced], self._is_frozen)
            self._plan.remove([*replaced, *renamed], lambda _: False)
            self._plan.add([*renamed, *fresh])
        self._plan_is_whole = True
        if left:
            self._forget_past()

    def _requests_of(self, segment: LogSegment) -> Planned:
        requests = requests_of(segment, self._log.index(segment))
        is_timed = len(requests) > 0 and (requests["first_ns"] != NEVER).all()
        segment.first_ns = int(requests["first_ns"].min()) if is_timed else -int(NEVER)
        segment.last_ns = int(requests["last_ns"].max()) if is_timed else int(NEVER)
        return requests

    def _unbuilt(self, segments: list[LogSegment]) -> int:
        """Number of events in `segments` that are neither in a built window nor stored as late."""
        total = 0
        for segment in segments:
            for start, rows in segment.rows_of.items():
                version = self._versions.get(start)
                if version is None or dict(version.through).get(segment.lane, 0) < segment.seq:
                    total += rows
        return total

    def dirty(self) -> list[int]:
        """Starts, ns, of built windows that differ from the log and can be rebuilt (are not frozen),
        ascending."""
        self._bind_frozen()
        return self._dirty({window.start_ns: window for window in self._plan.windows()})

    def _dirty(self, windows: Mapping[int, PlannedWindow]) -> list[int]:
        return [
            start
            for start, version in sorted(self._versions.items())
            if not self._is_frozen(start) and self._digest(windows.get(start)) != version.digest
        ]

    def _is_frozen(self, start_ns: int) -> bool:
        """True if a window cannot be rebuilt: retention deleted it, or it was built from a segment that is
        gone."""
        if self._retired_to_ns is not None and start_ns + self._length_ns <= self._retired_to_ns:
            return True
        version = self._versions.get(start_ns)
        if version is None:
            return start_ns in self._old_windows
        return any(since < self._log.start(lane) for lane, since in version.since)

    def _bind_frozen(self) -> None:
        """Bind requests of frozen windows that may still receive events to those windows, so that they stay
        there even if the log only contains their later events."""
        self._recall()
        since_ns = self._horizon_ns()
        starts = {
            start
            for start in {*self._old_windows, *self._versions}
            if since_ns is not None
            and (start + self._length_ns > since_ns or self._late_to_ns(start) > since_ns)
        }
        frozen = {start for start in starts if self._is_frozen(start)}
        if frozen == {*self._frozen_keys}:
            return
        self._frozen_keys = {start: own for start, own in self._frozen_keys.items() if start in frozen}
        if unread := frozen - {*self._frozen_keys}:
            manifest = open_manifest(self._target, self._lake)
            windows = [Window(start, self._length_ns) for start in sorted(unread)]
            for window, files in manifest.by_window(windows).items():
                tables = [
                    flow_keys(manifest.decoded(file, ["request_id", "kind"]))
                    for file in files
                    if file.table == "flows"
                ]
                self._frozen_keys[window.start_ns] = np.unique(np.concatenate([NO_KEYS, *tables]))
        keys = np.concatenate([NO_KEYS, *self._frozen_keys.values()])
        of_key = np.repeat(
            np.array([*self._frozen_keys], np.int64), [len(own) for own in self._frozen_keys.values()]
        )
        order = np.argsort(keys, kind="stable")
        self._plan.bind(keys[order], of_key[order])

    def _late_to_ns(self, start_ns: int) -> int:
        """Time of the latest late event of a window, ns; -NEVER if it has none."""
        version = self._versions.get(start_ns)
        return -int(NEVER) if version is None or version.late_to_ns is None else version.late_to_ns

    @property
    def _stitch(self) -> StitchConfig:
        return recorded_settings(self._log.config).stitch

    def refuse_lost(self) -> None:
        """Raise LakeError if a segment that windows still to be built need is missing or damaged: an operator
        must decide how to go on."""
        for lane, seq in self._log.lost():
            if seq > self.built_to(lane):
                raise LakeError(
                    f"The segment of commit {seq} of lane {lane} is missing or damaged: events of windows "
                    "that are to be built are in it.",
                    remedy="Restore it from a backup, or let `flowdiff repair --lane` read them again: "
                    "docs/internals/runbook.md#a-damaged-segment.",
                )

    def built_to(self, lane: int) -> int:
        """Commit number n of the lane such that no window still to be built needs the lane's log up to commit
        n; 0: all of the log is needed."""
        upkeep = upkeep_of(read_tail(self._target, UPKEEP_LANE).standing)
        return dict(upkeep.built_to).get(lane, 0)

    @property
    def latest_ns(self) -> int | None:
        """Latest time of an event in the log, ns; None without one."""
        last = max((window.last_ns for window in self._plan.windows()), default=-NEVER)
        return None if last == -NEVER else int(last)

    @property
    def sealed_to_ns(self) -> int | None:
        """Time, ns since the epoch, such that every window that ends by it has been built; None: no window
        is."""
        return self._sealed_to_ns

    def _of_window(self, start_ns: int) -> list[LogSegment]:
        """Segments that contain events of the window at `start_ns`, ascending by lane and commit."""
        return [one for _, one in sorted(self._log.segments.items()) if start_ns in one.rows_of]

    @staticmethod
    def _digest(window: PlannedWindow | None) -> str:
        return "" if window is None else window.digest
