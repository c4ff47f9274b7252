"""Find JSON objects that name a member twice.

msgspec keeps the last value and says nothing. Python's own parser shows every member, and is slower by far:
it is asked only where there is a reason to.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import msgspec

Member = tuple[str, object]


def members(text: bytes | str) -> list[Member]:
    """The members of an object in their order, those of one name too; of objects inside it the last counts.

    `text` is one that msgspec takes. Raises RecursionError.
    """
    found: list[Member] = []

    def seen(pairs: list[Member]) -> dict[str, object]:
        nonlocal found
        found = pairs  # the outermost object ends last
        return dict(pairs)

    _read(text, seen)
    return found


def names_twice(text: bytes) -> bool:
    """Whether an object of the JSON text, on whatever level, has two members of one name.

    `text` is one that msgspec takes. Raises RecursionError.
    """
    found = False

    def seen(pairs: list[Member]) -> None:
        nonlocal found
        found |= len(pairs) != len({name for name, _ in pairs})

    _read(text, seen)
    return found


def _read(text: bytes | str, seen: Callable[[list[Member]], object]) -> None:
    # Numbers as msgspec reads them: Python's has no bound for whole ones but that of their digits.
    json.loads(text, object_pairs_hook=seen, parse_int=msgspec.json.decode)
