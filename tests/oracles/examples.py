"""Say with how many examples a property is tried: all of them by `make fuzz`, a third by the suite."""

from __future__ import annotations

from math import ceil
from typing import Any

from hypothesis import settings

WHOLE, THIRD = 100, 33
"""What the profiles of `make fuzz` and of the suite try where a test names no number of its own."""
FEW = 20
"""So many are tried of any test that is worth as many."""


def examples(number: int, **how: Any) -> settings:
    """Return the settings of a test that is worth `number` examples; the profile says what share of them.

    No share is below FEW: a third of 15 examples missed a defect that all of them found.

    The suite's profile is derandomized: its examples are the same ones at every run, and what it misses
    once it misses for ever. `make fuzz` draws others each time.
    """
    share = ceil(number * settings.default.max_examples / WHOLE)
    return settings(max_examples=max(share, min(number, FEW)), **how)
