"""Processes that share work: they end with whoever started them, and one that dies ends the work."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Executor, as_completed
from contextlib import AbstractContextManager, contextmanager
from io import BytesIO
from pathlib import Path
from pickle import PicklingError

import pytest
from oracles import fork_server
from oracles.quiet_import import Quiet
from oracles.stopping_tasks import note_and_wait, refuse
from oracles.traffic import write_native
from oracles.waiting import PATIENCE_S, wait_until

from analyze.profile import stored
from flowdiff.__main__ import main
from flowdiff.cli.spark_options import SparkOptions
from schemas.errors import InputError, LakeError
from stitch.drivers.batch import ImportSettings, import_into
from stitch.processes import cores, room_for, shared_processes, worker_processes

STARTER = """
import os, sys, time
from oracles.stopping_tasks import note_and_wait
from stitch.processes import worker_processes

if __name__ == "__main__":
    with worker_processes(2) as pool:
        list(pool.map(note_and_wait, [sys.argv[1]] * 2))
"""
SIGNALLED = """
import os, signal
from stitch.processes import worker_processes

if __name__ == "__main__":
    with worker_processes(1) as pool:
        worker = pool.submit(os.getpid).result()
        for how in (signal.SIGTERM, signal.SIGINT):
            os.kill(worker, how)
        assert pool.submit(os.getpid).result() == worker
"""
QUIET = """
from analyze.profile.stored import ProfileTally
from stitch.processes import worker_processes

if __name__ == "__main__":
    with worker_processes(2) as pool:
        assert pool.submit(ProfileTally).result() == ProfileTally()
"""


def noted(folder: Path) -> list[int]:
    return [int(path.name) for path in folder.iterdir()]


def is_running(pid: int) -> bool:
    try:
        # One that has ended and was not waited for yet is a zombie.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "noted").mkdir()
    return tmp_path / "noted"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_workers_end_with_their_starter(folder: Path, tmp_path: Path, how: signal.Signals) -> None:
    script = tmp_path / "starter.py"
    script.write_text(STARTER)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(script), str(folder)]
    with fork_server.Popen(command, env=environment, stderr=subprocess.DEVNULL) as starter:
        try:
            wait_until(lambda: len(noted(folder)) == 2)
            assert all(map(is_running, noted(folder)))
            starter.send_signal(how)
            wait_until(lambda: not any(map(is_running, noted(folder))))
            starter.wait(PATIENCE_S)
        finally:
            starter.kill()
    assert starter.returncode != 0


def test_a_worker_that_is_killed_ends_the_work(folder: Path) -> None:
    def run() -> None:
        with worker_processes(2) as pool:
            tasks = [pool.submit(note_and_wait, str(folder)) for _ in range(2)]
            wait_until(lambda: len(noted(folder)) == 2)
            os.kill(noted(folder)[0], signal.SIGKILL)
            next(as_completed(tasks)).result()

    with pytest.raises(LakeError, match=r"A worker process ended .* fewer --workers"):
        run()
    wait_until(lambda: not any(map(is_running, noted(folder))))


def test_a_signal_to_all_processes_of_a_service_is_left_to_the_starter(tmp_path: Path) -> None:
    script = tmp_path / "signalled.py"
    script.write_text(SIGNALLED)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, str(script)], env=environment, check=True)


def test_an_error_ends_what_is_under_way(folder: Path) -> None:
    """A task's own error comes as it was raised, and nobody waits for the other tasks."""
    with pytest.raises(InputError, match=r"No file\. Bring some\."), worker_processes(2) as pool:  # noqa: PT012
        pool.submit(note_and_wait, str(folder))
        wait_until(lambda: len(noted(folder)) == 1)
        pool.submit(refuse, "file").result()
    wait_until(lambda: not any(map(is_running, noted(folder))))


def test_a_task_that_cannot_be_sent_says_so() -> None:
    """The process that its function should go to never began: nobody waits for it."""
    with pytest.raises((AttributeError, PicklingError), match="lambda"), worker_processes(2) as pool:
        pool.submit(lambda: None).result()


