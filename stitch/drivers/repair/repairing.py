"""`flowdiff repair`: late events become part of flows, in a new generation of the windows that change.

A commit of the upkeep lane takes flows out of windows and puts those in that the kernel makes of all
events, moves the late events that this settles from `late/` to `repaired/`, and writes those that wait anew.
All of it is in one record, so a reader sees a request before the repair or after it. What was settled stays
under `repaired/` for the next late event of the same request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import pyarrow as pa

from schemas.commits import CommitBody, Counters, Generation, Repair, Replaced, WindowChange
from schemas.windows import Window
from stitch.drivers.dead_letters import KERNEL_SOURCE
from stitch.drivers.repair.kept_events import kept_segments, read_kept, related
from stitch.drivers.repair.lane_settings import LaneSettings, lane_settings
from stitch.drivers.repair.mending import Bounds, Mended, Verdict, mend
from stitch.drivers.repair.settling import Share, past_age, shares
from stitch.lake.checkpoint import read_tail
from stitch.lake.known import KnownRequests
from stitch.lake.late_events import late_files, read_events
from stitch.lake.manifest import LakeFile, Manifest, open_manifest
from stitch.lake.store import Store
from stitch.lake.upkeep.hidden import UPKEEP_LANE, upkeep_of
from stitch.lake.upkeep.rewriting import behind_pending, by_window, rewrite, settle_published
from stitch.lake.upkeep.upkeep_lane import UpkeepLane


@dataclass(frozen=True, slots=True)
class Repaired:
    """What a run of repair did, or would do."""

    requests: int
    """Units stitched anew whose flows changed."""
    windows: int
    """Written anew."""
    events: dict[Verdict, int]
    """Late events by what became of them; verdicts that occur. Without those past their age."""
    aged: int
    """Late events that could not be folded in and are dropped: past their age (`flowdiff retain`)."""
    removed: int
    """Files removed from the store: replaced for longer than the grace."""


def repair(
    store: Store,
    lake: str,
    *,
    grace_ns: int,
    now_ns: int,
    owner: str,
    created_by: str,
    finished: bool = False,
    dry_run: bool = False,
) -> Repaired:
    """Fold late events into the windows they belong to, and sweep what went before.

    finished: nothing is being ingested, so requests need not rest for `stitch.max_age` before they are taken
    for whole. Memory: the late events of the lake with all that is kept of their requests, and the files of a
    window. On a disk the caller holds `exclusive_lock`. Raises LakeError, CommitTakenError (another upkeep
    ran: run it again), OSError: what was committed before stands.
    """
    manifest = open_manifest(store, lake)
    lane = None
    if not dry_run and (manifest.has_upkeep or late_files(manifest, "late")):
        lane = UpkeepLane(store, manifest.info, owner=owner, created_by=created_by)
        manifest = open_manifest(store, lake)  # after opening: what another upkeep does now takes our number
        settle_published(store)
    mended = [*_mended(store, manifest, finished=finished)]
    events = {verdict: sum(_count(part, verdict) for part in mended) for verdict in Verdict}
    requests = sum(int(np.count_nonzero(part.verdict == Verdict.FOLDED)) for part in mended)
    aged = sum(int(np.count_nonzero(past_age(part))) for part in mended)
    told = Repaired(requests, 0, {verdict: n for verdict, n in events.items() if n}, aged, 0)
    todo = shares(mended, manifest.info.window_length_ns)
    if lane is None:
        return replace(told, windows=len({window for share in todo for window in share.windows}))
    through = manifest.heads
    windows = 0
    for number, share in enumerate(todo):
        if number:
            manifest = open_manifest(store, lake)
        _commit(store, lane, manifest, share, through, now_ns, grace_ns)
        windows += len(share.windows)
    return replace(told, windows=windows, removed=lane.sweep(now_ns - grace_ns))


def _count(part: Mended, verdict: Verdict) -> int:
    return int(np.count_nonzero((part.verdict[part.late_unit] == verdict) & ~past_age(part)))


def _mended(store: Store, manifest: Manifest, *, finished: bool) -> list[Mended]:
    settled = late_files(manifest, "repaired")
    found: list[Mended] = []
    unsure = behind_pending(manifest) - {None}
    late_to_ns = upkeep_of(read_tail(store, UPKEEP_LANE)).late_to_ns
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
        found += _mend_lane(manifest, lane, late, kept, settings, bounds)
    return found


def _mend_lane(
    manifest: Manifest, lane: int, late: pa.Table, kept: pa.Table, settings: LaneSettings, bounds: Bounds
) -> list[Mended]:
    def stored(ts_ns: pa.ChunkedArray, request_ids: pa.Array) -> pa.Table:
        return KnownRequests(manifest, ts_ns, bounds.reach_ns).flows(request_ids)

    return [*mend(lane, late, kept, stored, settings.stitch, settings.params_share, bounds)]


def _kept(
    store: Store, manifest: Manifest, lane: int, late: pa.Table, repaired: Sequence[LakeFile]
) -> pa.Table:
    """What there still is of the requests of late events: in segments, and of late events folded before."""
    segments = kept_segments(store, lane, dict(manifest.heads).get(lane, 0))
    return related(
        late,
        lambda: chain(read_kept(store, segments), (read_events(manifest, [file]) for file in repaired)),
    )


def _commit(
    store: Store,
    lane: UpkeepLane,
    manifest: Manifest,
    share: Share,
    late_through: tuple[tuple[int, int], ...],
    now_ns: int,
    grace_ns: int,
) -> None:
    """One commit: some windows, and what becomes of all late events."""
    files = by_window(manifest, [Window(start, manifest.info.window_length_ns) for start in share.windows])
    changed, emptied, flows = [], [], 0
    with lane.stage() as staging:
        for window, own in files.items():
            done = rewrite(store, manifest, staging, window, own, share.edit(window))
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
            seq=lane.seq, at_ns=now_ns, through=lane.all_of(manifest), emptied=tuple(emptied)
        )
        reasons = letters["reason"].cast(pa.string()).value_counts().to_pylist()
        lane.repair(
            staging,
            CommitBody(
                kind="upkeep",
                counters=Counters(flows=flows, rejects={each["values"]: each["counts"] for each in reasons}),
                repair=Repair(
                    changed=tuple(changed),
                    late=share.n_late,
                    expired=share.n_expired,
                    events=share.n_settled,
                    requests=share.n_requests,
                ),
            ),
            generation if files else None,
            Replaced(seq=lane.seq, at_ns=now_ns, table="late", through=tuple(sorted(through.items()))),
            grace_ns,
        )
    lane.set_aside(file for own in files.values() for file in own)
    lane.set_aside(file for file in manifest.files("late") if file.seq <= through.get(file.lane, 0))
