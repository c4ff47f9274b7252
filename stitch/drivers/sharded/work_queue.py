"""Run tasks in workers that are started externally and meet in the lake: an Indexed Job of Kubernetes.

Worker 0 leads: it owns the lane, writes tasks to a queue in its stage folder, and commits. Every worker,
including worker 0, claims a task, runs it, and writes its result. Task, claim and result are files of the
queue, each written only if absent. So two workers never run the same task, and a restarted worker repeats the
task it had claimed; the files of its earlier attempt are either the result, or stay in the stage folder until
it is swept. If worker 0 is restarted, it opens the lane again, which sweeps the stage folder with the queue;
the other workers continue with the new queue.

Anyone who can write to the lake can write a task. So tasks and results are data in a closed schema
(`messages`): a task names one of three functions, inputs that the worker's own command line names, and files
in the import's stage folders.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

from schemas.errors import FailedWorkerError, FlowdiffError, LakeError
from schemas.rejects import MAX_RAW_BYTES
from schemas.windows import NS_PER_DAY
from stitch.drivers.import_settings import ImportSettings
from stitch.drivers.sharded.exchange import RemoteStage, SharedFolder, outside
from stitch.drivers.sharded.messages import (
    TASKS,
    ResultFile,
    TaskFailed,
    TaskFile,
    Workplace,
    read_result,
    read_task,
    result_of,
    settings_hash,
)
from stitch.drivers.sharded.own_inputs import OwnInputs
from stitch.drivers.sharded.tasks import Job, deal_file, stitch_group, write_window_files
from stitch.lake.chain import CommitTakenError, taken
from stitch.lake.lane import FILE_LANE
from stitch.lake.layout import STAGE, stage_lane_folder, staged_seq
from stitch.lake.place import absolute, local_path, open_store
from stitch.lake.store import Store

P = ParamSpec("P")
T = TypeVar("T")
_TASKS: Final[dict[str, Callable[..., Any]]] = {
    task.__name__: task for task in (deal_file, stitch_group, write_window_files)
}
_KINDS: Final = ("task", "claim", "result")
_JOB: Final = "job-"
_QUEUE: Final = re.compile(rf"(\d{{12}}-[0-9a-f]{{16}}-){_JOB}(.+)", re.ASCII)
"""Pattern of the name of a queue's folder: stage folder of worker 0, then the job's name."""
_TASK_BYTES: Final = 64 * 2**20
"""Maximum bytes of a task's file: mostly names of files, some hundred bytes each."""
_ENDED: Final = f"{STAGE}/ended-jobs"
_ENDED_FOR_NS: Final = 7 * NS_PER_DAY
"""Time after the end of a job, ns, during which a late worker can still learn that the job is done."""


@dataclass(frozen=True, slots=True)
class JobWorker:
    """Worker of an import on several machines; worker 0 is also its `Cluster`
    (`stitch.drivers.sharded.engines`).
    """

    lake: str
    job: str
    """Name of this run of the job; another run of the same files needs another name."""
    number: int
    workers: int
    inputs: OwnInputs
    settings: ImportSettings = field(repr=False)
    """Settings of the import, which must be the same in all workers."""
    ahead: int = 2
    """Number of tasks queued per worker, so that a worker that finishes finds the next task."""
    poll_s: float = 1.0
    """Interval at which the lake is polled, s."""

    @contextmanager
    def executor(self, stage: str) -> Iterator[tuple[Executor, int]]:
        """Start the workers (see `Cluster.executor`). This process runs tasks too."""
        at_once = self.ahead * self.workers
        queue = self._queue(f"{stage}{self._suffix}")
        with self._failures(), _Leader(queue, at_once, self.poll_s) as executor:
            yield executor, at_once

    def end(self) -> None:
        """Tell the other workers that the job is done. Raises LakeError."""
        store, stage = open_store(self.lake), f"{STAGE}/{self._suffix}"
        with self._failures():
            with suppress(FileExistsError):
                store.put_if_absent(self._ended, b"", stage)
            store.remove(stage)
            for name, written_ns in store.written(_ENDED).items():
                if written_ns + _ENDED_FOR_NS < time.time_ns():
                    store.remove(f"{_ENDED}/{name}")

    def work(self) -> int:
        """Run tasks until the job is done; return how many. Raises LakeError, ConfigError."""
        with self._failures():
            return self._work()

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise FailedWorkerError(
                f"A worker of the import into '{self.lake}' failed: {error.strerror or error}.",
                remedy="See to it, and start this worker again: the others wait for it.",
            ) from error

    def _work(self) -> int:
        store = open_store(self.lake)
        queue, done = self._queue(""), 0
        while store.size(self._ended) is None:
            if (newest := self._newest(store)) != queue.folder:
                queue = self._queue(newest)
            try:
                if newest and queue.do_next():
                    done += 1
                    continue
            except OSError:
                if self._newest(store) == newest:  # else it was swept: worker 0 was started again
                    raise
            time.sleep(self.poll_s)
        return done

    @property
    def _suffix(self) -> str:
        return f"{_JOB}{self.job}"

    @property
    def _ended(self) -> str:
        return f"{_ENDED}/{self.job}"

    def _newest(self, store: Store) -> str:
        """Folder of the newest queue; empty if there is none. Queues of leaders that died have lower
        numbers."""
        above = stage_lane_folder(FILE_LANE)
        parts = {name: _QUEUE.fullmatch(name) for name in store.names(above)}
        found = [name for name, part in parts.items() if part is not None and part[2] == self.job]
        return f"{above}/{found[-1]}" if found else ""

    def _queue(self, folder: str) -> _Queue:
        own = QueueWorker(absolute(self.lake), self.number, self.inputs, self.settings.named())
        return _Queue(open_store(self.lake), folder, own)


