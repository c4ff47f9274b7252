"""Say with how many examples a property is tried: all of them by `make fuzz`, a third by the suite."""

from __future__ import annotations

from math import ceil
from typing import Any

from hypothesis import settings

WHOLE, THIRD = 100, 33
"""What the profiles of `make fuzz` and of the suite try where a test names no number of its own."""


def examples(number: int, **how: Any) -> settings:
    """Return the settings of a test that is worth `number` examples; the profile says what share of them.

    The suite's profile is derandomized: its examples are the same ones at every run, and what it misses
    once it misses for ever. `make fuzz` draws others each time.
    """
    return settings(max_examples=ceil(number * settings.default.max_examples / WHOLE), **how)
