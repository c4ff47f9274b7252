"""Drawing of the picture of a comparison: the calls around its first findings as one graph, beside a
histogram of response times.

The graph is a column of boxes: each box is below its caller's box and indented; for activity records, a step
is below the step before it. It therefore fits a phone, and arrows do not cross. A changed call is marked by a
sign and a word, not only by colour.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from markupsafe import Markup

from analyze.methods.robust.kind_words import KIND_WORDS
from analyze.report import blocks as b
from analyze.report import measures
from analyze.report.drawing.charts import histogram
from analyze.report.drawing.graph import CHAR_PX, LATENCY_PX, label, outline
from analyze.report.drawing.layout import Box
from analyze.report.drawing.svg import element, px
from analyze.report.wording import clip, counted, duration, percent, percents, significant
from schemas.report.findings import ERROR_KINDS, PATH_KINDS
from schemas.report.picture import FlowPicture, FlowStep

WIDTH: Final = 430
_LANE: Final = 18
_GAP: Final = 10
"""Vertical gap between two boxes, in px."""
_LINE: Final = 16
_ROOTS: Final = 2
"""Maximum number of root types named in the caption."""
_PLAIN_PX: Final = 6.9
"""Mean width of a character in normal 12 px type, in px."""
_BOLD_PX: Final = 7.2
"""Mean width of a character in bold 12 px type, in px; digits and spaces included."""
_ONCE: Final = 0.05
"""Largest difference of a number of calls from 1 at which the number is left out."""

_ONLY: Final = {"after": ("+", "new", "gained"), "before": ("−", "gone", "lost")}


def picture_blocks(picture: FlowPicture) -> b.Blocks:
    """Display of the picture: the graph, and beside it the histogram of response times; empty if there are no
    steps."""
    if not picture.steps:
        return ()
    roots = _roots(picture)
    what = "Calls" if picture.nested else "Steps"
    rank = next((step.finding for step in picture.steps if step.leads), None)
    of = "" if rank is None else f" around finding {rank}"
    graph = b.Drawing(
        _drawn(picture, f"{what}{of}, before and after, {roots}"),
        (f"{what}{of}, before → after, {roots}"),
        _legend(picture),
    )
    times = histogram(picture.responses, f"Response times, {roots}")
    return (b.Only("page", (b.Beside((graph, times)),)),)


def _roots(picture: FlowPicture) -> str:
    shown = [clip(root, 60) for root in picture.roots[:_ROOTS]]
    rest = picture.roots_total - len(shown)
    more = f" and {counted(rest, 'more root type')}" if rest else ""
    return f"requests of {', '.join(shown)}{more}" if shown else "all requests"


def _legend(picture: FlowPicture) -> b.Words:
    """Legend of the signs that the picture contains."""
    signs: dict[str, None] = {}
    for step in picture.steps:
        if sign := _sign(step):
            signs[f"{sign} {_word(step)}"] = None
    time = "Times: median own time of a request"
    return f"{time}. {', '.join(signs)}." if signs else f"{time}."


def _sign(step: FlowStep) -> str:
    if step.only:
        return _ONLY[step.only][0]
    return "" if step.change is None else KIND_WORDS[step.change].sign


def _word(step: FlowStep) -> str:
    if step.only:
        return _ONLY[step.only][1]
    return "" if step.change is None else KIND_WORDS[step.change].tag


@dataclass(frozen=True, slots=True)
class _Row:
    """Row of the picture: a step's box, or a line of text in place of steps that are not drawn."""

    step: FlowStep | None
    lane: int
    """Indentation level, from 0."""
    lines: tuple[str, ...]
    """Lines of text in the row, from top to bottom."""
    right: str = ""
    """Text at the right end of the first line; empty if there is none."""
    above: int | None = None
    """Index of the row from which an arrow leads to this row; None if there is no arrow."""
    straight: bool = False
    """True if the arrow enters the box from above, False if it enters from the left side."""
    top: float = 0.0
    """y coordinate of the row's upper edge, in px."""

    @property
    def height(self) -> float:
        """Height of the row, in px."""
        return 18.0 if self.step is None else 10.0 + _LINE * len(self.lines)