@dataclass(frozen=True, slots=True)
class QueueWorker:
    """Worker of a sharded import, which runs tasks from queues in the lake: its number, its settings and the
    inputs named on its own command line (tasks can name no others)."""

    lake: str
    number: int
    inputs: OwnInputs
    settings: ImportSettings = field(repr=False)

    def at(self, queue: str, scratch: str | None) -> Workplace:
        """Workplace for the tasks of a queue. Raises LakeError.

        queue: the queue's folder. scratch: folder of the exchange if the lake is a folder, else None.
        """
        above, _, last = queue.rpartition("/")
        found = _QUEUE.fullmatch(last)
        seq = staged_seq(last)
        assert found is not None, "a queue is found by its name"
        assert seq is not None, "which begins with a number"
        stage = f"{above}/{found[1]}"
        folder = local_path(self.lake)
        if (scratch is None) is not (folder is None):
            raise outside(scratch or "")
        exchange = (
            RemoteStage(self.lake, stage)
            if folder is None or scratch is None
            else _shared_folder(folder, scratch)
        )
        return Workplace(Job(self.lake, FILE_LANE, seq, stage, exchange, self.settings), self.inputs)


def _shared_folder(lake: Path, scratch: str) -> SharedFolder:
    beside = f"{STAGE}/scratch/{scratch}"
    if (lake / beside).resolve() != lake.resolve() / beside:  # a link leads out of the lake
        raise outside(scratch)
    return SharedFolder(lake / beside)


