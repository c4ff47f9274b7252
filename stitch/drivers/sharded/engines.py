"""Run the tasks of an import: in threads of this process, in other processes, or on other machines.

Threads keep a few cores busy, since numpy, Arrow and zstd release Python's lock. Processes can use all cores,
but each must be started, and all events pass through files. The lake gets the same rows with any engine, and
the same bytes with any number of other processes: groups depend only on the content of events, and their
outcomes are recorded in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol

from schemas.arrays import I8
from stitch.drivers.import_settings import DECODERS, ImportSettings, Progress
from stitch.drivers.inputs import Source
from stitch.drivers.sharded.exchange import Exchange, RemoteStage, SharedFolder
from stitch.drivers.sharded.ledger import Ledger
from stitch.drivers.sharded.left_parts import WindowParts
from stitch.drivers.sharded.stitching import GroupOutcome, Stitcher, write_windows
from stitch.drivers.sharded.tasks import (
    FileDealt,
    Job,
    deal_file,
    stitch_group,
    write_window_files,
)
from stitch.drivers.spill import EventSpill, Group
from stitch.drivers.threads import Here, task_threads
from stitch.lake.manifest import Manifest
from stitch.lake.place import absolute, local_path
from stitch.lake.staging import Staging
from stitch.processes import worker_processes

_DECODED_AHEAD: Final = DECODERS + 1
"""Maximum number of chunks decoded or queued ahead of the chunk whose events are being partitioned, so that
no decoder is idle."""
PROCESSES_FROM_BYTES: Final = 16 * 2**20
"""Minimum bytes of input for which processes are started: starting them takes 0.6 s, in which one process
decodes and stitches about as many bytes.
"""
TWO_FROM_BYTES: Final = 128 * 2**20
"""Minimum bytes of input, the largest file excluded, for which two processes are faster than two threads,
which take less CPU and memory: 625 MB in four files in 11.7 s, not 14.4; 132 MB in 4.0 s, not 3.6."""


class Engine(Protocol):
    """Runs the tasks of an import."""

    at_once: int
    """Maximum number of groups of requests stitched concurrently."""
    threads: Executor
    """Thread pool of this process, for tasks that run here."""

    def read(self, sources: Sequence[Source], spill: EventSpill, ledger: Ledger, progress: Progress) -> None:
        """Decode every file once; add the events to the spill, counts and rejects to the ledger."""
        ...

    def begin(self, absurd_days: I8) -> None:
        """Prepare for stitching, once all files are read. absurd_days: days since 1970-01-01 (UTC) whose
        events are refused."""
        ...

    def stitch_group(self, group: Group, part: int) -> Callable[[], GroupOutcome]:
        """Start stitching a group, whose flows become file `part` of each window; return a function that
        waits for the outcome."""
        ...

    def write_windows(self, windows: Sequence[WindowParts]) -> None:
        """Merge the parts of each window, and write the windows to the import's stage folders; return when
        all are written."""
        ...


class Cluster(Protocol):
    """Machines that run tasks, with the same program and the same paths to the lake and the input."""

    def executor(self, stage: str) -> AbstractContextManager[tuple[Executor, int]]:
        """Start the workers: context manager that returns (executor, number of tasks that it runs
        concurrently).

        stage: prefix of the names of the import's stage folders in the lake. A task may be run more than
        once; its result is that of one of the runs. An exception in the block cancels running tasks. Raises
        ConfigError.
        """
        ...


@contextmanager
def import_engine(
    staging: Staging,
    manifest: Manifest,
    settings: ImportSettings,
    scratch: Path,
    workers: int | Cluster,
    threads: int,
) -> Iterator[Engine]:
    """Context manager: engine that runs tasks in `workers` processes or on a cluster; if `workers` is 1, in
    this process with `threads` threads.

    scratch: folder for files passed between tasks; below the lake if that is a folder, so that all machines
    of a cluster see it under the same path.
    """
    with ExitStack() as stack:
        if workers == 1:
            yield _Threads(threads, stack.enter_context(task_threads(threads)), staging, manifest, settings)
            return
        lake, stage = manifest.lake, staging.attempts()
        exchange: Exchange = SharedFolder(scratch)
        if isinstance(workers, int):
            pool, at_once = stack.enter_context(worker_processes(workers)), workers
        else:
            pool, at_once = stack.enter_context(workers.executor(stage))
            lake = absolute(lake)
            if local_path(lake) is None:
                exchange = RemoteStage(lake, stage)
        job = Job(lake, staging.lane, staging.seq, stage, exchange, settings)
        yield _OtherProcesses(pool, at_once, staging, job)


class _Threads:
    """Engine that runs tasks in threads of this process. Events stay in memory while the spill has room."""

    def __init__(
        self, threads: int, pool: Executor, staging: Staging, manifest: Manifest, settings: ImportSettings
    ) -> None:
        self.at_once = threads
        self.threads = self._pool = pool
        self._staging = staging
        self._manifest = manifest
        self._settings = settings

    def read(self, sources: Sequence[Source], spill: EventSpill, ledger: Ledger, progress: Progress) -> None:
        """Decode every file once, in threads, while the calling thread collects the events."""
        ahead = 0 if self.at_once == 1 else _DECODED_AHEAD
        for source in sources:
            for decoded in source.decoded(self._settings, self._pool, ahead):
                ledger.add_batch(source, decoded)
                if decoded.events.num_rows:
                    spill.add(decoded.events)
                progress.decoded(0, decoded.events.num_rows)
            progress.decoded(source.size, 0)

    def begin(self, absurd_days: I8) -> None:
        """Prepare stitching; events of `absurd_days` (days since 1970-01-01 UTC) are refused."""
        self._stitcher = Stitcher(self._manifest, self._settings, absurd_days)

    def stitch_group(self, group: Group, part: int) -> Callable[[], GroupOutcome]:
        """Start stitching a group in a thread; the returned function waits for the outcome."""
        return self._pool.submit(self._stitcher.stitch_group, self._staging, group, part).result

    def write_windows(self, windows: Sequence[WindowParts]) -> None:
        """Merge the parts of each window, and write the windows; returns when all is done."""
        list(self._pool.map(lambda window: write_windows(self._staging, [window]), windows))


class _OtherProcesses:
    """Engine that runs tasks in other processes. Events pass through files of the import's exchange; each
    input file is one task."""

    def __init__(self, pool: Executor, at_once: int, staging: Staging, job: Job) -> None:
        self.at_once = at_once
        self.threads: Executor = Here()
        self._pool = pool
        self._staging = staging
        self._job = job

    def read(self, sources: Sequence[Source], spill: EventSpill, ledger: Ledger, progress: Progress) -> None:
        """Decode every file once, the largest first; results are recorded in the order of `sources`."""
        decoders = 1 if len(sources) >= self.at_once else DECODERS
        tasks: dict[Source, Future[FileDealt]] = {}
        for source in sorted(sources, key=lambda source: -source.size):
            path = source.path.absolute() if isinstance(source.path, Path) else source.path
            there = replace(source, path=path)
            tasks[source] = self._pool.submit(deal_file, self._job, there, decoders)
        for source in sources:
            dealt = tasks.pop(source).result()
            ledger.add_file(source, dealt.counts, dealt.letters())
            spill.adopt(dealt.events)
            progress.decoded(source.size, dealt.counts.events)

    def begin(self, absurd_days: I8) -> None:
        """Prepare stitching; events of `absurd_days` (days since 1970-01-01 UTC) are refused."""
        self._job = self._job.with_absurd_days(tuple(absurd_days.tolist()))

    def stitch_group(self, group: Group, part: int) -> Callable[[], GroupOutcome]:
        """Start stitching a group in a process; the returned function waits for the outcome."""
        # What was dealt again, or named, lies where this process wrote it.
        group.paths = self._job.exchange.hand_on(group.paths)
        task = self._pool.submit(stitch_group, self._job, group, part)

        def ended() -> GroupOutcome:
            outcome, files = task.result()
            self._staging.adopt(files)
            return outcome

        return ended

    def write_windows(self, windows: Sequence[WindowParts]) -> None:
        """Merge the parts of each window, and write the windows; returns when all is done."""
        shares = [windows[at :: self.at_once] for at in range(self.at_once)]
        tasks = [self._pool.submit(write_window_files, self._job, share) for share in shares if share]
        for task in tasks:
            self._staging.adopt(task.result())
