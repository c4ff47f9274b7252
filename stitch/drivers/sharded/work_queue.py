"""Run tasks in workers that somebody else starts, and that meet in the lake: an Indexed Job of Kubernetes.

Worker 0 leads: it holds the lane, puts tasks on its stage, and commits. All workers, the first too, claim a
task, do it, and put what came of it. Task, claim and result are files of a queue, each put if absent. So no
two numbers have the same task, and a worker that is started again does what it had claimed: its attempt
before is heard, or lies on the stage until that is swept. Where worker 0 is started again, it opens the lane
anew, which sweeps the stage with the queue; the others go on with the next one.

Who can write to the lake can put a task. So a task is one of three functions, its arguments are data of
ours, and no settings are in it: every worker is given the same ones, with the same key for hashes.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, ParamSpec, TypeVar

from schemas.errors import ConfigError, FailedWorkerError, FlowdiffError, LakeError
from schemas.windows import NS_PER_DAY
from stitch.drivers.import_settings import ImportSettings
from stitch.drivers.sharded.tasks import deal_file, stitch_group, write_window_files
from stitch.lake.chain import CommitTakenError, taken
from stitch.lake.lane import FILE_LANE
from stitch.lake.layout import STAGE, stage_lane_folder, staged_seq
from stitch.lake.place import open_store
from stitch.lake.store import Store

P = ParamSpec("P")
T = TypeVar("T")
_TASKS: Final[dict[str, Callable[..., Any]]] = {
    task.__name__: task for task in (deal_file, stitch_group, write_window_files)
}
_OURS: Final = ("ingest", "schemas", "stitch")
_THEIRS: Final = {
    ("collections", "Counter"),
    ("collections", "defaultdict"),
    ("pathlib", "PosixPath"),
    ("pathlib._local", "PosixPath"),
}
"""Classes of tasks and results, beside those of ours."""
_KINDS: Final = ("task", "claim", "result")
_JOB: Final = "job-"
_ENDED: Final = f"{STAGE}/ended-jobs"
_ENDED_FOR_NS: Final = 7 * NS_PER_DAY
"""So long a worker that comes late learns that its job is done."""


@dataclass(frozen=True, slots=True)
class JobWorker:
    """One of the workers of a job; worker 0 is its `Cluster` (`stitch.drivers.sharded.engines`)."""

    lake: str
    job: str
    """Name of this one run: another run, also of the same files, has another one."""
    number: int
    workers: int
    settings: ImportSettings = field(repr=False)
    """The same in all workers."""
    ahead: int = 2
    """Tasks put for each worker at once, so that the next one is there when it has done one."""
    poll_s: float = 1.0
    """Time between two looks at the lake."""

    @contextmanager
    def executor(self, stage: str) -> Iterator[tuple[Executor, int]]:
        """See `Cluster.executor`. This process is one of those that do the tasks."""
        at_once = self.ahead * self.workers
        queue = self._queue(f"{stage}{self._suffix}")
        with self._failures(), _Leader(queue, at_once, self.poll_s) as executor:
            yield executor, at_once

    def end(self) -> None:
        """Tell the others that the job is done. Raises LakeError."""
        store, stage = open_store(self.lake), f"{STAGE}/{self._suffix}"
        with self._failures():
            with suppress(FileExistsError):
                store.put_if_absent(self._ended, b"", stage)
            store.remove(stage)
            for name, written_ns in store.written(_ENDED).items():
                if written_ns + _ENDED_FOR_NS < time.time_ns():
                    store.remove(f"{_ENDED}/{name}")

    def work(self) -> int:
        """Do tasks until the job is done; how many it were. Raises LakeError, ConfigError."""
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
        """Return the folder of the queue; empty where there is none. One that died has a lower number."""
        above = stage_lane_folder(FILE_LANE)
        found = [name for name in store.names(above) if name.partition(f"-{_JOB}")[2] == self.job]
        return f"{above}/{found[-1]}" if found else ""

    def _queue(self, folder: str) -> _Queue:
        return _Queue(open_store(self.lake), folder, self.number, self.settings.named())


class _Queue:
    """Tasks of one attempt at an import, as one worker sees them."""

    def __init__(self, store: Store, folder: str, number: int, settings: ImportSettings) -> None:
        self.folder = folder
        self._store = store
        self._number = str(number).encode()
        self._settings = settings
        self._claims: dict[str, bytes] = {}
        """Number of the worker of each task, as far as it is known here."""

    def put(self, task: str, call: tuple[str, tuple[Any, ...], dict[str, Any]]) -> None:
        """Put a task: its name and arguments. Raises CommitTakenError where the queue was swept, OSError."""
        try:
            self._put("task", task, _written(call))
        except FileNotFoundError as error:
            raise self._taken() from error

    def result(self, task: str) -> Any:
        """Return (what a task returned, what it raised), None where it is not done.

        Raises CommitTakenError where the task is gone, which nobody but its leader removes or whoever takes
        the lane over; OSError.
        """
        try:
            return self._read("result", task)
        except FileNotFoundError as error:
            if self._store.size(f"{self.folder}/task-{task}") is None:
                raise self._taken() from error
            return None

    def forget(self, task: str) -> None:
        """Remove a task whose result is known: none may be there while the stage is swept. Raises OSError."""
        for kind in _KINDS:
            self._store.remove(f"{self.folder}/{kind}-{task}")

    def do_next(self) -> bool:
        """Claim a task, and do it; whether there was one. Raises OSError, LakeError, ConfigError."""
        task = self._claim()
        if task is None:
            return False
        try:
            name, arguments, named = self._read("task", task)
        except FileNotFoundError:  # it was done and forgotten before it was claimed
            self.forget(task)
            return False
        # An error of ours is a result: it would come again with every attempt.
        done: tuple[Any, FlowdiffError | None]
        try:
            done = _TASKS[name](*arguments, **named), None
        except FlowdiffError as error:
            done = None, error
        with suppress(FileExistsError):  # by another process that was given our number
            self._put("result", task, _written(done))
        return True

    def _claim(self) -> str | None:
        """Return a task that this number has claimed, before it was started again or now."""
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

    def _read(self, kind: str, task: str) -> Any:
        data = self._store.read(f"{self.folder}/{kind}-{task}").to_pybytes()
        return _Reader(data, self._settings).load()


class _Leader(Executor):
    """Threads, each of which waits for the result of a task, and one that does tasks as all workers do."""

    def __init__(self, queue: _Queue, at_once: int, poll_s: float) -> None:
        self._queue = queue
        self._poll_s = poll_s
        self._numbers = count()
        self._over = threading.Event()
        self._threads = ThreadPoolExecutor(at_once + 1, thread_name_prefix="queue")
        self._own = self._threads.submit(self._work)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """See Executor. `fn` is a task."""
        return self._threads.submit(self._run, f"{next(self._numbers):06d}", fn, args, kwargs)

    def __exit__(self, *_: object) -> None:
        """Wait for the task that is done here; nobody waits for others."""
        self._over.set()
        self._threads.shutdown(cancel_futures=True)

    def _work(self) -> None:
        while not self._over.is_set():
            if not self._queue.do_next():
                self._over.wait(self._poll_s)

    def _run(self, task: str, fn: Callable[..., T], arguments: tuple[Any, ...], named: dict[str, Any]) -> T:
        self._queue.put(task, (fn.__name__, arguments, named))
        while (done := self._queue.result(task)) is None:
            if self._over.wait(self._poll_s):
                raise CancelledError
            if self._own.done():
                self._own.result()  # which raises
        self._queue.forget(task)
        result: T
        result, error = done
        if error is not None:
            raise error
        return result


class _Writer(pickle.Pickler):
    """Settings are written as their hash."""

    def persistent_id(self, obj: Any) -> bytes | None:
        """See Pickler."""
        return _hash_of(obj) if isinstance(obj, ImportSettings) else None


class _Reader(pickle.Unpickler):
    """Reads data of ours, and nothing that could do something."""

    def __init__(self, data: bytes, settings: ImportSettings) -> None:
        super().__init__(io.BytesIO(data))
        self._settings = settings

    def persistent_load(self, pid: Any) -> ImportSettings:
        """See Unpickler. Raises ConfigError for other settings than ours."""
        if pid != _hash_of(self._settings):
            raise ConfigError(
                "The workers of this job were given different options.",
                remedy="Start all of them with the same ones, and the same key of --hash-params.",
            )
        return self._settings

    def find_class(self, module: str, name: str, /) -> Any:
        """See Unpickler. Raises LakeError."""
        if (module, name) in _THEIRS:
            return super().find_class(module, name)
        if module.partition(".")[0] in _OURS:
            found = super().find_class(module, name)
            # Not a function, nor what a module of ours imports.
            if isinstance(found, type) and found.__module__ == module:
                return found
        raise LakeError(
            f"A task in the lake names '{module}.{name}', which no task does.",
            remedy="Find out who wrote it: nothing was done.",
        )


def _written(content: Any) -> bytes:
    out = io.BytesIO()
    _Writer(out).dump(content)
    return out.getvalue()


def _hash_of(settings: ImportSettings) -> bytes:
    key = settings.decode.params.hash_key
    secret = b"" if key is None else key.get_secret_value()
    return hashlib.sha256(settings.model_dump_json().encode() + secret).digest()
