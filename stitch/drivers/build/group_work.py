"""Build groups of requests: in this process, or by tasks in other processes while there is a backlog.

A task is data and its result depends on nothing else, so the files of a window have the same bytes whoever
builds its groups. Worker processes read the log themselves and return encoded files; they write nothing to
the lake, so one that is killed leaves nothing behind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from schemas.arrays import U8
from schemas.quality import Quality
from schemas.windows import Window
from stitch.closing import NEVER
from stitch.drivers.build.ahead import BuiltGroup
from stitch.drivers.build.build_settings import BuildSettings
from stitch.drivers.build.dealt_events import dealt_in_memory, dealt_on_disk, joined
from stitch.drivers.build.groups import Group
from stitch.drivers.build.large_requests import COLUMNS as CHOOSING_COLUMNS
from stitch.drivers.build.large_requests import LargeRequests
from stitch.drivers.build.log_follower import LogFollower, LogSegment
from stitch.drivers.build.request_plan import among
from stitch.drivers.build.segment_rows import SegmentRows
from stitch.drivers.live.keys import flow_keys
from stitch.drivers.live.live_settings import LiveSettings
from stitch.drivers.live.young_segments import YoungSegments
from stitch.drivers.partition import shared_params
from stitch.kernel import stitch
from stitch.lake.place import open_store
from stitch.lake.staging import EncodedFile, encoded_file
from stitch.lake.windowing import cut
from stitch.scratch import Scratch
from stitch.structures import StructureMemo

_MOST_ROWS: Final = 1_000_000
"""Maximum number of events in the groups of a task for another process, which returns the files of all of
them at once: about 20 bytes an event."""


BuiltAnd = tuple[BuiltGroup, dict[int, int]]
"""(Files and counts of a group; key of a request whose flow begins in another window -> start of that
window, ns)."""


@dataclass(frozen=True, eq=False, slots=True)
class GroupTask:
    """Groups of one window, with all that building them needs besides the log's segments."""

    groups: Sequence[Group]
    """At least one group, in order of time."""
    segments: list[LogSegment]
    """Segments that may contain events of the groups, ascending by lane and commit."""
    large: LargeRequests
    """Large requests among those of the groups."""
    running: U8
    """Keys, ascending, of the window's requests that have not ended."""
    settings: LiveSettings
    """Settings recorded by the log's lanes."""
    length_ns: int
    """Length of the window, ns."""
    lane: int
    """Number of the lane that the flows state as theirs."""

    def divided(self, n_rows: int, most_reads: float) -> list[GroupTask]:
        """Divide the task into tasks of consecutive groups with about `n_rows` events each, more where
        segments would be read for more than `most_reads` of the tasks in the mean; empty where that is too
        many for another process."""
        while True:
            n_rows = max(1, min(n_rows, _MOST_ROWS))
            number = (np.cumsum([group.within.rows for group in self.groups]) - 1) // n_rows
            cuts = (np.flatnonzero(np.diff(number)) + 1).tolist()
            bounds = zip([0, *cuts], [*cuts, len(self.groups)], strict=True)
            parts = [self._part(self.groups[low:high]) for low, high in bounds]
            read = sum(segment.file.rows for part in parts for segment in part.segments)
            if read <= most_reads * sum(segment.file.rows for segment in self.segments):
                return parts
            if n_rows == _MOST_ROWS:
                return []
            n_rows *= 2

    def _part(self, groups: Sequence[Group]) -> GroupTask:
        large = self.large.among(np.concatenate([group.within.keys for group in groups]))
        return GroupTask(
            groups,
            meeting(self.segments, groups),
            large,
            self.running,
            self.settings,
            self.length_ns,
            self.lane,
        )


def meeting(segments: Sequence[LogSegment], groups: Sequence[Group]) -> list[LogSegment]:
    """Segments whose times meet those of the groups; all if a request of the groups has no time."""
    first_ns = min(group.within.first_ns for group in groups)
    last_ns = max(group.within.last_ns for group in groups)
    is_timed = all((group.within.requests["first_ns"] != NEVER).all() for group in groups)
    return [one for one in segments if not is_timed or (one.first_ns <= last_ns and one.last_ns >= first_ns)]


