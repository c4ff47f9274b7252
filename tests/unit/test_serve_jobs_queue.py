"""Queue of jobs around children that misbehave."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flowdiff.serve.jobs.question import Question
from flowdiff.serve.jobs.queue import Job, Jobs
from flowdiff.serve.jobs.results import Results
from flowdiff.serve.settings import ServeSettings

KEY = "0" * 32


@contextmanager
def queue(folder: Path, monkeypatch: pytest.MonkeyPatch, child: str) -> Iterator[Jobs]:
    """Queue whose children are a shell script."""
    script = folder / "child"
    script.write_text(f"#!/bin/sh\n{child}\n")
    script.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(script))
    jobs = Jobs("lake", ServeSettings(job_seconds=1.0), Results(folder / "results", 1, 1, 60.0))
    try:
        yield jobs
    finally:
        jobs.close()


def over(jobs: Jobs) -> Job:
    """The job, once it is over."""
    jobs.ask(KEY, Question())
    found = jobs.wait(KEY, 10)
    assert found is not None
    return found


def test_who_waits_for_a_job_that_is_no_longer_wanted_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with queue(tmp_path, monkeypatch, "sleep 60") as jobs:
        jobs.ask(KEY, Question())
        wanted = iter([True, False])
        found = jobs.wait(KEY, 600, lambda: next(wanted))
        assert found is not None
        assert not found.is_over


def test_a_process_that_outlives_its_dead_parent_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with queue(tmp_path, monkeypatch, f"sleep 60 & echo $! > {tmp_path}/pid; kill -9 $$") as jobs:
        jobs.ask(KEY, Question())
        while not (tmp_path / "pid").exists():
            time.sleep(0.01)
        assert "longer than 1 s" in over(jobs).error
        left = Path("/proc") / (tmp_path / "pid").read_text().strip()
        deadline = time.monotonic() + 10
        while left.exists() and "(sleep) Z" not in (left / "stat").read_text():
            assert time.monotonic() < deadline
            time.sleep(0.01)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda folder: (folder / KEY / "report.json").mkdir(parents=True),
        lambda folder: [(folder / f"{i:032x}" / "sub").mkdir(parents=True) for i in range(3)],
        lambda folder: (folder.mkdir(), (folder / KEY).touch()),
    ],
)
def test_results_that_cannot_be_removed_stop_no_job(
    spoil: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil(tmp_path / "results")
    with queue(tmp_path, monkeypatch, "exit 1") as jobs:
        assert "exit code 1" in over(jobs).error  # its task has been read by nobody
        assert over(jobs).state == "failed"


def test_a_process_that_cannot_be_started_fails_its_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with queue(tmp_path, monkeypatch, "exit 1") as jobs:
        (tmp_path / "child").unlink()
        assert over(jobs).error == "No process can be started for it."


def test_output_that_is_no_text_stops_no_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with queue(tmp_path, monkeypatch, r"printf '\377\n'; printf '\377\n' >&2; exit 1") as jobs:
        assert over(jobs).state == "failed"
        assert over(jobs).state == "failed"
