"""Dependency networks as SVG: boxes coloured by divergence, lines as wide as the dependency. Text is escaped.

Laid out by the report's one layout engine, top to bottom in the order of happening, what is explained last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from analyze.report import wording
from analyze.report.drawing.graph import curve, label, laid_out, outline
from analyze.report.drawing.layout import Box, lay_out
from analyze.report.drawing.svg import element, px

CHAR_PX: Final = 7.4
LABEL_CHARS: Final = 30
_THIN, _THICK = 1.2, 6.0
_SHADES: Final = 5
"""Shades of divergence; the first is none."""


@dataclass(frozen=True, slots=True)
class NetworkNode:
    """One box."""

    where: str
    what: str
    numbers: str
    """`ends 12.3 ms → 1.01 s`."""
    divergence: float
    """0 to 1."""
    higher: bool
    """Its mean rose: warm shades; else cool ones."""
    performance: bool = False
    """P: what is explained."""
    in_chain: bool = False


@dataclass(frozen=True, slots=True)
class NetworkLine:
    """One dependency, between places of `nodes`; of a directed one `src` happens first."""

    src: int
    dst: int
    weight: float
    """0 to 1."""
    directed: bool
    in_tree: bool
    only_here: bool
    """Not in the other class's network."""
    in_chain: bool = False


def draw_network(nodes: Sequence[NetworkNode], lines: Sequence[NetworkLine], title: str) -> Markup:
    """SVG of a network. `nodes` in the order of happening: every line is laid out downwards."""
    boxes = [_box(node) for node in nodes]
    layout = lay_out(boxes, {(min(line.src, line.dst), max(line.src, line.dst)) for line in lines}, gap_y=46)
    parts = []
    # Weak ones first, so that strong ones lie above them.
    for line in sorted(lines, key=lambda line: (line.in_chain, line.in_tree, line.weight)):
        top, bottom = min(line.src, line.dst), max(line.src, line.dst)
        points = [
            (layout.x[top], layout.y[top] + boxes[top].height / 2),
            *layout.bends[top, bottom],
            (layout.x[bottom], layout.y[bottom] - boxes[bottom].height / 2),
        ]
        parts.append(_line(line, points, nodes, upwards=line.src != top))
    for node, box, x, y in zip(nodes, boxes, layout.x, layout.y, strict=True):
        parts.append(_node(node, box, x, y))
    return laid_out("graph network", layout, title, parts)


def shade(divergence: float) -> int:
    """0 for none, 1 to 4 by |t| over the largest of the log, on a root scale so that small ones show."""
    if divergence <= 0:
        return 0
    return min(_SHADES - 1, 1 + int(divergence**0.5 * (_SHADES - 1)))


def _texts(node: NetworkNode) -> tuple[str, str, str]:
    where, what = (wording.clip(text, LABEL_CHARS) for text in (node.where, node.what))
    return where, what, wording.clip(node.numbers, 2 * LABEL_CHARS)


def _box(node: NetworkNode) -> Box:
    where, what, numbers = _texts(node)
    widest = max(len(where) * CHAR_PX * 0.9, len(what) * CHAR_PX, len(numbers) * CHAR_PX * 0.9)
    rows = sum(1 for text in (where, what, numbers) if text)
    return Box(max(110.0, widest + 24), 12.0 + 15 * rows)


def _node(node: NetworkNode, box: Box, x: float, y: float) -> Markup:
    kind = "p" if node.performance else f"d{shade(node.divergence)} {'up' if node.higher else 'down'}"
    title = f"{node.where}/{node.what}".strip("/") + f": {node.numbers}"
    parts = [element("title", title), outline(box, x, y, 14 if node.performance else 5)]
    line = y - box.height / 2 + 18
    for text, role in zip(_texts(node), ("where", "what", "latency"), strict=True):
        if text:
            parts.append(label(x, line, text, role))
            line += 15
    return element("g", *parts, class_=f"var {kind}{' chained' if node.in_chain else ''}")


def _line(
    line: NetworkLine,
    points: Sequence[tuple[float, float]],
    nodes: Sequence[NetworkNode],
    *,
    upwards: bool,
) -> Markup:
    words = {"tree": line.in_tree, "only": line.only_here, "chained": line.in_chain}
    kind = " ".join(["dep", *(word for word, wanted in words.items() if wanted)])
    between = " and ".join(f"{nodes[i].where}/{nodes[i].what}".strip("/") for i in (line.src, line.dst))
    only = ", not in the other class" if line.only_here else ""
    title = f"{between}: {wording.percent(line.weight)} of the instances{only}"
    width = _THIN + (_THICK - _THIN) * line.weight
    parts = [element("title", title), element("path", d=curve(points), stroke_width=width)]
    if line.directed:
        (x, y), sign = (points[0], 1) if upwards else (points[-1], -1)
        back = px(y + sign * 9)
        head = f"M{px(x - 5)} {back}L{px(x)} {px(y)}L{px(x + 5)} {back}Z"
        parts.append(element("path", class_="head", d=head))
    return element("g", *parts, class_=kind)
