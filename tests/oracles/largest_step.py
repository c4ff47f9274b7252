"""Size of a step of response times between two windows, root by root and window by window."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

Roots = Mapping[str, Sequence[tuple[float, float]]]
"""(requests, mean) of each root by window."""


def size(roots: Roots, at: int) -> float:
    """Size of the step before window `at`, at least the second."""
    n = len(next(iter(roots.values())))
    moved = 0.0
    for windows in roots.values():
        before, since = (
            sum(w * us for w, us in side) / sum(w for w, _ in side) for side in (windows[:at], windows[at:])
        )
        moved += sum(w * us for w, us in windows) * abs(math.log(since / before))
    return moved * math.sqrt(at * (n - at))
