"""Wait for what another process or thread does, however slow the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE_S = 180.0
"""Seconds after which what has not happened never will."""
Found = TypeVar("Found")


def wait_until(
    holds: Callable[[], Found | None], why: Callable[[], object] = str, *, every_s: float = 0.02
) -> Found:
    """First value of `holds` that is true. `why` tells what is there instead, where none comes."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := holds()):
        assert time.monotonic() < deadline, why()
        time.sleep(every_s)
    return found
