"""Child process of the server that answers one question: prints its steps, and writes the report and its
tables to a folder.

Run as `python -m flowdiff.serve.jobs.process`, with the task as a line of JSON on standard input. An expected
error is the last line of standard output; a bug is a traceback on standard error.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from flowdiff.cli.terminal import echo_json
from flowdiff.serve.jobs.question import Question
from schemas.config import Config
from schemas.errors import FlowdiffError

REFUSED: Final = 3
"""Exit code for a question that cannot be answered; the reason is on standard output."""


class Task(Config):
    """Task of one child process, as JSON on its standard input."""

    lake: str
    question: Question
    result: str
    """Path of the folder to which the report and its tables are written."""
    nice: int
    workers: int


def main() -> int:
    """Answer the question on standard input; returns the exit code."""
    task = Task.model_validate_json(sys.stdin.readline())
    threading.Thread(target=_leave_with_the_server, daemon=True).start()
    os.nice(task.nice)
    try:
        _answer(task)
    except FlowdiffError as error:
        _tell(error=error.message, remedy=error.remedy)
        return REFUSED
    except MemoryError:
        _tell(error="The comparison needs more memory than it may take.", remedy="Take shorter periods.")
        return REFUSED
    return 0


def _leave_with_the_server() -> None:
    """Exit the process when standard input is closed, i.e. when the server has ended."""
    sys.stdin.read()
    os._exit(1)


def _answer(task: Task) -> None:
    from analyze.methods.port import Chosen
    from analyze.methods.registry import method_names, method_of
    from analyze.refine.settings import RefineSettings
    from flowdiff.analysing import analysed
    from flowdiff.cli.finding_views import compared_of, with_views
    from flowdiff.extras import installed, needed
    from flowdiff.samples import find_samples
    from flowdiff.serve.jobs.results import write_result
    from schemas.report.report import to_json
    from stitch.heap import keep_freed

    question = task.question
    keep_freed()
    with needed():
        method = method_of(question.method)
    found = find_samples(
        question.samples(),
        question.history,
        now_ns=time.time_ns(),
        lake=task.lake,
        where=question.where or None,
        own_where=question.own_where,
    )
    chosen = [Chosen(method, method.settings())]
    outcome = analysed(found, chosen, RefineSettings(), "auto", _step, task.workers)
    there = [name for name in method_names() if installed(name)]
    outcome = with_views(outcome, compared_of(found.compared), there)
    write_result(Path(task.result), to_json(outcome.report), outcome.tables)


@contextmanager
def _step(name: str) -> Iterator[None]:
    _tell(step=name)
    yield


def _tell(**told: str) -> None:
    echo_json(json.dumps(told))


if __name__ == "__main__":
    sys.exit(main())
