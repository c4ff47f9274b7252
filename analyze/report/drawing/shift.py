"""Before and after on one line, with the interval in which the value after lies, as SVG that fits its box."""

from __future__ import annotations

from typing import Final

from markupsafe import Markup

from analyze.report import measures
from schemas.report.findings import Interval, Unit

_INSET: Final = 3.0
"""Percent free at either end, for the dots."""


def draw_shift(unit: Unit, before: float, after: float, change: Interval) -> Markup:
    """A circle before, a filled dot after, a bar for the interval around it; the line begins at 0."""
    low, high = min(0.0, before, after), max(0.0, before, after)
    # An interval that would take more room than all that moved is cut: the numbers tell how far it goes.
    least = max(before + change.low, low - (high - low))
    most = min(before + change.high, high + (high - low))
    low, high = min(low, least), max(high, most)

    def place(number: float) -> str:
        return f"{_INSET + (100 - 2 * _INSET) * (number - low) / (high - low or 1.0):.2f}%"

    return Markup(
        '<svg class="shift" role="img" height="22"><title>{title}</title>'
        '<line class="axis" x1="{start}" x2="100%" y1="11" y2="11"/>'
        '<line class="tick" x1="{start}" x2="{start}" y1="6" y2="16"/>'
        '<line class="way" x1="{a}" x2="{b}" y1="11" y2="11"/>'
        '<line class="interval" x1="{l}" x2="{h}" y1="11" y2="11"/>'
        '<circle class="before" cx="{a}" cy="11" r="5"/><circle class="after" cx="{b}" cy="11" r="5"/></svg>'
    ).format(
        title=f"{measures.moved(unit, before, after)}, {measures.span(unit, change)}",
        start=place(0.0),
        a=place(before),
        b=place(after),
        l=place(least),
        h=place(most),
    )
