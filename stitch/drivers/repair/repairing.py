"""Rebuild all windows that have late events now, without waiting for `rebuild_ns`."""

from __future__ import annotations

from dataclasses import dataclass

from stitch.drivers.build.build_settings import BuildSettings
from stitch.drivers.build.builder import Builder, Step
from stitch.drivers.build.log_view import LogView
from stitch.drivers.ending import lanes_of_partitions
from stitch.drivers.live.lane_settings import lane_settings
from stitch.drivers.live.live_settings import LiveSettings
from stitch.drivers.live.young_segments import YoungSegments
from stitch.lake.manifest import open_manifest
from stitch.lake.upkeep.upkeep_lane import UpkeepRun
from stitch.scratch import Scratch


@dataclass(frozen=True, slots=True)
class Repaired:
    """Counts of a run of `flowdiff repair`, or of its dry run."""

    windows: int
    """Number of windows rebuilt, or to be rebuilt in a dry run."""
    events: int
    """Number of events in all windows that were rebuilt; 0 in a dry run."""
    late: int
    """Number of events stored as late, because the log from which their windows were built is gone."""
    removed: int
    """Number of files deleted, which had been replaced longer ago than the grace period."""


def repair(run: UpkeepRun, scratch: Scratch, *, dry_run: bool = False) -> Repaired:
    """Rebuild every window that has late events, or whose damaged log was restored, and delete files whose
    grace period is over.

    If another writer commits first, as a live builder may, it plans again. Raises LakeError,
    CommitTakenError (others were always first: run it again), OSError; windows committed before stay rebuilt.
    """
    manifest = open_manifest(run.store, run.lake)
    if dry_run:
        view = LogView(run.store, manifest, YoungSegments(0), is_inside=True)
        return Repaired(len(view.dirty()), 0, 0, 0)
    live = next(
        (lane_settings(run.store, each.lane) for each in lanes_of_partitions(run.store)), LiveSettings()
    )
    # A window that ingestion waits for is not built before its time.
    settings = BuildSettings(linger_ns=live.linger_ns, patience_ns=live.patience_ns)
    total = Step()

    def attempt() -> int:
        nonlocal total
        builder = Builder(run.store, run, scratch, settings)
        while (done := builder.step(run.now_ns, urgent=True)).did_anything:
            total = total.and_(done)
        return builder.sweep(run.now_ns)

    removed = run.retry(attempt)
    return Repaired(total.again, total.events, total.late, removed)
