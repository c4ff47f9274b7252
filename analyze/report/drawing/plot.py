"""Histograms of both periods as SVG: share of requests over a log axis of time."""

from __future__ import annotations

import math

from markupsafe import Markup

from analyze.report import wording
from analyze.report.blocks import Drawing, Run
from schemas.report.parts import Histogram

WIDTH, HEIGHT = 430, 150
LEFT, RIGHT, TOP, BOTTOM = 18, 18, 8, 24
MAX_TICKS = 7
_TICK_STEPS: tuple[tuple[float, ...], ...] = (
    (1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 4.5, 5, 5.5, 6, 7, 8, 9),
    (1, 1.5, 2, 3, 4, 5, 6, 8),
    (1, 2, 3, 5),
    (1, 2, 5),
    (1, 3),
    (1,),
)
"""Multiples of powers of ten, from the finest: the first that gives few enough ticks is taken."""


def histogram_drawing(histogram: Histogram, caption: str = "") -> Drawing:
    """A histogram with its title and the numbers of requests."""
    before, after = (wording.count(sum(counts)) for counts in (histogram.counts0, histogram.counts1))
    legend = (Run("", "swatch"), f"before, {before} ", Run("", "swatch", "after"), f"after, {after}")
    return Drawing(draw_histogram(histogram), caption or histogram.title, legend)


def draw_histogram(histogram: Histogram) -> Markup:
    """Reference as a filled area, problem as an outline; each is scaled to its own number of requests.

    A period without requests is not drawn. At most `MAX_TICKS` ticks.
    """
    low, high = _range(histogram)
    parts = [
        Markup(
            '<svg class="plot" role="img" viewBox="0 0 {w} {h}" width="{w}" height="{h}"><title>{t}</title>'
        ).format(w=WIDTH, h=HEIGHT, t=_summary(histogram))
    ]
    floor = HEIGHT - BOTTOM
    for tick in log_ticks(low, high):
        x = _x(tick, low, high)
        parts.append(
            Markup(
                '<line class="grid" x1="{x}" x2="{x}" y1="{a}" y2="{b}"/>'
                '<text class="tick" x="{x}" y="{y}">{t}</text>'
            ).format(x=f"{x:.1f}", a=TOP, b=floor, y=HEIGHT - 8, t=wording.duration(tick))
        )
    tallest = max(max(_shares(c), default=0.0) for c in (histogram.counts0, histogram.counts1))
    for name, counts in (("before", histogram.counts0), ("after", histogram.counts1)):
        if sum(counts):
            outline = _outline(histogram, _shares(counts), tallest, low, high)
            parts.append(Markup('<path class="{n}" d="{d}"/>').format(n=name, d=outline))
    parts.append(
        Markup('<line class="axis" x1="{a}" x2="{b}" y1="{y}" y2="{y}"/></svg>').format(
            a=LEFT, b=WIDTH - RIGHT, y=floor
        )
    )
    return Markup("").join(parts)


def _summary(histogram: Histogram) -> str:
    return (
        f"{wording.visible(histogram.title)}: {wording.counted(sum(histogram.counts0), 'request')} before, "
        f"{wording.count(sum(histogram.counts1))} after, "
        f"{wording.duration(histogram.edges_us[0])} to {wording.duration(histogram.edges_us[-1])}"
    )


def _range(histogram: Histogram) -> tuple[float, float]:
    """Ends of the axis, both positive and apart; a first edge of 0 is put one bin below the second."""
    edges = histogram.edges_us
    if len(edges) < 2:
        return 1.0, 10.0
    low = edges[0] if edges[0] > 0 else edges[1] / (edges[2] / edges[1] if len(edges) > 2 else 2.0)
    return (low, edges[-1]) if edges[-1] > low * 1.001 else (low / 1.5, low * 1.5)


def _shares(counts: tuple[int, ...]) -> list[float]:
    total = sum(counts)
    return [c / total for c in counts] if total else []


def _x(us: float, low: float, high: float) -> float:
    span = math.log(high / low)
    return LEFT + (WIDTH - LEFT - RIGHT) * min(1.0, max(0.0, math.log(max(us, low) / low) / span))


def _outline(histogram: Histogram, shares: list[float], tallest: float, low: float, high: float) -> str:
    """Path of a step curve, closed along the floor."""
    floor = HEIGHT - BOTTOM
    edges = histogram.edges_us
    x = LEFT if edges[0] <= 0 else _x(edges[0], low, high)
    path = f"M{x:.1f} {floor}"
    for share, right in zip(shares, edges[1:], strict=True):
        y = floor - (floor - TOP) * share / tallest
        path += f"V{y:.1f}H{max(_x(right, low, high), x + 0.5):.1f}"
    return path + f"V{floor}Z"


def log_ticks(low: float, high: float, most: int = MAX_TICKS) -> list[float]:
    """Round values of a log axis, at most `most`."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    decades = [10.0**k for k in range(first, last + 1)]
    for steps in _TICK_STEPS:
        ticks = [d * s for d in decades for s in steps if low <= d * s <= high]
        if len(ticks) <= most:
            return ticks
    return ticks[:: math.ceil(len(ticks) / most)]