def _rows(picture: FlowPicture) -> list[_Row]:
    """Rows of the picture from top to bottom, with their coordinates."""
    steps = picture.steps
    last = {step.above: at for at, step in enumerate(steps)}
    rows: list[_Row] = []
    row_of: dict[int, int] = {}
    lane_of: dict[int, int] = {}
    noun = "call" if picture.nested else "step"

    def hidden(of: int) -> None:
        more = steps[of].hidden
        if more:
            text = f"… and {counted(more, f'more {noun}')}"
            rows.append(_Row(None, lane_of[of] + 1, (text,), above=row_of[of]))

    for at, step in enumerate(steps):
        above = step.above
        straight = above is not None and not picture.nested and last[above] == at
        lane_of[at] = 0 if above is None else lane_of[above] + (not straight)
        if above is not None:
            if last[above] == at and steps[above].hidden:
                hidden(above)
            if step.skipped:
                text = f"… {counted(step.skipped, noun)} between"
                rows.append(_Row(None, lane_of[above] + 1, (text,), above=row_of[above]))
        row_of[at] = len(rows)
        lines, right = _lines(step, None if above is None else steps[above], lane_of[at])
        rows.append(_Row(step, lane_of[at], lines, right, None if above is None else row_of[above], straight))
        if at not in last and step.hidden:
            hidden(at)
    placed, top = [], 10.0
    for row in rows:
        placed.append(replace(row, top=top))
        top += row.height + (_GAP if row.step is not None else 4)
    return placed


def _lines(step: FlowStep, above: FlowStep | None, lane: int) -> tuple[tuple[str, ...], str]:
    """Texts in a step's box: (lines, text at the right end of the first line). above: the step's caller in
    the picture, None for the first; lane: indentation level."""
    room = WIDTH - 4 - 10 - lane * _LANE - 24
    name = step.operation or step.component
    if not _sign(step):
        right = _usual(step, above)
        if step.operation and (above is None or above.component != step.component):
            name = f"{step.component}/{name}"
        return (_ending(name, room - len(right) * LATENCY_PX - 10, _PLAIN_PX),), right
    right = f"finding {step.finding}" if step.finding is not None and step.leads else ""
    lines = [
        _ending(step.component, room - len(right) * CHAR_PX - 10, LATENCY_PX),
        _ending(name, room, CHAR_PX),
        *(clip(line, int(room / _BOLD_PX)) for line in _changes(step)),
    ]
    return tuple(lines), right


def _ending(text: str, room: float, letter: float) -> str:
    """Cut characters from the beginning of a text to make it fit into `room` px, since names often begin with
    the same words. letter: mean width of a character, px."""
    most = max(int(room / letter), 2)
    return text if len(text) <= most else f"…{text[1 - most :]}"


def _usual(step: FlowStep, above: FlowStep | None) -> str:
    """Text for a step without a change of its own: number of calls, unless it is about 1, and own time.

    Below a step with other call patterns, the numbers of calls before and after.
    """
    before, after = step.calls0, step.calls1
    time = "" if step.time1_us is None else duration(step.time1_us)
    if before is None or after is None:
        return time
    if above is not None and above.change in PATH_KINDS and abs(after - before) > _ONCE:
        both = (before, after)
        shares = max(both) <= 1
        words = " → ".join(percents(*both) if shares else [significant(calls, 2) for calls in both])
        return f"in {words}: {time}".strip(" :") if shares else f"{words} × {time}".strip()
    if abs(after - 1) <= _ONCE:
        return time
    often = f"{significant(after, 2)} ×" if after > 1 else f"in {percent(after)}:"
    return f"{often} {time}".strip(" :")


def _changes(step: FlowStep) -> Iterator[str]:
    """Yield the lines of text about a step's changes, with the values before and after."""
    if step.only:
        there, time = (step.calls1, step.time1_us) if step.only == "after" else (step.calls0, step.time0_us)
        often = "" if there is None else _often(there)
        took = "" if time is None else duration(time)
        was = " before" if step.only == "before" else ""
        yield f"{_ONLY[step.only][1]}:{was} {', '.join(filter(None, (often, took)))}".rstrip(": ")
    if step.unit is not None and step.before is not None and step.after is not None:
        word = "" if step.change is None else KIND_WORDS[step.change].tag
        of = " of its requests" if step.unit == "share" else ""
        if not step.only or step.change in ERROR_KINDS:
            yield f"{word}: {measures.moved(step.unit, step.before, step.after)}{of}"
    if step.where:
        yield f"only where {step.where}"


