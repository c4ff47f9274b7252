"""Names of root types that are messages: what one request sent, and another one did with it."""

from __future__ import annotations

from typing import Final

WAITING: Final = "waiting for"
"""Before the name of a consumer: what lasts from when a message was sent until its work is done."""


def is_message(root: str) -> bool:
    """Whether a root type (`component/point`) is the work of a message that lies in its sender's trace."""
    return root.partition("/")[2].startswith(f"{WAITING} ")
