"""Build windows from the log of a lake into another one: plan, build each as a function of the log, commit.

Nothing here is state. Whoever opens a `Builder` reads the indexes of the log and what commits of the second
lake say of their versions. A window whose digest is not that of its version is built again, whole; one that
was built from a segment that is gone is *frozen*: it keeps its version, and what comes of it is late.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.arrays import I8, U8
from schemas.commits import Build, BuiltWindow, Counters
from schemas.config import StitchConfig
from schemas.errors import LakeError
from schemas.events import concat_events, with_text_ids
from schemas.windows import Window
from stitch.closing import COMPLETENESS_COLUMNS, NEVER, complete_requests
from stitch.drivers.build.build_settings import BuildSettings
from stitch.drivers.build.log_follower import LogFollower, LogSegment, UnreadableSegmentError
from stitch.drivers.build.loose_records import LooseRecords
from stitch.drivers.build.request_plan import Planned, PlannedWindow, RequestPlan, among
from stitch.drivers.live.keys import flow_keys, request_keys
from stitch.drivers.live.live_settings import recorded_settings
from stitch.drivers.partition import shared_params
from stitch.drivers.spill import EventSpill
from stitch.kernel import stitch
from stitch.lake.chain import lanes, read_record, read_tail, taken
from stitch.lake.manifest import LakeFile, open_manifest
from stitch.lake.staging import Staging
from stitch.lake.store import Store
from stitch.lake.upkeep.hidden import UPKEEP_LANE
from stitch.lake.upkeep.upkeep_lane import Built, UpkeepLane, UpkeepRun
from stitch.lake.windowing import cut
from stitch.structures import StructureMemo

_NO_KEYS: Final = np.zeros(0, np.uint64)


@dataclass(frozen=True, slots=True)
class Step:
    """Result of one step of a builder."""

    built: int = 0
    """Windows built for the first time."""
    again: int = 0
    """Windows built again, as more came."""
    late: int = 0
    """Events of frozen windows, stored as late."""
    events: int = 0
    """Events of the windows that were built."""
    missing: int = 0
    """Events that no segment of the log held any more, or ever did."""

    def and_(self, other: Step) -> Step:
        """Sum of two results."""
        return Step(
            self.built + other.built,
            self.again + other.again,
            self.late + other.late,
            self.events + other.events,
            self.missing + other.missing,
        )

    @property
    def did_anything(self) -> bool:
        """True if a window was built, late events were stored, or some were found to be missing."""
        return bool(self.built or self.again or self.late or self.missing)


def _refuse_other_lanes(run: UpkeepRun) -> None:
    """Raises LakeError where a lake has more than what is built: a version replaces all that its window has."""
    if others := [lane for lane in lanes(run.store) if lane != UPKEEP_LANE]:
        raise LakeError(
            f"'{run.lake}' has commits of lane {others[0]}: imported files, or live ingestion.",
            remedy="Build into a lake of its own.",
        )


class Builder:
    """Builds the windows of one lake into another. Used by one thread.

    Raises LakeError, OSError; CommitTakenError where another builder committed: open a new one.
    """

    def __init__(self, source: Store, run: UpkeepRun, scratch: Path, settings: BuildSettings) -> None:
        """source: the lake with the log; run: the lake that is built, locked by the caller on a disk; scratch:
        folder for windows that go by way of the disk.
        """
        self._run = run
        self._settings = settings
        self._scratch = scratch
        _refuse_other_lanes(run)
        manifest = open_manifest(run.store, run.lake)
        self._length_ns = manifest.info.window_length_ns
        self._retired_to_ns = manifest.retired_to_ns
        self._lane = UpkeepLane(run, manifest.info)  # finishes what the last builder committed
        self._log = LogFollower(source)
        self._plan = RequestPlan(self._length_ns)
        self._loose = LooseRecords(lambda one, columns: self._log.open(one, columns).read())
        self._memo = StructureMemo(settings.remembered)
        self._versions: dict[int, BuiltWindow] = {}
        """Start -> built window, as commits say, of windows that the log may hold events of."""
        self._built_at_ns: dict[int, int | None] = {}
        """Start -> watermark when it was built; None: there was none any more."""
        self._frozen_keys: dict[int, U8] = {}
        """Start of a frozen window -> requests of its version, ascending."""
        manifest = open_manifest(run.store, run.lake)
        flows = manifest.of_table("flows")
        built = flows.filter(pc.equal(flows["lane"], UPKEEP_LANE))
        self._old_windows = frozenset(built["window_ns"].to_pylist())
        tail = read_tail(run.store, UPKEEP_LANE)
        self._sealed_to_ns = tail.standing.sealed_to_ns
        self._learn(tail.head)

    # -- what is known -----------------------------------------------------------------------------------------

    def _learn(self, head: int) -> None:
        """Read what commits say of versions, newest first, until none can be of what the log still holds."""
        last: Build | None = None
        for seq in range(head, 0, -1):
            build = read_record(self._run.store, UPKEEP_LANE, seq).record.build
            if build is None:
                continue
            if last is None:
                last = build
                self._follow(dict(build.through))
            for window in build.windows:
                if window.start_ns not in self._versions:
                    self._versions[window.start_ns] = window
                    self._built_at_ns[window.start_ns] = build.watermark_ns
            if all(last < self._log.first(lane) for lane, last in build.through):
                break
        for window in self._versions.values():
            self._plan.move({int(key, 16): start_ns for key, start_ns in window.moved})
        if last is not None and last.waiting is not None:
            try:
                self._log.missing += max(0, last.waiting - self._unbuilt_at(dict(last.through)))
            except UnreadableSegmentError:
                self._follow()

    def _unbuilt_at(self, through: Mapping[int, int]) -> int:
        """Number of events up to some commits that no version has, as planned when nothing after them was read."""
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
        """Read what came to the log; known: the commits of lanes that were read for the last build."""
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
        self._log.missing += self._unbuilt([one for one in left if (one.lane, one.seq) not in self._log.segments])
        segments = [*self._log.segments.values()]
        if self._loose.name(segments) or left:
            self._plan.reset(segments)
        else:
            self._plan.add(fresh)

    def _unbuilt(self, segments: list[LogSegment]) -> int:
        """Number of planned events of some segments which neither a version has nor late events."""
        if not segments:
            return 0
        starts = self._starts_ns()
        total = 0
        for segment in segments:
            of_entry = starts[np.searchsorted(self._plan.requests["key"], segment.entries["key"])]
            for start in np.unique(of_entry[of_entry != NEVER]).tolist():
                version = self._versions.get(start)
                if version is None or dict(version.through).get(segment.lane, 0) < segment.seq:
                    total += int(segment.entries["rows"][of_entry == start].sum())
        return total

    def _starts_ns(self) -> I8:
        """[planned requests] start of the window of each; of one that a frozen window has, of that."""
        starts = self._plan.starts_ns()
        keys, of_key = self._frozen()
        known = among(keys, self._plan.requests["key"])
        starts[known] = of_key[np.searchsorted(keys, self._plan.requests["key"][known])]
        return starts

    def _is_frozen(self, start_ns: int) -> bool:
        """True if a window has a version that cannot be made again, as a segment that it needs is gone, or is
        retired.
        """
        if self._retired_to_ns is not None and start_ns + self._length_ns <= self._retired_to_ns:
            return True
        version = self._versions.get(start_ns)
        if version is None:
            return start_ns in self._old_windows
        return any(since < self._log.start(lane) for lane, since in version.since)

    def _frozen(self) -> tuple[U8, I8]:
        """(Requests of frozen windows that may still go on, ascending; start of the window of each)."""
        first = self._plan.requests["first_ns"]
        known = first[first != NEVER]
        if not len(known):
            return _NO_KEYS, np.zeros(0, np.int64)
        # A flow lasts no longer, as live lanes close it.
        since_ns = int(known.min()) - self._stitch.max_age_ns
        starts = {start for start in {*self._old_windows, *self._versions} if start + self._length_ns > since_ns}
        frozen = {start for start in starts if self._is_frozen(start)}
        self._frozen_keys = {start: own for start, own in self._frozen_keys.items() if start in frozen}
        if unread := frozen - {*self._frozen_keys}:
            manifest = open_manifest(self._run.store, self._run.lake)
            windows = [Window(start, self._length_ns) for start in sorted(unread)]
            for window, files in manifest.by_window(windows).items():
                tables = [
                    flow_keys(manifest.decoded(file, ["request_id", "kind"])) for file in files if file.table == "flows"
                ]
                self._frozen_keys[window.start_ns] = np.unique(np.concatenate([_NO_KEYS, *tables]))
        keys = np.concatenate([_NO_KEYS, *self._frozen_keys.values()])
        of_key = np.repeat(
            np.array([*self._frozen_keys], np.int64), [len(own) for own in self._frozen_keys.values()]
        )
        order = np.argsort(keys, kind="stable")
        return keys[order], of_key[order]

    @property
    def _stitch(self) -> StitchConfig:
        return recorded_settings(self._log.config).stitch

    # -- plan ------------------------------------------------------------------------------------------------

    def step(self, now_ns: int, *, finished: bool = False, urgent: bool = False) -> Step:
        """Follow the log, build some of what can be built, and commit it at a time.

        finished: nothing more is to come, all is built. urgent: windows with late events are built again now.
        """
        while True:
            try:
                return self._step(now_ns, finished=finished, urgent=urgent)
            except UnreadableSegmentError:  # swept just now, or lost: it is planned without
                continue

    def _step(self, now_ns: int, *, finished: bool, urgent: bool) -> Step:
        self._follow()
        finished = finished or self._log.over
        water = None if finished else self._log.watermark_ns
        late, settled = self._late()
        windows = {window.start_ns: window for window in self._plan.windows(settled)}
        first, seal = self._first(windows, water, finished=finished)
        again = self._again(windows, water, urgent=urgent or finished)
        again = again[: self._settings.windows_per_commit - len(first)]
        if not (first or again or late or self._log.missing or seal != self._sealed_to_ns):
            return Step()
        try:
            return self._commit(windows, first, again, late, seal, water, now_ns)
        except FileNotFoundError as error:  # the stage was swept by a builder that thought us dead
            raise taken(UPKEEP_LANE, self._lane.seq) from error

    def sweep(self, now_ns: int) -> int:
        """Delete files replaced longer than the grace ago; returns their number."""
        return self._lane.sweep(now_ns - self._run.grace_ns)

    def _late(self) -> tuple[dict[int, Planned], U8]:
        """(Start of a frozen window -> requests of the log that belong to it, all of these, ascending)."""
        requests = self._plan.requests
        starts = self._starts_ns()
        distinct, code = np.unique(starts, return_inverse=True)
        frozen = np.array([start != NEVER and self._is_frozen(start) for start in distinct.tolist()], np.bool_)
        bound = frozen[code] if len(code) else np.zeros(0, np.bool_)
        if not bound.any():
            return {}, _NO_KEYS
        late = {}
        for start in np.unique(starts[bound]).tolist():
            own = requests[bound & (starts == start)]
            if any(True for _ in self._unsettled(start, own["key"])):
                late[start] = own
        return late, requests["key"][bound]

    def _unsettled(self, start_ns: int, keys: U8) -> Iterator[LogSegment]:
        """Segments later than a frozen window's last build, with events of the requests `keys`."""
        version = self._versions.get(start_ns)
        through = {} if version is None else dict(version.through)
        for (lane, seq), segment in sorted(self._log.segments.items()):
            if seq > through.get(lane, 0) and among(keys, segment.entries["key"]).any():
                yield segment

    def _first(
        self, windows: Mapping[int, PlannedWindow], water: int | None, *, finished: bool
    ) -> tuple[list[int], int | None]:
        """(Windows to be built for the first time, ascending; end of the windows that are all built then)."""
        waiting = [start for start in sorted(windows) if start not in self._versions]
        found: list[int] = []
        for start in waiting[: self._settings.windows_per_commit]:
            if not finished and not self._is_over(windows[start], water):
                break
            found.append(start)
        ends = [start + self._length_ns for start in found]
        if water is not None and (found or self._versions):
            ends.append(min([water // self._length_ns * self._length_ns, *waiting[len(found) :][:1]]))
        if self._sealed_to_ns is not None:
            ends.append(self._sealed_to_ns)
        return found, max(ends, default=None)

    def _is_over(self, window: PlannedWindow, water: int | None) -> bool:
        """True once the watermark passed a window, and its requests are quiet, or complete, or patience ends."""
        end = window.start_ns + self._length_ns
        if water is None or water < end:
            return False
        if water >= end + self._settings.patience_ns:
            return True
        going = window.requests[window.requests["last_ns"] > water - self._stitch.idle_ns]
        if not len(going):
            return True
        if (going["last_ns"] > water - self._settings.linger_ns).any():
            return False
        parts = [(table, key) for _, table, key in self._rows(going, ["request_id", *COMPLETENESS_COLUMNS])]
        events = pa.concat_tables([table for table, _ in parts]).combine_chunks()
        code = np.searchsorted(going["key"], np.concatenate([key for _, key in parts]))
        return bool(complete_requests(code, len(going), events).all())

    def _again(self, windows: Mapping[int, PlannedWindow], water: int | None, *, urgent: bool) -> list[int]:
        """Windows of which the log holds something else than their version, ascending, once it is time."""
        found = []
        for start, version in sorted(self._versions.items()):
            if self._is_frozen(start) or self._digest(windows.get(start)) == version.digest:
                continue
            built_at = self._built_at_ns[start]
            waited = water is None or built_at is None or water - built_at >= self._settings.rebuild_ns
            rows = windows[start].rows if start in windows else 0
            if urgent or waited or abs(rows - version.events) > self._settings.rebuild_share * version.events:
                found.append(start)
        return found

    @staticmethod
    def _digest(window: PlannedWindow | None) -> str:
        return "" if window is None else window.digest

    # -- build -------------------------------------------------------------------------------------------------

    def _rows(
        self, requests: Planned, columns: list[str] | None = None
    ) -> Iterator[tuple[LogSegment, pa.Table, U8]]:
        """`(segment, events, request of each)` of some requests (ascending), some columns or all."""
        keys = requests["key"]
        timed = requests[requests["first_ns"] != NEVER]
        span = (int(timed["first_ns"].min()), int(timed["last_ns"].max())) if len(timed) else (-NEVER, NEVER)
        for _, segment in sorted(self._log.segments.items()):
            if not among(keys, segment.entries["key"]).any():
                continue
            opened, at = self._log.open(segment, columns), 0
            # Records without an id are known by their place among all of them.
            for table in opened.batches(*(span if not segment.n_loose else (-NEVER, NEVER))):
                key, loose = request_keys(table)
                if loose is not None and loose.any():
                    n = int(np.count_nonzero(loose))
                    key[loose] = segment.loose_key[at : at + n]
                    at += n
                kept = among(keys, key)
                if kept.all():
                    yield segment, table, key
                elif kept.any():
                    yield segment, table.filter(pa.array(kept)), key[kept]

    def _groups(self, window: PlannedWindow, since: dict[int, int]) -> Iterator[pa.Table]:
        """Events of a window in groups of whole requests that the budget is enough for: one, or dealt by way of
        the disk. Into `since` goes the first segment of each lane that has some.
        """
        at_once = window.rows <= self._settings.rows_at_once
        held: list[pa.Table] = []
        spill = EventSpill(self._scratch / f"{window.start_ns:d}", self._settings.payload_bytes)
        for segment, table, _ in self._rows(window.requests):
            since.setdefault(segment.lane, segment.seq)
            (held.append if at_once else spill.add)(table)
        if at_once and held:
            yield concat_events(held)
        for group in spill.groups():
            yield group.load()
            group.forget()

    def _stage(
        self, staging: Staging, window: PlannedWindow, tally: Counter[str], first_part: int = 0
    ) -> BuiltWindow:
        """Build a window onto a stage: nothing but the log's events of its requests decides."""
        lake_window = Window(window.start_ns, self._length_ns)
        settings = recorded_settings(self._log.config)
        since: dict[int, int] = {}
        own: Counter[str] = Counter()
        moved: dict[int, int] = {}
        part = first_part
        for part, events in enumerate(self._groups(window, since), start=first_part):
            made = stitch(events, settings.stitch, memo=self._memo)
            own.update(made.counts)
            own.update(f"reject {reject.reason.value}" for reject in made.rejects)
            params = shared_params(made.params, settings.params_share)
            for rows in cut(made.flows, made.structures, params, self._length_ns):
                if rows.window != lake_window:
                    moved |= dict.fromkeys(flow_keys(rows.flows).tolist(), rows.window.start_ns)
                    continue
                staging.add_window("flows", lake_window, part, rows.flows)
                staging.add_window("structures", lake_window, part, rows.structures)
                staging.add_window("params", lake_window, part, rows.params)
        if moved:  # these requests are of other windows: this one is built without them
            self._plan.move(moved)
            staging.drop_window(lake_window)
            gone = np.array(sorted(moved), np.uint64)
            rest = window.requests[~among(gone, window.requests["key"])]
            return self._stage(staging, PlannedWindow(window.start_ns, rest), tally, part + 1)
        tally.update(own)
        return BuiltWindow(
            start_ns=window.start_ns,
            version=1,
            digest=window.digest if len(window.requests) else "",
            through=tuple(self._log.through.items()),
            since=tuple(sorted(since.items())),
            events=own["events"],
            duplicates=own["duplicates"],
            rejected=own["rejected"],
            moved=tuple((f"{key:016x}", to) for key, to in sorted(self._plan.moved_from(window.start_ns).items())),
        )

    # -- commit --------------------------------------------------------------------------------------------------

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
        through = tuple(self._log.through.items())
        manifest = open_manifest(self._run.store, self._run.lake)
        before = manifest.by_window(Window(start, self._length_ns) for start in again)
        said: list[BuiltWindow] = []
        tally: Counter[str] = Counter()
        emptied: set[int] = set()
        replaced: list[LakeFile] = []
        with self._lane.stage() as staging:
            for start in [*first, *again]:
                empty = PlannedWindow(start, self._plan.requests[:0])
                made = self._stage(staging, windows.get(start, empty), tally)
                if start in self._versions:
                    own = before[at := Window(start, self._length_ns)]
                    version = self._versions[start]
                    if staging.hashes(at) == sorted(file.sha256 for file in own):
                        staging.drop_window(at)  # readers need not know
                        made = made.model_copy(update={"version": version.version, "late": version.late})
                    else:
                        emptied |= set() if staging.hashes(at) else {start}
                        replaced += own
                        made = made.model_copy(update={"version": version.version + 1, "late": version.late})
                said.append(made)
            n_late = self._stage_late(staging, late, said)
            n_rejected = tally["rejected"]
            counters = Counters(
                events_read=tally["events"] + n_late,
                events_published=tally["events"] - tally["duplicates"] - n_rejected,
                events_duplicate=tally["duplicates"],
                events_rejected=n_rejected,
                events_late=n_late,
                flows=sum(item.rows for item in staging.items() if item.table == "flows"),
                rejects={
                    name.removeprefix("reject "): n for name, n in sorted(tally.items()) if name.startswith("reject ")
                },
                rejects_not_kept=n_rejected,
            )
            build = Build(
                through=through,
                watermark_ns=water,
                missing=self._log.missing,
                waiting=self._waiting(windows, said),
                windows=tuple(sorted(said, key=lambda window: window.start_ns)),
            )
            built = Built(build, frozenset(emptied), seal, now_ns)
            seq, missing = self._lane.seq, self._log.missing
            try:
                self._lane.commit(staging, counters=counters, built=built)
            finally:
                if self._lane.seq > seq:  # it stands, published or not
                    self._versions |= {window.start_ns: window for window in said}
                    self._built_at_ns |= dict.fromkeys((window.start_ns for window in said), water)
                    self._sealed_to_ns = seal
                    self._log.missing = 0
        self._lane.set_aside(replaced)
        return Step(len(first), len(again), n_late, tally["events"], missing)

    def _waiting(self, windows: Mapping[int, PlannedWindow], said: list[BuiltWindow]) -> int:
        """Number of events that no version has, once these windows are built."""
        versions = {**self._versions, **{window.start_ns: window for window in said}}
        total = 0
        for start, window in windows.items():
            version = versions.get(start)
            if version is None:
                total += window.rows
            elif version.digest != window.digest:
                through, keys = dict(version.through), window.requests["key"]
                for (lane, seq), segment in self._log.segments.items():
                    if seq > through.get(lane, 0):
                        entries = segment.entries
                        total += int(entries["rows"][among(keys, entries["key"])].sum())
        return total

    def _stage_late(
        self, staging: Staging, late: Mapping[int, Planned], said: list[BuiltWindow]
    ) -> int:
        """Stage late events of frozen windows, and say that they are accounted for; returns their number."""
        of_lane: dict[int, list[pa.Table]] = {}
        everything = tuple((lane, 0) for lane in self._log.through)
        total = 0
        for start, requests in late.items():
            unsettled = {id(segment) for segment in self._unsettled(start, requests["key"])}
            n = 0
            for segment, table, _ in self._rows(requests):
                if id(segment) in unsettled:
                    of_lane.setdefault(segment.lane, []).append(concat_events([table]))
                    n += table.num_rows
            version = self._versions.get(start) or BuiltWindow(
                start_ns=start, version=0, digest="", through=(), since=everything, events=0
            )
            update = {"through": tuple(self._log.through.items()), "late": version.late + n}
            said.append(version.model_copy(update=update))
            total += n
        for lane, tables in sorted(of_lane.items()):
            staging.add_side("late", lane, with_text_ids(concat_events(tables)))
        return total
