"""Root types of messages, sent by one request and processed by another."""

from __future__ import annotations

from typing import Final

WAITING: Final = "waiting for"
"""Prefix of a consumer's name for the time from sending a message until its processing ends."""


def is_message(root: str) -> bool:
    """True if a root type (`component/point`) is the processing of a message recorded in its sender's
    trace.
    """
    return root.partition("/")[2].startswith(f"{WAITING} ")
