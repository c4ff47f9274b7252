"""A waterfall: from a value before to the value after, part by part, as bars in percent of one axis."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from analyze.report.drawing.steps import Bar

_ROOM: Final = 0.06
"""Free at the axis' ends, as a share of its length."""
_FROM_ZERO: Final = 0.12
"""The axis begins at 0 where what moves takes at least this share of it; else just below what moves."""
_LEAST: Final = 0.35
"""Width of the smallest bar, percent: a part that is there is seen."""


@dataclass(frozen=True, slots=True)
class Waterfall:
    """Bars of a drawing."""

    before: Bar
    parts: tuple[Bar, ...]
    after: Bar
    interval: Bar | None
    """Where the value after may lie; None: not known."""
    start: float
    """Value at which the axis begins."""


def waterfall(before: float, parts: Sequence[float], low: float | None, high: float | None) -> Waterfall:
    """Bars of parts that lead from `before` to `before` + their sum, each from where the last one ended.

    low, high: interval of the sum, drawn as far as the axis goes; None: not known. Values before and after
    are >= 0; what is reached in between may be less. O(parts).
    """
    reached = [before]
    for part in parts:
        reached.append(reached[-1] + part)
    least, most = min(reached), max(reached)
    spread = most - least
    ends = None if low is None or high is None else (before + low, before + high)
    if ends is not None:
        # An interval that would take more room than all that moved is cut: the numbers tell how far it goes.
        least, most = min(least, max(ends[0], least - spread)), max(most, min(ends[1], most + spread))
    start = min(0.0, *reached) if spread >= _FROM_ZERO * most else max(least - 2 * _ROOM * spread, 0.0)
    length = (most - start) * (1 + _ROOM) or 1.0
    end = start + length

    def bar(one: float, other: float) -> Bar:
        left, right = (min(max(value, start), end) for value in sorted((one, other)))
        width = 100 * (right - left) / length
        return Bar(100 * (left - start) / length, max(width, _LEAST if one != other else 0.0))

    base = max(start, 0.0)
    return Waterfall(
        before=bar(base, before),
        parts=tuple(bar(a, b) for a, b in itertools.pairwise(reached)),
        after=bar(base, reached[-1]),
        interval=None if ends is None else bar(*ends),
        start=start,
    )
