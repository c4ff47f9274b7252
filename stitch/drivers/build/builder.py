"""Build windows from the log of a lake, into the same lake or another one: plan, build, commit.

The content of a window depends only on the log; a `Builder` restores all its state from the indexes of the
log's segments and from the built versions recorded in commits of the upkeep lane. A window whose digest
differs from that of its built version is rebuilt as a whole. If a segment from which a window was built is
deleted, the window is *frozen*: it is not rebuilt, and later events of its requests are stored as late.
"""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Set
from concurrent.futures import Future
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np
import pyarrow as pa

from schemas.arrays import U8
from schemas.commits import Build, BuiltWindow, CommitRecord, Counters
from schemas.errors import LakeError
from schemas.events import concat_events, with_text_ids
from schemas.rejects import Reject, rejects_table
from schemas.windows import Window
from stitch.closing import COMPLETENESS_COLUMNS, NEVER, complete_requests, event_times
from stitch.drivers.build.ahead import AheadGroups, BuiltGroup
from stitch.drivers.build.build_settings import BuildSettings
from stitch.drivers.build.dealt_events import dealt_on_disk, equal_groups, joined
from stitch.drivers.build.group_work import BuiltAnd, GroupBuilder, GroupTask, build_groups, meeting
from stitch.drivers.build.groups import Group, groups_of
from stitch.drivers.build.large_requests import LargeRequests
from stitch.drivers.build.log_follower import LogSegment, UnreadableSegmentError
from stitch.drivers.build.log_view import NO_KEYS, LogView
from stitch.drivers.build.request_plan import Planned, PlannedWindow, among, merge_requests
from stitch.drivers.live.live_settings import LiveSettings, recorded_settings
from stitch.drivers.live.young_segments import YoungSegments
from stitch.kernel import KERNEL_SOURCE
from stitch.lake.chain import lanes
from stitch.lake.encoding import decode
from stitch.lake.event_log import sweep_segments
from stitch.lake.layout import file_name, segment_seq
from stitch.lake.manifest import LakeFile, open_manifest
from stitch.lake.staging import Staging
from stitch.lake.store import Store
from stitch.lake.upkeep.hidden import UPKEEP_LANE
from stitch.lake.upkeep.upkeep_lane import Built, UpkeepLane, UpkeepRun
from stitch.processes import worker_processes
from stitch.scratch import Scratch


@dataclass(frozen=True, slots=True)
class Step:
    """Counts of one step of a builder."""

    built: int = 0
    """Number of windows built for the first time."""
    again: int = 0
    """Number of windows rebuilt."""
    late: int = 0
    """Number of events stored as late, because a segment from which their window was built is gone."""
    events: int = 0
    """Number of events in the windows that were built or rebuilt."""
    missing: int = 0
    """Number of events newly found lost: commits count them, but no segment of the log contains them."""
    ahead: int = 0
    """Number of events stitched for windows that cannot be built yet."""

    def and_(self, other: Step) -> Step:
        """Add the counts of two steps."""
        return Step(
            self.built + other.built,
            self.again + other.again,
            self.late + other.late,
            self.events + other.events,
            self.missing + other.missing,
            self.ahead + other.ahead,
        )

    @property
    def did_anything(self) -> bool:
        """True if the step built a window or a part of one, stored late events, or found events missing."""
        return bool(self.built or self.again or self.late or self.missing or self.ahead)


class _StoppedError(Exception):
    """The builder is being stopped, so that the running step is abandoned."""


class _MovedError(Exception):
    """Flows begin in other windows than the first events of their requests: windows must be planned again."""


@dataclass(frozen=True, eq=False, slots=True)
class _Workers:
    """Whoever builds groups: this process, or others."""

    most: int
    """Number of tasks of other processes that may be under way before results are waited for; 0: none are."""
    begin: Callable[[GroupTask], list[Iterable[BuiltAnd]]]
    """Begin a task; return the results of its parts, in order."""


@dataclass(frozen=True, eq=False, slots=True)
class _Building:
    """A window that is being built."""

    window: PlannedWindow
    running: Planned
    """Requests that have not ended."""
    groups: list[Group]
    ahead: list[BuiltGroup | None]
    """[groups] what was built ahead; None: nothing, or it is outdated."""
    n_tasks: int
    built: Iterator[BuiltAnd]
    """Results for the groups that were not built ahead, in order."""


