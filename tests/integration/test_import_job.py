"""Import by workers that meet in the lake: the bytes of one process, whoever is killed at whatever step."""

from __future__ import annotations

import errno
import io
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from oracles import fork_server
from oracles.bucket_server import BucketServer
from oracles.killed_job import STEPS
from oracles.mixed_input import mixed
from oracles.quiet_import import Quiet
from oracles.traffic import write_native
from oracles.waiting import PATIENCE_S, wait_until

from flowdiff.__main__ import main
from schemas.errors import TRY_AGAIN, ConfigError
from stitch.drivers.batch import import_into
from stitch.drivers.import_settings import ImportSettings, ImportSummary
from stitch.drivers.sharded import tasks, work_queue
from stitch.drivers.sharded.engines import Cluster
from stitch.drivers.sharded.exchange import SharedFolder
from stitch.drivers.sharded.own_inputs import OwnInputs
from stitch.drivers.sharded.tasks import Job
from stitch.drivers.sharded.work_queue import JobWorker, QueueWorker, _Leader, _Queue
from stitch.lake.fsck import check
from stitch.lake.layout import WINDOW_TABLES, stage_folder
from stitch.lake.manifest import open_manifest
from stitch.lake.place import open_store
from stitch.lake.store import LocalStore, Store

MEMORY = ImportSettings(memory_bytes=64 * 2**20)


def put(lake: Path | str, files: list[Path], workers: int | Cluster) -> ImportSummary:
    summary = import_into(
        lake,
        [str(file) for file in files],
        MEMORY,
        owner="test",
        created_by="test",
        stdin=io.BytesIO(),
        progress=Quiet(),
        workers=workers,
    )
    assert check(open_store(str(lake))) == []
    return summary


def of_job(
    lake: Path | str,
    files: list[Path],
    number: int,
    job: str = "a",
    settings: ImportSettings = MEMORY,
    poll_s: float = 0.05,
) -> JobWorker:
    """One of two workers of a job."""
    return JobWorker(str(lake), job, number, 2, OwnInputs(tuple(map(str, files))), settings, poll_s=poll_s)


def files_of(lake: Path | str) -> list[Any]:
    """Files of windows, by name, size and SHA-256."""
    manifest = open_manifest(open_store(str(lake)))
    return [file for table in WINDOW_TABLES for file in manifest.files(table)]


class DiedError(BaseException):
    """A worker was killed: nothing of its process is left."""


class Deaths:
    """Kills worker 1 at four steps of every task, each once."""

    def __init__(self) -> None:
        self.happened: set[tuple[str, str]] = set()

    def at(self, step: str, task: str) -> None:
        if (step, task) not in self.happened:
            self.happened.add((step, task))
            raise DiedError

    def around(self, put: Callable[..., None]) -> Callable[..., None]:
        def dying(queue: _Queue, kind: str, task: str, data: bytes) -> None:
            is_worker_1 = queue._number == b"1" and kind != "task"
            if is_worker_1:
                self.at(f"before {kind}", task)
            put(queue, kind, task, data)
            if is_worker_1:
                self.at(f"after {kind}", task)

        return dying


