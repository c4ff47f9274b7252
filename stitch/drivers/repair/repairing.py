"""Build windows again that late events belong to, now, instead of when it is time."""

from __future__ import annotations

from dataclasses import dataclass

from stitch.drivers.build.build_settings import BuildSettings
from stitch.drivers.build.builder import Builder, Step
from stitch.drivers.build.log_view import LogView
from stitch.drivers.live.young_segments import YoungSegments
from stitch.lake.manifest import open_manifest
from stitch.lake.upkeep.upkeep_lane import UpkeepRun
from stitch.scratch import Scratch


@dataclass(frozen=True, slots=True)
class Repaired:
    """Result of a run of repair, or of a dry run."""

    windows: int
    """Windows built again, or that would be."""
    events: int
    """Events in them; 0 for a dry run."""
    late: int
    """Events that were stored as late: of windows whose log is gone."""
    removed: int
    """Files removed from the store: replaced for longer than the grace."""


def repair(run: UpkeepRun, scratch: Scratch, *, dry_run: bool = False) -> Repaired:
    """Build every window again that has late events, or whose log was damaged and read again; sweep what went
    before.

    Raises LakeError, CommitTakenError (another builder was at work: run it again), OSError: what was
    committed before stands.
    """
    manifest = open_manifest(run.store, run.lake)
    if dry_run:
        view = LogView(run.store, manifest, YoungSegments(0), is_inside=True)
        return Repaired(len(view.dirty()), 0, 0, 0)
    builder = Builder(run.store, run, scratch, BuildSettings())
    total = Step()
    while (done := builder.step(run.now_ns, urgent=True)).did_anything:
        total = total.and_(done)
    return Repaired(total.again, total.events, total.late, builder.sweep(run.now_ns))
