"""Number things in the order in which they are first asked for."""

from __future__ import annotations

from typing import TypeVar

K = TypeVar("K")


class Numbering(dict[K, int]):
    """Key -> number: who asks for a key that is not there yet gives it the next one."""

    def __missing__(self, key: K) -> int:
        """Number a key."""
        number = self[key] = len(self)
        return number
