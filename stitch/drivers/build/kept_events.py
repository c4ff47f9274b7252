"""Build the windows of events that imports kept in the log, in the process of the import."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

from stitch.drivers.build.build_settings import BuildSettings
from stitch.drivers.build.builder import Builder, Step
from stitch.drivers.live.election import Election, tries
from stitch.lake.upkeep.upkeep_lane import UpkeepRun
from stitch.scratch import Scratch


@dataclass(frozen=True, slots=True)
class KeptBuild:
    """Result of building the windows of kept events."""

    windows: int
    """Number of windows built, or built again."""
    waiting: int
    """Number of windows that wait: for the watermark of live lanes, or for the process that builds."""
    events: int
    """Number of events in the windows that were built."""
    flows: int
    """Number of flows in them, of windows whose files changed."""
    late: int
    """Number of events stored as late, as the log of their window is gone."""
    is_elsewhere: bool
    """True if another process builds the windows of the lake, and nothing was built here."""


def build_kept(run: UpkeepRun, scratch: Scratch, settings: BuildSettings, election: Election) -> KeptBuild:
    """Build every window whose log is ahead of it and that need not wait for live lanes, unless another
    process was elected to build. Whether that process lives is known after `election.patience_s` only.

    Raises LakeError, CommitTakenError (others always committed first: run it again), OSError; windows
    committed before stay built.
    """
    with ExitStack() as held:
        if not any(election.take(held) for _ in tries(election)):
            return KeptBuild(0, 0, 0, 0, 0, is_elsewhere=True)
        total, waiting, n_flows = Step(), 0, 0

        def attempt() -> None:
            nonlocal total, waiting, n_flows
            builder = Builder(run.store, run, scratch, settings)
            before = builder.last
            while (done := builder.step(run.now_ns, urgent=True)).did_anything:
                total = total.and_(done)
                if builder.last is not None and builder.last is not before:
                    n_flows, before = n_flows + builder.last.counters.flows, builder.last
            waiting = builder.n_unbuilt

        run.retry(attempt)
        n_windows = total.built + total.again
        return KeptBuild(n_windows, waiting, total.events, n_flows, total.late, is_elsewhere=False)
