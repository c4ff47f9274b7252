"""Queue of jobs, with limits on running and waiting ones; each has a time limit and can be cancelled.

A job is a process in a session of its own, so that all of its children end with it. If it crashes, the job
has failed, and nothing else is affected.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from flowdiff.serve.busy import BusyError
from flowdiff.serve.jobs.memory import session_bytes
from flowdiff.serve.jobs.process import REFUSED, Task
from flowdiff.serve.jobs.question import Question
from flowdiff.serve.jobs.results import Results
from flowdiff.serve.settings import ServeSettings
from stitch.processes import cores

State = Literal["waiting", "running", "done", "failed", "cancelled"]
_LOG: Final = logging.getLogger("flowdiff.serve")


@dataclass(slots=True)
class Job:
    """A question and the state of its job.

    The queue changes its jobs under its lock, and returns copies of them.
    """

    key: str
    question: Question
    state: State = "waiting"
    step: str = ""
    """Name of the step that is running, e.g. `Analysing`; empty before the first step."""
    error: str = ""
    remedy: str = ""
    began_s: float = 0.0
    """Monotonic clock when the job started, s; 0 while it waits."""
    seconds: float = 0.0
    """Running time of the job, s; 0 until it has ended."""
    cancelled: bool = False
    process: subprocess.Popen[str] | None = field(default=None, repr=False)

    @property
    def is_over(self) -> bool:
        """True if the job is neither waiting nor running."""
        return self.state not in ("waiting", "running")


class Jobs:
    """Queue and processes of the jobs on one lake. Must be closed, which ends all jobs."""

    def __init__(self, lake: str, settings: ServeSettings, results: Results) -> None:
        self._lake = lake
        self._settings = settings
        self.results = results
        self._lock = threading.Condition()
        self._waiting: deque[Job] = deque()
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        """Key of a question (`identity`) -> job that answers it, the latest job last."""
        self._closed = False
        self._workers = [threading.Thread(target=self._work, daemon=True) for _ in range(settings.jobs)]
        for worker in self._workers:
            worker.start()

    def ask(self, key: str, question: Question) -> None:
        """Start a job for a question, unless a job with this key is waiting or running.

        Raises BusyError if too many jobs wait.
        """
        with self._lock:
            known = self._jobs.get(key)
            if known is not None and not known.is_over:
                return
            running = sum(job.state == "running" for job in self._jobs.values())
            if len(self._waiting) >= self._settings.queued_jobs + max(self._settings.jobs - running, 0):
                raise BusyError(
                    f"{len(self._waiting)} comparisons wait already.", remedy="Try again when they are done."
                )
            job = Job(key, question)
            self._jobs[key] = job
            self._jobs.move_to_end(key)
            while len(self._jobs) > self._settings.remembered_jobs:
                oldest = next((one for one in self._jobs.values() if one.is_over), None)
                if oldest is None:
                    break
                del self._jobs[oldest.key]
            self._waiting.append(job)
            self._lock.notify_all()

    def get(self, key: str) -> Job | None:
        """Copy of the job with this key; None if it is unknown or forgotten."""
        with self._lock:
            job = self._jobs.get(key)
            return None if job is None else replace(job, process=None)

    def latest(self) -> Sequence[Job]:
        """Copies of all jobs, latest first."""
        with self._lock:
            return [replace(job, process=None) for job in reversed(self._jobs.values())]

    def before(self, key: str) -> int:
        """Number of jobs that wait before the job `key`; 0 if that job does not wait."""
        with self._lock:
            keys = [job.key for job in self._waiting]
            return keys.index(key) if key in keys else 0

    def cancel(self, key: str) -> None:
        """Cancel the job `key` if it waits or runs."""
        with self._lock:
            job = self._jobs.get(key)
            if job is None or job.is_over:
                return
            job.cancelled = True
            if job in self._waiting:
                self._waiting.remove(job)
                job.state = "cancelled"
            self._kill(job)

    def wait(self, key: str, seconds: float, is_wanted: Callable[[], bool] = lambda: True) -> Job | None:
        """Wait until a job is over, or for `seconds`, or until `is_wanted` returns False.

        Returns a copy of the job; None if it is unknown or forgotten.
        """
        end_s = time.monotonic() + seconds
        with self._lock:
            job = self._jobs.get(key)
            if job is None:
                return None
            while not job.is_over and is_wanted() and (left_s := end_s - time.monotonic()) > 0:
                self._lock.wait(min(left_s, self._settings.job_check_seconds))
            return replace(job, process=None)

    def close(self) -> None:
        """End all jobs, and wait for the queue's threads to end."""
        with self._lock:
            self._closed = True
            self._waiting.clear()
            for job in self._jobs.values():
                self._kill(job)
            self._lock.notify_all()
        for worker in self._workers:
            worker.join()

    def _work(self) -> None:
        while True:
            with self._lock:
                self._lock.wait_for(lambda: self._closed or self._waiting)
                if self._closed:
                    return
                job = self._waiting.popleft()
                job.state, job.began_s = "running", time.monotonic()
            try:
                code, crash = self._run(job)
            except OSError as error:
                code, crash = 1, str(error)
                with self._lock:
                    job.error = "No process can be started for it."
            self._end(job, code, crash)

    def _run(self, job: Job) -> tuple[int, str]:
        """Run a job's process; return (exit code, end of its standard error)."""
        settings = self._settings
        task = Task(
            lake=self._lake,
            question=job.question,
            result=str(self.results.path(job.key)),
            nice=settings.job_nice,
            workers=max(cores() // settings.jobs, 1),
        )
        with subprocess.Popen(
            [sys.executable, "-m", "flowdiff.serve.jobs.process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",  # libraries may print any bytes
            start_new_session=True,
        ) as process:
            with self._lock:
                job.process = process
                if job.cancelled or self._closed:
                    self._kill(job)
            errors: list[str] = []
            reading = threading.Thread(
                target=_read_end, args=(process, errors, settings.job_log_characters), daemon=True
            )
            reading.start()
            over = threading.Event()
            limits = threading.Thread(target=self._keep_limits, args=(job, process.pid, over), daemon=True)
            limits.start()
            try:
                assert process.stdin is not None
                assert process.stdout is not None
                try:
                    process.stdin.write(f"{task.model_dump_json()}\n")
                    process.stdin.flush()  # it stays open: its end tells the child that the server is gone
                except BrokenPipeError:
                    with suppress(BrokenPipeError):  # flushes the rest of the task
                        process.stdin.close()
                for line in process.stdout:
                    self._told(job, line)
                code = process.wait()
            finally:
                over.set()
                limits.join()
                reading.join()
        return code, "".join(errors)

    def _told(self, job: Job, line: str) -> None:
        try:
            told = json.loads(line)
        except ValueError:
            return  # a library's own print
        if isinstance(told, dict):
            with self._lock:
                job.step = str(told.get("step", job.step))
                job.error = str(told.get("error", job.error))
                job.remedy = str(told.get("remedy", job.remedy))

    def _keep_limits(self, job: Job, session: int, over: threading.Event) -> None:
        """Kill a job that exceeds its time or memory limit."""
        settings = self._settings
        deadline, most = time.monotonic() + settings.job_seconds, settings.job_memory_bytes
        wait = min(settings.job_check_seconds, settings.job_seconds)
        while not over.wait(wait):
            if time.monotonic() >= deadline:
                told = f"It took longer than {settings.job_seconds:g} s.", "job_seconds"
            elif session_bytes(session) > most:
                told = f"It took more than {settings.job_memory} of memory.", "job_memory"
            else:
                continue
            with self._lock:
                job.error, job.remedy = told[0], f"Take shorter periods, or raise {told[1]}."
                self._kill(job)
            return

    def _kill(self, job: Job) -> None:
        # Not `poll`: child processes of a dead job go on and keep its output open. Before `wait` its process
        # number is not reused.
        if job.process is not None and job.process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(job.process.pid, signal.SIGKILL)

    def _end(self, job: Job, code: int, crash: str) -> None:
        self.results.forget_oldest()
        with self._lock:
            job.process = None
            job.seconds = time.monotonic() - job.began_s
            if job.cancelled:
                job.state = "cancelled"
            elif code == 0:
                job.state = "done"
            else:
                job.state = "failed"
                if code != REFUSED and not job.error:
                    job.error = f"Its process ended with {_code_words(code)}."
                    job.remedy = "Take shorter periods; the server's log has more."
            self._lock.notify_all()
        if crash and code not in (0, REFUSED) and not job.cancelled:
            _LOG.error("A comparison of %s failed (%s):\n%s", job.question.title, _code_words(code), crash)


def _read_end(process: subprocess.Popen[str], into: list[str], most: int) -> None:
    """Read the standard error of a process to its end; keep in `into` the last lines, at most `most`
    characters."""
    assert process.stderr is not None
    for line in process.stderr:
        into.append(line)
        while sum(map(len, into)) > most:
            into.pop(0)


def _code_words(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with suppress(ValueError):
        return f"signal {signal.Signals(-code).name}"
    return f"signal {-code}"
