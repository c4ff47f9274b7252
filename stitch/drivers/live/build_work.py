"""A builder beside the lanes of a process: it makes windows of what all lanes of the lake log, in a thread
of its own.

Of several processes one builds. Which one is settled by an election, to save work; put-if-absent of commits
decides whatever the election says. A builder that finds its number taken opens anew, and plans from what is
there: nothing is lost by it. A stage that somebody else has written is left alone while it may be at work.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, wait
from contextlib import ExitStack
from typing import Final

from schemas.commits import CommitRecord
from schemas.errors import LakeError
from schemas.windows import NS_PER_MINUTE, NS_PER_SECOND
from stitch.drivers.build.build_settings import BuildSettings
from stitch.drivers.build.builder import Builder, Step
from stitch.drivers.live.build_status import BuildStatus
from stitch.drivers.live.election import Election
from stitch.drivers.live.live_settings import LiveSettings
from stitch.drivers.live.steady_clock import Clock
from stitch.drivers.live.young_segments import YoungSegments
from stitch.lake.chain import CommitTakenError, last_number, read_tail
from stitch.lake.layout import stage_lane_folder, staged_seq
from stitch.lake.store import Store
from stitch.lake.upkeep.hidden import UPKEEP_LANE
from stitch.lake.upkeep.upkeep_lane import UpkeepRun
from stitch.scratch import Scratch

STANDS_STILL_NS: Final = 10 * NS_PER_SECOND
"""Time for which a stage must not change until it counts as left behind by a process that is gone."""
FINISH_LOOK_S: Final = 0.2
"""Between two looks whether a process that builds is gone, at the end."""
LOOK_NS: Final = NS_PER_SECOND
"""Between two looks at the lanes of other processes, where ours committed nothing."""
RETRY_NS: Final = 5 * NS_PER_SECOND
"""Until a builder that failed is opened again."""
YOUNG_SHARE: Final = 4
"""Part of the memory budget in which segments stay whose windows are not built. A group of events that is
stitched takes a third of the budget, and lanes have the rest."""
GRACE_NS: Final = 60 * NS_PER_MINUTE
"""Files that were replaced stay for so long for readers that had begun."""


class BuildWork:
    """Builder of one process. Used by one thread; the work is done in another one."""

    def __init__(
        self,
        store: Store,
        lake: str,
        settings: LiveSettings,
        owner: str,
        created_by: str,
        clock: Clock,
        pool: Executor,
        election: Election,
        told: Callable[[CommitRecord, float], None],
    ) -> None:
        """told: gets each commit, in the thread that works."""
        self._store, self._lake, self._clock = store, lake, clock
        self._owner, self._created_by = owner, created_by
        self._pool, self._election, self._told = pool, election, told
        self._settings = BuildSettings().model_copy(
            update={
                "memory_bytes": settings.memory_bytes,
                "linger_ns": settings.linger_ns,
                "patience_ns": settings.patience_ns,
                "rebuild_ns": settings.rebuild_ns,
                "rebuild_share": settings.rebuild_share,
                "max_dead_letters_per_commit": settings.max_dead_letters_per_commit,
            }
        )
        self.young = YoungSegments(settings.memory_bytes // YOUNG_SHARE)
        self._builder: Builder | None = None
        self._held = ExitStack()
        self._is_elected = False
        self._scratch = Scratch()
        self._stops = threading.Event()
        self._work: Future[None] | None = None
        self._wakes_ns = 0
        self._swept_ns = 0
        self._stage: tuple[frozenset[str], int] = (frozenset(), 0)
        """Stages of others, and since when they are as they are."""
        self._status = BuildStatus()

    @property
    def status(self) -> BuildStatus:
        """Return where it stands, as of its last step."""
        return self._status

    def turn(self, *, committed: bool) -> None:
        """See to what was done, and let it go on where lanes committed or it is time."""
        if self._work is not None and self._work.done():
            work, self._work = self._work, None
            work.result()
        if self._work is None and (committed or self._clock().now_ns >= self._wakes_ns):
            self._work = self._pool.submit(self._go_on)

    def latest_ns(self) -> int | None:
        """Latest time of an event in the log, as far as a builder of this process read it; waits for its
        step.
        """
        self.rest()
        return None if self._builder is None else self._builder.latest_ns

    def stop(self) -> None:
        """Let it build no further window."""
        self._stops.set()

    def finish(self) -> None:
        """Build all that can be built, windows with late events too, unless another process does; waits for
        it. `status` says whether it could.
        """
        self.rest()
        until_s = time.monotonic() + self._election.patience_s
        self._go_on(urgent=True)
        while not self._is_elected and time.monotonic() < until_s:
            time.sleep(FINISH_LOOK_S)
            self._go_on(urgent=True)
        self._go_on(urgent=True)  # the number may be taken by another builder, once

    def rest(self) -> None:
        """Wait until it is done with its step."""
        if self._work is not None:
            wait([self._work])
            work, self._work = self._work, None
            work.result()

    def close(self) -> None:
        """End the thread, and let another process build."""
        self.rest()
        self._pool.shutdown()
        self._held.close()
        self._scratch.close()

    def _go_on(self, *, urgent: bool = False) -> None:
        """Build what can be built; urgent: as `Builder.step`."""
        now_ns = self._clock().now_ns
        self._wakes_ns = now_ns + LOOK_NS
        try:
            self._is_elected = self._is_elected or self._election.take(self._held)
            if not self._is_elected:
                self.young.clear()
                self._status = BuildStatus()
                return
            if self._builder is None:
                # At the end nobody is waited for: who builds is settled, and upkeep can be run again.
                if not urgent and self._others_build(now_ns):
                    return
                run = UpkeepRun(self._store, self._lake, now_ns, GRACE_NS, self._owner, self._created_by)
                self._builder = Builder(
                    self._store, run, self._scratch, self._settings, self.young, self._stops.is_set
                )
            while self._step(self._builder, now_ns, urgent=urgent).did_anything:
                if self._stops.is_set():
                    break
            if now_ns - self._swept_ns >= GRACE_NS:
                self._builder.sweep(now_ns)
                self._builder.sweep_ended()
                self._swept_ns = now_ns
        except CommitTakenError:  # a lease is over where its holder slept, a lock is taken again
            self._builder = None
            self._held.close()
            self._is_elected = False
        except (LakeError, OSError) as error:
            self._builder = None
            self._wakes_ns = now_ns + RETRY_NS
            why = (
                f"{error.message} {error.remedy}"
                if isinstance(error, LakeError)
                else str(error.strerror or error)
            )
            self._status = BuildStatus(builds=True, trouble=f"Windows cannot be built: {why}")
            return
        if self._builder is not None:
            self._status = BuildStatus(True, self._builder.n_waiting, self._builder.sealed_to_ns)

    def _step(self, builder: Builder, now_ns: int, *, urgent: bool) -> Step:
        began, before = time.monotonic(), builder.last
        step = builder.step(now_ns, urgent=urgent)
        if builder.last is not None and builder.last is not before:
            self._told(builder.last, time.monotonic() - began)
        return step

    def _others_build(self, now_ns: int) -> bool:
        """True if a stage for the coming commit may be that of a process at work: to open would sweep it."""
        head = last_number(self._store, UPKEEP_LANE, read_tail(self._store, UPKEEP_LANE).head)
        names = self._store.names(stage_lane_folder(UPKEEP_LANE))
        stages = frozenset(f"{head} {name}" for name in names if (staged_seq(name) or 0) > head)
        if stages != self._stage[0]:
            self._stage = stages, now_ns
        return bool(stages) and now_ns - self._stage[1] < STANDS_STILL_NS
