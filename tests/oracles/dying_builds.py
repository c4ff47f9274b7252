"""Tasks of a builder's worker processes that end badly."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

from stitch.drivers.build.build_settings import BuildSettings
from stitch.drivers.build.group_work import BuiltAnd, GroupTask, build_groups
from stitch.scratch import Scratch


def killed(lake: str, settings: BuildSettings, folder: Path, task: GroupTask) -> list[BuiltAnd]:
    """The process is killed while it has events on disk."""
    scratch = Scratch(folder)
    (scratch.folder / "pieces").write_bytes(b"events")
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def without_memory(lake: str, settings: BuildSettings, folder: Path, task: GroupTask) -> list[BuiltAnd]:
    """The process gets no more memory."""
    raise MemoryError


def sometimes_killed(lake: str, settings: BuildSettings, folder: Path, task: GroupTask) -> list[BuiltAnd]:
    """Kill one process of twenty, before or after its work."""
    luck = random.Random(os.urandom(8)).random()
    if luck < 0.025:
        os.kill(os.getpid(), signal.SIGKILL)
    done = build_groups(lake, settings, folder, task)
    if luck < 0.05:
        os.kill(os.getpid(), signal.SIGKILL)
    return done
