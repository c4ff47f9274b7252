"""An import by several processes: the bytes of one, whatever it reads; nothing of one that was stopped."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from oracles import fork_server, stopping_tasks
from oracles.bucket_server import BucketServer
from oracles.mixed_input import mixed, tree
from oracles.quiet_import import Quiet
from oracles.traffic import native_lines, write_native, write_otlp

from flowdiff.__main__ import main
from schemas.errors import LakeError
from stitch import processes
from stitch.drivers import batch
from stitch.drivers.batch import import_into, worth_processes
from stitch.drivers.import_settings import LEAST_MEMORY_BYTES, STITCHED_AT_ONCE, ImportSettings, ImportSummary
from stitch.drivers.inputs import Source
from stitch.drivers.sharded import engines
from stitch.drivers.sharded.engines import (
    PROCESSES_FROM_BYTES,
    TWO_FROM_BYTES,
    Cluster,
    Engine,
    import_engine,
)
from stitch.lake.fsck import check
from stitch.lake.layout import WINDOW_TABLES
from stitch.lake.manifest import open_manifest
from stitch.lake.place import open_place, open_store
from stitch.processes import shared_processes, worker_processes

PATIENCE_S = 120.0
TASKS = ("deal_file", "stitch_group", "write_window_files")


@pytest.fixture(autouse=True)
def _processes_for_small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "PROCESSES_FROM_BYTES", 0)
    monkeypatch.setattr(batch, "TWO_FROM_BYTES", 0)


def put(
    lake: Path | str,
    files: list[Path],
    workers: int | Cluster,
    settings: ImportSettings | None = None,
    threads: int = STITCHED_AT_ONCE,
) -> ImportSummary:
    summary = import_into(
        lake,
        [str(file) for file in files],
        ImportSettings() if settings is None else settings,
        owner="test",
        created_by="test",
        stdin=io.BytesIO(),
        progress=Quiet(),
        workers=workers,
        threads=threads,
    )
    assert check(open_store(str(lake))) == []
    return summary


def test_one_thread_writes_the_bytes_of_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, started = mixed(tmp_path / "in"), []

    def start(thread: threading.Thread, begin: Callable[..., None] = threading.Thread.start) -> None:
        started.append(thread.name)
        begin(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    put(tmp_path / "1", files, 1, ImportSettings(memory_bytes=LEAST_MEMORY_BYTES), threads=1)
    assert started == []
    put(tmp_path / "2", files, 1, ImportSettings(memory_bytes=LEAST_MEMORY_BYTES), threads=2)
    assert started
    assert tree(tmp_path / "1") == tree(tmp_path / "2")


@pytest.mark.parametrize("memory", [64 * 2**20, 2**30])
def test_two_write_the_bytes_of_one(tmp_path: Path, memory: int) -> None:
    files = mixed(tmp_path / "in")
    again = tmp_path / "again.ndjson"
    # The same requests in part: duplicates, late events.
    again.write_text("\n".join(list(native_lines(180, seconds=1500))[10:1000:3]))
    settings = ImportSettings(memory_bytes=memory, max_dead_letters_per_file=5)
    lakes = tmp_path / "1", tmp_path / "2"
    for given in (files, [again]):
        one, two = (put(lake, given, number, settings) for number, lake in enumerate(lakes, 1))
        assert two.counters == one.counters
        assert (two.files_imported, two.windows) == (one.files_imported, one.windows)
        assert tree(lakes[1]) == tree(lakes[0])
    assert one.counters.flows_late
    assert {name.split("/")[0] for name in tree(lakes[0])} >= {"flows", "structures", "late", "dead_letters"}


def test_large_groups_are_dealt_again_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many groups, some of them parts of a bucket; windows too large to wait."""
    write_otlp(tmp_path / "a.pb", 30, seconds=120)
    write_otlp(tmp_path / "b.pb", 30, seconds=120, seed=2)
    monkeypatch.setattr("stitch.drivers.sharded.stitching._SMALL_PART_BYTES", 4_000)
    monkeypatch.setattr("stitch.drivers.spill._SMALL_BYTES", 20_000)
    monkeypatch.setattr("stitch.drivers.import_settings._BUDGET_PER_PAYLOAD_BYTE", 64 * 2**20 // 40_000)
    settings = ImportSettings(memory_bytes=64 * 2**20)
    lakes = tmp_path / "1", tmp_path / "2"
    monkeypatch.setattr(engines, "stitch_group", stopping_tasks.stitch_group_of_large_windows)
    for number, lake in enumerate(lakes, 1):
        put(lake, [tmp_path / "a.pb", tmp_path / "b.pb"], number, settings)
    assert tree(lakes[1]) == tree(lakes[0])
    assert len(list(lakes[0].glob("flows/*/*.parquet"))) > 32


class Elsewhere(Executor):
    """Two processes that know of each other what lies in the lake, and do every task twice."""

    @contextmanager
    def executor(self, stage: str) -> Iterator[tuple[Executor, int]]:
        with worker_processes(2) as self._pool:
            yield self, 2

    def submit(self, fn: Any, /, *arguments: Any, **_: Any) -> Future[Any]:
        return self._pool.submit(stopping_tasks.twice, fn, *arguments)


@pytest.mark.parametrize("where", ["folder", "bucket"])
def test_a_cluster_writes_the_bytes_of_one(
    where: str,
    bucket_server: BucketServer,
    bucket_environ: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Records are named and groups dealt again by the one that gathers, for all."""
    files = mixed(tmp_path / "in")
    monkeypatch.setattr("stitch.drivers.spill._SMALL_BYTES", 20_000)
    # Of a folder's groups some are large enough to be dealt again, which makes many: no matter of the store.
    most_bytes = {"folder": 140_000, "bucket": 160_000}[where]
    monkeypatch.setattr("stitch.drivers.import_settings._BUDGET_PER_PAYLOAD_BYTE", 64 * 2**20 // most_bytes)
    settings = ImportSettings(memory_bytes=64 * 2**20)
    monkeypatch.chdir(tmp_path)
    folder = Path("lake-here")  # a name that means nothing on another machine
    put(folder, files, 1, settings)
    lake = bucket_server.new_lake() if where == "bucket" else "lake-there"
    # The stages have processes of their own in a folder; in a bucket they share some, which remember.
    with shared_processes(2) if where == "bucket" else nullcontext():
        put(lake, files, Elsewhere(), settings)
    store = open_store(lake)
    assert not store.names("stage/lane=0")
    mine, theirs = (
        [file for table in WINDOW_TABLES for file in open_manifest(open_store(name)).files(table)]
        for name in (lake, str(folder))
    )
    assert len(mine) > 16
    assert mine == theirs  # by name, size and SHA-256
    letters = store.names("dead_letters")
    assert letters == [path.name for path in sorted((folder / "dead_letters").iterdir())]
    for name in letters:
        assert (
            store.read(f"dead_letters/{name}").to_pybytes() == (folder / "dead_letters" / name).read_bytes()
        )


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("native")
    for number in range(2):
        write_native(folder / f"{number}.ndjson", 30, seed=number, seconds=900)
    return sorted(folder.iterdir())


@pytest.fixture(scope="module")
def undisturbed(native: list[Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    lake = tmp_path_factory.mktemp("undisturbed") / "lake"
    put(lake, native, 1)
    return tree(lake)


@pytest.mark.parametrize("task", TASKS)
def test_a_worker_that_is_killed_leaves_the_lake_as_it_was(
    task: str,
    native: list[Path],
    undisturbed: dict[str, bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lake = tmp_path / "lake"
    monkeypatch.setenv("STOP", "killed")
    with monkeypatch.context() as patched:
        patched.setattr(engines, task, getattr(stopping_tasks, task))
        with pytest.raises(LakeError, match="A worker process ended before its work was done"):
            put(lake, native, 2)
    assert tree(lake).keys() == {"flowdiff.json"}
    if task != TASKS[-1]:  # the others leave the same to go on with
        return
    put(lake, native, 2)
    assert {name: data for name, data in tree(lake).items() if name != "flowdiff.json"} == {
        name: data for name, data in undisturbed.items() if name != "flowdiff.json"
    }


@pytest.mark.parametrize("task", TASKS)
def test_an_error_of_a_worker_is_the_imports(
    task: str, native: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, task, stopping_tasks.full_disk)
    with pytest.raises(LakeError, match=r"Writing the lake .* No space left on device"):
        put(tmp_path / "lake", native, 2)
    assert tree(tmp_path / "lake").keys() == {"flowdiff.json"}


SCRIPT = """
import sys
from oracles import fork_server, stopping_tasks
from oracles.bucket_server import BucketServer
from flowdiff.__main__ import main
from stitch.drivers import batch
from stitch.drivers.sharded import engines

batch.PROCESSES_FROM_BYTES = 0
setattr(engines, sys.argv[1], getattr(stopping_tasks, sys.argv[1]))
main(["import", "--workers", "3", "--lake", *sys.argv[2:]])
"""


@pytest.mark.parametrize("task", TASKS)
def test_workers_end_with_an_import_that_is_killed(
    task: str, native: list[Path], undisturbed: dict[str, bytes], tmp_path: Path
) -> None:
    lake, noted = tmp_path / "lake", tmp_path / "noted"
    noted.mkdir()
    environment = {**os.environ, "STOP": str(noted), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", SCRIPT, task, str(lake), *map(str, native)]
    with fork_server.Popen(command, env=environment) as process:
        begin = time.monotonic()
        while not list(noted.iterdir()):
            assert process.poll() is None
            assert time.monotonic() - begin < PATIENCE_S
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
    (worker, *_) = (int(path.name) for path in noted.iterdir())
    begin = time.monotonic()
    while Path(f"/proc/{worker}").exists():
        assert time.monotonic() - begin < PATIENCE_S
        time.sleep(0.05)
    assert any(name.startswith("stage/") for name in tree(lake))
    assert not any(name.startswith(("flows/", "structures/", "params/")) for name in tree(lake))
    put(lake, native, 1)
    # The number of the commit that never came is fenced off.
    assert sorted(tree(lake).values()) == sorted({**undisturbed, **info(lake)}.values())


def info(lake: Path) -> dict[str, bytes]:
    return {"flowdiff.json": (lake / "flowdiff.json").read_bytes()}


def test_workers_import_into_a_bucket(
    native: list[Path], bucket_server: BucketServer, bucket_environ: dict[str, str], tmp_path: Path
) -> None:
    name, folder = bucket_server.new_lake(), str(tmp_path / "lake")
    for lake, workers in ((name, 2), (folder, 1)):
        put(lake, native, workers)
    mine, theirs = (
        [file for table in WINDOW_TABLES for file in open_manifest(open_store(lake)).files(table)]
        for lake in (name, folder)
    )
    assert len(mine) > 6
    assert mine == theirs  # by name, size and SHA-256
    cache = Path(bucket_environ["FLOWDIFF_CACHE"])
    (session,) = (path for path in (cache / "sessions").iterdir() if path.is_dir())
    assert open_place(name).root.is_relative_to(session), "those of the workers are gone"


@pytest.mark.parametrize(
    ("options", "cores", "code", "shares"),
    [
        (("--workers", "1"), 4, 0, [(1, 1)]),
        (("--workers", "2"), 1, 0, [(2, 2)]),
        (("--workers", "3"), 1, 0, [(3, 2)]),
        (("--workers", "0"), 1, 2, []),
        ((), 1, 0, [(1, 1)]),
        ((), 2, 0, [(2, 2)]),
        ((), 3, 0, [(3, 2)]),
    ],
)
def test_the_command_takes_workers(
    native: list[Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    cores: int,
    code: int,
    shares: list[tuple[int, int]],
) -> None:
    asked: list[tuple[int, int]] = []

    def engine(*arguments: Any) -> AbstractContextManager[Engine]:
        asked.append(arguments[-2:])
        return import_engine(*arguments)

    monkeypatch.setattr(batch, "import_engine", engine)
    monkeypatch.setattr(processes, "cores", lambda: cores)
    with pytest.raises(SystemExit) as ended:
        main(["import", *map(str, native), "--lake", str(tmp_path / "lake"), *options])
    assert ended.value.code == code
    assert asked == shares


@pytest.mark.parametrize(
    ("workers", "megabytes", "worth"),
    [
        (2, (900,), False),  # one file is read by one process
        (2, (60, 60), False),
        (2, (200, 150), True),
        (3, (10, 10), True),
        (3, (4, 4), False),
    ],
)
def test_two_threads_do_what_two_processes_do_not_do_sooner(
    monkeypatch: pytest.MonkeyPatch, workers: int, megabytes: tuple[int, ...], worth: bool
) -> None:
    for name, least in (("PROCESSES_FROM_BYTES", PROCESSES_FROM_BYTES), ("TWO_FROM_BYTES", TWO_FROM_BYTES)):
        monkeypatch.setattr(batch, name, least)
    sources = [Source(str(mb), Path(str(mb)), "", size=mb << 20, mtime_ns=0) for mb in megabytes]
    assert worth_processes(workers, sources) is worth


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--engine", "spark"), "needs a cluster"),
        (("--master", "local[2]"), "Add --engine spark"),
        (("--conf", "a=b"), "Add --engine spark"),
        (("--engine", "spark", "--master", "local[2]", "--conf", "x"), "--conf x: write NAME=VALUE"),
    ],
)
def test_options_of_spark_that_say_nothing(
    native: list[Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    told: str,
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["import", *map(str, native), "--lake", str(tmp_path / "lake"), *options])
    assert ended.value.code == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize(("workers", "budgets"), [(1, 1.0), (2, 1.0), (4, 2.0), (16, 8.0)])
def test_workers_keep_the_budget_together(workers: int, budgets: float) -> None:
    given = ImportSettings()
    shared = given.shared_among(workers).memory_bytes
    assert shared * budgets == given.memory_bytes
    assert given.most_workers(workers) == workers
    assert ImportSettings(memory_bytes=LEAST_MEMORY_BYTES).most_workers(workers) == min(workers, 2)
