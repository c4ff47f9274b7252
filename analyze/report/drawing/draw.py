"""Request-flow graphs as SVG: boxes, arrows, latencies before → after. All text is escaped here."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from markupsafe import Markup

from analyze.report import wording
from analyze.report.drawing.fold import Step, StepKind, Steps, all_steps, folded_steps
from analyze.report.drawing.layout import Box, lay_out
from schemas.report.drawn_graphs import GraphView

MOST_UNFOLDED = 24
"""Boxes up to which every changed edge keeps its place; in larger graphs the minor ones may be folded."""
CHAR_PX = 7.8
"""Mean width of a bold 12 px letter in the widest of the usual system fonts."""
LABEL_CHARS = 36
MARGIN = 10
LATENCY_PX = 6.8


_ONLY = {"+": "gained", "−": "lost"}
_WIDTH_CLASSES = ((560, "narrow"), (900, "medium"), (1400, "wide"))
"""Widest drawing, px, of each class: the style sheet says how far each may be shrunk to fit."""


class Heat(StrEnum):
    """How an edge is coloured."""

    QUIET = "quiet"
    SLOWER = "slower"
    FASTER = "faster"


@dataclass(frozen=True, slots=True)
class EdgeMark:
    """What is written at an edge, and its colour."""

    text: str
    heat: Heat = Heat.QUIET
    minor: bool = False
    """Changed, but carries little of the change: drawn thin, and may be folded."""


@dataclass(frozen=True, slots=True)
class Marks:
    """What a drawing points out."""

    only_here: frozenset[int] = frozenset()
    """Positions without a partner in the other graph."""
    sign: str = ""
    """Badge of such a box: `+` in a mutation, `−` in a precursor."""
    edges: Mapping[tuple[int, int], EdgeMark] = field(default_factory=dict)
    """By (src, dst)."""

    @property
    def changed(self) -> frozenset[tuple[int, int]]:
        """Edges that are coloured."""
        return frozenset(link for link, mark in self.edges.items() if mark.heat is not Heat.QUIET)

    @property
    def major(self) -> frozenset[tuple[int, int]]:
        """Coloured edges that carry much of the change."""
        return frozenset(link for link in self.changed if not self.edges[link].minor)


def draw_graph(view: GraphView, marks: Marks, title: str) -> Markup:
    """SVG of a graph, stretches in which nothing happens folded."""
    whole = all_steps(view, marks.only_here)
    kept = marks.changed if len(whole.steps) <= MOST_UNFOLDED else marks.major
    return _svg(folded_steps(view, marks.only_here, kept), marks, title)


def _svg(drawn: Steps, marks: Marks, title: str) -> Markup:
    steps = drawn.steps
    layout = lay_out([_box(step, marks) for step in steps], drawn.arrows)
    width = layout.width + 2 * MARGIN + _label_room(drawn, marks)
    height = layout.height + 2 * MARGIN
    parts = [
        Markup(
            '<svg class="graph {c}" role="img" width="{w}" height="{h}" viewBox="{x} {x} {w} {h}">'
            "<title>{title}</title>"
        ).format(
            c=next((name for limit, name in _WIDTH_CLASSES if width <= limit), "vast"),
            w=_px(width),
            h=_px(height),
            x=-MARGIN,
            title=title,
        )
    ]
    for link, edge in drawn.arrows.items():
        a, b = link
        start = (layout.x[a], layout.y[a] + _box(steps[a], marks).height / 2)
        end = (layout.x[b], layout.y[b] - _box(steps[b], marks).height / 2)
        parts.append(
            _arrow([start, *layout.bends[link], end], marks.edges.get(edge) if edge is not None else None)
        )
    for i, step in enumerate(steps):
        parts.append(_step(step, marks, layout.x[i], layout.y[i]))
    parts.append(Markup("</svg>"))
    return Markup("").join(parts)


def _label_room(drawn: Steps, marks: Marks) -> float:
    """Room right of the boxes for latencies beside a straight column of arrows."""
    shown = [edge for edge in drawn.arrows.values() if edge is not None and edge in marks.edges]
    texts = [marks.edges[edge].text for edge in shown]
    return max((len(t) * LATENCY_PX / 2 for t in texts), default=0.0)


def _lines(step: Step) -> tuple[str, str]:
    """The two lines of a box that is not a fold, clipped: component, and what it does."""
    name = step.names[0]
    where, what = (wording.visible(text) for text in (name.where, name.what))
    if not what:
        where, what = "", where
    happens = f" {name.happens}" if name.side and step.kind is StepKind.NODE else ""
    return wording.clip(where, LABEL_CHARS), wording.clip(what, LABEL_CHARS - len(happens)) + happens


def _title(step: Step) -> str:
    """All a box stands for, in full: what the pointer shows."""
    if step.kind is StepKind.SPAN:
        return step.names[0].text
    return " · ".join(f"{name.text} {name.happens}".rstrip() for name in step.names)


def _box(step: Step, marks: Marks) -> Box:
    if step.kind is StepKind.FOLD:
        return Box(len(_fold_text(step, marks)) * LATENCY_PX + 24, 24)
    component, rest = _lines(step)
    row = _inner_edge(step, marks)
    widest = max(
        len(component) * CHAR_PX * 0.92,
        len(rest) * CHAR_PX,
        len(row.text) * LATENCY_PX if row is not None else 0,
    )
    return Box(max(90.0, widest + 26), 24.0 + (14 if component else 0) + (15 if row is not None else 0))


def _inner_edge(step: Step, marks: Marks) -> EdgeMark | None:
    """Latency of a span drawn as one box."""
    if step.kind is not StepKind.SPAN:
        return None
    return marks.edges.get((step.members[0], step.members[1]))


def _heat(mark: EdgeMark | None) -> str:
    """Classes of an edge or of a span's box."""
    if mark is None:
        return Heat.QUIET
    return f"{mark.heat} minor" if mark.minor else mark.heat


