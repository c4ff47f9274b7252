"""Strip of time: mean, 95th percentile and failures of both periods, with the onset and deployments.

The drawing is as wide as the page: positions are in percent, and curves are in nested SVGs that stretch, so
that texts keep their size on a phone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from markupsafe import Markup

from analyze.report import wording
from analyze.report.blocks import Drawing, sides
from analyze.report.drawing.svg import element, px
from schemas.report.time_strip import Course, TimeStrip
from schemas.windows import NS_PER_DAY, NS_PER_SECOND, NS_PER_US

HEIGHT: Final = 138
_TOP: Final = 20
_FLOOR: Final = 104
"""Lower end of the curves, px from the top (upper end: `_TOP`)."""
_FAILING: Final = 8
"""Height of the row of failures below the curves, px."""
_GAP: Final = 8.0
"""Gap between the two periods, percent of the width."""
_SEAM: Final = 0.6
"""Gap between two adjacent periods, percent of the width; as wide as _GAP it would look like missing data."""
_LEAST: Final = 0.3
"""Minimum share of the width that the shorter period gets."""
_SHADES: Final = 5


def time_strip(strip: TimeStrip, since_ns: int | None = None) -> Drawing:
    """Draw both periods; since_ns: onset of the change, ns since the epoch, within the second period."""
    courses = (strip.before, strip.after)
    top_us = max(us for course in courses for us in course.p95_us if us is not None) or 1.0
    failing = max((share for course in courses for share in course.failed_share if share), default=0.0)
    spans = [course.end_ns - course.start_ns for course in courses]
    part = min(1 - _LEAST, max(_LEAST, spans[0] / sum(spans)))
    gap = _SEAM if 0 <= _apart_ns(strip) < NS_PER_SECOND else _GAP
    wide = (100 - gap) * part
    places = ((0.0, wide), (wide + gap, 100 - gap - wide))
    drawn: list[Markup] = []
    for kind, course, place in zip(("before", "after"), courses, places, strict=True):
        drawn += _curves(kind, course, place, top_us, failing)
    drawn += _between(strip, places)
    drawn += _uprights(strip, places, since_ns)
    drawn.append(_text("tick left", 0, _TOP - 8, wording.duration(top_us)))
    title = element("title", _described(strip, top_us, failing, since_ns))
    svg = element("svg", title, *drawn, class_="strip", role="img", width="100%", height=str(HEIGHT))
    lane = f"; below, failing requests, {wording.percent(failing)} at most" if failing else ""
    ticks = " and ".join(dict.fromkeys(wording.duration(one.tick_ns / NS_PER_US) for one in courses))
    caption = f"Response time by {ticks}: line: mean, area: 95th percentile{lane}"
    return Drawing(svg, caption, sides("before", "after"))


def _curves(
    kind: str, course: Course, place: tuple[float, float], top_us: float, failing: float
) -> Iterator[Markup]:
    """Draw the curves of a period, with the times of its two ends."""
    n = len(course.requests)
    box = {"x": f"{px(place[0])}%", "width": f"{place[1]:.2f}%", "preserveAspectRatio": "none"}
    area = "".join(
        f"M{at} 100V{px(100 - 100 * us / top_us)}H{at + 1}V100Z"
        for at, us in enumerate(course.p95_us)
        if us is not None
    )
    yield element(
        "svg",
        element("path", class_=f"area {kind}", d=area),
        element("path", class_=f"line {kind}", d=_line(course.mean_us, top_us)),
        **box,
        y=_TOP,
        height=_FLOOR - _TOP,
        viewBox=f"0 0 {n} 100",
    )
    if failing:
        bars = [
            element("rect", class_=f"failing s{_shade(share, failing)}", x=at, y=0, width=1, height=1)
            for at, share in enumerate(course.failed_share)
            if share
        ]
        yield element("svg", *bars, **box, y=_FLOOR + 2, height=_FAILING, viewBox=f"0 0 {n} 1")
    yield element("line", class_="axis", x1=f"{px(place[0])}%", x2=f"{px(sum(place))}%", y1=_FLOOR, y2=_FLOOR)
    day = course.tick_ns >= NS_PER_DAY
    yield _text("tick left", place[0], HEIGHT - 8, _clock(course.start_ns, day=day))
    if kind == "after":
        yield _text("tick right", sum(place), HEIGHT - 8, _clock(course.end_ns, day=day))


def _line(values: Sequence[float | None], top_us: float) -> str:
    """SVG path of a curve through the middles of the ticks, interrupted at ticks without a value.

    top_us: value at the top.
    """
    path, pen = "", "M"
    for at, us in enumerate(values):
        if us is None:
            pen = "M"
            continue
        y = px(100 - 100 * us / top_us)
        # A tick between two gaps is still seen: a stroke as wide as it.
        path += f"{pen}{at + 0.25} {y}L{at + 0.75} {y}" if pen == "M" else f"L{at + 0.5} {y}"
        pen = "L"
    return path


def _shade(share: float, most: float) -> int:
    return min(_SHADES - 1, int(_SHADES * share / most))


def _apart_ns(strip: TimeStrip) -> int:
    return strip.after.start_ns - strip.before.end_ns


def _middle(places: Sequence[tuple[float, float]]) -> float:
    """Middle of the gap between the two periods, percent of the width."""
    return (places[0][1] + places[1][0]) / 2


def _between(strip: TimeStrip, places: Sequence[tuple[float, float]]) -> Iterator[Markup]:
    """Draw the gap between the periods, labelled with its length; adjacent periods only get a line."""
    x = f"{px(_middle(places))}%"
    yield element("line", class_="grid", x1=x, x2=x, y1=_TOP, y2=_FLOOR)
    if _apart_ns(strip) >= NS_PER_SECOND:
        yield _text("tick", _middle(places), _TOP - 8, f"{_length(_apart_ns(strip))} later")


def _uprights(
    strip: TimeStrip, places: Sequence[tuple[float, float]], since_ns: int | None
) -> Iterator[Markup]:
    """Draw the onset and the deployments as vertical lines with labels."""
    marked = [("deployed", mark.at_ns, mark.text) for mark in strip.marks]
    if since_ns is not None:
        marked.append(("since", since_ns, f"since {_clock(since_ns, day=False)}"))
    for kind, at_ns, text in marked:
        x = _place(strip, places, at_ns)
        if x is None:
            continue
        title = element("title", text)
        line = element("line", class_=kind, x1=f"{x:.2f}%", x2=f"{x:.2f}%", y1=_TOP - 4, y2=_FLOOR)
        yield element("g", title, line)
        if kind == "since":
            yield _text("since left" if x < 70 else "since right", x, _TOP - 8, text)


def _place(strip: TimeStrip, places: Sequence[tuple[float, float]], at_ns: int) -> float | None:
    """Position of an instant, percent of the width; None if the instant is neither in a period nor in the gap
    between them."""
    for course, (left, width) in zip((strip.before, strip.after), places, strict=True):
        if course.start_ns <= at_ns < course.end_ns:
            return left + width * (at_ns - course.start_ns) / (course.end_ns - course.start_ns)
    between = strip.before.end_ns <= at_ns < strip.after.start_ns
    return _middle(places) if between else None


def _text(kind: str, x: float, y: float, text: str) -> Markup:
    return element("text", text, class_=kind, x=f"{x:.2f}%", y=y)


def _clock(ns: int, *, day: bool) -> str:
    at = datetime.fromtimestamp(ns // NS_PER_SECOND, UTC)
    return f"{at:%Y-%m-%d}" if day else f"{at:%H:%M:%S}Z"


def _length(ns: int) -> str:
    """Format a duration in one unit, rounded down: `3 h`."""
    for name, unit in (("d", NS_PER_DAY), ("h", NS_PER_DAY // 24), ("min", 60 * NS_PER_SECOND)):
        if ns >= unit:
            return f"{ns // unit} {name}"
    return f"{ns // NS_PER_SECOND} s"


def _described(strip: TimeStrip, top_us: float, failing: float, since_ns: int | None) -> str:
    """Text alternative of the drawing for screen readers."""
    words = [f"Response time over both periods; 95th percentile {wording.duration(top_us)} at most"]
    if failing:
        words.append(f"failing requests {wording.percent(failing)} at most")
    if since_ns is not None:
        words.append(f"the change began at {_clock(since_ns, day=False)}")
    words += [f"{mark.text} deployed at {_clock(mark.at_ns, day=False)}" for mark in strip.marks]
    return "; ".join(words)
