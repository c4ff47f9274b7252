"""Say with how many examples a property is tried: all of them by `make fuzz`, a third by the suite."""

from __future__ import annotations

from math import ceil
from typing import Any

from hypothesis import settings

WHOLE = settings.get_profile("fuzz").max_examples
"""What `make fuzz` tries where a test names no number of its own."""
FEW = 20
"""So many are tried of any test that is worth as many."""


def examples(number: int, **how: Any) -> settings:
    """Return the settings of a test that is worth `number` examples; the profile says what share of them.

    No share is below FEW: a third of 15 examples missed a defect that all of them found.

    The suite's profile is derandomized: its examples are the same ones at every run, and what it misses
    once it misses for ever. `make fuzz` draws others each time.
    """
    assert settings.default is not None
    share = ceil(number * settings.default.max_examples / WHOLE)
    return settings(max_examples=max(share, min(number, FEW)), **how)
