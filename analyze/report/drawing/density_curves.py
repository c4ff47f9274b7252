"""Densities of response times over a log axis: one filled, another as an outline, modes marked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from analyze.report import wording
from analyze.report.drawing.plot import log_ticks
from analyze.report.drawing.stretched import WIDE, Stretched, Tick, draw_ticks, points_path, px

HEIGHT: Final = 230
TOP: Final = 26
BOTTOM: Final = 22
_LEAST_US: Final = 1e-3


@dataclass(frozen=True, slots=True)
class DrawnDensity:
    """A curve."""

    kind: str
    """CSS class: `before` or `after`."""
    points: tuple[tuple[float, float], ...]
    """(µs > 0, density), ascending."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A mode, or another range."""

    text: str
    low_us: float
    high_us: float
    peak_us: float | None
    link: str
    """Id of what is told of it."""


def draw_density(
    title: str, axis_us: tuple[float, float], curves: Sequence[DrawnDensity], marks: Sequence[Mark]
) -> Markup:
    """Curves on one axis, each as high as the highest of all; marks as bands under their curve.

    axis_us: ends of the axis, those of the bins. Without a curve the bands are there alone.
    """
    low, high = max(axis_us[0], _LEAST_US), max(axis_us[1], 2 * _LEAST_US)
    if high <= low:
        high = 2 * low
    floor = HEIGHT - BOTTOM
    highest = max((y for curve in curves for _, y in curve.points), default=1.0) or 1.0

    def x(us: float) -> float:
        return min(max(math.log(max(us, low) / low) / math.log(high / low), 0.0), 1.0)

    drawing = Stretched(HEIGHT, "density", wording.visible(title))
    for number, mark in enumerate(marks):
        drawing.box("band odd" if number % 2 else "band", x(mark.low_us), x(mark.high_us), TOP, floor - TOP)
    draw_ticks(drawing, [Tick(x(us), wording.duration(us)) for us in log_ticks(low, high, 9)], TOP, floor)
    for curve in curves:
        # What lies beyond the axis is the kernel's, not the data's: it ends at the axis.
        points = [(x(us), floor - (floor - TOP) * y / highest) for us, y in curve.points if low <= us <= high]
        if not points:
            continue
        line = points_path(points)
        if curve.kind == "after":
            line += f"L{px(WIDE * points[-1][0])} {px(floor)}L{px(WIDE * points[0][0])} {px(floor)}Z"
        drawing.path(f"curve {curve.kind}", line)
    for mark in marks:
        if mark.peak_us is not None:
            drawing.line("peak", x(mark.peak_us), TOP, x(mark.peak_us), floor)
            drawing.text("mark", min(max(x(mark.peak_us), 0.012), 0.988), TOP - 9, mark.text, mark.link)
        else:
            drawing.text("mark last", 1.0, TOP - 9, mark.text, mark.link)
    drawing.line("axis", 0, floor, 1, floor)
    return drawing.svg()
