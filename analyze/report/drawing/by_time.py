"""Values by time as step curves under each other, and requests as rectangles in lanes (TR Figure 8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from markupsafe import Markup

from analyze.report import wording
from analyze.report.drawing.stretched import WIDE, Stretched, Tick, draw_ticks, px, steps_path

ROW: Final = 58
BOTTOM: Final = 20
TOP: Final = 16
LANE: Final = 8
TICKS: Final = 7
_LEAST_WIDTH: Final = 0.6
"""Of WIDE: a shorter request can still be seen."""


@dataclass(frozen=True, slots=True)
class Series:
    """One value by time."""

    kind: str
    """CSS class."""
    values: Sequence[float | None]
    """None: not watched, or nothing there."""


def draw_by_time(
    name: str, told: str, series: Sequence[Series], edges_ns: tuple[int, int], *, axis: bool
) -> Markup:
    """Series of one unit over each other, as high as the largest; `told` stands at the right.

    edges_ns: the ends. axis: whether times stand below.
    """
    floor = ROW
    highest = max((v for one in series for v in one.values if v is not None), default=0.0) or 1.0
    drawing = Stretched(ROW + (BOTTOM if axis else 3), "by-time", f"{name}: {told}")
    ticks = clock_ticks(*edges_ns)
    draw_ticks(drawing, ticks if axis else [Tick(tick.at, "") for tick in ticks], TOP, floor)
    for one in series:
        heights = [None if v is None else v / highest for v in one.values]
        drawing.path(one.kind, steps_path(heights, len(heights), floor, floor - TOP))
    drawing.line("axis", 0, floor, 1, floor)
    drawing.text("name", 0, 11, name)
    drawing.text("told", 1, 11, told)
    return drawing.svg()


def clock_ticks(start_ns: int, end_ns: int) -> list[Tick]:
    """Times of day, UTC, as fine as the length asks for."""
    length = max(end_ns - start_ns, 1)
    digits = 0 if length >= 20 * 10**9 else 3 if length >= 20 * 10**6 else 6
    minutes = length >= 6 * 3600 * 10**9
    days = length >= 3 * 86_400 * 10**9
    found = []
    for number in range(TICKS):
        at = start_ns + length * number // (TICKS - 1)
        when = datetime.fromtimestamp(at // 10**9, UTC)
        if days:
            text = f"{when:%m-%d %H:%M}"
        elif minutes:
            text = f"{when:%H:%M}"
        else:
            text = f"{when:%H:%M:%S}"
        if digits:
            text += f".{at % 10**9:09d}"[: digits + 1]
        found.append(Tick(number / (TICKS - 1), text))
    return found


@dataclass(frozen=True, slots=True)
class Block:
    """A request: shares of the width, and its lane."""

    start: float
    end: float
    lane: int
    failed: bool


def draw_lanes(title: str, blocks: Sequence[Block], lanes: int, ends_ns: tuple[int, int]) -> Markup:
    """Rectangles in lanes, the first lane at the bottom, so that height is how many are at work."""
    floor = 6 + max(lanes, 1) * LANE
    drawing = Stretched(floor + BOTTOM, "lanes", wording.visible(title))
    draw_ticks(drawing, clock_ticks(*ends_ns), 4, floor)
    for kind, failed in (("ok", False), ("failed", True)):
        parts = []
        for block in blocks:
            if block.failed is not failed:
                continue
            start, end = max(block.start, 0.0) * WIDE, min(block.end, 1.0) * WIDE
            width, y = max(end - start, _LEAST_WIDTH), floor - (block.lane + 1) * LANE
            parts.append(f"M{px(start)} {y + 1}h{width:.2f}v{LANE - 2}h{-width:.2f}z")
        drawing.path(kind, "".join(parts))
    drawing.line("axis", 0, floor, 1, floor)
    return drawing.svg()
