"""Mask secrets that an address may hold, before a message repeats it."""

from __future__ import annotations

import re
from typing import Final

MASK: Final = "***"
_USER: Final = re.compile(r"((?:[A-Za-z][\w+.-]*://)?)[^\s,'\[(]+@")
"""User, possibly with a password, before a host where none is expected."""
_QUERY: Final = re.compile(r"[?#;&][^\s,'\])]*")
"""Parameters after a host, which may include a password."""
_PASSWORD: Final = re.compile(r"(?<=://)[^\s/@':]*:(?!\d+/)[^\s']*@")
"""User and password of a URL; `kafka://HOST:PORT/TOPIC@RANGE` has none."""


def masked_address(text: str) -> str:
    """Text of an address that is refused, without user, password and parameters."""
    return _QUERY.sub(f"?{MASK}", _USER.sub(rf"\1{MASK}@", text))


def masked_passwords(text: str) -> str:
    """Text with user and password of each URL masked."""
    return _PASSWORD.sub(f"{MASK}@", text) if "://" in text else text
