"""Root types of messages: work that one request sends and another request processes."""

from __future__ import annotations

from typing import Final

WAITING: Final = "waiting for"
"""Prefix of the operation name of a message's root: the time from sending the message until its processing
ends."""


def is_message(root: str) -> bool:
    """True if a root type (`component/point`) is the processing of a message that is recorded in its sender's
    trace."""
    return root.partition("/")[2].startswith(f"{WAITING} ")
