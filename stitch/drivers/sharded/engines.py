"""Run the tasks of an import: in threads of this process, in other processes, or on other machines.

Threads keep more than one core busy, since numpy, Arrow and zstd release Python's lock, but not many.
Processes cost a start each, and all events pass through files. The lake has the same rows with any engine,
and the same bytes with any number of other processes: groups are formed by the content of events, and
booked in order.
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
"""Maximum chunks decoded or queued ahead of the one whose events are partitioned: so no decoder idles."""
PROCESSES_FROM_BYTES: Final = 16 * 2**20
"""Minimum bytes of input for which processes are started: a start takes 0.6 s, in which one process decodes
and stitches about as much.
"""
TWO_FROM_BYTES: Final = 128 * 2**20
"""Minimum bytes of input beside the largest file for which two processes finish sooner than two threads,
which take less CPU and memory: 625 MB in four files in 11.7 s, not 14.4, and 132 MB in 4.0, not 3.6.
"""


class Engine(Protocol):
    """Executor of an import's tasks."""

    at_once: int
    """Maximum groups stitched at once."""
    threads: Executor
    """Threads of this process, for tasks that run here."""

    def read(self, sources: Sequence[Source], spill: EventSpill, ledger: Ledger, progress: Progress) -> None:
        """Decode every file once; add its events to the spill, its counts and rejects to the ledger."""
        ...

    def begin(self, absurd_days: I8) -> None:
        """Prepare stitching, once all files are read; events of `absurd_days` are refused."""
        ...

    def stitch_group(self, group: Group, part: int) -> Callable[[], GroupOutcome]:
        """Start stitching a group (`Stitcher.stitch_group`); the returned function waits for its outcome."""
        ...

    def write_windows(self, windows: Sequence[WindowParts]) -> None:
        """Merge the parts of each window, and write the windows to the stage. Returns when all is done."""
        ...


class Cluster(Protocol):
    """Machines that run tasks, with the same program and the same paths to the lake and the input."""

    def executor(self, stage: str) -> AbstractContextManager[tuple[Executor, int]]:
        """Start the workers: (executor, number of tasks it runs at once).

        stage: prefix of the names of the import's folders in the lake. A task may be run more than once; its
        result is that of one attempt. An exception in the block cancels running tasks. Raises ConfigError.
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
    """Engine for `workers` processes or a cluster; 1: this process with `threads` threads.

    `scratch` lies in the lake if that is a folder, so that the machines of a cluster see it too, under the
    same path in all processes.
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
    """Engine in threads of this process. Events stay in memory while the spill has room."""

    def __init__(
        self, threads: int, pool: Executor, staging: Staging, manifest: Manifest, settings: ImportSettings
    ) -> None:
        self.at_once = threads
        self.threads = self._pool = pool
        self._staging = staging
        self._manifest = manifest
        self._settings = settings

    def read(self, sources: Sequence[Source], spill: EventSpill, ledger: Ledger, progress: Progress) -> None:
        """See Engine. Threads decode while the calling one collects."""
        ahead = 0 if self.at_once == 1 else _DECODED_AHEAD
        for source in sources:
            for decoded in source.decoded(self._settings, self._pool, ahead):
                ledger.add_batch(source, decoded)
                if decoded.events.num_rows:
                    spill.add(decoded.events)
                progress.decoded(0, decoded.events.num_rows)
            progress.decoded(source.size, 0)

    def begin(self, absurd_days: I8) -> None:
        """See Engine."""
        self._stitcher = Stitcher(self._manifest, self._settings, absurd_days)

    def stitch_group(self, group: Group, part: int) -> Callable[[], GroupOutcome]:
        """See Engine."""
        return self._pool.submit(self._stitcher.stitch_group, self._staging, group, part).result

    def write_windows(self, windows: Sequence[WindowParts]) -> None:
        """See Engine."""
        list(self._pool.map(lambda window: write_windows(self._staging, [window]), windows))


class _OtherProcesses:
    """Engine in other processes. Events go through files of the job's exchange; each input file is one
    task."""

    def __init__(self, pool: Executor, at_once: int, staging: Staging, job: Job) -> None:
        self.at_once = at_once
        self.threads: Executor = Here()
        self._pool = pool
        self._staging = staging
        self._job = job

    def read(self, sources: Sequence[Source], spill: EventSpill, ledger: Ledger, progress: Progress) -> None:
        """See Engine. Starts with the largest files; records results in the order of `sources`."""
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
        """See Engine."""
        self._job = self._job.with_absurd_days(tuple(absurd_days.tolist()))

    def stitch_group(self, group: Group, part: int) -> Callable[[], GroupOutcome]:
        """See Engine."""
        # What was dealt again, or named, lies where this process wrote it.
        group.paths = self._job.exchange.hand_on(group.paths)
        task = self._pool.submit(stitch_group, self._job, group, part)

        def ended() -> GroupOutcome:
            outcome, files = task.result()
            self._staging.adopt(files)
            return outcome

        return ended

    def write_windows(self, windows: Sequence[WindowParts]) -> None:
        """See Engine."""
        shares = [windows[at :: self.at_once] for at in range(self.at_once)]
        tasks = [self._pool.submit(write_window_files, self._job, share) for share in shares if share]
        for task in tasks:
            self._staging.adopt(task.result())