def _often(calls: float) -> str:
    if abs(calls - 1) <= _ONCE:
        return "called every time"
    return f"{significant(calls, 2)} calls each time" if calls > 1 else f"called {percent(calls)} of the time"


def _drawn(picture: FlowPicture, title: str) -> Markup:
    rows = _rows(picture)
    parts = [_arrow(rows[row.above], row) for row in rows if row.above is not None]
    parts += [_box(row) for row in rows]
    height = rows[-1].top + rows[-1].height + 4
    said = f"{title}. {'; '.join(_said(row) for row in rows)}"
    return element(
        "svg",
        element("title", said),
        *parts,
        class_="graph flow",
        role="img",
        width=WIDTH,
        height=height,
        viewBox=f"0 0 {WIDTH} {px(height)}",
    )


def _said(row: _Row) -> str:
    """Text of a row for screen readers."""
    if row.step is None:
        return row.lines[0]
    step = row.step
    lead = f"finding {step.finding}: " if step.leads and step.finding is not None else ""
    name = f"{step.component}/{step.operation}".rstrip("/")
    said = ", ".join(_changes(step)) if _sign(step) else row.right
    return f"{lead}{name}{f', {said}' if said else ''}"


def _left(row: _Row) -> float:
    return 10.0 + row.lane * _LANE


def _arrow(above: _Row, row: _Row) -> Markup:
    """Arrow from the bottom of the box `above` to the left side, or the top, of the box `row`."""
    x, bottom = _left(above) + 8, above.top + above.height
    if row.straight:
        y = row.top
        head = f"M{px(x - 4)} {px(y - 7)}L{px(x)} {px(y)}L{px(x + 4)} {px(y - 7)}"
        line = f"M{px(x)} {px(bottom)}V{px(y)}"
    else:
        y, end = row.top + min(row.height / 2, 13), _left(row)
        head = f"M{px(end - 6)} {px(y - 4)}L{px(end)} {px(y)}L{px(end - 6)} {px(y + 4)}"
        line = f"M{px(x)} {px(bottom)}V{px(y)}H{px(end)}"
    parts = [element("path", d=line)]
    if row.step is not None:
        parts.append(element("path", class_="head", d=head))
    return element("g", *parts, class_=f"arrow {_look(row.step)}")


def _look(step: FlowStep | None) -> str:
    """CSS class of a step's box and of the arrow to it. step: None for a line of text."""
    if step is None or not _sign(step):
        return "quiet"
    if step.only:
        return f"only {_ONLY[step.only][2]}"
    colour = KIND_WORDS[step.change].tone if step.change is not None else ""
    return {"worse": "slower", "failing": "slower failing", "better": "faster"}.get(colour, "moved")


def _box(row: _Row) -> Markup:
    step, left = row.step, _left(row)
    if step is None:
        return label(left + 6, row.top + 13, row.lines[0], "pill left")
    width = WIDTH - 4 - left
    sign = _sign(step)
    name = f"{step.component}/{step.operation}".rstrip("/")
    box = Box(width, row.height)
    parts = [element("title", name), outline(box, left + width / 2, row.top + row.height / 2, 5)]
    roles = ("where", "what", "latency", "latency", "latency") if sign else ("plain",)
    for number, (text, role) in enumerate(zip(row.lines, roles, strict=False)):
        parts.append(label(left + 14, row.top + 17 + number * _LINE, text, f"{role} left"))
    if row.right:
        parts.append(label(left + width - 8, row.top + 17, row.right, "latency right"))
    if sign:
        parts += [
            element("circle", cx=left, cy=row.top + 4, r=9),
            label(left, row.top + 8, sign, "sign"),
        ]
    return element("g", *parts, class_=f"step {_look(step)}{' lead' if step.leads else ''}")
