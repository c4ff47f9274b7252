"""Charts of a fixed size as SVG: histograms, cumulative distributions, scores by number, distances."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from markupsafe import Markup

from analyze.report import wording
from analyze.report.blocks import Drawing, sides
from analyze.report.drawing.svg import element, px
from schemas.report.clusters import CurvePoint
from schemas.report.parts import Histogram

MAX_TICKS: Final = 7
_TICK_STEPS: Final[tuple[tuple[float, ...], ...]] = (
    (1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 4.5, 5, 5.5, 6, 7, 8, 9),
    (1, 1.5, 2, 3, 4, 5, 6, 8),
    (1, 2, 3, 5),
    (1, 2, 5),
    (1, 3),
    (1,),
)
"""Mantissas of axis ticks, finest set first; the first set that gives few enough ticks on the axis is
used."""
_SHADES: Final = 5
"""Number of shades of a distance matrix; distances are divided into fifths by rank, shade 0 being the
farthest."""


@dataclass(slots=True)
class _Canvas:
    """SVG canvas with margins, px; all text is escaped, and control characters are made visible."""

    kind: str
    title: str
    width: int
    height: int
    left: int = 18
    right: int = 18
    top: int = 8
    bottom: int = 24
    parts: list[Markup] = field(default_factory=list)

    @property
    def floor(self) -> int:
        """Lower end of the plot area, px."""
        return self.height - self.bottom

    @property
    def end(self) -> int:
        """Right end of the plot area, px."""
        return self.width - self.right

    def x(self, part: float) -> float:
        """Horizontal position, px, of `part`, a share of the plot area's width, clipped to [0, 1]."""
        return self.left + (self.end - self.left) * min(1.0, max(0.0, part))

    def y(self, part: float) -> float:
        """Vertical position, px, of `part`, a share of the plot area's height from 0 (floor) to 1 (top)."""
        return self.floor - (self.floor - self.top) * part

    def line(self, kind: str, x1: float, y1: float, x2: float, y2: float) -> None:
        self.parts.append(element("line", class_=kind, x1=x1, y1=y1, x2=x2, y2=y2))

    def text(self, kind: str, x: float, y: float, text: str) -> None:
        self.parts.append(element("text", text, class_=kind, x=x, y=y))

    def path(self, kind: str, d: str) -> None:
        self.parts.append(element("path", class_=kind, d=d))

    def upright(self, x: float, text: str) -> None:
        """Draw a vertical line across the plot area, with its label below."""
        self.line("grid", x, self.top, x, self.floor)
        self.text("tick", x, self.floor + 16, text)

    def level(self, kind: str, y: float, text: str) -> None:
        """Draw a horizontal line across the plot area, with its label at the left. kind: CSS class of the
        label.
        """
        self.line("grid", self.left, y, self.end, y)
        self.text(f"tick {kind}", self.left - 6, y + 4, text)

    def svg(self) -> Markup:
        """Assemble the SVG element."""
        box, title = f"0 0 {self.width} {self.height}", element("title", self.title)
        size = {"width": self.width, "height": self.height}
        return element("svg", title, *self.parts, class_=self.kind, role="img", viewBox=box, **size)


def histogram(found: Histogram, caption: str = "") -> Drawing:
    """Draw a histogram of both periods: the reference as a filled area, the problem as an outline.

    Each is scaled to its own number of requests. A period without requests is not drawn. At most `MAX_TICKS`
    ticks.
    """
    low, high = _range(found)
    before, after = (sum(counts) for counts in (found.counts0, found.counts1))
    span = f"{wording.duration(found.edges_us[0])} to {wording.duration(found.edges_us[-1])}"
    title = (
        f"{found.title}: {wording.counted(before, 'request')} before, {wording.count(after)} after, {span}"
    )
    canvas = _Canvas("plot", title, 430, 150)
    for tick in log_ticks(low, high):
        canvas.upright(canvas.x(log_part(tick, low, high)), wording.duration(tick))
    parts = [log_part(edge, low, high) for edge in found.edges_us]
    _draw_two(canvas, parts, (found.counts0, found.counts1))
    legend = sides(f"before, {wording.count(before)}", f"after, {wording.count(after)}")
    return Drawing(canvas.svg(), caption or found.title, legend)