def _step(step: Step, marks: Marks, x: float, y: float) -> Markup:
    box = _box(step, marks)
    row = _inner_edge(step, marks)
    left, top = x - box.width / 2, y - box.height / 2
    classes = f"step {step.kind} {_heat(row)}" + (f" only {_ONLY[marks.sign]}" if step.marked else "")
    parts = [
        Markup(
            '<g class="{c}"><title>{t}</title><rect x="{x}" y="{y}" width="{w}" height="{h}" rx="{r}"/>'
        ).format(
            c=classes,
            t=wording.visible(_title(step)),
            x=_px(left),
            y=_px(top),
            w=_px(box.width),
            h=_px(box.height),
            r=12 if step.kind is StepKind.FOLD else 5,
        )
    ]
    if step.kind is StepKind.FOLD:
        what = _fold_text(step, marks)
        parts.append(_text(x, y + 4, what, "pill"))
    else:
        component, rest = _lines(step)
        line = top + 16
        if component:
            parts.append(_text(x, line - 1, component, "where"))
            line += 14
        parts.append(_text(x, line, rest, "what"))
        if row is not None:
            parts.append(_text(x, line + 15, row.text, "latency"))
    if step.marked:
        parts.append(
            Markup('<circle cx="{x}" cy="{y}" r="8"/>').format(x=_px(left), y=_px(top))
            + _text(left, top + 4, marks.sign, "sign")
        )
    parts.append(Markup("</g>"))
    return Markup("").join(parts)


def _fold_text(step: Step, marks: Marks) -> str:
    """What a pill says: how many steps it hides, and whether edges inside changed by test."""
    n, inside = len(step.members), set(step.members)
    changed = sum(1 for src, dst in marks.changed if src in inside and dst in inside)
    if step.marked:
        return f"… {n} steps, only here"
    return f"… {n} steps, {changed} changed slightly" if changed else f"… {n} unchanged steps"


def _arrow(points: list[tuple[float, float]], mark: EdgeMark | None) -> Markup:
    """A smooth line through `points`, an arrow head, and the latency beside its middle."""
    path = f"M{_px(points[0][0])} {_px(points[0][1])}"
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        middle = _px((y0 + y1) / 2)
        path += f"C{_px(x0)} {middle} {_px(x1)} {middle} {_px(x1)} {_px(y1)}"
    x, y = points[-1]
    head = f"M{_px(x - 4)} {_px(y - 7)}L{_px(x)} {_px(y)}L{_px(x + 4)} {_px(y - 7)}"
    drawn = Markup('<g class="arrow {c}"><path d="{p}"/><path class="head" d="{h}"/>').format(
        c=_heat(mark), p=path, h=head
    )
    if mark is not None:
        k = len(points) // 2
        (xa, ya), (xb, yb) = points[k - 1], points[k]
        drawn += _text((xa + xb) / 2 + 7, (ya + yb) / 2 + 4, mark.text, "latency")
    return drawn + Markup("</g>")


def _text(x: float, y: float, text: str, kind: str) -> Markup:
    return Markup('<text class="{k}" x="{x}" y="{y}">{t}</text>').format(k=kind, x=_px(x), y=_px(y), t=text)


def _px(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".")
