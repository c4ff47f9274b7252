"""Tasks of an import that do their work, and then stop: killed, or waiting to be, as the variable STOP says.

What they made lies on the stage or in the scratch folder, and whoever asked for it never hears of it.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from stitch.drivers.sharded import tasks


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


def full_disk(*_: Any) -> None:
    """Any task."""
    raise OSError(28, os.strerror(28))


def _stop() -> None:
    how = os.environ["STOP"]
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    (Path(how) / f"{os.getpid()}").touch()
    time.sleep(3600)
