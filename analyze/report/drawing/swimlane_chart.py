"""Swim lanes of one request as a drawing: a row per bar of work, on an axis that several requests may
share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from analyze.report import wording
from analyze.report.drawing.svg import element
from analyze.report.drawing.swimlane import Activity
from analyze.report.drawing.wide_charts import Stretched, draw_ticks, even_ticks

_ROW: Final = 22
"""Height of a row, px; in the style sheet, the names at the left have the same height."""
_TOP: Final = 4
_BOTTOM: Final = 20
_LEAST: Final = 0.003
"""Minimum width of a bar, as a share of the axis, so that short bars are visible."""
_DEEPEST: Final = 12


def draw_swimlanes(title: str, bars: Sequence[Activity], axis_us: float) -> Markup:
    """Draw bars one below the other, with names at the left.

    axis_us: end of the axis, µs, which begins at 0; bars are clipped to the axis.
    """
    whole = axis_us or 1.0
    floor = _TOP + _ROW * len(bars)
    drawing = Stretched(floor + _BOTTOM, "swim", title)
    draw_ticks(drawing, even_ticks(axis_us), _TOP, floor)
    for number, bar in enumerate(bars):
        start = min(max(bar.start_us / whole, 0.0), 1.0 - _LEAST)
        end = min(max(bar.end_us / whole, start + _LEAST), 1.0)
        kinds = ["work"]
        kinds += ["waited"] if bar.critical_us > 0 else ["deferred"] if bar.deferred else []
        kinds += ["failed"] if bar.failed else []
        drawing.box(" ".join(kinds), start, end, _TOP + number * _ROW + 5, _ROW - 10)
    drawing.line("axis", 0, floor, 1, floor)
    names = Markup("").join(_name(bar) for bar in bars)
    return element("div", element("ol", names, class_="swim-names"), drawing.svg(), class_="swimlanes")


def _name(bar: Activity) -> Markup:
    failed = f", failed: {', '.join(bar.failed)}" if bar.failed else ""
    waited = f", the response waited {wording.duration(bar.critical_us)}" if bar.critical_us > 0 else ""
    title = f"{bar.lane}: {bar.name}, {wording.duration(bar.duration_us)}{waited}{failed}"
    return element(
        "li",
        element("b", wording.clip(bar.name, 60)),
        " ",
        element("span", wording.clip(bar.lane, 40)),
        element("i", wording.duration(bar.duration_us), class_="n"),
        class_=f"d{min(bar.depth, _DEEPEST)}{' failed' if bar.failed else ''}",
        title=wording.visible(title),
    )
