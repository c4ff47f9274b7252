"""Heat strip: one value over time as a row of cells, darker where the value is higher than usual, with
failures marked below.

Cells of one level are one path, so that a strip of 288 cells is a few hundred bytes. Marks (incidents,
deployments) are a separate strip on the same axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from analyze.report.drawing.svg import px
from analyze.report.drawing.wide_charts import WIDE, Stretched, Tick, draw_ticks

LEVELS: Final = (1.1, 1.25, 1.5, 2.0)
"""Ratios to the usual value; each one that a cell's value reaches makes the cell one level darker."""
FAILING: Final = (0.001, 0.01, 0.05)
"""Shares of failing requests; each one that a cell reaches makes the mark at its lower edge stronger."""
_HEIGHT: Final = 26
_EDGE: Final = 6
"""Height of the mark for failing requests at a cell's lower edge, px."""
_MARKS: Final = 22
_AXIS: Final = 22


@dataclass(frozen=True, slots=True)
class HeatCell:
    """A cell of a heat strip: ratio to the usual value, and share of failing requests."""

    ratio: float
    failing: float


@dataclass(frozen=True, slots=True)
class Mark:
    """An event, or a stretch of time, drawn on a strip beside the heat strips."""

    kind: str
    """CSS class: `incident`, `deployment`."""
    start: float
    """Left end of the mark, as a share of the width, 0 to 1."""
    end: float
    """Right end of the mark, as a share of the width; equal to `start` for an event."""
    title: str


def draw_heat(title: str, cells: Sequence[HeatCell | None]) -> Markup:
    """Draw cells of equal width in a row; None is a cell without data."""
    drawing = Stretched(_HEIGHT, "heat", title)
    top: dict[int, list[str]] = {}
    edge: dict[int, list[str]] = {}
    width = WIDE / max(len(cells), 1)
    for number, cell in enumerate(cells):
        if cell is None:
            continue
        at = f"M{px(number * width)}"
        top.setdefault(_level(cell.ratio, LEVELS), []).append(
            f"{at} 0h{px(width)}v{_HEIGHT}H{px(number * width)}z"
        )
        if failing := _level(cell.failing, FAILING):
            y = _HEIGHT - _EDGE
            edge.setdefault(failing, []).append(f"{at} {y}h{px(width)}v{_EDGE}H{px(number * width)}z")
    for level, parts in sorted(top.items()):
        drawing.path(f"level{level}", "".join(parts))
    for level, parts in sorted(edge.items()):
        drawing.path(f"failing{level}", "".join(parts))
    return drawing.svg()


def draw_marks(title: str, marks: Sequence[Mark]) -> Markup:
    """Draw events as ticks and stretches of time as bars, on the same axis as the heat strips."""
    drawing = Stretched(_MARKS, "marks", title)
    for mark in marks:
        if mark.end > mark.start:
            drawing.box(f"{mark.kind} stretch", mark.start, mark.end, 4, _MARKS - 8)
        drawing.line(mark.kind, mark.start, 0, mark.start, _MARKS)
    return drawing.svg()


def draw_axis(title: str, ticks: Sequence[Tick]) -> Markup:
    """Draw the time axis that several heat strips share."""
    drawing = Stretched(_AXIS, "axis", title)
    draw_ticks(drawing, ticks, 0, 5)
    return drawing.svg()


def _level(value: float, bounds: Sequence[float]) -> int:
    """Number of the ascending `bounds` that `value` reaches."""
    return sum(value >= bound for bound in bounds)
