"""Run the window builder of a live process, which builds windows from the logs of all lanes of the lake, in a
separate thread.

Several live processes elect one builder among them, to save work; correctness depends only on commits being
put-if-absent. A builder whose commit number another builder took is opened again and plans from the lake's
new state, so nothing is lost. The staged files of another builder are not deleted while that builder may
still be running.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, wait
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Final

from schemas.commits import CommitRecord
from schemas.errors import LakeError
from schemas.windows import NS_PER_SECOND
from stitch.drivers.build.build_settings import BuildSettings
from stitch.drivers.build.builder import Builder, Step
from stitch.drivers.live.build_status import BuildStatus
from stitch.drivers.live.election import Election, tries
from stitch.drivers.live.live_settings import LiveSettings
from stitch.drivers.live.steady_clock import Clock
from stitch.drivers.live.young_segments import YoungSegments
from stitch.lake.chain import CommitTakenError, last_number, read_tail
from stitch.lake.layout import stage_lane_folder, staged_seq
from stitch.lake.store import Store
from stitch.lake.upkeep.hidden import UPKEEP_LANE
from stitch.lake.upkeep.upkeep_lane import UpkeepRun
from stitch.scratch import Scratch

LOOK_NS: Final = NS_PER_SECOND
"""Interval, ns, at which the log is polled for commits of other processes' lanes while this process's lanes
commit nothing."""


class BuildWork:
    """Window builder of one process. One thread calls the methods; steps run in `pool`."""

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
        """told: called in the building thread with each commit of the builder and the commit's duration in
        s."""
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
                "workers": settings.build_workers,
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
        self._sweeps_ns = 0
        self._sweep_trouble: str | None = None
        self._n_failures = 0
        """Failures in a row."""
        self._stands_ns = 0
        """Time, ns, from which this process stands for election."""
        self._failed_at = 0
        """Last commit of the upkeep lane when this process gave building up: one after it is another's."""
        self._stage: tuple[frozenset[str], int] = (frozenset(), 0)
        """(names of files that other builders staged, time in ns since which this set has not changed)."""
        self._status = BuildStatus()

    @property
    def status(self) -> BuildStatus:
        """State of the builder after its last step."""
        return self._status

    def turn(self, *, committed: bool) -> None:
        """Start the builder's next step, unless one is running, if `committed` is True or the next poll of
        the log is due.

        committed: True if a lane of this process committed since the last call. Raises the error of the step
        that finished last.
        """
        if self._work is not None and self._work.done():
            work, self._work = self._work, None
            work.result()
        if self._work is None and (committed or self._clock().now_ns >= self._wakes_ns):
            self._work = self._pool.submit(self._go_on)

    def latest_ns(self) -> int | None:
        """Latest time of an event that this process's builder read from the log, ns; None without a builder.
        Waits for the running step."""
        self.rest()
        return None if self._builder is None else self._builder.latest_ns

    def stop(self) -> None:
        """Make the running step stop before it builds another window."""
        self._stops.set()

    def finish(self) -> None:
        """Build every window that can be built, also those with late events, and wait until this is done,
        unless another process is the builder. If building fails, `status.trouble` is the reason."""
        self.rest()
        for _ in tries(self._election):
            self._go_on(urgent=True)
            if self._is_elected:
                break
        self._go_on(urgent=True)  # the number may be taken by another builder, once

    def rest(self) -> None:
        """Wait for the running step, if there is one; raises its error."""
        if self._work is not None:
            wait([self._work])
            work, self._work = self._work, None
            work.result()

    def close(self) -> None:
        """Shut down the building thread and resign as the builder, so that another process can be elected."""
        self.rest()
        self._pool.shutdown()
        self._held.close()
        self._scratch.close()

    def _go_on(self, *, urgent: bool = False) -> None:
        """Run one step: take part in the election and, if elected, build every window that can be built;
        update the status.

        urgent: passed to `Builder.step`.
        """
        now_ns = self._clock().now_ns
        self._wakes_ns = now_ns + LOOK_NS
        try:
            if not self._stands(now_ns, urgent=urgent):
                return
            self._status = replace(self._status, builds=True, has_given_up=False)
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
        except CommitTakenError:  # a lease is over where its holder slept, a lock is taken again
            self._leave_election()
        except (LakeError, OSError, MemoryError) as error:
            self._fail(error, now_ns)
        else:
            self._sweep(self._builder, now_ns)

    def _stands(self, now_ns: int, *, urgent: bool) -> bool:
        """True if this process is elected to build. After failures it does not stand for election for
        `build_pause_ns`, unless `urgent`; its trouble stays in the status until another process built. Raises
        OSError.
        """
        if not self._is_elected and (urgent or now_ns >= self._stands_ns):
            self._is_elected = self._election.take(self._held)
        if self._is_elected:
            return True
        self.young.clear()
        has_trouble = self._status.trouble is not None
        if not has_trouble or last_number(self._store, UPKEEP_LANE, self._failed_at) > self._failed_at:
            self._status = BuildStatus(has_given_up=self._status.has_given_up)
        return False

    def _leave_election(self) -> None:
        """Drop the builder, and let another process be elected."""
        self._builder = None
        self._held.close()
        self._is_elected = False

    def _fail(self, error: LakeError | OSError | MemoryError, now_ns: int) -> None:
        """Note a failure to build; after `build_attempts` in a row, leave building to another process."""
        self._builder = None
        self._sweeps_ns = 0  # a commit may stand whose replaced files were not renamed
        self._wakes_ns = now_ns + self._live.build_retry_ns
        self._n_failures += 1
        why = f"Windows cannot be built: {_reason(error)}"
        has_given_up = self._n_failures >= self._live.build_attempts
        if has_given_up:
            self._n_failures = 0
            self._stands_ns = now_ns + self._live.build_pause_ns
            with suppress(LakeError, OSError):  # else what another process built is noticed too early
                self._failed_at = read_tail(self._store, UPKEEP_LANE).head
            self._leave_election()
            why += f" Left to another process after {self._live.build_attempts} attempts."
        self._status = BuildStatus(builds=self._is_elected, trouble=why, has_given_up=has_given_up)

    def _sweep(self, builder: Builder | None, now_ns: int) -> None:
        """Remove files that were replaced longer than the grace ago, once a grace; after a failure sooner.
        What fails is noted, and holds up no build."""
        if builder is None or now_ns < self._sweeps_ns:
            return
        try:
            builder.sweep(now_ns)
            builder.sweep_ended()
        except (LakeError, OSError) as error:
            self._sweep_trouble = f"Files of replaced windows cannot be removed: {_reason(error)}"
            self._sweeps_ns = now_ns + self._live.build_retry_ns
        else:
            self._sweep_trouble = None
            self._sweeps_ns = now_ns + self._live.build_grace_ns
        self._status = replace(self._status, sweep_trouble=self._sweep_trouble)

    def _step(self, builder: Builder, now_ns: int, *, urgent: bool) -> Step:
        began, before = time.monotonic(), builder.last
        # A process that was killed may have lacked memory, which one alone needs less of.
        step = builder.step(now_ns, urgent=urgent, alone=self._n_failures > 0)
        self._n_failures = 0
        if builder.last is not None and builder.last is not before:
            self._told(builder.last, time.monotonic() - began)
        # A backlog takes many steps: it is seen to shrink.
        self._status = BuildStatus(
            True, builder.n_waiting, builder.sealed_to_ns, sweep_trouble=self._sweep_trouble
        )
        return step

    def _others_build(self, now_ns: int) -> bool:
        """True if files staged for the next commit may belong to a running builder, so that this process must
        not open a builder, which would delete them."""
        head = last_number(self._store, UPKEEP_LANE, read_tail(self._store, UPKEEP_LANE).head)
        names = self._store.names(stage_lane_folder(UPKEEP_LANE))
        stages = frozenset(f"{head} {name}" for name in names if (staged_seq(name) or 0) > head)
        if stages != self._stage[0]:
            self._stage = stages, now_ns
        return bool(stages) and now_ns - self._stage[1] < self._live.build_stage_ns


def _reason(error: LakeError | OSError | MemoryError) -> str:
    """Sentence on an error, for people."""
    if isinstance(error, LakeError):
        return f"{error.message} {error.remedy}"
    if isinstance(error, MemoryError):
        return "there is not enough memory."
    return f"{error.strerror or error}."
