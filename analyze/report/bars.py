"""Bars on one axis: shares, a value before and after, a waterfall. Positions are in percent of the axis."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from analyze.report import measures
from analyze.report.blocks import At, Bar, Stretch
from schemas.report.findings import Interval, Unit

_ROOM: Final = 0.06
"""Free space at the right end of a waterfall's axis, as a share of the length of the axis."""
_FROM_ZERO: Final = 0.12
"""Minimum share of a waterfall's height that its parts must take for the axis to begin at 0; otherwise the
axis begins just below the parts.
"""
_LEAST: Final = 0.35
"""Minimum width of a non-empty stretch, in percent of the axis, to keep it visible."""


@dataclass(frozen=True, slots=True)
class Axis:
    """Linear axis of a bar, from value `least` to value `most`."""

    least: float
    most: float

    @classmethod
    def over(cls, values: Iterable[float]) -> Axis:
        """Axis that covers 0 and all `values`."""
        every = [0.0, *values]
        return cls(min(every), max(every))

    def at(self, value: float) -> float:
        """Position of a value on the axis, 0 to 100 percent; for a value outside of the axis, the nearer
        end."""
        length = (self.most - self.least) or 1.0
        return min(max(100 * (value - self.least) / length, 0.0), 100.0)

    def stretch(self, kind: str, one: float, other: float, at: At = "full") -> Stretch:
        """Stretch of a bar between the values `one` and `other`; at least _LEAST wide, unless they are equal.

        kind: colour; at: part of the bar's height.
        """
        left, right = sorted((self.at(one), self.at(other)))
        width = max(right - left, _LEAST if one != other else 0.0)
        return Stretch(kind, min(left, 100.0 - width), width, at)

    def share(self, value: float, title: str, interval: Interval | None = None) -> Bar:
        """Bar from 0 to `value`, with its confidence interval."""
        parts = [self.stretch("down" if value < 0 else "up", 0.0, value)]
        if interval is not None:
            parts.append(self.stretch("interval", interval.low, interval.high, "thin"))
        return Bar(tuple(parts), title, self.at(0.0) if self.least < 0 else None)


def shift(unit: Unit, before: float, after: float, change: Interval) -> Bar:
    """Bar of the value before; below it, the value after with its interval. change: interval of after -
    before."""
    low, high = min(0.0, before, after), max(0.0, before, after)
    # An interval longer than the axis without it is cut: the numbers beside it give its ends.
    least = max(before + change.low, low - (high - low))
    most = min(before + change.high, high + (high - low))
    axis = Axis(min(low, least), max(high, most))
    return Bar(
        (
            axis.stretch("before", 0.0, before, "upper"),
            axis.stretch("after", 0.0, after, "lower"),
            axis.stretch("interval", least, most, "thin"),
        ),
        f"{measures.moved(unit, before, after)}, {measures.span(unit, change)}",
        axis.at(0.0) if axis.least < 0 else None,
    )


def pair(axis: Axis, before: float | None, after: float | None, title: str) -> Bar:
    """Bar of the value before; below it, the value after. A value of None is not drawn."""
    both: Sequence[tuple[str, float | None, At]] = (("before", before, "upper"), ("after", after, "lower"))
    return Bar(tuple(axis.stretch(k, 0.0, value, at) for k, value, at in both if value is not None), title)


@dataclass(frozen=True, slots=True)
class Waterfall:
    """Positions of a waterfall chart's stretches, one per bar."""

    before: Stretch
    parts: tuple[Stretch, ...]
    after: Stretch
    interval: Stretch | None
    """Stretch of the interval of the value `after`; None: unknown."""
    start: float
    """Value at the left end of the axis."""


def waterfall(before: float, parts: Sequence[float], low: float | None, high: float | None) -> Waterfall:
    """Lay out a waterfall chart: bars from `before` over each of `parts`, one after the other, to the value
    after.

    low, high: interval of the sum of the parts, drawn as far as the axis goes; None: unknown. Values before
    and after are >= 0; intermediate sums may be negative. O(parts).
    """
    reached = [*itertools.accumulate(parts, initial=before)]
    least, most = min(reached), max(reached)
    spread = most - least
    ends = None if low is None or high is None else (before + low, before + high)
    if ends is not None:
        # An interval longer than the axis without it is cut, as above.
        least, most = min(least, max(ends[0], least - spread)), max(most, min(ends[1], most + spread))
    start = min(0.0, *reached) if spread >= _FROM_ZERO * most else max(least - 2 * _ROOM * spread, 0.0)
    axis = Axis(start, start + (most - start) * (1 + _ROOM))
    base = max(start, 0.0)
    return Waterfall(
        before=axis.stretch("before", base, before),
        parts=tuple(axis.stretch("up" if b > a else "down", a, b) for a, b in itertools.pairwise(reached)),
        after=axis.stretch("after", base, reached[-1]),
        interval=None if ends is None else axis.stretch("interval", *ends, "thin"),
        start=start,
    )
