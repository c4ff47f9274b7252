"""Retire windows above a maximum age: readers no longer see them, and their files are deleted after a grace
period.

Late events and dead letters belong to no window. They are retired by the time at which the store wrote their
file, as commits and dead letters have no event time; events are older than their file. Reports, if a maximum
age is given, are deleted immediately, as no reader keeps one open.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow.compute as pc

from schemas.commits import CommitBody, Replaced, Retirement, Standing
from stitch.lake.chain import read_records, read_tail
from stitch.lake.event_log import open_index, sweep_segments
from stitch.lake.lane import FILE_LANE, Lane
from stitch.lake.layout import REPORTS, SIDE_TABLES, LakeInfo, SideTable, report_folders, sweep_drafts
from stitch.lake.manifest import Manifest, WindowEntry, open_manifest
from stitch.lake.store import Store
from stitch.lake.upkeep.hidden import UPKEEP_LANE, read_hidden, upkeep_of
from stitch.lake.upkeep.upkeep_lane import UpkeepLane, UpkeepRun, swept


@dataclass(frozen=True, slots=True)
class Retired:
    """Result of a run of `flowdiff retain`, or of its dry run."""

    to_ns: int | None
    """Windows that end at or before this time, ns since the epoch, are retired by this run; None: it retires
    none."""
    windows: tuple[WindowEntry, ...]
    """Windows retired by this run, in order of time."""
    removed: int
    """Number of files and folders deleted from the store, because they had been hidden for longer than the
    grace period."""
    held_back: int
    """Number of windows above the maximum age that stay because they are not sealed."""
    sides: tuple[AgedSide, ...] = ()
    """Late events, repaired events and dead letters hidden by this run."""
    reports: tuple[str, ...] = ()
    """Names of the folders of reports that this run deleted."""


def retire(
    run: UpkeepRun,
    *,
    keep_ns: int,
    keep_late_ns: int | None = None,
    keep_reports_ns: int | None = None,
    dry_run: bool = False,
) -> Retired:
    """Retire windows that ended `keep_ns` ago or earlier, and delete files whose grace period is over.

    Windows that are not sealed stay, as a live lane may still publish events in them.

    keep_late_ns: maximum age, by time of writing, of files of late events, repaired events and dead letters;
    None: `keep_ns`. A repair that rewrites waiting late events resets their time of writing, so the next
    repair drops waiting events whose event time is past the age. keep_reports_ns: maximum age of reports;
    None: all stay. Drafts of dead writers are deleted after the grace period.

    If another writer commits first, as a live builder may, it tries again. Raises LakeError, CommitTakenError
    (others were always first: run it again), OSError.
    """
    store, now_ns, manifest = run.store, run.now_ns, open_manifest(run.store, run.lake)
    wanted_ns = now_ns - keep_ns
    old = [entry for entry in manifest.windows() if entry.window.end_ns <= wanted_ns]
    gone = tuple(entry for entry in old if entry.sealed)
    to_ns = max((entry.window.end_ns for entry in gone), default=None)
    held_back = len(old) - len(gone)
    late_limit_ns = now_ns - (keep_ns if keep_late_ns is None else keep_late_ns)
    sides = tuple(_aged_sides(store, manifest, late_limit_ns))
    late_to_ns = late_limit_ns if _has_waiting(manifest) else None
    reports = () if keep_reports_ns is None else tuple(_aged_reports(store, now_ns - keep_reports_ns))
    if dry_run:
        hidden = read_hidden(store, manifest.info.window_length_ns, until_ns=run.sweep_ns)
        return Retired(to_ns, gone, len(swept(store, hidden)), held_back, sides, reports)
    removed = 0
    said = (to_ns, late_to_ns) != (None, None) or bool(sides)

    def attempt() -> int:
        lane = UpkeepLane(run, manifest.info)
        if said:
            with lane.stage() as staging:
                lane.commit(
                    staging,
                    retirement=None if to_ns is None else Retirement(to_ns=to_ns, at_ns=now_ns),
                    replaced=[
                        Replaced(seq=lane.seq, at_ns=now_ns, table=side.table, through=side.through)
                        for side in sides
                    ],
                    late_to_ns=late_to_ns,
                )
        return lane.sweep(run.sweep_ns)

    if said or manifest.has_upkeep:
        removed = run.retry(attempt)
    removed += run.retry(lambda: _release_kept_events(run, manifest.info))
    for report in reports:
        store.remove(report)
    sweep_drafts(store, run.sweep_ns)
    return Retired(to_ns, gone, removed, held_back, sides, reports)


def _release_kept_events(run: UpkeepRun, info: LakeInfo) -> int:
    """Delete the log segments of the oldest imports that kept their events, as far as all their windows are
    retired and built; returns the number of segments.

    A commit of the lane of files says first what is no longer retained. Raises LakeError, OSError.
    """
    store = run.store
    standing = read_tail(store, FILE_LANE).standing
    upkeep = upkeep_of(read_tail(store, UPKEEP_LANE).standing)
    built_to = dict(upkeep.built_to).get(FILE_LANE, 0)
    if not standing.logs or standing.kept_from is None or not upkeep.retired:
        return 0
    first = kept_from = standing.kept_from
    for link in read_records(store, FILE_LANE, range(first, built_to + 1)):
        own = [open_index(store, one) for one in link.record.standing.segments]
        if any(opened.last_ns >= upkeep.retired[-1].to_ns for opened in own):
            break
        kept_from = link.record.seq + 1
    if kept_from > first:
        lane = Lane(store, info, owner=run.owner, created_by=run.created_by)
        with lane.stage() as staging:
            lane.commit(staging, CommitBody(kind="import", standing=Standing(kept_from=kept_from)))
    # Without a commit too: an earlier run may have ended between its commit and this.
    return sweep_segments(store, FILE_LANE, kept_from - 1, ())


@dataclass(frozen=True, slots=True)
class AgedSide:
    """Files, past the maximum age, of a table without windows (late or repaired events, dead letters)."""

    table: SideTable
    through: tuple[tuple[int, int], ...]
    """(lane number, commit number), ascending: the lane's files up to this commit are past the maximum
    age."""
    files: int
    """Number of files past the maximum age."""
    rows: int
    """Number of rows in the files past the maximum age."""


def _aged_sides(store: Store, manifest: Manifest, limit_ns: int) -> list[AgedSide]:
    """Files of tables without windows that were written at or before `limit_ns`, as far as all earlier files
    of their lane were too.

    Files of commits after the lane's published head are excluded. O(files of the tables).
    """
    heads = dict(manifest.heads)
    found = []
    for table in SIDE_TABLES:
        listed = manifest.of_table(table)
        if not listed.num_rows:
            continue
        written = store.written(table)
        young: dict[int, int] = {}
        rows = [
            (int(row["lane"]), int(row["seq"]), row["name"].rpartition("/")[2], int(row["rows"]))
            for row in manifest.listed.whole(listed).to_pylist()
        ]
        for lane, seq, name, _ in rows:
            if written.get(name, limit_ns + 1) > limit_ns or seq > heads[lane]:
                young[lane] = min(seq, young.get(lane, seq))
        old = [(lane, seq, n) for lane, seq, _, n in rows if lane not in young or seq < young[lane]]
        if old:
            through = {lane: max(seq for each, seq, _ in old if each == lane) for lane, _, _ in old}
            found.append(AgedSide(table, tuple(sorted(through.items())), len(old), sum(n for *_, n in old)))
    return found


def _has_waiting(manifest: Manifest) -> bool:
    """True if the upkeep lane has files of late events: a repair has rewritten events that still wait."""
    return bool(pc.any(pc.equal(manifest.of_table("late")["lane"], UPKEEP_LANE)).as_py())


def _aged_reports(store: Store, limit_ns: int) -> list[str]:
    """Names of the folders of reports in which all files were written at or before `limit_ns`."""
    found = []
    for report in report_folders(store.names(REPORTS)):
        written = store.written(f"{REPORTS}/{report}")
        if written and max(written.values()) <= limit_ns:
            found.append(f"{REPORTS}/{report}")
    return found