class GroupBuilder:
    """Builds groups, one at a time. Used by one thread."""

    def __init__(self, rows: SegmentRows, scratch: Scratch, settings: BuildSettings) -> None:
        """scratch: folder for groups that are too large for memory together."""
        self._rows = rows
        self._scratch = scratch
        self._settings = settings
        self._memo = StructureMemo(settings.remembered)

    def build(self, task: GroupTask) -> Iterator[BuiltAnd]:
        """Yield what is built of each group, in order. Raises UnreadableSegmentError, OSError."""
        events, n_dropped = self._events(task), 0
        for group in task.groups:
            built, elsewhere = _built(task, group, next(events), self._memo)
            dropped, n_dropped = task.large.n_dropped - n_dropped, task.large.n_dropped
            counts = Counter(built.counts) + Counter(events=dropped, capped=dropped)
            yield replace(built, counts=counts), elsewhere

    def _events(self, task: GroupTask) -> Iterator[pa.Table]:
        """Yield the events of each group, without the excess events of large requests."""
        groups, segments, large = task.groups, task.segments, task.large
        requests = np.concatenate([group.within.requests for group in groups])
        group_of = np.repeat(np.arange(len(groups)), [len(group.rows) for group in groups])
        order = np.argsort(requests["key"], kind="stable")
        requests, group_of = requests[order], group_of[order]
        if len(large.requests):
            chosen_from = self._rows.of(segments, large.requests, CHOOSING_COLUMNS)
            large.choose((table, key) for _, table, key in chosen_from)
        young, unread = self._rows.young(segments) if len(groups) > 1 else ([], segments)
        if len(groups) == 1 or _reads(segments, unread, groups) <= self._settings.most_reads:
            dealt = dealt_in_memory(requests, group_of, len(groups), large.kept(young))
            for group, (_, events, key) in zip(groups, dealt, strict=True):
                own = self._rows.of(unread, group.within.requests)
                yield joined([(events, key), *large.kept((table, key) for _, table, key in own)])[0]
            return
        tables = large.kept((table, key) for _, table, key in self._rows.of(segments, requests))
        folder = self._scratch.folder / f"{groups[0].within.start_ns:d}"
        dealt = dealt_on_disk(requests, group_of, len(groups), tables, self._settings.rows_at_once, folder)
        yield from (events for _, events, _ in dealt)


def build_groups(lake: str, settings: BuildSettings, folder: Path, task: GroupTask) -> list[BuiltAnd]:
    """Build the groups of a task in a worker process, as `GroupBuilder.build`. lake: name of the lake with
    the log. folder: for temporary files."""
    return [*_builder(lake, settings, folder).build(task)]


@lru_cache(maxsize=1)
def _builder(lake: str, settings: BuildSettings, folder: Path) -> GroupBuilder:
    """Builder that all tasks in this process share, as it remembers structures."""
    rows = SegmentRows(LogFollower(open_store(lake)), YoungSegments(0))
    return GroupBuilder(rows, Scratch(folder), settings)


def _reads(segments: list[LogSegment], unread: list[LogSegment], groups: Sequence[Group]) -> float:
    """Mean number of times, by event, that segments are read if each group reads those of `unread` that its
    times meet."""
    first = np.array([segment.first_ns for segment in unread])
    last = np.array([segment.last_ns for segment in unread])
    rows = np.array([segment.file.rows for segment in unread])
    read = sum(
        int(rows[(first <= group.within.last_ns) & (last >= group.within.first_ns)].sum()) for group in groups
    )
    return read / max(1, sum(segment.file.rows for segment in segments))


def _built(task: GroupTask, group: Group, events: pa.Table, memo: StructureMemo) -> BuiltAnd:
    """Stitch a group and encode its files. events: of the group's requests."""
    window = Window(group.within.start_ns, task.length_ns)
    made = stitch(events, task.settings.stitch, lane=task.lane, memo=memo)
    counts = Counter(made.counts)
    counts.update(f"reject {reject.reason.value}" for reject in made.rejects)
    params = shared_params(made.params, task.settings.params_share)
    files: list[EncodedFile] = []
    elsewhere: dict[int, int] = {}
    for rows in cut(made.flows, made.structures, params, task.length_ns):
        if rows.window != window:
            elsewhere |= dict.fromkeys(flow_keys(rows.flows).tolist(), rows.window.start_ns)
            continue
        encoded = (
            encoded_file("flows", window, _flagged(rows.flows, task.running)),
            encoded_file("structures", window, rows.structures),
            encoded_file("params", window, rows.params),
        )
        files += [file for file in encoded if file is not None]
    return BuiltGroup(tuple(files), counts, made.rejects), elsewhere


def _flagged(flows: pa.Table, running: U8) -> pa.Table:
    """Set the quality flag INCOMPLETE on flows of running requests. running: request keys, ascending."""
    if not len(running):
        return flows
    at = flows.schema.get_field_index("quality")
    quality = flows["quality"].to_numpy().copy()
    quality[among(running, flow_keys(flows))] |= np.int32(Quality.INCOMPLETE)
    return flows.set_column(at, flows.schema.field(at), pa.array(quality))