def spread(
    edges: Sequence[float],
    counts: tuple[Sequence[int], Sequence[int]],
    *,
    log: bool,
    title: str,
    worded: Callable[[float], str],
    caption: str = "",
) -> Drawing:
    """Draw the distributions of one variable in two classes, small: the first class filled, the second as an
    outline.

    edges: [bins + 1] ascending, > 0 if `log`. Each class is scaled to its own total.
    """
    low, high = edges[0], edges[-1]
    canvas = _Canvas("spread", title, 260, 76, left=8, right=8, top=6, bottom=18)
    parts = [log_part(edge, low, high) if log else (edge - low) / (high - low) for edge in edges]
    _draw_two(canvas, parts, counts)
    canvas.text("tick first", canvas.left, canvas.height - 5, worded(low))
    canvas.text("tick last", canvas.end, canvas.height - 5, worded(high))
    return Drawing(canvas.svg(), caption)


def c2_curves(samples: Sequence[Sequence[tuple[float, float]]]) -> tuple[Drawing, ...]:
    """Draw cumulative distributions of C² over the categories of one or two samples, with a line at C² = 1.

    samples: points (C², share of the categories up to it), ascending; C² > 0. Returns () without a point.
    """
    values = [value for points in samples for value, _ in points]
    if not values:
        return ()
    high = max(math.ceil(math.log10(max(*values, 1.0))), 1)
    low = max(min(math.floor(math.log10(max(min(*values, 1.0), 1e-9))), -1), high - 8)
    title = "C² of categories of more than 10 requests, cumulative"
    canvas = _Canvas("plot cumulative", title, 560, 230, left=46, right=14, top=14, bottom=40)

    def x(value: float) -> float:
        return canvas.x(log_part(value, 10.0**low, 10.0**high))

    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        canvas.level("left", canvas.y(share), wording.percent(share))
    for power in range(low, high + 1):
        canvas.upright(x(10.0**power), wording.significant(10.0**power))
    canvas.line("mark", x(1.0), canvas.top, x(1.0), canvas.floor)
    kinds = ("after",) if len(samples) == 1 else ("before", "after")
    for kind, points in zip(kinds, samples, strict=True):
        if points:
            path = f"M{px(x(points[0][0]))} {canvas.floor}"
            path += "".join(f"H{px(x(value))}V{px(canvas.y(share))}" for value, share in points)
            canvas.path(f"{kind} curve", f"{path}H{canvas.end}")
    canvas.text(
        "tick", (canvas.left + canvas.end) / 2, canvas.height - 6, "C² (log scale); the line is C² = 1"
    )
    return (Drawing(canvas.svg(), title),)


def score_curve(points: Sequence[CurvePoint], chosen: int, caption: str) -> tuple[Drawing, ...]:
    """Draw a score by number of clusters (log axis) with its standard error; () for fewer than two points.

    chosen: number of clusters to highlight.
    """
    if len(points) < 2:
        return ()
    low = min(point.score - point.se for point in points)
    high = max(max(point.score + point.se for point in points), low + 0.05)
    name = "Simplified silhouette by number of clusters"
    canvas = _Canvas("plot scores", name, 430, 190, left=42, right=16, top=12, bottom=38)

    def y(score: float) -> float:
        return canvas.y((score - low) / (high - low))

    for level in range(5):
        score = low + (high - low) * level / 4
        canvas.level("level", y(score), f"{score:.2f}")
    inner = (canvas.left + 10, canvas.end - 10)
    parts = [log_part(point.k, points[0].k, points[-1].k) for point in points]
    places = [inner[0] + (inner[1] - inner[0]) * part for part in parts]
    line = "L".join(f"{px(x)} {px(y(point.score))}" for x, point in zip(places, points, strict=True))
    canvas.path("score", f"M{line}")
    for x, point in zip(places, points, strict=True):
        here = " taken" if point.k == chosen else ""
        title = element("title", f"{point.k}: {point.score:.3f} ± {point.se:.3f}")
        error = element("line", x1=x, x2=x, y1=y(point.score - point.se), y2=y(point.score + point.se))
        dot = element("circle", cx=x, cy=y(point.score), r=6 if here else 3)
        canvas.parts.append(element("g", title, error, dot, class_=f"dot{here}"))
        canvas.text(f"tick{here}", x, canvas.floor + 15, str(point.k))
    canvas.text("tick", (canvas.left + canvas.end) / 2, canvas.height - 5, "number of clusters")
    return (Drawing(canvas.svg(), caption),)