def _refuse_other_lanes(run: UpkeepRun) -> None:
    """Raise LakeError if lanes other than upkeep have committed to the lake: a built window would replace
    their files."""
    if others := [lane for lane in lanes(run.store) if lane != UPKEEP_LANE]:
        raise LakeError(
            f"'{run.lake}' has commits of lane {others[0]}: imported files, or live ingestion.",
            remedy="Build into a lake of its own.",
        )


class Builder(LogView):
    """Builder of the windows of a lake from a log. Used by one thread.

    Raises LakeError, OSError; CommitTakenError if another builder committed: then open a new Builder.
    """

    def __init__(
        self,
        source: Store,
        run: UpkeepRun,
        scratch: Scratch,
        settings: BuildSettings,
        young: YoungSegments | None = None,
        is_stopping: Callable[[], bool] = lambda: False,
        log_lake: str | None = None,
    ) -> None:
        """source: lake with the log. run: lake in which windows are built, the same as `source` or another
        one (on a disk: locked by the caller). scratch: folder for windows too large for memory. young: cache
        of segments that then need not be read. is_stopping: called before each window; if it returns True,
        the commit is abandoned. log_lake: name of `source`, by which other processes open it; None: the lake
        of `run`."""
        is_inside = source is run.store
        if not is_inside:
            _refuse_other_lanes(run)
        self._run = run
        self._settings = settings
        self._scratch = scratch
        self._is_stopping = is_stopping
        self._log_lake = run.lake if log_lake is None else log_lake
        self._is_alone = False
        self._lane_of_flows = UPKEEP_LANE if is_inside else 0
        self.last: CommitRecord | None = None
        """Last commit of this builder; None before the first."""
        self.n_waiting = 0
        """Number of windows, as of the last step, that are finished but not built, or due for a rebuild."""
        self._ahead = AheadGroups(scratch, settings.ahead_waste_share)
        self._looked: dict[int, int] = {}
        """Start, ns, of a window -> number of its events when no group of it could be built ahead."""
        self._stitched: dict[int, list[Group]] = {}
        """Start, ns -> groups in which the window was last built, until its version is committed."""
        # Opening finishes what the last builder committed.
        self._lane = UpkeepLane(run, open_manifest(run.store, run.lake).info)
        manifest = open_manifest(run.store, run.lake)
        super().__init__(
            source,
            manifest,
            young or YoungSegments(0),
            is_inside=is_inside,
            scratch=scratch,
            in_memory=settings.planned_in_memory,
        )
        self._group_builder = GroupBuilder(self._rows, scratch, settings)

    @property
    def n_unbuilt(self) -> int:
        """Number of windows that the log is ahead of: never built, or to be built again."""
        self._bind_frozen()
        windows = {
            window.start_ns: window for window in self._plan.windows() if not self._is_frozen(window.start_ns)
        }
        return len(self._dirty(windows)) + sum(start not in self._versions for start in windows)

    # -- plan ------------------------------------------------------------------------------------------------

    def step(self, now_ns: int, *, finished: bool = False, urgent: bool = False, alone: bool = False) -> Step:
        """Read new commits of the log, build at most `windows_per_commit` windows, and commit them.

        finished: the log has ended, so all windows may be built. urgent: rebuild windows with late events
        now, instead of after `rebuild_ns`, and build nothing ahead, as this process is about to end. alone:
        start no other processes.
        """
        self._is_alone = alone
        while True:
            try:
                return self._step(now_ns, finished=finished, urgent=urgent)
            except (UnreadableSegmentError, _MovedError):  # swept just now, or lost; planned otherwise
                continue
            except _StoppedError:
                return Step()

    def _step(self, now_ns: int, *, finished: bool, urgent: bool) -> Step:
        """Attempt one step. Raises UnreadableSegmentError or _MovedError if windows must be planned again."""
        self._follow()
        if self._lane_of_flows:
            self.refuse_lost()
        finished = finished or self._log.over
        water = None if finished else self._log.watermark_ns
        self._bind_frozen()
        late = self._late()
        windows = {
            window.start_ns: window for window in self._plan.windows() if not self._is_frozen(window.start_ns)
        }
        moving = self._moving(windows)
        first, seal = self._first(windows, water, moving, finished=finished)
        again = self._again(windows, water, moving, urgent=urgent or finished)
        over = [] if water is None else [start for start in windows if start + self._length_ns <= water]
        self.n_waiting = len(again) + sum(start not in self._versions for start in over)
        room = self._settings.windows_per_commit - len(first) - sum(start in moving for start in again)
        others = [start for start in again if start not in moving][: max(0, room)]
        again = sorted([*(start for start in again if start in moving), *others])
        if not (first or again or late or self._log.missing or seal != self._sealed_to_ns):
            return Step(ahead=0 if urgent else self._go_ahead(windows, water))
        return self._commit(windows, first, again, late, seal, water, now_ns)

    def built_to(self, lane: int) -> int:
        """Commit number n of the lane such that no window still to be built needs the log up to commit n, as
        of this builder's last commit; 0: all of the log is needed."""
        upkeep = self._lane.upkeep
        return dict(upkeep.built_to).get(lane, 0)

    def sweep(self, now_ns: int) -> int:
        """Delete files that have been hidden for longer than the grace period; return their number."""
        return self._lane.sweep(now_ns - self._run.grace_ns)

    def sweep_ended(self) -> None:
        """Delete the segments of ended lanes whose windows are built, because an ended lane has no owner that
        could delete them. Raises OSError."""
        for lane in self._log.ended:
            sweep_segments(self._target, lane, self.built_to(lane), ())

    def _late(self) -> dict[int, Planned]:
        """Late events: start, ns, of a frozen window with events in segments after its last build -> the
        window's requests in these segments, ascending by key."""
        return {
            window.start_ns: window.requests
            for window in self._plan.windows()
            if self._is_frozen(window.start_ns) and self._unsettled(window.start_ns)
        }

    def _unsettled(self, start_ns: int) -> list[LogSegment]:
        """Segments with events of a frozen window that are newer than the window's last build."""
        version = self._versions.get(start_ns)
        through = {} if version is None else dict(version.through)
        return [one for one in self._of_window(start_ns) if one.seq > through.get(one.lane, 0)]

    def _first(
        self, windows: Mapping[int, PlannedWindow], water: int | None, moving: Set[int], *, finished: bool
    ) -> tuple[list[int], int | None]:
        """Choose the windows to be built for the first time: (their starts, ns, ascending; time, ns, up to
        which all windows will be built then, None if unknown). water: watermark, ns."""
        waiting = [start for start in sorted(windows) if start not in self._versions]
        found: list[int] = []
        for start in waiting:
            if start not in moving:
                is_over = finished or self._is_over(windows[start], water)
                if not is_over or len(found) >= self._settings.windows_per_commit:
                    break
            found.append(start)
        ends = [start + self._length_ns for start in found]
        if water is not None and (found or self._versions):
            ends.append(min([water // self._length_ns * self._length_ns, *waiting[len(found) :][:1]]))
        if self._sealed_to_ns is not None:
            ends.append(self._sealed_to_ns)
        return found, max(ends, default=None)

    def _is_over(self, window: PlannedWindow, water: int | None) -> bool:
        """True if a window can be built: the watermark `water`, ns, is past the window's end, and all its
        requests are complete or idle, or `patience_ns` has passed too."""
        end = window.start_ns + self._length_ns
        if water is None or water < end:
            return False
        if water >= end + self._settings.patience_ns:
            return True
        if (window.requests["last_ns"] > water - min(self._settings.linger_ns, self._stitch.idle_ns)).any():
            return False
        return not len(self._running(window, water))

    def _running(self, window: PlannedWindow, water: int | None) -> Planned:
        """Requests of a window that are still running: neither complete nor idle at the watermark `water`,
        ns; empty if `water` is None."""
        if water is None:
            return window.requests[:0]
        going = window.requests[window.requests["last_ns"] > water - self._stitch.idle_ns]
        if not len(going):
            return going
        columns = ["request_id", *COMPLETENESS_COLUMNS]
        rows = (
            (table, key) for _, table, key in self._rows.of(self._of_window(window.start_ns), going, columns)
        )
        complete = np.zeros(len(going), np.bool_)
        for events, key in self._dealt(window, going, rows, self._settings.rows_looked_at):
            own, code = np.unique(key, return_inverse=True)
            complete[np.searchsorted(going["key"], own)] = complete_requests(code, len(own), events)
        return going[~complete]

    def _moving(self, windows: Mapping[int, PlannedWindow]) -> set[int]:
        """Starts, ns, of windows that must be built in one commit, because a late event with an early time
        moved a request from one of them to another.

        In separate commits readers would see the request twice or not at all. The window that gained the
        request is not searched for: instead all earlier changed windows are built together with the one that
        lost it.
        """
        differ = self._dirty(windows)
        lost = [start for start in differ if self._lost_any(windows.get(start), self._versions[start])]
        if not lost:
            return set()
        waiting = [start for start in windows if start not in self._versions]
        return {start for start in (*differ, *waiting) if start <= max(lost)}

    def _lost_any(self, window: PlannedWindow | None, version: BuiltWindow) -> bool:
        """True if fewer events than `version` was built from belong to its window now (None: no events
        do)."""
        if window is None:
            return version.events > 0
        through, own = dict(version.through), self._of_window(window.start_ns)
        rows = sum(one.rows_of[window.start_ns] for one in own if one.seq <= through.get(one.lane, 0))
        return rows < version.events

    def _again(
        self, windows: Mapping[int, PlannedWindow], water: int | None, moving: Set[int], *, urgent: bool
    ) -> list[int]:
        """Starts, ns, of windows due for a rebuild, ascending. The log must differ from the built version, or
        requests that were running at the build must have ended; in addition `rebuild_ns` or `rebuild_share`
        must be exceeded, the window be in `moving`, or `urgent` be set."""
        found = []
        for start in sorted({*self._dirty(windows), *self._ended(water)}):
            version = self._versions[start]
            built_at = self._built_at_ns[start]
            waited = water is None or built_at is None or water - built_at >= self._settings.rebuild_ns
            rows = windows[start].rows if start in windows else 0
            if (
                urgent
                or waited
                or start in moving
                or abs(rows - version.events) > self._settings.rebuild_share * version.events
            ):
                found.append(start)
        return found

    def _ended(self, water: int | None) -> list[int]:
        """Starts, ns, of windows built with requests still running, all of which have ended by the watermark
        `water`, ns."""
        return [
            start
            for start, version in self._versions.items()
            if version.running_to_ns is not None
            and (water is None or version.running_to_ns <= water - self._stitch.idle_ns)
            and not self._is_frozen(start)
        ]

    # -- build -----------------------------------------------------------------------------------------------

    def _groups(self, window: PlannedWindow) -> list[Group]:
        """Groups in which a window is stitched."""
        large = LargeRequests(window.requests, self._stitch.max_events_per_flow)
        if len(large.requests):
            window = PlannedWindow(window.start_ns, large.capped(window.requests))
        return groups_of(window, self._length_ns, self._settings.rows_at_once)

    def _dealt(
        self, window: PlannedWindow, requests: Planned, rows: Iterator[tuple[pa.Table, U8]], most: int
    ) -> Iterator[tuple[pa.Table, U8]]:
        """Yield (events, [events] request key) from `rows` in groups of whole requests, about `most` events
        per group. requests: those of the window with events in `rows`."""
        n_groups = -(-int(requests["rows"].sum()) // most)
        if n_groups <= 1:
            yield joined([*rows])
            return
        group_of, folder = equal_groups(requests, n_groups), self._scratch.folder / f"{window.start_ns:d}"
        dealt = dealt_on_disk(requests, group_of, n_groups, rows, most, folder)
        yield from ((events, key) for _, events, key in dealt)

    def _staged(
        self,
        staging: Staging,
        windows: Mapping[int, PlannedWindow],
        starts: list[int],
        water: int | None,
        tally: Counter[str],
    ) -> Generator[tuple[BuiltWindow, list[Reject]]]:
        """Build windows and stage their files; yield (its version, its rejected events) of each, in order,
        once its files are staged.

        windows: start -> window, both ns. water: watermark, ns. tally: counter to which the kernel's counts
        are added. Raises _MovedError, after updating the plan, if flows begin in other windows.
        """
        under_way: deque[_Building] = deque()
        with self._workers(sum(windows[start].rows for start in starts if start in windows)) as workers:
            for start in starts:
                self._refuse_to_go_on()
                window = windows.get(start, PlannedWindow(start, merge_requests([])))
                under_way.append(self._begun(window, water, workers))
                while under_way and sum(one.n_tasks for one in under_way) >= workers.most:
                    yield self._stage(staging, under_way.popleft(), tally)
            for building in under_way:
                self._refuse_to_go_on()
                yield self._stage(staging, building, tally)

    def _refuse_to_go_on(self) -> None:
        if self._is_stopping():
            raise _StoppedError

    @contextmanager
    def _workers(self, n_rows: int) -> Iterator[_Workers]:
        """Context manager: whoever builds the groups of windows of `n_rows` events in total. Other processes
        only build a backlog: to start them takes a second of CPU."""
        n = 1 if self._is_alone or n_rows < self._settings.workers_from_rows else self._settings.at_once
        here = self._group_builder.build
        if n == 1:
            yield _Workers(0, lambda task: [here(task)])
            return
        own = n_rows // (2 * n)
        # Killed processes leave their files there: removed now, as they may fill the disk.
        with Scratch(self._scratch.folder) as theirs, worker_processes(n) as pool:
            folder = theirs.folder

            def begin(task: GroupTask) -> list[Iterable[BuiltAnd]]:
                tasks = task.divided(own, self._settings.most_reads_by_workers)
                done = [
                    pool.submit(build_groups, self._log_lake, self._settings, folder, one) for one in tasks
                ]
                return [self._result(one) for one in done] or [here(task)]

            yield _Workers(2 * n, begin)

    def _result(self, task: Future[list[BuiltAnd]]) -> Iterator[BuiltAnd]:
        """Yield the result of a task of another process."""
        try:
            yield from task.result()
        except UnreadableSegmentError as error:
            self._log.note(error)
            raise

    def _begun(self, window: PlannedWindow, water: int | None, workers: _Workers) -> _Building:
        """Begin to build a window, except for its groups that were built ahead."""
        running = self._running(window, water)
        settings = recorded_settings(self._log.config)
        groups = self._groups(window)
        ahead = [
            None if among(running["key"], group.within.keys).any() else self._ahead.find(group, settings)
            for group in groups
        ]
        left = [group for group, built in zip(groups, ahead, strict=True) if built is None]
        built = workers.begin(self._task(window, left, running["key"], settings)) if left else []
        return _Building(window, running, groups, ahead, len(built), chain.from_iterable(built))

    def _task(
        self, window: PlannedWindow, groups: list[Group], running: U8, settings: LiveSettings
    ) -> GroupTask:
        """Task of building groups of a window; at least one. running: keys, ascending, of requests that have
        not ended."""
        segments = meeting(self._of_window(window.start_ns), groups)
        large = self._large(window, groups)
        return GroupTask(groups, segments, large, running, settings, self._length_ns, self._lane_of_flows)

    def _stage(
        self, staging: Staging, building: _Building, tally: Counter[str]
    ) -> tuple[BuiltWindow, list[Reject]]:
        """Stage the files of a window; return (its version, its rejected events).

        The result depends only on the log's events of the window's requests and on which requests are still
        running.
        """
        window, running = building.window, building.running
        refused: list[Reject] = []
        since: dict[int, int] = {}
        of_lanes: Counter[int] = Counter()
        for segment in self._of_window(window.start_ns) if len(window.requests) else ():
            since.setdefault(segment.lane, segment.seq)
            of_lanes[segment.lane] += segment.rows_of[window.start_ns]
        own: Counter[str] = Counter()
        moved: dict[int, int] = {}
        for part, built in enumerate(building.ahead):
            if built is None:
                built, elsewhere = next(building.built)
                moved |= elsewhere
            own.update(built.counts)
            refused += built.refused
            for file in built.files:
                staging.add_encoded(file, part)
        if moved:
            self._plan.move(moved)
            raise _MovedError
        tally.update(own)
        self._stitched[window.start_ns] = building.groups
        version = BuiltWindow(
            start_ns=window.start_ns,
            version=1,
            digest=window.digest if len(window.requests) else "",
            through=tuple(self._log.through.items()),
            since=tuple(sorted(since.items())),
            events=own["events"],
            lanes=tuple(sorted(of_lanes.items())),
            duplicates=own["duplicates"],
            rejected=own["rejected"],
            moved=tuple(
                (f"{key:016x}", to) for key, to in sorted(self._plan.moved_from(window.start_ns).items())
            ),
            running_to_ns=int(running["last_ns"].max()) if len(running) else None,
        )
        return version, refused

    def _large(self, window: PlannedWindow, groups: list[Group]) -> LargeRequests:
        """Large requests among those of some groups of a window."""
        rows = np.sort(np.concatenate([np.zeros(0, np.int64), *(group.rows for group in groups)]))
        return LargeRequests(window.requests[rows], self._stitch.max_events_per_flow)

    # -- ahead -----------------------------------------------------------------------------------------------

    def _go_ahead(self, windows: Mapping[int, PlannedWindow], water: int | None) -> int:
        """Build quiet groups of a window that cannot be built yet; return their number of events.

        water: watermark, ns; None: the log has ended.
        """
        if water is None or self._is_stopping():
            return 0
        quiet_ns = water + self._settings.lateness_ns - self._stitch.idle_ns
        waiting = [window for start, window in sorted(windows.items()) if start not in self._versions]
        for window in waiting:
            grown = window.rows - self._looked.get(window.start_ns, 0)
            if 2 * grown < self._settings.rows_at_once:
                continue
            groups = self._worth_reading(window, self._quiet_groups(window, quiet_ns))
            if groups:
                self._build_ahead(window, groups)
                self._free_young(waiting)
                return sum(group.within.rows for group in groups)
            self._looked[window.start_ns] = window.rows
        return 0

    def _quiet_groups(self, window: PlannedWindow, quiet_ns: int) -> list[Group]:
        """Groups of a window that are neither built ahead nor noted, and whose bounds are final, last events
        not after `quiet_ns`, and requests not large."""
        found = []
        for group in self._groups(window):
            if not group.is_fixed or group.end_ns > quiet_ns:
                break
            is_quiet = group.within.last_ns <= quiet_ns and not self._ahead.knows(group)
            if is_quiet and not len(self._large(window, [group]).requests):
                found.append(group)
        return found

    def _worth_reading(self, window: PlannedWindow, groups: list[Group]) -> list[Group]:
        """The shortest prefix of `groups` for which at most `most_reads` events are read back from the log
        for each event of theirs; empty if there is none, so that segments are not read for each group."""
        unread = [one for one in self._of_window(window.start_ns) if not self._young.has(one.file.name)]
        rows, first_ns, last_ns = 0, int(NEVER), -int(NEVER)
        for n, group in enumerate(groups, 1):
            rows += group.within.rows
            first_ns, last_ns = min(first_ns, group.within.first_ns), max(last_ns, group.within.last_ns)
            met = sum(one.file.rows for one in unread if one.first_ns <= last_ns and one.last_ns >= first_ns)
            if met <= self._settings.most_reads * rows:
                return groups[:n]
        return []

    def _build_ahead(self, window: PlannedWindow, groups: list[Group]) -> None:
        """Build groups ahead, or only note them."""
        settings = recorded_settings(self._log.config)
        if self._ahead.pauses:
            for group in groups:
                self._ahead.keep(group, settings, None)
            return
        n_rows = sum(group.within.rows for group in groups)
        with suppress(_StoppedError), self._workers(n_rows) as workers:
            made = chain.from_iterable(workers.begin(self._task(window, groups, NO_KEYS, settings)))
            for group in groups:
                self._refuse_to_go_on()
                built, elsewhere = next(made)
                self._plan.move(elsewhere)
                if not elsewhere:
                    self._ahead.keep(group, settings, built)

    def _free_young(self, windows: list[PlannedWindow]) -> None:
        """Remove segments from the cache that only groups built ahead have events of. windows: not built,
        ascending."""
        settings = recorded_settings(self._log.config)
        groups = (group for window in windows for group in self._groups(window))
        left = (group.begin_ns for group in groups if self._ahead.find(group, settings) is None)
        to_ns = next(left, int(NEVER))
        for segment in self._log.segments.values():
            if segment.last_ns < to_ns:
                self._young.forget(segment.file.name)

    # -- commit ----------------------------------------------------------------------------------------------

    def _commit(
        self,
        windows: Mapping[int, PlannedWindow],
        first: list[int],
        again: list[int],
        late: Mapping[int, Planned],
        seal: int | None,
        water: int | None,
        now_ns: int,
    ) -> Step:
        """Build and commit windows.

        windows: start -> window, for windows that are not frozen. first: starts of windows to build for the
        first time. again: starts of windows to rebuild. late: start of a frozen window -> requests with late
        events. seal: time up to which all windows are built afterwards. water: watermark; None: the log has
        ended. All times are in ns.
        """
        through = tuple(self._log.through.items())
        manifest = open_manifest(self._run.store, self._run.lake)
        before = manifest.by_window(Window(start, self._length_ns) for start in again)
        said: list[BuiltWindow] = []
        tally: Counter[str] = Counter()
        emptied: set[int] = set()
        replaced: list[LakeFile] = []
        letters: list[Reject] = []
        with self._lane.stage() as staging, ExitStack() as held:
            staged = self._staged(staging, windows, [*first, *again], water, tally)
            for made, refused in held.enter_context(closing(staged)):
                start = made.start_ns
                version = self._versions.get(start)
                if version is not None:
                    at = Window(start, self._length_ns)
                    own = [file for file in before[at] if file.lane == UPKEEP_LANE]  # not what was imported
                    is_same = staging.hashes(at) == sorted(file.sha256 for file in own)
                    if is_same:
                        staging.drop_window(at)  # readers need not know
                    else:
                        emptied |= set() if staging.hashes(at) else {start}
                        replaced += own
                    update = {"version": version.version + (not is_same)}
                    update |= {name: getattr(version, name) for name in ("late", "late_to_ns", "letters")}
                    made = made.model_copy(update=update)
                if fresh := self._new_letters(refused, made.letters, len(letters)):
                    letters += fresh
                    made = made.model_copy(update={"letters": (*made.letters, self._lane.seq)})
                said.append(made)
            staging.add_side("dead_letters", 0, rejects_table(letters, KERNEL_SOURCE, [0]))
            n_late = self._stage_late(staging, late, said)
            n_rejected = tally["rejected"]
            n_events = tally["events"] + n_late
            inside = bool(self._lane_of_flows)  # then lanes of the lake have read them
            counters = Counters(
                events_read=0 if inside else n_events,
                events_carried=n_events if inside else 0,
                events_published=tally["events"] - tally["duplicates"] - n_rejected,
                events_duplicate=tally["duplicates"],
                events_rejected=n_rejected,
                events_late=n_late,
                flows=sum(item.rows for item in staging.items() if item.table == "flows"),
                rejects={
                    name.removeprefix("reject "): n
                    for name, n in sorted(tally.items())
                    if name.startswith("reject ")
                },
                rejects_not_kept=n_rejected - len(letters),
            )
            build = Build(
                through=through,
                watermark_ns=water,
                missing=self._log.missing,
                waiting=self._waiting(windows, said),
                windows=tuple(sorted(said, key=lambda window: window.start_ns)),
            )
            built_to = self._free_to(windows, said)
            built = Built(build, frozenset(emptied), seal, now_ns, built_to, self._rebuilds_from(said))
            seq, missing = self._lane.seq, self._log.missing
            try:
                self.last = self._lane.commit(staging, counters=counters, built=built)
            finally:
                if self._lane.seq > seq:  # it stands, published or not
                    for window in said:
                        self._know(window, build, seq)
                        self._ahead.forget(window.start_ns, self._stitched.pop(window.start_ns, ()))
                        self._looked.pop(window.start_ns, None)
                    self._sealed_to_ns = seal
                    self._log.missing = 0
        self._lane.set_aside(replaced)
        return Step(len(first), len(again), n_late, tally["events"], missing)

    def _new_letters(self, refused: list[Reject], before: tuple[int, ...], n_kept: int) -> list[Reject]:
        """Dead letters of a window to store with the next commit: rejected events that the window's earlier
        versions have not stored, within the limit `max_dead_letters_per_commit`.

        before: numbers of the commits that stored dead letters of the window. n_kept: number of dead letters
        that the next commit already has.
        """
        room = self._settings.max_dead_letters_per_commit - n_kept
        if not refused or room <= 0:
            return []
        known: set[str] = set()
        for seq in before:
            name = f"dead_letters/{file_name(UPKEEP_LANE, seq, 0)}"
            if self._target.size(name) is not None:  # else removed as too old
                known |= set(
                    decode("dead_letters", self._target.read(name), ["sha256"])["sha256"].to_pylist()
                )
        fresh = (reject for reject in refused if hashlib.sha256(reject.raw or b"").hexdigest() not in known)
        return list(islice(fresh, room))

    def _waiting(self, windows: Mapping[int, PlannedWindow], said: list[BuiltWindow]) -> int:
        """Number of events in the log that belong to no built window once the versions `said` are
        committed."""
        versions = {**self._versions, **{window.start_ns: window for window in said}}
        timeless = self._plan.window(int(NEVER))
        total = 0 if timeless is None else timeless.rows  # in no window as long as the log has them
        for start, window in windows.items():
            version = versions.get(start)
            if version is None:
                total += window.rows
            elif version.digest != window.digest:
                through, own = dict(version.through), self._of_window(start)
                total += sum(one.rows_of[start] for one in own if one.seq > through.get(one.lane, 0))
        return total

    def _free_to(
        self, windows: Mapping[int, PlannedWindow], said: list[BuiltWindow]
    ) -> tuple[tuple[int, int], ...]:
        """(lane number, commit number n) of each lane such that windows still to be built no longer need the
        lane's log up to commit n, once the versions `said` are committed. Removes those segments from the
        cache."""
        versions = {**self._versions, **{window.start_ns: window for window in said}}
        wanted = {
            start
            for start, window in windows.items()
            if start not in versions or versions[start].digest != window.digest
        }
        free = dict(self._log.through)
        for (lane, seq, _), one in self._log.segments.items():
            if lane in free and not wanted.isdisjoint(one.rows_of):
                free[lane] = min(free[lane], seq - 1)
        for start, window in windows.items():
            version = versions.get(start)
            if version is not None and (version.digest != window.digest or self._may_end(version)):
                for lane, since in version.since:
                    free[lane] = min(free.get(lane, 0), since - 1)
        for name in self._young.names():
            at = _place(name)
            if at[1] <= free.get(at[0], 0):
                self._young.forget(name)
        return tuple(sorted(free.items()))

    def _rebuilds_from(self, said: list[BuiltWindow]) -> int | None:
        """Start, ns, of the earliest window that may still be rebuilt once the versions `said` are committed;
        None: no window may."""
        own = [window.start_ns for window in said if window.version]
        return min((start for start in (*own, *self._versions) if not self._is_frozen(start)), default=None)

    def _may_end(self, version: BuiltWindow) -> bool:
        """True if a window must be rebuilt when its running requests end, so that its log is still needed.

        Once the requests exceed the maximum age (`max_age_ns`), the result is False: the log may be deleted
        and the requests stay flagged INCOMPLETE.
        """
        to_ns = version.running_to_ns
        return to_ns is not None and to_ns < version.start_ns + self._length_ns + self._stitch.max_age_ns

    def _stage_late(self, staging: Staging, late: Mapping[int, Planned], said: list[BuiltWindow]) -> int:
        """Stage the late events of frozen windows; append the updated version of each such window to `said`,
        and return the number of late events."""
        of_lane: dict[int, list[pa.Table]] = {}
        everything = tuple((lane, 0) for lane in self._log.through)
        total = 0
        for start, requests in late.items():
            n, last_ns = 0, self._late_to_ns(start)
            for segment, table, _ in self._rows.of(self._unsettled(start), requests):
                of_lane.setdefault(segment.lane, []).append(concat_events([table]))
                n += table.num_rows
                last_ns = max(last_ns, *(int(times.max()) for times in event_times(table)))
            version = self._versions.get(start) or BuiltWindow(
                start_ns=start, version=0, digest="", through=(), since=everything, events=0
            )
            update = {
                "through": tuple(self._log.through.items()),
                "late": version.late + n,
                "late_to_ns": None if abs(last_ns) == NEVER else last_ns,
            }
            said.append(version.model_copy(update=update))
            total += n
        for lane, tables in sorted(of_lane.items()):
            staging.add_side("late", lane, with_text_ids(concat_events(tables)))
        return total


def _place(segment: str) -> tuple[int, int]:
    """(lane number, commit number) parsed from the path of a segment."""
    folder, _, file = segment.rpartition("/")
    seq = segment_seq(file)
    assert seq is not None
    return int(folder.rpartition("=")[2]), seq
