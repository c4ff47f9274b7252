"""Version of flowdiff, and a name for this process."""

from __future__ import annotations

import os
import uuid


def version() -> str:
    """Version of the installed package; `0+source` when run from a checkout that is not installed."""
    from importlib import metadata  # takes a command longer than its options

    try:
        return metadata.version("flowdiff")
    except metadata.PackageNotFoundError:
        return "0+source"


def owner_name() -> str:
    """Make a name for a process that writes to a lake: process id and random digits, unique."""
    return f"{os.getpid()}-{uuid.uuid4().hex}"
