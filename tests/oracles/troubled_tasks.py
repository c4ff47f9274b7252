"""Tasks for Spark's executors: each is done twice, and its first attempts end as the worst ones do.

Of every kind of task one attempt ends with its executor, killed, and another one raises; both have done their
work by then, so what they made lies on the stage, and nobody hears of it.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stitch.drivers.sharded import tasks

TROUBLE = "TROUBLE"
"""Environment variable with a folder where what has happened is noted."""
SLEEP_S = 3600.0


def deal_file(*arguments: Any) -> Any:
    """See `tasks.deal_file`."""
    return _troubled(tasks.deal_file, *arguments)


def stitch_group(*arguments: Any) -> Any:
    """See `tasks.stitch_group`."""
    return _troubled(tasks.stitch_group, *arguments)


def write_window_files(*arguments: Any) -> Any:
    """See `tasks.write_window_files`."""
    return _troubled(tasks.write_window_files, *arguments)


def note_and_wait(*_: Any) -> None:
    """Note which process has the task, and never end."""
    _first(str(os.getpid()))
    time.sleep(SLEEP_S)


def _troubled(task: Callable[..., Any], *arguments: Any) -> Any:
    task(*arguments)
    if _first(f"{task.__name__} killed"):
        _kill_executor()
    if _first(f"{task.__name__} raised"):
        raise RuntimeError("This attempt fails.")
    return task(*arguments)


def _first(what: str) -> bool:
    """Tell whether something happens for the first time, and note it."""
    try:
        (Path(os.environ[TROUBLE]) / what).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _kill_executor() -> None:
    """Python's daemon is our parent, the executor's JVM is that one's."""
    status = Path(f"/proc/{os.getppid()}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("PPid:"))
    executor = int(line.split()[1])
    assert b"CoarseGrainedExecutorBackend" in Path(f"/proc/{executor}/cmdline").read_bytes()
    os.kill(executor, signal.SIGKILL)
    time.sleep(SLEEP_S)