@pytest.mark.parametrize(
    ("quota", "least", "most"), [("max 100000", 1, 4096), ("150000 100000", 1, 2), ("1000 100000", 1, 1)]
)
def test_a_containers_quota_bounds_the_cores(tmp_path: Path, quota: str, least: int, most: int) -> None:
    file = tmp_path / "cpu.max"
    file.write_text(quota)
    assert least <= cores(file) <= most
    assert cores(file) <= cores(tmp_path / "missing")


def test_a_containers_limit_bounds_the_processes_that_memory_holds(tmp_path: Path) -> None:
    file, gigabyte = tmp_path / "memory.max", 1 << 30
    file.write_text(f"{gigabyte}\n")
    assert [room_for(gigabyte // part, file) for part in (1, 4, 8)] == [1, 2, 4]
    file.write_text("max\n")
    assert room_for(1 << 20, file) == room_for(1 << 20, tmp_path / "missing") > 1


class Elsewhere:
    """Two processes that are at home in another folder."""

    @contextmanager
    def executor(self, stage: str) -> Iterator[tuple[Executor, int]]:
        with worker_processes(2) as pool:
            for task in [pool.submit(os.chdir, "/") for _ in range(2)]:
                task.result()
            yield pool, 2


def test_statistics_made_by_two_are_those_of_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_native(tmp_path / "in.ndjson", 60, seconds=1000)
    import_into(
        tmp_path / "1",
        [str(tmp_path / "in.ndjson")],
        ImportSettings(),
        owner="test",
        created_by="test",
        stdin=BytesIO(),
        progress=Quiet(),
    )
    shutil.copytree(tmp_path / "1", tmp_path / "2")
    monkeypatch.setattr(stored, "WINDOWS_A_WORKER", 1)
    started: list[int] = []

    def counted(n: int) -> AbstractContextManager[Executor]:
        started.append(n)
        return worker_processes(n)

    monkeypatch.setattr(stored, "worker_processes", counted)

    def summarize(workers: str) -> str:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(["summarize", "--lake", str(tmp_path / workers), "--workers", workers])
        assert ended.value.code == 0
        return capsys.readouterr().out

    found = []
    for workers in ("1", "2"):
        assert summarize(workers) == "4 windows: 4 worked out, 0 there already\n"
        stats = tmp_path / workers / "stats"
        found.append({path.relative_to(stats): path.read_bytes() for path in stats.rglob("*.parquet")})
    assert len(found[0]) == 4
    assert found[0] == found[1]
    assert started == [2]
    first, *_ = (tmp_path / "2" / "stats").rglob("*.parquet")
    first.write_bytes(b"damaged")
    assert summarize("2") == "4 windows: 1 worked out, 3 there already\n"
    assert started == [2]
    # A cluster finds the lake by its whole name, wherever its processes are at home.
    shutil.copytree(tmp_path / "1", tmp_path / "3", ignore=shutil.ignore_patterns("stats"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(SparkOptions, "cluster", lambda *_: Elsewhere())
    with pytest.raises(SystemExit) as ended:
        main(["summarize", "--lake", "3"])
    assert ended.value.code == 0
    stats = tmp_path / "3" / "stats"
    assert {path.relative_to(stats): path.read_bytes() for path in stats.rglob("*.parquet")} == found[0]
    assert started == [2]


@pytest.mark.parametrize("options", [("--engine", "spark"), ("--master", "local[2]")])
def test_options_of_spark_that_say_nothing_are_refused(tmp_path: Path, options: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["summarize", "--lake", str(tmp_path), *options])
    assert ended.value.code == 2


def test_blocks_share_their_processes() -> None:
    started = []
    with shared_processes(2):
        for _ in range(2):
            with worker_processes(2) as pool:
                started.append(pool.submit(os.getpid).result())
    assert len({*started, os.getpid()}) == 2
    with pytest.raises(ProcessLookupError):
        os.kill(started[0], 0)
    with worker_processes(1) as pool:
        assert pool.submit(os.getpid).result() != started[0]


def test_processes_end_without_a_word(tmp_path: Path) -> None:
    """DuckDB's library says on standard error what is not freed when a process ends."""
    script = tmp_path / "quiet.py"
    script.write_text(QUIET)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    ended = subprocess.run([sys.executable, script], env=environment, capture_output=True, check=True)
    assert (ended.stdout, ended.stderr) == (b"", b"")
