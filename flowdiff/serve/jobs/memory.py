"""Memory of all processes of a session, as the system counts it; pages shared by forks count once."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

_PROCESSES: Final = Path("/proc")
_SESSION: Final = 3
"""Index of the session id among the fields of /proc/PID/stat after the name."""


def session_bytes(session: int) -> int:
    """Proportional set size of all processes of a session, bytes; 0 if the system does not report it."""
    total = 0
    for folder in _PROCESSES.glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            if int((folder / "stat").read_text().rpartition(")")[2].split()[_SESSION]) == session:
                total += _bytes(folder)
    return total


def _bytes(folder: Path) -> int:
    lines = (folder / "smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
