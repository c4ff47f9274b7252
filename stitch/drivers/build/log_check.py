"""Check that the logs of a lake's lanes and its built windows account for the same events.

For each window and lane: events in the log, up to the commit that the window's version was built from =
events of the version. For each lane: events logged = events in versions + late + not built yet + missing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

import pyarrow as pa

from schemas.commits import Build, BuiltWindow, CommitRecord
from schemas.errors import LakeError
from schemas.windows import Window
from stitch.drivers.build.build_settings import BuildSettings
from stitch.drivers.build.log_view import LogView
from stitch.drivers.live.young_segments import YoungSegments
from stitch.lake.chain import lanes, read_chain
from stitch.lake.fsck import Violation
from stitch.lake.layout import origin, segment_part, segment_seq
from stitch.lake.manifest import open_manifest
from stitch.lake.store import Store
from stitch.lake.upkeep.hidden import UPKEEP_LANE
from stitch.scratch import Scratch

_BALANCE: Final = "I1"


def check_log(
    store: Store, lake: str, scratch: Scratch, settings: BuildSettings | None = None
) -> list[Violation]:
    """Differences between the logs of a lake's lanes and its built windows; empty if there is no log.

    Reads the indexes of retained segments, not their events. Memory: the plan of the log, of which windows
    beyond `settings.planned_in_memory` requests are in `scratch`. Windows whose log was deleted, as it aged,
    are in the sums of their lanes only. A lake that cannot be read is one violation. Meant for a lake that
    nobody writes.
    """
    try:
        commits = {lane: [link.record for link in read_chain(store, lane)] for lane in lanes(store)}
        logging = {lane for lane, own in commits.items() if any(record.standing.logs for record in own)}
        if UPKEEP_LANE not in commits or not logging:
            return []
        view = _LoggedEvents(store, lake, commits, scratch, settings or BuildSettings())
        return [*view.of_windows(), *view.of_lanes()]
    except LakeError as error:
        return [Violation(_BALANCE, f"the log cannot be compared with its windows: {error.message}")]
    except (OSError, ArithmeticError, ValueError, pa.ArrowException) as error:  # damaged in a new way
        return [Violation(_BALANCE, f"the log cannot be compared with its windows: {error}")]


class _LoggedEvents(LogView):
    """View of the log that compares numbers of events with those that versions of windows record."""

    def __init__(
        self,
        store: Store,
        lake: str,
        commits: Mapping[int, list[CommitRecord]],
        scratch: Scratch,
        settings: BuildSettings,
    ) -> None:
        """commits: lane -> its commits, ascending."""
        super().__init__(
            store,
            open_manifest(store, lake),
            YoungSegments(0),
            is_inside=True,
            scratch=scratch,
            in_memory=settings.planned_in_memory,
        )
        self._commits = commits
        self._read_again = _segments_read_again(commits)
        segments = self._log.segments.values()
        self._is_renamed = any(one.n_loose for one in segments) and any(
            self._log.kept_from(one.lane) > 1 for one in segments
        )
        """True if records without a request id may be assigned to another request now than when a window was
        built: they get it from records that they are linked to, and the log may have lost those."""
        self._bind_frozen()
        windows = {window.start_ns: window for window in self._plan.windows()}
        self._outdated = [
            version
            for start, version in sorted(self._versions.items())
            if self._digest(windows.get(start)) != version.digest
        ]
        """Latest versions of windows whose log has changed since."""

    def of_windows(self) -> Iterator[Violation]:
        """Yield violations for windows whose version was built from another number of events of a lane than
        the log has of it, up to the commit that the version names.

        O(requests of the log), for the current log and for each distinct end of the log that an outdated
        version was built from.
        """
        outdated = {version.start_ns for version in self._outdated}
        for start, version in sorted(self._versions.items()):
            if start not in outdated:
                yield from self._difference(version)
        by_end = defaultdict[tuple[tuple[int, int], ...], list[BuiltWindow]](list)
        for version in self._outdated:
            by_end[version.through].append(version)
        for through, versions in by_end.items():
            self._plan_to(dict(through))
            for version in versions:
                yield from self._difference(version)
        self._plan_to(None)

    def of_lanes(self) -> Iterator[Violation]:
        """Yield violations for lanes whose commits logged another number of events than versions, late events
        and the log not built yet account for.

        While a version is outdated, only a lack of events is reported: a request that moved is in two windows
        until both are built again.
        """
        builds = [record for record in self._commits[UPKEEP_LANE] if record.build is not None]
        last = builds[-1].build if builds else None
        versions = {window.start_ns: window for record in builds for window in _build(record).windows}
        if last is None or last.waiting is None:
            return
        through = dict(last.through)
        own = {lane: _logged(records, through.get(lane, 0)) for lane, records in self._commits.items()}
        missing = sum(_build(record).missing for record in builds)
        placed = sum(version.events + version.late for version in versions.values())
        total, accounted = sum(own.values()), placed + last.waiting + missing
        if total > accounted or (total < accounted and not self._outdated):
            yield Violation(
                _BALANCE,
                f"lanes logged {total:,} events, windows hold {placed:,} of them, {last.waiting:,} wait, "
                f"and {missing:,} were missing",
            )
        if missing or self._outdated or any(version.lanes is None for version in versions.values()):
            return  # of which lane is not recorded
        if any(at > through.get(lane, 0) for (lane, *_), at in self._read_again.items()):
            return
        held = Counter[int]()
        for version in versions.values():
            held.update(dict(version.lanes or ()))
        late = _late_by_lane(builds)
        waiting = Counter[int]()
        for segment in self._log.segments.values():
            if segment.seq <= through.get(segment.lane, 0):
                waiting[segment.lane] += self._unbuilt([segment])
        for lane, logged in sorted(own.items()):
            if logged != held[lane] + late[lane] + waiting[lane]:
                yield Violation(
                    _BALANCE,
                    f"lane {lane} logged {logged:,} events up to commit {through.get(lane, 0)}; windows hold "
                    f"{held[lane]:,} of them, {late[lane]:,} are late and {waiting[lane]:,} wait",
                )

    def _kept_from(self, lane: int) -> int:
        """Number of the lane's first commit whose segment must be there: of an ended lane all go once they
        are built."""
        first = self._log.kept_from(lane)
        return max(first, self.built_to(lane) + 1) if lane in self._log.ended else first

    def _plan_to(self, through: Mapping[int, int] | None) -> None:
        """Plan the log up to the commits `through` (lane -> commit); None: all of it."""
        segments = [
            one
            for one in self._log.segments.values()
            if through is None or one.seq <= through.get(one.lane, 0)
        ]
        self._loose.name(segments)
        self._plan.reset(segments)

    def _difference(self, version: BuiltWindow) -> Iterator[Violation]:
        """Yield a violation for each lane of which the plan has another number of events in the window than
        its version, unless a segment that it was built from was deleted by age."""
        since, through = dict(version.since), dict(version.through)
        if version.late or any(first < self._kept_from(lane) for lane, first in since.items()):
            return
        own = self._of_window(version.start_ns)
        if any(self._read_again.get(one.place, 0) > through.get(one.lane, 0) for one in own):
            return  # restored from Kafka since then, perhaps with fewer events: to be built again
        if self._is_renamed and version in self._outdated:
            return
        logged = Counter[int]()
        for segment in own:
            if segment.seq <= through.get(segment.lane, 0):
                logged[segment.lane] += segment.rows_of[version.start_ns]
        name = Window(version.start_ns, self._length_ns).name
        if version.lanes is None:
            if logged.total() != version.events:
                yield Violation(
                    _BALANCE,
                    f"window {name}: built from {version.events:,} events, the log has {logged.total():,}",
                )
            return
        built = dict(version.lanes)
        for lane in sorted({*logged, *built}):
            if logged[lane] != built.get(lane, 0):
                yield Violation(
                    _BALANCE,
                    f"window {name}: built from {built.get(lane, 0):,} events of lane {lane}, whose log has "
                    f"{logged[lane]:,} up to commit {through.get(lane, 0)}",
                )


def _segments_read_again(commits: Mapping[int, list[CommitRecord]]) -> dict[tuple[int, int, int], int]:
    """`LogSegment.place` of each segment that a repair wrote anew -> number of the repair's commit."""
    names: dict[tuple[int, int, int], str] = {}
    found: dict[tuple[int, int, int], int] = {}
    for lane, records in commits.items():
        for record in records:
            for segment in record.standing.segments if record.standing.logs else ():
                file = segment.name.rpartition("/")[2]
                place = lane, segment_seq(file) or 0, segment_part(file)
                if names.setdefault(place, segment.name) != segment.name:
                    names[place], found[place] = segment.name, record.seq
    return found


def _logged(commits: list[CommitRecord], to_seq: int) -> int:
    """Number of events that a lane's commits up to `to_seq` logged, without those lost since."""
    return sum(
        record.counters.events_logged - record.counters.events_lost
        for record in commits
        if record.standing.logs and record.seq <= to_seq
    )


def _late_by_lane(builds: list[CommitRecord]) -> Counter[int]:
    """Lane -> number of its events that build commits stored under `late/`."""
    late = Counter[int]()
    for record in builds:
        for item in record.publish:
            place = origin(item.final.rpartition("/")[2])
            if item.table == "late" and place is not None:
                late[place[2]] += item.rows
    return late


def _build(record: CommitRecord) -> Build:
    assert record.build is not None
    return record.build
