"""Fold late events into flows, in a new generation of the windows that change: `flowdiff repair`.

A commit of the upkeep lane takes flows out of windows and puts those in that the kernel makes of all events,
moves the late events that this settles from `late/` to `repaired/`, and writes those that wait anew. All of
it is in one record, so a reader sees a request before the repair or after it. What was settled stays under
`repaired/` for the next late event of the same request. A run makes one commit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.commits import Counters, Generation, Repair, Replaced, WindowChange
from schemas.events import concat_events, with_text_ids
from schemas.rejects import rejects_table
from schemas.windows import Window
from stitch.drivers.refusals import KERNEL_SOURCE
from stitch.drivers.repair.kept_events import kept_segments, lane_settings, read_kept, related
from stitch.drivers.repair.mending import Bounds, LateOutcome, Mended, mend
from stitch.lake.chain import read_tail
from stitch.lake.known import KnownRequests
from stitch.lake.late_events import late_files, read_events
from stitch.lake.manifest import LakeFile, Manifest, open_manifest
from stitch.lake.store import Store
from stitch.lake.upkeep.compaction import Edit, behind_pending, rewrite, settle_published
from stitch.lake.upkeep.hidden import UPKEEP_LANE, upkeep_of
from stitch.lake.upkeep.upkeep_lane import UpkeepLane, UpkeepRun
from stitch.lake.windowing import flow_names, merged_structures, starts_of


@dataclass(frozen=True, slots=True)
class Repaired:
    """What a run of repair did, or would do."""

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
        # After opening: what another upkeep does now takes our number.
        manifest = open_manifest(store, run.lake)
        settle_published(store)
    mended = [*_mended(store, manifest, finished=finished)]
    windows = _windows(mended, manifest.info.window_length_ns)
    if lane is not None and any(part.settled.any() or part.dropped.any() for part in mended):
        _commit(run, lane, manifest, mended, windows)
    return Repaired(
        requests=sum(part.requests for part in mended),
        windows=len(windows),
        events=Counter(LateOutcome(v) for part in mended for v in part.verdict[~part.aged].tolist()),
        aged=sum(int(np.count_nonzero(part.aged)) for part in mended),
        removed=0 if lane is None else lane.sweep(run.sweep_ns),
    )


def _mended(store: Store, manifest: Manifest, *, finished: bool) -> list[Mended]:
    settled = late_files(manifest, "repaired")
    found: list[Mended] = []
    unsure = behind_pending(manifest) - {None}
    late_to_ns = upkeep_of(read_tail(store, UPKEEP_LANE).standing).late_to_ns
    for lane, files in late_files(manifest, "late").items():
        settings = lane_settings(store, lane)
        late = read_events(manifest, files)
        kept = _kept(store, manifest, lane, late, settled.get(lane, []))
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
    store: Store, manifest: Manifest, lane: int, late: pa.Table, repaired: Sequence[LakeFile]
) -> pa.Table:
    """Return what there still is of the requests of late events: in segments, and of late events folded
    before."""
    segments = kept_segments(store, lane, dict(manifest.heads).get(lane, 0))
    return related(
        late,
        lambda: chain(read_kept(store, segments), (read_events(manifest, [file]) for file in repaired)),
    )


def _commit(
    run: UpkeepRun, lane: UpkeepLane, manifest: Manifest, mended: Sequence[Mended], windows: Sequence[Window]
) -> None:
    """Write windows anew, and say what becomes of all late events."""
    files = manifest.by_window(windows)
    structures = merged_structures([part.structures for part in mended])
    changed, emptied, flows = [], [], 0
    through = lane.all_of(manifest)
    with lane.stage() as staging:
        for window, own in files.items():
            done = rewrite(run.store, manifest, staging, window, own, _edit(mended, window, structures))
            flows += done.flows
            if not done.flows:
                emptied.append(window.name)
            if done.flows_more or done.params_more:
                changed.append(
                    WindowChange(window=window.name, flows=done.flows_more, params=done.params_more)
                )
        for number in sorted({part.lane for part in mended}):
            of_lane = [part for part in mended if part.lane == number]
            waiting = [part.late.filter(pa.array(~part.settled & ~part.dropped)) for part in of_lane]
            settled = [part.late.filter(pa.array(part.settled)) for part in of_lane]
            staging.add_side("late", number, with_text_ids(concat_events(waiting)))
            staging.add_side("repaired", number, with_text_ids(concat_events(settled)))
        rejects = [reject for part in mended for reject in part.rejects]
        if rejects:
            staging.add_side("dead_letters", 0, rejects_table(rejects, KERNEL_SOURCE, [0]))
        generation = Generation(seq=lane.seq, at_ns=run.now_ns, through=through, emptied=tuple(emptied))
        lane.commit(
            staging,
            counters=Counters(flows=flows, rejects=Counter(reject.reason.value for reject in rejects)),
            repair=Repair(
                changed=tuple(changed),
                late=sum(part.late.num_rows for part in mended),
                expired=sum(int(np.count_nonzero(part.dropped)) for part in mended),
                events=sum(int(np.count_nonzero(part.settled)) for part in mended),
                requests=sum(part.requests for part in mended),
            ),
            generation=generation if files else None,
            replaced=[Replaced(seq=lane.seq, at_ns=run.now_ns, table="late", through=through)],
        )
    lane.set_aside(file for own in files.values() for file in own)
    heads = dict(through)
    lane.set_aside(file for file in manifest.files("late") if file.seq <= heads.get(file.lane, 0))


def _edit(mended: Sequence[Mended], window: Window, structures: pa.Table) -> Edit:
    """Return what leaves a window and what comes; structures: of all that was mended."""
    flows = [_inside(part.flows, window) for part in mended]
    params = [
        part.params.filter(pc.is_in(flow_names(part.params), flow_names(own)))
        for part, own in zip(mended, flows, strict=True)
    ]
    return Edit(
        gone=pa.concat_tables(_inside(part.gone, window) for part in mended)
        .select(["request_id", "kind", "lane"])
        .combine_chunks(),
        flows=pa.concat_tables(flows).unify_dictionaries().combine_chunks(),
        structures=structures,
        params=pa.concat_tables(params).unify_dictionaries().combine_chunks(),
    )


def _inside(flows: pa.Table, window: Window) -> pa.Table:
    """Flows that start in a window."""
    start_ns = flows["start_ns"].to_numpy()
    return flows.filter(pa.array((start_ns >= window.start_ns) & (start_ns < window.end_ns)))


def _windows(mended: Sequence[Mended], length_ns: int) -> list[Window]:
    """Windows that change, in order of time."""
    starts = [starts_of(flows["start_ns"], length_ns) for part in mended for flows in (part.gone, part.flows)]
    return [Window(start, length_ns) for start in sorted({at for own in starts for at in own.tolist()})]
