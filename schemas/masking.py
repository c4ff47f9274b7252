"""Mask secrets that an address may hold, before a message repeats it."""

from __future__ import annotations

import re
from typing import Final

MASK: Final = "***"
_USER: Final = re.compile(r"(?<![^\s,'\[(])((?:[A-Za-z][\w+.-]*://)?)[^\s,'\[(]+@")
"""Pattern of a user, possibly with a password, before a host, in addresses that should have none."""
_QUERY: Final = re.compile(r"[?#;&][^\s,'\])]*")
"""Pattern of the parameters after a host, which may include a password."""
_BROKER: Final = r"(?:\[[^\s/\]]*\]|[\w.-]+):\d+"
_NO_BROKERS: Final = rf"(?:(?<!kafka:/)(?<!kafka://)|(?!{_BROKER}(?:,{_BROKER})*/)(?![^\s/':]*:\d+/))"
_PASSWORD: Final = re.compile(rf"(:/{{1,2}}){_NO_BROKERS}[^\s/':]*:[^\s']*@")
"""Pattern of user and password of a URL, also of a URL that was taken for a path and lost a slash.

`kafka://HOST:PORT,HOST:PORT/TOPIC@RANGE` has none.
"""
_TEXT: Final = re.compile(r"[^\s']+")
"""Pattern of a word of a message that may be an address."""


def masked_address(text: str) -> str:
    """Text of a refused address without user, password and parameters."""
    return _QUERY.sub(f"?{MASK}", _USER.sub(rf"\1{MASK}@", text))


def masked_passwords(text: str) -> str:
    """Text with user and password of each URL masked."""
    if ":/" not in text:
        return text
    return _TEXT.sub(lambda word: _without_password(word[0]), text)


def _without_password(word: str) -> str:
    """Word of a message (no blanks, no quotes), with its password masked.

    No password ends after the last @, so the search stops there: beyond, it would take quadratic time.
    """
    begin, at, end = word.rpartition("@")
    return _PASSWORD.sub(rf"\1{MASK}@", begin + at) + end
