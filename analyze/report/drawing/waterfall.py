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
    interval: Bar
    """Where the value after may lie."""
    start: float
    """Value at which the axis begins."""


def waterfall(before: float, parts: Sequence[float], low: float, high: float) -> Waterfall:
    """Bars of parts that lead from `before` to `before` + their sum, each from where the last one ended.

    low, high: interval of the sum. Values are >= 0 but for intermediate sums and the interval, which may dip
    below. O(parts).
    """
    reached = [before]
    for part in parts:
        reached.append(reached[-1] + part)
    ends = [*reached, before + low, before + high]
    least, most = min(ends), max(ends)
    spread = most - least
    start = min(0.0, least) if spread >= _FROM_ZERO * most else least - 2 * _ROOM * spread
    length = (most - start) * (1 + _ROOM) or 1.0

    def bar(one: float, other: float) -> Bar:
        width = 100 * abs(other - one) / length
        return Bar(100 * (min(one, other) - start) / length, max(width, _LEAST if one != other else 0.0))

    return Waterfall(
        before=bar(start, before),
        parts=tuple(bar(a, b) for a, b in itertools.pairwise(reached)),
        after=bar(start, reached[-1]),
        interval=bar(before + low, before + high),
        start=start,
    )