class _Queue:
    """Tasks of one attempt at an import, as seen by one worker."""

    def __init__(self, store: Store, folder: str, own: QueueWorker) -> None:
        self.folder = folder
        self._store = store
        self._own = own
        self._number = str(own.number).encode()
        self._claims: dict[str, bytes] = {}
        """Task -> number of the worker that claimed it, as a file's content, as far as this worker knows."""

    def at(self, job: Job) -> Workplace:
        """Workplace in which this process runs the tasks of `job`."""
        return Workplace(job, self._own.inputs)

    def put(self, task: str, name: str, at: Workplace, arguments: tuple[Any, ...]) -> None:
        """Write a task to the queue. task: unique name; name: name of the function; arguments: those of the
        call.

        Raises CommitTakenError if the queue was swept, OSError.
        """
        exchange = at.job.exchange
        file = TaskFile(
            settings=settings_hash(self._own.settings),
            scratch=exchange.path.name if isinstance(exchange, SharedFolder) else None,
            task=TASKS[name].of(at, *arguments),
        )
        try:
            self._put("task", task, file.model_dump_json().encode())
        except FileNotFoundError as error:
            raise self._taken() from error

    def result(self, task: str) -> bytes | None:
        """Content of a task's result file; None while the task is not done.

        Raises CommitTakenError if the task is gone (only its leader removes it, or a process that takes the
        lane over); LakeError, OSError.
        """
        letters = self._own.settings.max_dead_letters_per_file
        try:
            return self._read("result", task, _TASK_BYTES + 2 * letters * MAX_RAW_BYTES)
        except FileNotFoundError as error:
            if self._store.size(f"{self.folder}/task-{task}") is None:
                raise self._taken() from error
            return None

    def forget(self, task: str) -> None:
        """Delete the files of a task that is done; no task may remain when the stage folder is swept. Raises
        OSError."""
        for kind in _KINDS:
            self._store.remove(f"{self.folder}/{kind}-{task}")

    def do_next(self) -> bool:
        """Claim and run a task; True if there was one. Raises OSError, LakeError, ConfigError."""
        task = self._claim()
        if task is None:
            return False
        try:
            data = self._read("task", task, _TASK_BYTES)
        except FileNotFoundError:  # it was done and forgotten before it was claimed
            self.forget(task)
            return False
        found = read_task(data, self._own.settings)
        at = self._own.at(self.folder, found.scratch)
        arguments = found.task.arguments(at)
        # An error of ours is a result: it would come again with every attempt.
        try:
            done = result_of(found.task.kind, _TASKS[found.task.kind](*arguments), at)
        except FlowdiffError as error:
            done = ResultFile(result=TaskFailed.of(error))
        with suppress(FileExistsError):  # by another process that was given our number
            self._put("result", task, done.model_dump_json().encode())
        return True

    def _claim(self) -> str | None:
        """Claim a task: name of a free task, or of the one that this worker had claimed before it was
        restarted; None if there is none."""
        names = self._store.names(self.folder)
        tasks, claims, results = (
            {name.removeprefix(f"{kind}-") for name in names if name.startswith(kind)} for kind in _KINDS
        )
        for task in sorted(tasks - results):
            if task not in claims:
                with suppress(FileExistsError):
                    self._put("claim", task, self._number)
                    self._claims[task] = self._number
            if task not in self._claims:
                with suppress(FileNotFoundError):  # it was done and forgotten since it was listed
                    self._claims[task] = self._store.read(f"{self.folder}/claim-{task}").to_pybytes()
            if self._claims.get(task) == self._number:
                return task
        return None

    def _taken(self) -> CommitTakenError:
        seq = staged_seq(self.folder.rpartition("/")[2])
        assert seq is not None, "a queue lies beside the stage of a coming commit"
        return taken(FILE_LANE, seq)

    def _put(self, kind: str, task: str, data: bytes) -> None:
        self._store.put_if_absent(f"{self.folder}/{kind}-{task}", data, self.folder)

    def _read(self, kind: str, task: str, most_bytes: int) -> bytes:
        name = f"{self.folder}/{kind}-{task}"
        size = self._store.size(name)
        if size is not None and size > most_bytes:
            raise LakeError(
                f"A {kind} in the lake has {size:,} bytes, more than any that flowdiff writes.",
                remedy="Nothing was done. Find out who wrote it.",
            )
        data: bytes = self._store.read(name).to_pybytes()
        return data


class _Leader(Executor):
    """Executor whose threads each wait for the result of one task, while one more thread runs tasks like any
    worker."""

    def __init__(self, queue: _Queue, at_once: int, poll_s: float) -> None:
        self._queue = queue
        self._poll_s = poll_s
        self._numbers = count()
        self._over = threading.Event()
        self._threads = ThreadPoolExecutor(at_once + 1, thread_name_prefix="queue")
        self._own = self._threads.submit(self._work)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Write a task to the queue; the returned future waits for its result. `fn` is a task; its first
        argument is the job."""
        assert not kwargs, "a task's arguments have an order"
        job, *arguments = args
        assert isinstance(job, Job), "a task is of a job"
        return self._threads.submit(self._run, f"{next(self._numbers):06d}", fn, job, tuple(arguments))

    def __exit__(self, *_: object) -> None:
        """Wait for the task that runs in this process, but not for tasks of other workers."""
        self._over.set()
        self._threads.shutdown(cancel_futures=True)

    def _work(self) -> None:
        while not self._over.is_set():
            if not self._queue.do_next():
                self._over.wait(self._poll_s)

    def _run(self, task: str, fn: Callable[..., T], job: Job, arguments: tuple[Any, ...]) -> T:
        at = self._queue.at(job)
        self._queue.put(task, fn.__name__, at, arguments)
        while (data := self._queue.result(task)) is None:
            if self._over.wait(self._poll_s):
                raise CancelledError
            if self._own.done():
                self._own.result()  # which raises
        self._queue.forget(task)
        done: T = read_result(data, fn.__name__, at)
        return done
