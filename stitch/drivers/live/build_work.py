"""Run the window builder of a live process in a thread of its own: it builds windows from the logs of all
lanes of the lake.

One of several processes builds. It is elected, to save work; correctness rests on put-if-absent of commits
alone. A builder whose commit number is taken is opened again and plans from the lake's state, so nothing is
lost. The staged files of another builder are left alone while that builder may still be running.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, wait
from contextlib import ExitStack
from dataclasses import replace
from typing import Final

from schemas.commits import CommitRecord
from schemas.errors import LakeError
from schemas.windows import NS_PER_SECOND
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

FINISH_LOOK_S: Final = 0.2
"""Time, s, between attempts at the end to find out that the process that builds is dead."""
LOOK_NS: Final = NS_PER_SECOND
"""Time, ns, between two polls for commits of other processes' lanes while lanes of this process commit
nothing."""


class BuildWork:
    """Window builder of one process. Methods are called by one thread; `pool` does the building."""

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
        """told: called in the building thread with each commit and the seconds it took."""
        self._store, self._lake, self._clock = store, lake, clock
        self._owner, self._created_by = owner, created_by
        self._pool, self._election, self._told = pool, election, told
        self._live = settings
        self._settings = BuildSettings().model_copy(
            update={
                "memory_bytes": settings.memory_bytes,
                "linger_ns": settings.linger_ns,
                "patience_ns": settings.patience_ns,
                "rebuild_ns": settings.rebuild_ns,
                "rebuild_share": settings.rebuild_share,
                "lateness_ns": settings.lateness_ns,
                "max_dead_letters_per_commit": settings.max_dead_letters_per_commit,
            }
        )
        self.young = YoungSegments(int(settings.young_share * settings.memory_bytes))
        self._builder: Builder | None = None
        self._held = ExitStack()
        self._is_elected = False
        self._scratch = Scratch()
        self._stops = threading.Event()
        self._work: Future[None] | None = None
        self._wakes_ns = 0
        self._swept_ns = 0
        self._stage: tuple[frozenset[str], int] = (frozenset(), 0)
        """(staged names of other builders, time in ns at which that set was first seen)."""
        self._status = BuildStatus()

    @property
    def status(self) -> BuildStatus:
        """State of the builder as of its last step."""
        return self._status

    def turn(self, *, committed: bool) -> None:
        """Start the next step if the last one is finished, and lanes committed or it is due.

        committed: True if a lane of this process committed since the last call. Raises the finished step's
        error.
        """
        if self._work is not None and self._work.done():
            work, self._work = self._work, None
            work.result()
        if self._work is None and (committed or self._clock().now_ns >= self._wakes_ns):
            self._work = self._pool.submit(self._go_on)

    def latest_ns(self) -> int | None:
        """Latest event time in the log, ns, as far as this process's builder read it; None without a builder.
        Waits for the current step.
        """
        self.rest()
        return None if self._builder is None else self._builder.latest_ns

    def stop(self) -> None:
        """End the current step before its next window."""
        self._stops.set()

    def finish(self) -> None:
        """Build every window that can be built, including those with late events, unless another process
        builds; wait until done. `status` has the reason if it failed.
        """
        self.rest()
        until_s = time.monotonic() + self._election.patience_s
        self._go_on(urgent=True)
        while not self._is_elected and time.monotonic() < until_s:
            time.sleep(FINISH_LOOK_S)
            self._go_on(urgent=True)
        self._go_on(urgent=True)  # the number may be taken by another builder, once

    def rest(self) -> None:
        """Wait until the current step is done."""
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
        """Take part in the election, build what can be built if elected, and update the status.

        urgent: as `Builder.step`.
        """
        now_ns = self._clock().now_ns
        self._wakes_ns = now_ns + LOOK_NS
        try:
            self._is_elected = self._is_elected or self._election.take(self._held)
            if not self._is_elected:
                self.young.clear()
                self._status = BuildStatus()
                return
            self._status = replace(self._status, builds=True)
            if self._builder is None:
                # At the end nobody is waited for: who builds is settled, and upkeep can be run again.
                if not urgent and self._others_build(now_ns):
                    return
                run = UpkeepRun(
                    self._store, self._lake, now_ns, self._live.build_grace_ns, self._owner, self._created_by
                )
                self._builder = Builder(
                    self._store, run, self._scratch, self._settings, self.young, self._stops.is_set
                )
            while self._step(self._builder, now_ns, urgent=urgent).did_anything:
                if self._stops.is_set():
                    break
            if now_ns - self._swept_ns >= self._live.build_grace_ns:
                self._builder.sweep(now_ns)
                self._builder.sweep_ended()
                self._swept_ns = now_ns
        except CommitTakenError:  # a lease is over where its holder slept, a lock is taken again
            self._builder = None
            self._held.close()
            self._is_elected = False
        except (LakeError, OSError) as error:
            self._builder = None
            self._swept_ns = 0  # a commit may stand whose replaced files were not renamed
            self._wakes_ns = now_ns + self._live.build_retry_ns
            why = (
                f"{error.message} {error.remedy}"
                if isinstance(error, LakeError)
                else str(error.strerror or error)
            )
            self._status = BuildStatus(builds=True, trouble=f"Windows cannot be built: {why}")
            return

    def _step(self, builder: Builder, now_ns: int, *, urgent: bool) -> Step:
        began, before = time.monotonic(), builder.last
        step = builder.step(now_ns, urgent=urgent)
        if builder.last is not None and builder.last is not before:
            self._told(builder.last, time.monotonic() - began)
        # A backlog takes many steps: it is seen to shrink.
        self._status = BuildStatus(True, builder.n_waiting, builder.sealed_to_ns)
        return step

    def _others_build(self, now_ns: int) -> bool:
        """True if staged files for the next commit may belong to a running builder: opening one here would
        delete them."""
        head = last_number(self._store, UPKEEP_LANE, read_tail(self._store, UPKEEP_LANE).head)
        names = self._store.names(stage_lane_folder(UPKEEP_LANE))
        stages = frozenset(f"{head} {name}" for name in names if (staged_seq(name) or 0) > head)
        if stages != self._stage[0]:
            self._stage = stages, now_ns
        return bool(stages) and now_ns - self._stage[1] < self._live.build_stage_ns
