"""A worker of a job that kills itself at a step, the first time that any worker comes to it.

`python -m oracles.killed_job NOTED import …`: what has happened is noted in the folder NOTED.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flowdiff.__main__ import main
from stitch.drivers.sharded import work_queue
from stitch.drivers.sharded.work_queue import JobWorker
from stitch.lake.lane import Lane

STEPS = (
    *("deal_file done", "stitch_group done", "write_window_files done"),
    *("before commit", "after commit", "before publish", "before end"),
)


def _dies(noted: Path, step: str) -> None:
    try:
        (noted / step).touch(exist_ok=False)
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def _dying_before(noted: Path, step: str, do: Callable[..., Any]) -> Callable[..., Any]:
    def dying(*arguments: Any, **named: Any) -> Any:
        _dies(noted, step)
        return do(*arguments, **named)

    return dying


def _dying_after(noted: Path, step: str, do: Callable[..., Any]) -> Callable[..., Any]:
    def dying(*arguments: Any, **named: Any) -> Any:
        done = do(*arguments, **named)
        _dies(noted, step)
        return done

    return dying


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    for name, task in [*work_queue._TASKS.items()]:
        work_queue._TASKS[name] = _dying_after(folder, f"{name} done", task)
    Lane._publish = _dying_before(folder, "before publish", Lane._publish)  # type: ignore[method-assign]
    Lane.commit = _dying_before(  # type: ignore[method-assign]
        folder, "before commit", _dying_after(folder, "after commit", Lane.commit)
    )
    JobWorker.end = _dying_before(folder, "before end", JobWorker.end)  # type: ignore[method-assign]
    main(sys.argv[2:])
