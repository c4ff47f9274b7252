"""Find JSON objects with a duplicate member name.

msgspec silently keeps the last value. Python's own parser shows every member, but is far slower; it is used
only if duplicates are suspected.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import msgspec

Member = tuple[str, object]


def members(text: bytes | str) -> list[Member]:
    """Parse an object into (name, value) of its members, in order and including duplicates; of duplicates
    inside nested objects only the last is kept.

    `text` must be acceptable to msgspec. Raises RecursionError.
    """
    found: list[Member] = []

    def seen(pairs: list[Member]) -> dict[str, object]:
        nonlocal found
        found = pairs  # the outermost object ends last
        return dict(pairs)

    _read(text, seen)
    return found


def names_twice(text: bytes) -> bool:
    """True if an object in the JSON text, at any level, has two members of one name.

    `text` must be acceptable to msgspec. Raises RecursionError.
    """
    found = False

    def seen(pairs: list[Member]) -> None:
        nonlocal found
        found |= len(pairs) != len({name for name, _ in pairs})

    _read(text, seen)
    return found


def _read(text: bytes | str, seen: Callable[[list[Member]], object]) -> None:
    # Parse integers as msgspec does: Python's parser bounds only their number of digits.
    json.loads(text, object_pairs_hook=seen, parse_int=msgspec.json.decode)
