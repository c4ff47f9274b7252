"""Drawings as wide as the page: densities, values over time, requests in lanes, train schedules.

Lines and areas stretch with the page, texts and line widths do not: a nested SVG is WIDE units across at any
width; texts are positioned beside it in percent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from markupsafe import Markup

from analyze.report import wording
from analyze.report.drawing.charts import log_part, log_ticks
from analyze.report.drawing.svg import element, px
from schemas.report.browse import ResponseRange, TimelineStrip
from schemas.report.parts import TrainSchedule

WIDE: Final = 1000.0


@dataclass(slots=True)
class Stretched:
    """Drawing that stretches horizontally: x is a share of the width, 0 to 1, y is in px from the top."""

    height: int
    kind: str
    """CSS class of the drawing."""
    title: str
    """Title for screen readers, without control characters."""
    _below: list[Markup] = field(default_factory=list)
    _inside: list[Markup] = field(default_factory=list)
    _beside: list[Markup] = field(default_factory=list)

    def path(self, kind: str, d: str) -> None:
        """Add a path. kind: CSS class; d: SVG path commands, x from 0 to WIDE, y in px."""
        if d:
            self._inside.append(element("path", class_=kind, d=d))

    def text(self, kind: str, x: float, y: float, text: str, link: str = "") -> None:
        """Add a text at (x, y). kind: CSS class; link: id on the page that the text links to."""
        one = element("text", text, class_=kind, x=_percent(x), y=y)
        self._beside.append(element("a", one, href=f"#{link}") if link else one)

    def line(self, kind: str, x0: float, y0: float, x1: float, y1: float, *, below: bool = False) -> None:
        """Add a straight line between two points. below: True to draw it under areas."""
        line = element("line", class_=kind, x1=_percent(x0), y1=y0, x2=_percent(x1), y2=y1)
        (self._below if below else self._beside).append(line)

    def box(self, kind: str, x0: float, x1: float, y: float, height: float) -> None:
        """Add a rectangle from `x0` to `x1`, under everything else; y and height in px."""
        width = _percent(max(x1 - x0, 0.0))
        self._below.append(element("rect", class_=kind, x=_percent(x0), width=width, y=y, height=height))

    def svg(self) -> Markup:
        """Assemble the SVG element."""
        box, size = f"0 0 {WIDE:.0f} {self.height}", {"width": "100%", "height": px(self.height)}
        stretched = Markup("").join(self._inside)
        wide = element("svg", stretched, class_="wide", viewBox=box, **size, preserveAspectRatio="none")
        parts = (element("title", self.title), *self._below, wide, *self._beside)
        return element("svg", *parts, class_=f"stretched {self.kind}", role="img", **size)


def _percent(share: float) -> str:
    return f"{px(100 * share)}%"


@dataclass(frozen=True, slots=True)
class Tick:
    """Tick of an axis: position and label."""

    at: float
    """Position as a share of the axis, 0 to 1."""
    text: str


def draw_ticks(drawing: Stretched, ticks: Sequence[Tick], top: float, floor: float) -> None:
    """Draw tick lines with texts below; narrow screens hide every second text (CSS class `odd`)."""
    for number, tick in enumerate(ticks):
        drawing.line("grid", tick.at, top, tick.at, floor, below=True)
        end = " first" if tick.at < 0.03 else " last" if tick.at > 0.97 else ""
        drawing.text(f"tick{' odd' if number % 2 else ''}{end}", tick.at, floor + 15, tick.text)


def steps_path(heights: Iterable[float | None], count: int, floor: float, room: float) -> str:
    """SVG path of the area under a step curve. heights: values from 0 to 1, None is a gap; count: number of
    steps, all of equal width; floor, room: lower end and height of the area, px.
    """
    width = WIDE / max(count, 1)
    parts = []
    is_open = False
    for number, value in enumerate(heights):
        if value is None:
            parts.append(f"V{px(floor)}" if is_open else "")
            is_open = False
            continue
        if not is_open:
            parts.append(f"M{px(number * width)} {px(floor)}")
        parts.append(f"V{px(floor - room * value)}H{px((number + 1) * width)}")
        is_open = True
    return "".join(parts) + (f"V{px(floor)}" if is_open else "")


_DENSITY_HEIGHT: Final = 230
_DENSITY_TOP: Final = 26
_DENSITY_BOTTOM: Final = 22
_LEAST_US: Final = 1e-3


def draw_density(
    title: str,
    axis_us: tuple[float, float],
    curves: Sequence[tuple[str, Sequence[tuple[float, float]]]],
    ranges: Sequence[ResponseRange],
) -> Markup:
    """Draw density curves on one axis, scaled to the highest curve, with ranges of response times as bands
    below.

    axis_us: (start, end) of the axis, the ends of the bins; curves: CSS class (`before` or `after`), and
    points (µs > 0, density), ascending. Without a curve only the bands are drawn.
    """
    low, high = max(axis_us[0], _LEAST_US), max(axis_us[1], 2 * _LEAST_US)
    if high <= low:
        high = 2 * low
    floor = _DENSITY_HEIGHT - _DENSITY_BOTTOM
    highest = max((y for _, points in curves for _, y in points), default=1.0) or 1.0

    def x(us: float) -> float:
        return log_part(us, low, high)

    drawing = Stretched(_DENSITY_HEIGHT, "density", title)
    for number, one in enumerate(ranges):
        kind = "band odd" if number % 2 else "band"
        drawing.box(kind, x(one.low_us), x(one.high_us), _DENSITY_TOP, floor - _DENSITY_TOP)
    draw_ticks(
        drawing, [Tick(x(us), wording.duration(us)) for us in log_ticks(low, high, 9)], _DENSITY_TOP, floor
    )
    for kind, curve in curves:
        # Density beyond the axis comes from the kernel, not from data: it is cut at the axis.
        points = [
            (x(us), floor - (floor - _DENSITY_TOP) * y / highest) for us, y in curve if low <= us <= high
        ]
        if not points:
            continue
        line = "".join(
            f"{'M' if number == 0 else 'L'}{px(WIDE * x)} {px(y)}" for number, (x, y) in enumerate(points)
        )
        if kind == "after":
            line += f"L{px(WIDE * points[-1][0])} {px(floor)}L{px(WIDE * points[0][0])} {px(floor)}Z"
        drawing.path(f"curve {kind}", line)
    for number, one in enumerate(ranges, 1):
        if one.peak_us is not None:
            peak = x(one.peak_us)
            drawing.line("peak", peak, _DENSITY_TOP, peak, floor)
            at = min(max(peak, 0.012), 0.988)
            drawing.text("mark", at, _DENSITY_TOP - 9, str(number), f"range{number}")
        else:
            drawing.text("mark last", 1.0, _DENSITY_TOP - 9, "slow", f"range{number}")
    drawing.line("axis", 0, floor, 1, floor)
    return drawing.svg()


_TIME_ROW: Final = 58
_TIME_BOTTOM: Final = 20
_TIME_TOP: Final = 16
_TIME_LANE: Final = 8
_TIME_TICKS: Final = 7
_LEAST_WIDTH: Final = 0.6
"""Minimum width of a drawn request, in SVG units, of which the drawing is WIDE across: short requests stay
visible."""


Series = tuple[str, Sequence[float | None]]
"""(CSS class, one value per interval of time); a value is None if nothing was observed."""


def draw_by_time(
    name: str, note: str, series: Sequence[Series], edges_ns: tuple[int, int], *, axis: bool
) -> Markup:
    """Draw series of one unit over each other, scaled to the largest value.

    note: text at the right; edges_ns: start and end, ns since the epoch; axis: True to label times below.
    """
    floor = _TIME_ROW
    highest = max((v for _, values in series for v in values if v is not None), default=0.0) or 1.0
    drawing = Stretched(_TIME_ROW + (_TIME_BOTTOM if axis else 3), "by-time", f"{name}: {note}")
    ticks = clock_ticks(*edges_ns)
    draw_ticks(drawing, ticks if axis else [Tick(tick.at, "") for tick in ticks], _TIME_TOP, floor)
    for kind, values in series:
        heights = [None if v is None else v / highest for v in values]
        drawing.path(kind, steps_path(heights, len(heights), floor, floor - _TIME_TOP))
    drawing.line("axis", 0, floor, 1, floor)
    drawing.text("name", 0, 11, name)
    drawing.text("note", 1, 11, note)
    return drawing.svg()


def clock_ticks(start_ns: int, end_ns: int) -> list[Tick]:
    """Ticks of a time axis, labelled with times of day in UTC, as precise as the length of the axis
    requires."""
    length = max(end_ns - start_ns, 1)
    digits = 0 if length >= 20 * 10**9 else 3 if length >= 20 * 10**6 else 6
    minutes = length >= 6 * 3600 * 10**9
    days = length >= 3 * 86_400 * 10**9
    found = []
    for number in range(_TIME_TICKS):
        at = start_ns + length * number // (_TIME_TICKS - 1)
        when = datetime.fromtimestamp(at // 10**9, UTC)
        if days:
            text = f"{when:%m-%d %H:%M}"
        elif minutes:
            text = f"{when:%H:%M}"
        else:
            text = f"{when:%H:%M:%S}"
        if digits:
            text += f".{at % 10**9:09d}"[: digits + 1]
        found.append(Tick(number / (_TIME_TICKS - 1), text))
    return found


def draw_lanes(title: str, strip: TimelineStrip) -> Markup:
    """Draw requests as rectangles stacked in lanes; the height of the stack is the number of requests in
    flight.
    """
    floor = 6 + max(strip.lanes, 1) * _TIME_LANE
    length = strip.length_us or 1.0
    drawing = Stretched(floor + _TIME_BOTTOM, "lanes", title)
    past_ns = strip.start_ns + round(strip.length_us * 1e3)
    draw_ticks(drawing, clock_ticks(strip.start_ns, past_ns), 4, floor)
    for kind, failed in (("ok", False), ("failed", True)):
        parts = []
        for one in strip.requests:
            if one.failed is not failed:
                continue
            start = max(one.start_us / length, 0.0) * WIDE
            end = min((one.start_us + one.us) / length, 1.0) * WIDE
            width, y = max(end - start, _LEAST_WIDTH), floor - (one.lane + 1) * _TIME_LANE
            parts.append(f"M{px(start)} {y + 1}h{width:.2f}v{_TIME_LANE - 2}h{-width:.2f}z")
        drawing.path(kind, "".join(parts))
    drawing.line("axis", 0, floor, 1, floor)
    return drawing.svg()


_TRAIN_LANE: Final = 38
"""Height of a lane, px; in the style sheet, rows of the list of names have the same height."""
_TRAIN_TOP: Final = 6
_TRAIN_BOTTOM: Final = 20
_LEAST_BAR: Final = 1.2
"""Minimum length of a drawn bar, in SVG units, of which the drawing is WIDE across."""


def draw_train(schedule: TrainSchedule, title: str) -> Markup:
    """Draw a train schedule: work of components and messages between them, without the steps inside a
    component.
    """
    floor = _TRAIN_TOP + _TRAIN_LANE * len(schedule.lanes)
    # Deferred work may go on after the response.
    last = max([schedule.response_us, *(bar.end_us for bar in schedule.bars)])
    whole = last or 1.0
    drawing = Stretched(floor + _TRAIN_BOTTOM, "train", title)
    draw_ticks(drawing, even_ticks(last), _TRAIN_TOP, floor)

    def y(lane: int) -> float:
        return _TRAIN_TOP + _TRAIN_LANE * (lane + 0.5)

    for number in range(len(schedule.lanes)):
        drawing.line("rail", 0, y(number), 1, y(number), below=True)
    for waited, kind in ((False, "message"), (True, "message waited")):
        drawing.path(
            kind,
            "".join(
                f"M{px(WIDE * m.start_us / whole)} {px(y(m.source))}"
                f"L{px(WIDE * m.end_us / whole)} {px(y(m.target))}"
                for m in schedule.messages
                if m.waited is waited
            ),
        )
    for waited, kind in ((False, "work"), (True, "work waited")):
        parts = []
        for bar in schedule.bars:
            if bar.waited is waited and bar.end_us > bar.start_us:
                start = WIDE * bar.start_us / whole
                parts.append(
                    f"M{px(start)} {px(y(bar.lane))}h{max(WIDE * bar.end_us / whole - start, _LEAST_BAR):.2f}"
                )
        drawing.path(kind, "".join(parts))
    return drawing.svg()


def even_ticks(last_us: float) -> list[Tick]:
    """Ticks at round times from 0 to `last_us`, at most eight; a single one at 0 if `last_us` is 0."""
    if last_us <= 0:
        return [Tick(0.0, wording.duration(0.0))]
    step = 10.0 ** int(f"{(last_us / 7):e}".partition("e")[2])
    step *= next(times for times in (1, 2, 5, 10) if 7 * step * times >= last_us)
    return [Tick(i * step / last_us, wording.duration(i * step)) for i in range(int(last_us / step) + 1)]
