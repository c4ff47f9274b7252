"""Tasks of a builder's worker processes that end badly."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from stitch.drivers.build.build_settings import BuildSettings
from stitch.drivers.build.group_work import BuiltAnd, GroupTask


def killed(lake: str, settings: BuildSettings, folder: Path, task: GroupTask) -> list[BuiltAnd]:
    """The process is killed."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def without_memory(lake: str, settings: BuildSettings, folder: Path, task: GroupTask) -> list[BuiltAnd]:
    """The process gets no more memory."""
    raise MemoryError
