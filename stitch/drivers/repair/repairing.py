"""Fold late events into flows, in a new generation of the windows that change: `flowdiff repair`.

A commit of the upkeep lane takes flows out of windows and puts those in that the kernel makes of all events,
moves the late events that this settles from `late/` to `repaired/`, and writes those that wait anew. All of
it is in one record, so a reader sees a request before the repair or after it. What was settled stays under
`repaired/` for the next late event of the same request. A commit takes so many windows, and all of a unit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.arrays import B1, I8
from schemas.commits import Counters, Generation, Repair, Replaced, Segment, WindowChange
from schemas.events import concat_events, with_text_ids
from schemas.rejects import REJECT_SCHEMA, Reason, rejects_table
from schemas.windows import Window
from stitch.drivers.refusals import KERNEL_SOURCE
from stitch.drivers.repair.kept_events import Kept, kept_segments, lane_settings, read_kept, related
from stitch.drivers.repair.mending import Bounds, LateOutcome, Mended, mend
from stitch.kernel import reject_rows
from stitch.lake.chain import read_tail
from stitch.lake.known import KnownRequests
from stitch.lake.late_events import late_files, read_events
from stitch.lake.manifest import LakeFile, Manifest, open_manifest
from stitch.lake.store import Store
from stitch.lake.upkeep.compaction import (
    WINDOWS_A_COMMIT,
    Edit,
    behind_pending,
    rewrite,
    settle_published,
)
from stitch.lake.upkeep.hidden import UPKEEP_LANE, upkeep_of
from stitch.lake.upkeep.upkeep_lane import UpkeepLane, UpkeepRun
from stitch.lake.windowing import flow_names, merged_structures

_STUCK: Final = (LateOutcome.LOST, LateOutcome.SPLIT, LateOutcome.RETIRED)
"""Outcomes that waiting does not change."""


@dataclass(frozen=True, slots=True)
class Repaired:
    """Result of a run of repair, or of a dry run."""

    requests: int
    """Units stitched anew whose flows changed."""
    windows: int
    """Written anew."""
    events: dict[LateOutcome, int]
    """Late events by what became of them; verdicts that occur. Without those past their age."""
    aged: int
    """Late events that could not be folded in and are dropped: past their age (`flowdiff retain`)."""
    removed: int
    """Files removed from the store: replaced for longer than the grace."""
    lost_segments: tuple[str, ...] = ()
    """Missing files of events that lanes with late events retain: their requests count as not kept."""


def repair(run: UpkeepRun, *, finished: bool = False, dry_run: bool = False) -> Repaired:
    """Fold late events into the windows they belong to, and sweep what went before.

    finished: nothing is being ingested, so requests need not rest for `stitch.max_age` before they are taken
    for whole. Memory: the late events of the lake with all that is kept of their requests, and the files of a
    window. Raises LakeError, CommitTakenError (another upkeep ran: run it again), OSError: what was committed
    before stands.
    """
    store, manifest = run.store, open_manifest(run.store, run.lake)
    lane = None
    if not dry_run and (manifest.has_upkeep or late_files(manifest, "late")):
        lane = UpkeepLane(run, manifest.info)
        manifest = open_manifest(
            store, run.lake
        )  # after opening: what another upkeep does now takes our number
        settle_published(store)
    kept = _segments(store, manifest)
    mended = _mended(store, manifest, kept, finished=finished)
    events = Counter(
        LateOutcome(verdict)
        for part in mended
        for verdict in part.verdict[part.late_unit][~_past_age(part)].tolist()
    )
    requests = sum(int(np.count_nonzero(part.verdict == LateOutcome.FOLDED)) for part in mended)
    aged = sum(int(np.count_nonzero(_past_age(part))) for part in mended)
    lost = tuple(segment.name for own in kept.values() for segment in own.lost)
    summary = Repaired(requests, 0, events, aged, 0, lost)
    todo = _shares(mended, manifest.info.window_length_ns)
    if lane is None:
        return replace(summary, windows=len({window for share in todo for window in share.windows}))
    through = manifest.heads
    windows = 0
    for number, share in enumerate(todo):
        if number:
            manifest = open_manifest(store, run.lake)
        _commit(run, lane, manifest, share, through)
        windows += len(share.windows)
    return replace(summary, windows=windows, removed=lane.sweep(run.sweep_ns))


def _segments(store: Store, manifest: Manifest) -> dict[int, Kept]:
    """Kept segments of lanes with late events."""
    heads = dict(manifest.heads)
    return {lane: kept_segments(store, lane, heads.get(lane, 0)) for lane in late_files(manifest, "late")}


def _mended(
    store: Store, manifest: Manifest, segments: Mapping[int, Kept], *, finished: bool
) -> list[Mended]:
    settled = late_files(manifest, "repaired")
    found: list[Mended] = []
    unsure = behind_pending(manifest) - {None}
    late_to_ns = upkeep_of(read_tail(store, UPKEEP_LANE).standing).late_to_ns
    for lane, files in late_files(manifest, "late").items():
        settings = lane_settings(store, lane)
        late = read_events(manifest, files)
        kept = _kept(store, manifest, segments[lane].segments, late, settled.get(lane, []))
        max_age_ns = settings.stitch.max_age_ns
        reach_ns = max(manifest.info.window_length_ns, 2 * max_age_ns)
        bounds = Bounds(
            length_ns=manifest.info.window_length_ns,
            reach_ns=reach_ns,
            open_ns=0 if finished else max_age_ns,
            sealed_to_ns=manifest.sealed_to_ns,
            retired_to_ns=manifest.retired_to_ns,
            unsure=np.array(sorted(start for start in unsure if start is not None), dtype=np.int64),
            late_to_ns=late_to_ns,
        )
        stored = partial(_stored, manifest, reach_ns)
        found += mend(lane, late, kept, stored, settings.stitch, settings.params_share, bounds)
    return found


def _stored(manifest: Manifest, reach_ns: int, ts_ns: pa.ChunkedArray, request_ids: pa.Array) -> pa.Table:
    return KnownRequests(manifest, ts_ns, reach_ns).flows(request_ids)


def _kept(
    store: Store,
    manifest: Manifest,
    segments: Sequence[Segment],
    late: pa.Table,
    repaired: Sequence[LakeFile],
) -> pa.Table:
    """Stored events of the requests of late ones: from segments, and from late events folded in before."""
    return related(
        late,
        lambda wants: chain(
            read_kept(store, segments, wants), (read_events(manifest, [file]) for file in repaired)
        ),
    )


def _commit(
    run: UpkeepRun,
    lane: UpkeepLane,
    manifest: Manifest,
    share: Share,
    late_through: tuple[tuple[int, int], ...],
) -> None:
    """Make one commit: some windows, and what becomes of all late events."""
    files = manifest.by_window(Window(start, manifest.info.window_length_ns) for start in share.windows)
    changed, emptied, flows = [], [], 0
    with lane.stage() as staging:
        for window, own in files.items():
            done = rewrite(run.store, manifest, staging, window, own, share.edit(window))
            flows += done.flows
            if not done.flows:
                emptied.append(window.name)
            if done.flows_more or done.params_more:
                changed.append(
                    WindowChange(window=window.name, flows=done.flows_more, params=done.params_more)
                )
        for number, waiting, settled in share.late():
            staging.add_side("late", number, waiting)
            staging.add_side("repaired", number, settled)
        letters = share.letters(KERNEL_SOURCE)
        staging.add_side("dead_letters", 0, letters)
        through = {**dict(late_through), UPKEEP_LANE: lane.seq - 1}
        generation = Generation(
            seq=lane.seq, at_ns=run.now_ns, through=lane.all_of(manifest), emptied=tuple(emptied)
        )
        reasons = letters["reason"].cast(pa.string()).value_counts().to_pylist()
        lane.commit(
            staging,
            counters=Counters(flows=flows, rejects={each["values"]: each["counts"] for each in reasons}),
            repair=Repair(
                changed=tuple(changed),
                late=share.n_late,
                expired=share.n_expired,
                events=share.n_settled,
                requests=share.n_requests,
            ),
            generation=generation if files else None,
            replaced=[
                Replaced(seq=lane.seq, at_ns=run.now_ns, table="late", through=tuple(sorted(through.items())))
            ],
        )
    lane.set_aside(file for own in files.values() for file in own)
    lane.set_aside(file for file in manifest.files("late") if file.seq <= through.get(file.lane, 0))


@dataclass(frozen=True, slots=True, eq=False)
class Share:
    """Work of one commit; the shares before it are done."""

    mended: Sequence[Mended]
    group: Sequence[I8]
    """Arrays of `mended`, one each: [units] the share that settles them; -1: none does."""
    number: int
    length_ns: int
    windows: tuple[int, ...]
    """Starts of those that change, ascending."""
    structures: pa.Table
    """Structures of all that was mended, each category once."""

    def _mine(self, place: int, unit: I8) -> B1:
        """[rows] of units that this commit settles, by the unit of each."""
        mine: B1 = self.group[place][unit] == self.number
        return mine

    @property
    def n_late(self) -> int:
        """Late events that no share before this one settled."""
        return sum(int(np.count_nonzero(left)) for left in self._left())

    @property
    def n_settled(self) -> int:
        """Late events that this one settles."""
        return sum(
            int(np.count_nonzero(self._mine(place, part.late_unit))) for place, part in enumerate(self.mended)
        )

    @property
    def n_expired(self) -> int:
        """Late events that this one drops: the first one drops all."""
        return 0 if self.number else sum(int(np.count_nonzero(_gone(part))) for part in self.mended)

    @property
    def n_requests(self) -> int:
        """Units whose flows change."""
        return sum(
            int(np.count_nonzero((own == self.number) & (part.verdict == LateOutcome.FOLDED)))
            for part, own in zip(self.mended, self.group, strict=True)
        )

    def _left(self) -> Iterator[B1]:
        for part, own in zip(self.mended, self.group, strict=True):
            settled_by = np.where(_gone(part), 0, own[part.late_unit])
            yield (settled_by < 0) | (settled_by >= self.number)

    def edit(self, window: Window) -> Edit:
        """Return what leaves a window and what comes."""
        gone, flows, params = [], [], []
        for place, part in enumerate(self.mended):
            inside = _starts(part.gone, self.length_ns) == window.start_ns
            gone.append(part.gone.filter(pa.array(inside & self._mine(place, part.gone_unit))))
            inside = _starts(part.flows, self.length_ns) == window.start_ns
            own = part.flows.filter(pa.array(inside & self._mine(place, part.flow_unit)))
            flows.append(own)
            params.append(part.params.filter(pc.is_in(flow_names(part.params), flow_names(own))))
        return Edit(
            gone=pa.concat_tables(gone).select(["request_id", "kind", "lane"]).combine_chunks(),
            flows=pa.concat_tables(flows).unify_dictionaries().combine_chunks(),
            structures=self.structures,
            params=pa.concat_tables(params).unify_dictionaries().combine_chunks(),
        )

    def late(self) -> Iterator[tuple[int, pa.Table, pa.Table]]:
        """`(lane, events that wait, events settled)`, a lane once, TEXT_EVENT_SCHEMA."""
        left = [*self._left()]
        for lane in sorted({part.lane for part in self.mended}):
            waiting, settled = [], []
            for place, part in enumerate(self.mended):
                if part.lane == lane:
                    mine = self._mine(place, part.late_unit)
                    waiting.append(part.late.filter(pa.array(left[place] & ~mine & ~_gone(part))))
                    settled.append(part.late.filter(pa.array(mine)))
            yield lane, with_text_ids(concat_events(waiting)), with_text_ids(concat_events(settled))

    def letters(self, source: str) -> pa.Table:
        """REJECT_SCHEMA: dead letters of what is settled."""
        rejects = []
        for place, part in enumerate(self.mended):
            for reason, events, unit in (
                (Reason.CONFLICT, part.conflicts, part.conflict_unit),
                (Reason.BAD_TIME, part.timeless, part.timeless_unit),
            ):
                rejects += reject_rows(events, np.flatnonzero(self._mine(place, unit)), reason)
        return rejects_table(rejects, source, [0]) if rejects else REJECT_SCHEMA.empty_table()


def _shares(mended: Sequence[Mended], length_ns: int) -> list[Share]:
    """The commits that settle what can be settled; empty where nothing can."""
    firsts = [_first_windows(part, length_ns) for part in mended]
    folded = [part.verdict == LateOutcome.FOLDED for part in mended]
    same = [part.verdict == LateOutcome.SAME for part in mended]
    none = np.zeros(0, dtype=np.int64)
    starts = np.unique(np.concatenate([none, *(f[own] for f, own in zip(firsts, folded, strict=True))]))
    if not len(starts) and not any(own.any() for own in (*same, *map(_gone, mended))):
        return []
    group = []
    for first, own, copies in zip(firsts, folded, same, strict=True):
        # Of windows in which a unit begins: those that it moves out of or into come on top.
        place = np.searchsorted(starts, first) // WINDOWS_A_COMMIT
        group.append(np.where(own, place, np.where(copies, 0, -1)))
    structures = merged_structures([part.structures for part in mended])
    return [
        Share(mended, group, number, length_ns, _windows(mended, group, number, length_ns), structures)
        for number in range(max(1, -(-len(starts) // WINDOWS_A_COMMIT)))
    ]


def _past_age(part: Mended) -> B1:
    """[late] dropped: they cannot be folded in, and `flowdiff retain` keeps late events no longer."""
    gone: B1 = part.aged & np.isin(part.verdict[part.late_unit], _STUCK)
    return gone


def _gone(part: Mended) -> B1:
    """[late] dropped: nothing of the lake is so old, or they are past the age of late events."""
    gone: B1 = _past_age(part) | (part.expired & (part.verdict[part.late_unit] == LateOutcome.RETIRED))
    return gone


def _windows(mended: Sequence[Mended], group: Sequence[I8], number: int, length_ns: int) -> tuple[int, ...]:
    found = [np.zeros(0, dtype=np.int64)]
    for part, own in zip(mended, group, strict=True):
        for flows, unit in ((part.gone, part.gone_unit), (part.flows, part.flow_unit)):
            found.append(_starts(flows, length_ns)[own[unit] == number])
    return tuple(np.unique(np.concatenate(found)).tolist())


def _first_windows(part: Mended, length_ns: int) -> I8:
    """[units] start of the first window that changes; 0 where none does."""
    first = np.full(len(part.verdict), np.iinfo(np.int64).max)
    for flows, unit in ((part.gone, part.gone_unit), (part.flows, part.flow_unit)):
        np.minimum.at(first, unit, _starts(flows, length_ns))
    return np.where(part.verdict == LateOutcome.FOLDED, first, 0)


def _starts(flows: pa.Table, length_ns: int) -> I8:
    starts: I8 = flows["start_ns"].to_numpy() // length_ns * length_ns
    return starts
