"""Retention: windows past their age leave the lake at once for readers, and the disk after a grace.

So do late events and dead letters. Reports go at once, where that is asked for: no reader holds one open.
"""

from __future__ import annotations

from dataclasses import dataclass

from schemas.commits import Replaced, Retirement
from stitch.lake.aging import AgedSide, aged_reports, aged_sides, has_waiting
from stitch.lake.manifest import WindowEntry, open_manifest
from stitch.lake.store import Store
from stitch.lake.sweeping import swept
from stitch.lake.upkeep import read_hidden
from stitch.lake.upkeep_lane import UpkeepLane


@dataclass(frozen=True, slots=True)
class Retired:
    """What a run of retention did, or would do."""

    to_ns: int | None
    """Windows that end there or before leave the lake; None: this run retires none."""
    windows: tuple[WindowEntry, ...]
    """Retired by this run, in order of time."""
    removed: int
    """Files and folders removed from the store: hidden for longer than the grace."""
    held_back: int
    """Windows past their age that stay, as they are not sealed."""
    sides: tuple[AgedSide, ...] = ()
    """Late events, those of repairs, dead letters: taken out by this run."""
    reports: tuple[str, ...] = ()
    """Folders of reports removed by this run."""


def retire(
    store: Store,
    lake: str,
    *,
    keep_ns: int,
    keep_late_ns: int | None = None,
    keep_reports_ns: int | None = None,
    grace_ns: int,
    now_ns: int,
    owner: str,
    created_by: str,
    dry_run: bool = False,
) -> Retired:
    """Retire windows that ended `keep_ns` before `now_ns` or earlier, and sweep what went `grace_ns` ago.

    Windows that are not sealed stay: a live lane may still publish into them. keep_late_ns: late events,
    those of repairs and dead letters, by when they were written; None: as windows. Of late events that a
    repair wrote anew, as they waited, nobody knows any more when they came: the next repair lets those go
    whose own time is past the age. keep_reports_ns: None
    keeps all. On a disk the caller holds `exclusive_lock`. Raises LakeError, CommitTakenError (another upkeep
    ran: run it again), OSError.
    """
    manifest = open_manifest(store, lake)
    wanted_ns = now_ns - keep_ns
    old = [entry for entry in manifest.windows() if entry.window.end_ns <= wanted_ns]
    gone = tuple(entry for entry in old if entry.sealed)
    to_ns = max((entry.window.end_ns for entry in gone), default=None)
    held_back = len(old) - len(gone)
    late_limit_ns = now_ns - (keep_ns if keep_late_ns is None else keep_late_ns)
    sides = tuple(aged_sides(store, manifest, late_limit_ns))
    late_to_ns = late_limit_ns if has_waiting(manifest) else None
    reports = () if keep_reports_ns is None else tuple(aged_reports(store, now_ns - keep_reports_ns))
    if dry_run:
        hidden = read_hidden(store, manifest.info.window_length_ns, until_ns=now_ns - grace_ns)
        return Retired(to_ns, gone, len(swept(store, hidden)), held_back, sides, reports)
    removed = 0
    said = (to_ns, late_to_ns) != (None, None) or bool(sides)
    if said or manifest.has_upkeep:
        lane = UpkeepLane(store, manifest.info, owner=owner, created_by=created_by)
        if said:
            lane.retire(
                None if to_ns is None else Retirement(to_ns=to_ns, at_ns=now_ns),
                [
                    Replaced(seq=lane.seq, at_ns=now_ns, table=side.table, through=side.through)
                    for side in sides
                ],
                grace_ns,
                late_to_ns,
            )
        removed = lane.sweep(now_ns - grace_ns)
    for report in reports:
        store.remove(report)
    return Retired(to_ns, gone, removed, held_back, sides, reports)