def distances(names: Sequence[str], apart: Sequence[Sequence[float]], caption: str) -> tuple[Drawing, ...]:
    """Draw a distance matrix of groups, nearer pairs darker; () for fewer than two groups.

    names: [n] short; apart: [n][n] symmetric, 0 on the diagonal.
    """
    n, cell, margin = len(names), 20, 26
    if n < 2:
        return ()
    size = margin + n * cell + 4
    far = sorted(apart[i][j] for i in range(n) for j in range(i))
    bounds = [far[len(far) * part // _SHADES] for part in range(1, _SHADES)]
    canvas = _Canvas("plot apart", "Distances between the centres of clusters", size, size)
    for i, name in enumerate(names):
        middle = margin + i * cell + cell / 2
        canvas.text("tick", middle, margin - 8, name)
        canvas.text("tick left", margin - 6, middle + 4, name)
        for j, other in enumerate(names):
            shade = "own" if i == j else f"h{_SHADES - 1 - sum(apart[i][j] > bound for bound in bounds)}"
            title = element("title", f"{name} and {other}: {wording.significant(apart[i][j])}")
            at = {"x": margin + j * cell, "y": margin + i * cell}
            canvas.parts.append(element("rect", title, class_=shade, **at, width=cell - 1, height=cell - 1))
    return (Drawing(canvas.svg(), caption),)


def log_ticks(low: float, high: float, most: int = MAX_TICKS) -> list[float]:
    """Round tick values of a log axis from `low` to `high`, at most `most`."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    decades = [10.0**k for k in range(first, last + 1)]
    for steps in _TICK_STEPS:
        ticks = [d * s for d in decades for s in steps if low <= d * s <= high]
        if len(ticks) <= most:
            return ticks
    return ticks[:: math.ceil(len(ticks) / most)]


def _draw_two(canvas: _Canvas, edges: Sequence[float], counts: tuple[Sequence[int], Sequence[int]]) -> None:
    """Draw the counts before and after over the same bins, each scaled to its own sum; empty samples are
    skipped.

    edges: positions of the bins' edges, 0 to 1; counts: before, after.
    """
    places = [canvas.x(edge) for edge in edges]
    shares = [_shares(of) for of in counts]
    tallest = max((share for of in shares for share in of), default=1.0)
    for name, of in zip(("before", "after"), shares, strict=True):
        if of:
            canvas.path(name, _steps(canvas, places, [share / tallest for share in of]))
    canvas.line("axis", canvas.left, canvas.floor, canvas.end, canvas.floor)


def _steps(canvas: _Canvas, places: Sequence[float], heights: Sequence[float]) -> str:
    """SVG path of a step curve, closed along the floor; each step is at least half a pixel wide."""
    path, last = f"M{px(places[0])} {canvas.floor}", places[0]
    for height, right in zip(heights, places[1:], strict=True):
        path += f"V{px(canvas.y(height))}H{px(max(right, last + 0.5))}"
        last = max(right, last)
    return path + f"V{canvas.floor}Z"


def _shares(counts: Sequence[int]) -> list[float]:
    total = sum(counts)
    return [count / total for count in counts] if total else []


def _range(found: Histogram) -> tuple[float, float]:
    """Ends of a log axis for a histogram, positive and distinct.

    A first edge of 0 is replaced by a value one bin width below the second edge.
    """
    edges = found.edges_us
    if len(edges) < 2:
        return 1.0, 10.0
    low = edges[0] if edges[0] > 0 else edges[1] / (edges[2] / edges[1] if len(edges) > 2 else 2.0)
    return (low, edges[-1]) if edges[-1] > low * 1.001 else (low / 1.5, low * 1.5)


def log_part(value: float, low: float, high: float) -> float:
    """Position of a value on a log axis from `low` to `high`: 0 to 1, clipped."""
    return min(1.0, max(0.0, math.log(max(value, low) / low) / math.log(high / low)))