@pytest.mark.parametrize("where", ["folder", "bucket"])
def test_a_worker_that_dies_at_every_step_of_every_task(
    where: str,
    bucket_server: BucketServer,
    bucket_environ: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Worker 1 of two does all the work; records are named and groups dealt again by worker 0."""
    files = mixed(tmp_path / "in")
    if where == "folder":  # many groups take the bucket's server a minute
        monkeypatch.setattr("stitch.drivers.spill._SMALL_BYTES", 40_000)
        monkeypatch.setattr("stitch.drivers.import_settings._BUDGET_PER_PAYLOAD_BYTE", 64 * 2**20 // 80_000)
    put(tmp_path / "one", files, 1)
    lake = bucket_server.new_lake() if where == "bucket" else str(tmp_path / "two")
    deaths, done = Deaths(), set()
    monkeypatch.setattr(_Queue, "_put", deaths.around(_Queue._put))
    monkeypatch.setattr(_Leader, "_work", lambda leader: leader._over.wait())
    for name in work_queue._TASKS:
        monkeypatch.setitem(
            work_queue._TASKS,
            name,
            lambda *given, name=name: (done.add(name), getattr(tasks, name)(*given))[1],
        )
    # What the leader waits for is asked once a task, of a server that takes longer than a folder.
    asks_s = {"folder": 0.05, "bucket": 0.5}[where]
    leader, worker = (of_job(lake, files, n, "a-1", poll_s=s) for n, s in ((0, asks_s), (1, 0.05)))
    with ThreadPoolExecutor(1) as pool:
        leading = pool.submit(put, lake, files, leader)
        leading.add_done_callback(lambda _: leader.end())
        while True:
            try:
                worker.work()
                break
            except DiedError:
                continue
        leading.result()
    assert done == set(work_queue._TASKS)
    steps = ("before claim", "after claim", "before result", "after result")
    assert deaths.happened == {(step, task) for step in steps for _, task in deaths.happened}
    assert len(deaths.happened) > 3 * len(steps)
    assert len(files_of(lake)) > 6
    assert files_of(lake) == files_of(tmp_path / "one")
    store = open_store(lake)
    assert not store.names("stage/lane=0")
    for name in store.names("dead_letters"):
        theirs = (tmp_path / "one" / "dead_letters" / name).read_bytes()
        assert store.read(f"dead_letters/{name}").to_pybytes() == theirs


class Late:
    """A store whose first listing with a task is told when that task was done by `swift` and forgotten."""

    def __init__(self, store: Store, swift: _Queue, *, claimed: bool) -> None:
        self._store = store
        self._swift: _Queue | None = swift
        self._claimed = claimed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def names(self, folder: str) -> list[str]:
        swift = self._swift
        if swift is not None and self._claimed:
            swift._claim()
        found = self._store.names(folder)
        if swift is not None and "task-000000" in found:
            self._swift = None
            assert swift.do_next()
            wait_until(lambda: not [x for x in self._store.names(folder) if x.endswith("-000000")])
        return found


@pytest.mark.parametrize("claimed", [False, True])
@pytest.mark.parametrize("number", [0, 2])
def test_a_task_that_is_forgotten_while_another_worker_looks_at_it(
    number: int, claimed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the claim of it is made, or read; by another worker, or by worker 0 beside what it waits for."""
    done: list[tuple[int, ...]] = []
    monkeypatch.setitem(
        work_queue._TASKS, "write_window_files", lambda job, _: (done.append(job.absurd_days), ())[1]
    )
    store, stage = open_store(str(tmp_path)), "stage/lane=0/000000000001-0123456789abcdef-"
    folder = f"{stage}job-a"
    exchange = SharedFolder(tmp_path / "stage" / "scratch" / "0123456789abcdef")

    def queue(store: Store, number: int) -> _Queue:
        return _Queue(store, folder, QueueWorker(str(tmp_path), number, OwnInputs(()), MEMORY))

    def a_job(day: int) -> Job:
        return Job(str(tmp_path), 0, 1, stage, exchange, MEMORY, (day,))

    swift = queue(store, 1)
    slow = queue(Late(store, swift, claimed=claimed), number)
    if number:
        monkeypatch.setattr(_Leader, "_work", lambda leader: leader._over.wait())
    of_leader = queue(store, 0) if number else slow
    with _Leader(of_leader, 2, 0.01) as leader:
        first = leader.submit(tasks.write_window_files, a_job(1), [])
        while number and not first.done():
            assert not slow.do_next()
        assert first.result(PATIENCE_S) == ()
        second = leader.submit(tasks.write_window_files, a_job(2), [])
        if number:
            wait_until(slow.do_next)
        assert second.result(PATIENCE_S) == ()
    assert done == [(1,), (2,)]
    assert store.names(folder) == ["drafts"]


def test_worker_0_that_another_import_fences_off_ends_and_is_started_again(
    bucket_server: BucketServer,
    bucket_environ: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In a bucket nothing locks a lake. The other worker goes on with the new queue."""
    mine, other = tmp_path / "mine.ndjson", tmp_path / "other.ndjson"
    for seed, file in enumerate((mine, other)):
        write_native(file, 30, seed=seed, seconds=900)
    lake = bucket_server.new_lake()
    store = open_store(lake)
    words = ["import", str(mine), "--lake", lake, "--memory", "64MB", "--job", "a", "--worker"]

    def fenced_off(leader: _Leader) -> None:
        wait_until(lambda: store.names(leader._queue.folder))
        put(lake, [other], 1)
        leader._over.wait()

    monkeypatch.setattr(_Leader, "_work", fenced_off)
    with pytest.raises(SystemExit) as ended:
        main([*words, "0/2"])
    assert ended.value.code == TRY_AGAIN
    assert "Another writer took commit 1 of lane 0. Run the command again." in capsys.readouterr().err
    monkeypatch.setattr(_Leader, "_work", lambda leader: leader._over.wait())
    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(of_job(lake, [mine], 1).work)
        with pytest.raises(SystemExit) as ended:
            main([*words, "0/2"])
        assert ended.value.code == 0
        assert working.result(PATIENCE_S)
    put(tmp_path / "one", [other], 1)
    put(tmp_path / "one", [mine], 1)
    assert sorted(file.sha256 for file in files_of(lake)) == sorted(
        file.sha256 for file in files_of(tmp_path / "one")
    )


def test_workers_that_are_killed_and_started_again(tmp_path: Path) -> None:
    """By SIGKILL, whichever of two comes to a step first; whoever dies is started again, as in Kubernetes."""
    files = [tmp_path / f"{number}.ndjson" for number in range(3)]
    for number, file in enumerate(files):
        write_native(file, 30, seed=number, seconds=900)
    put(tmp_path / "one", files, 1)
    noted, lake = tmp_path / "noted", tmp_path / "two"
    noted.mkdir()
    command = [sys.executable, "-m", "oracles.killed_job", str(noted), "import", *map(str, files)]
    command += ["--lake", str(lake), "--memory", "64MB", "--job", "night-1", "--worker"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    def start(number: int) -> subprocess.Popen[bytes]:
        # As on two machines: sets of text have another order in each. That of worker 0 is the fork server's.
        environ = environment | ({"PYTHONHASHSEED": "1"} if number else {})
        return fork_server.Popen([*command, f"{number}/2"], env=environ)

    running, begin = {number: start(number) for number in (0, 1)}, time.monotonic()
    try:
        while running:
            assert time.monotonic() - begin < PATIENCE_S
            for number, process in [*running.items()]:
                code = process.poll()
                if code == 0:
                    del running[number]
                elif code is not None:
                    assert code == -signal.SIGKILL
                    running[number] = start(number)
            time.sleep(0.05)
    finally:
        for process in running.values():
            process.kill()
            process.wait()
    # Who dies as it publishes what it has committed finds nothing to commit when it is started again.
    assert {*STEPS} - {path.name for path in noted.iterdir()} <= {"after commit"}
    assert check(open_store(str(lake))) == []
    # Numbers of commits that never came are fenced off, and are in the names of files.
    mine, theirs = ([file.sha256 for file in files_of(each)] for each in (lake, tmp_path / "one"))
    assert sorted(mine) == sorted(theirs)
    assert open_store(str(lake)).names("stage") == ["ended-jobs", "lane=0"]


def test_a_queue_is_gone_before_a_file_of_its_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that misses one knows by that that worker 0 was started again."""
    files = [tmp_path / f"{number}.ndjson" for number in range(2)]
    for number, file in enumerate(files):
        write_native(file, 30, seed=number, seconds=900)
    lake = tmp_path / "lake"
    put(lake, files[:1], 1)
    queue, left = lake / f"{stage_folder(0, 2)}-job-a", lake / "stage" / "scratch" / "left"
    for folder in (queue, left):
        folder.mkdir(parents=True)
        (folder / "file").touch()
    seen = []
    remove = LocalStore.remove

    def watched(store: LocalStore, name: str) -> None:
        seen.append((lake / name in (left, left.parent), queue.exists()))
        remove(store, name)

    monkeypatch.setattr(LocalStore, "remove", watched)
    put(lake, files, 1)
    assert {was_there for of_scratch, was_there in seen if of_scratch} == {False}
    assert not left.parent.exists()


def test_workers_with_other_options_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.ndjson"
    write_native(file, 30, seed=1, seconds=900)
    lake = str(tmp_path / "lake")
    other = MEMORY.model_copy(update={"params_share": 0.5})
    leader = of_job(lake, [file], 0, poll_s=0.01)
    worker = of_job(lake, [file], 1, settings=other, poll_s=0.01)
    with ThreadPoolExecutor(1) as pool, pytest.MonkeyPatch.context() as patched:
        patched.setattr(_Leader, "_work", lambda leader: leader._over.wait())
        leading = pool.submit(put, lake, [file], leader)
        with pytest.raises(ConfigError, match="given different options"):
            worker.work()
        patched.undo()
        ended = threading.Event()
        leading.add_done_callback(lambda _: (leader.end(), ended.set()))
        assert of_job(lake, [file], 1, poll_s=0.01).work()
        assert ended.is_set()
        assert leading.result().counters.flows


def test_a_machine_that_fails_under_the_leader_does_not_end_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its folder for temporary files is full before anything is committed."""

    def full(_job: object, _source: object, _decoders: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/tmp/x")

    file, lake = tmp_path / "a.ndjson", tmp_path / "lake"
    write_native(file, 30, seed=1, seconds=900)
    monkeypatch.setitem(work_queue._TASKS, "deal_file", full)
    with pytest.raises(SystemExit) as ended:
        main(["import", str(file), "--lake", str(lake), "--worker", "0/1", "--job", "a"])
    assert ended.value.code == TRY_AGAIN
    assert (
        "failed: No space left on device. See to it, and start this worker again" in capsys.readouterr().err
    )


@pytest.mark.parametrize("number", [0, 1])
def test_what_fails_is_said_and_ends_the_worker(
    number: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The import of worker 0 is committed by then; it is started again, and tells the others."""
    file, lake = tmp_path / "a.ndjson", tmp_path / "lake"
    write_native(file, 30, seed=1, seconds=900)
    put(lake, [file], 1)
    if number:  # a folder where a task should be, and a file where a folder should be
        (lake / "stage" / "lane=0" / "000000000002-0123456789abcdef-job-a" / "task-000000").mkdir(
            parents=True
        )
    else:
        (lake / "stage" / "ended-jobs").touch()
    with pytest.raises(SystemExit) as ended:
        main(["import", str(file), "--lake", str(lake), "--worker", f"{number}/2", "--job", "a"])
    assert ended.value.code == TRY_AGAIN, "another machine may do it: the Job goes on"
    assert "A worker of the import into" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--worker", "2/2", "--job", "a"), "'--worker 2/2' is no worker"),
        (("--worker", "x", "--job", "a"), "'--worker x' is no worker"),
        (("--worker", "0/2"), "needs the name of its job"),
        (("--worker", "0/2", "--job", "../a"), "needs the name of its job"),
        (("--worker", "0/2", "--job", "a", "--workers", "2"), "Leave out --workers and --engine"),
        (("--worker", "0/2", "--job", "a", "--engine", "spark"), "Leave out --workers and --engine"),
        (("--job", "a"), "Add --worker K/N, or leave out --job"),
    ],
)
def test_options_of_workers_that_say_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], told: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["import", "x.ndjson", "--lake", str(tmp_path / "lake"), *options])
    assert ended.value.code == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "lake").exists()
