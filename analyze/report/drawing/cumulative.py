"""Cumulative distributions over a log axis as SVG, with a line at a value that counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from analyze.report import wording
from analyze.report.blocks import Drawing

WIDTH: Final = 560
HEIGHT: Final = 230
LEFT: Final = 46
RIGHT: Final = 14
TOP: Final = 14
BOTTOM: Final = 40


@dataclass(frozen=True, slots=True)
class Curve:
    """One distribution."""

    kind: str
    """CSS class: `before` or `after`."""
    points: tuple[tuple[float, float], ...]
    """(value, share up to it), ascending; values > 0."""


def c2_drawing(samples: Sequence[tuple[tuple[float, float], ...]]) -> tuple[Drawing, ...]:
    """C² of the categories of one or two samples; nothing without a category."""
    kinds = ("after",) if len(samples) == 1 else ("before", "after")
    curves = [Curve(kind, points) for kind, points in zip(kinds, samples, strict=True)]
    title = "C² of categories of more than 10 requests, cumulative"
    drawn = draw_cumulative(title, "C² (log scale); the line is C² = 1", curves, 1.0)
    return (Drawing(drawn, title),) if drawn else ()


def draw_cumulative(title: str, axis: str, curves: Sequence[Curve], mark: float) -> Markup:
    """Curves as steps from 0 to 100 %; `mark` is a vertical line with its value. Nothing without a point."""
    values = [value for curve in curves for value, _ in curve.points]
    if not values:
        return Markup("")
    low = min(math.floor(math.log10(max(min(*values, mark), 1e-9))), -1)
    high = max(math.ceil(math.log10(max(*values, mark))), 1)
    low = max(low, high - 8)
    floor = HEIGHT - BOTTOM

    def x(value: float) -> float:
        place = (math.log10(max(value, 10.0**low)) - low) / (high - low)
        return LEFT + (WIDTH - LEFT - RIGHT) * min(max(place, 0.0), 1.0)

    def y(share: float) -> float:
        return floor - (floor - TOP) * share

    parts = [
        Markup(
            '<svg class="plot cumulative" role="img" viewBox="0 0 {w} {h}" width="{w}" height="{h}">'
            "<title>{t}</title>"
        ).format(w=WIDTH, h=HEIGHT, t=wording.visible(title))
    ]
    parts += [_level(share, y(share)) for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
    parts += [_power(power, x(10.0**power)) for power in range(low, high + 1)]
    parts.append(
        Markup('<line class="mark" x1="{x}" x2="{x}" y1="{a}" y2="{b}"/>').format(
            x=f"{x(mark):.1f}", a=TOP, b=floor
        )
    )
    for curve in curves:
        if curve.points:
            path = f"M{x(curve.points[0][0]):.1f} {floor}"
            for value, share in curve.points:
                path += f"H{x(value):.1f}V{y(share):.1f}"
            parts.append(
                Markup('<path class="{k} curve" d="{d}"/>').format(k=curve.kind, d=f"{path}H{WIDTH - RIGHT}")
            )
    parts.append(
        Markup('<text class="tick" x="{x}" y="{y}">{t}</text></svg>').format(
            x=f"{(LEFT + WIDTH - RIGHT) / 2:.1f}", y=HEIGHT - 6, t=axis
        )
    )
    return Markup("").join(parts)


def _level(share: float, y: float) -> Markup:
    """A horizontal line, and what it stands for."""
    return Markup(
        '<line class="grid" x1="{a}" x2="{b}" y1="{y}" y2="{y}"/>'
        '<text class="tick left" x="{t}" y="{ty}">{s}</text>'
    ).format(a=LEFT, b=WIDTH - RIGHT, y=f"{y:.1f}", t=LEFT - 6, ty=f"{y + 4:.1f}", s=wording.percent(share))


def _power(power: int, x: float) -> Markup:
    """A vertical line at a power of ten."""
    return Markup(
        '<line class="grid" x1="{x}" x2="{x}" y1="{a}" y2="{b}"/>'
        '<text class="tick" x="{x}" y="{y}">{t}</text>'
    ).format(
        x=f"{x:.1f}", a=TOP, b=HEIGHT - BOTTOM, y=HEIGHT - BOTTOM + 16, t=wording.significant(10.0**power)
    )
