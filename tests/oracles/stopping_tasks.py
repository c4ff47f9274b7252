"""Tasks for other processes, which import them from here: some end as tasks should not.

Those of an import do their work, and then stop: killed, or waiting to be, as the variable STOP says. What
they made lies on the stage or in the scratch folder, and whoever asked for it never hears of it.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from schemas.errors import InputError
from stitch.drivers.sharded import stitching, tasks
from stitch.drivers.sharded.tasks import Job
from stitch.drivers.spill import Group


def deal_file(*arguments: Any) -> None:
    """See `tasks.deal_file`."""
    tasks.deal_file(*arguments)
    _stop()


def stitch_group(*arguments: Any) -> None:
    """See `tasks.stitch_group`."""
    tasks.stitch_group(*arguments)
    _stop()


def write_window_files(*arguments: Any) -> None:
    """See `tasks.write_window_files`."""
    tasks.write_window_files(*arguments)
    _stop()


def stitch_group_of_large_windows(job: Job, group: Group, part: int) -> object:
    """Run twice in a process that no patch of the test reaches; nobody hears of the first attempt."""
    stitching._SMALL_PART_BYTES = 4_000  # type: ignore[misc]
    tasks.stitch_group(job, group, part)
    return tasks.stitch_group(job, group, part)


def twice(task: Callable[..., object], *arguments: object) -> object:
    """Do a task twice; nobody hears of the first attempt."""
    task(*arguments)
    return task(*arguments)


def note_and_wait(folder: str) -> None:
    """Say which process has the task, and never end."""
    (Path(folder) / f"{os.getpid()}").touch()
    time.sleep(3600)


def refuse(what: str) -> None:
    """Raise an error of ours."""
    raise InputError(f"No {what}.", remedy="Bring some.")


def full_disk(*_: Any) -> None:
    """Any task."""
    raise OSError(28, os.strerror(28))


def _stop() -> None:
    how = os.environ["STOP"]
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    (Path(how) / f"{os.getpid()}").touch()
    time.sleep(3600)
