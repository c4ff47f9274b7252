"""Bars on one axis: shares, a value before and after, a waterfall. Places are percent of the axis' length."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from analyze.report import measures
from analyze.report.blocks import At, Bar, Stretch
from schemas.report.findings import Interval, Unit

_ROOM: Final = 0.06
"""Free at a waterfall's end, as a share of the axis' length."""
_FROM_ZERO: Final = 0.12
"""A waterfall begins at 0 where what moves takes at least this share of it; else just below what moves."""
_LEAST: Final = 0.35
"""Width of the smallest stretch, percent: a part that is there is seen."""


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis from one value to another."""

    least: float
    most: float

    @classmethod
    def over(cls, values: Iterable[float]) -> Axis:
        """The axis that shows some values and 0."""
        every = [0.0, *values]
        return cls(min(every), max(every))

    def at(self, value: float) -> float:
        """Place of a value, within the axis."""
        length = (self.most - self.least) or 1.0
        return min(max(100 * (value - self.least) / length, 0.0), 100.0)

    def stretch(self, kind: str, one: float, other: float, at: At = "full") -> Stretch:
        """From one value to another; a stretch that is not empty is seen."""
        left, right = sorted((self.at(one), self.at(other)))
        width = max(right - left, _LEAST if one != other else 0.0)
        return Stretch(kind, min(left, 100.0 - width), width, at)

    def share(self, value: float, title: str, interval: Interval | None = None) -> Bar:
        """A bar from 0 to a value, with its interval."""
        parts = [self.stretch("down" if value < 0 else "up", 0.0, value)]
        if interval is not None:
            parts.append(self.stretch("interval", interval.low, interval.high, "thin"))
        return Bar(tuple(parts), title, self.at(0.0) if self.least < 0 else None)


def shift(unit: Unit, before: float, after: float, change: Interval) -> Bar:
    """A value before and after below it, with the interval in which the value after lies."""
    low, high = min(0.0, before, after), max(0.0, before, after)
    # An interval that would take more room than all that moved is cut: the numbers tell how far it goes.
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
    """Two values, one above the other."""
    both: Sequence[tuple[str, float | None, At]] = (("before", before, "upper"), ("after", after, "lower"))
    return Bar(tuple(axis.stretch(k, 0.0, value, at) for k, value, at in both if value is not None), title)


@dataclass(frozen=True, slots=True)
class Waterfall:
    """Stretches of a waterfall, a bar each."""

    before: Stretch
    parts: tuple[Stretch, ...]
    after: Stretch
    interval: Stretch | None
    """Where the value after may lie; None: not known."""
    start: float
    """Value at which the axis begins."""


def waterfall(before: float, parts: Sequence[float], low: float | None, high: float | None) -> Waterfall:
    """Stretches of parts that lead from `before` to `before` + their sum, each from where the last one ended.

    low, high: interval of the sum, drawn as far as the axis goes; None: not known. Values before and after
    are >= 0; what is reached in between may be less. O(parts).
    """
    reached = [*itertools.accumulate(parts, initial=before)]
    least, most = min(reached), max(reached)
    spread = most - least
    ends = None if low is None or high is None else (before + low, before + high)
    if ends is not None:
        # An interval that would take more room than all that moved is cut, as above.
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
