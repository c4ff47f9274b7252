"""Dependency networks as SVG: boxes coloured by divergence, lines as wide as the dependency. Text is escaped.

Laid out by the report's one layout engine, top to bottom in order of occurrence, the explained variable last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

from markupsafe import Markup

from analyze.report import wording
from analyze.report.drawing.graph import curve, label, laid_out, outline
from analyze.report.drawing.layout import Box, lay_out
from analyze.report.drawing.svg import element, px
from schemas.report.networks import NetworkComponent, NetworkEdge, NetworkVariable

CHAR_PX: Final = 7.4
LABEL_CHARS: Final = 30
_THIN, _THICK = 1.2, 6.0
_SHADES: Final = 5
"""Number of shades for the divergence of a variable; shade 0 means none."""


def draw_network(
    component: NetworkComponent, numbers: Callable[[NetworkVariable], str], title: str
) -> Markup:
    """Draw the dependency network of a component in order of occurrence.

    numbers: function that formats the change of a variable.
    """
    order = _downwards(component)
    nodes = [component.variables[i] for i in order]
    moved = [f"{one.measure} {numbers(one)}".lstrip() for one in nodes]
    texts = [
        (
            wording.clip(one.component, LABEL_CHARS),
            wording.clip(one.what, LABEL_CHARS),
            wording.clip(said, 2 * LABEL_CHARS),
        )
        for one, said in zip(nodes, moved, strict=True)
    ]
    boxes = [_box(words) for words in texts]
    place = {variable: i for i, variable in enumerate(order)}
    chain = {frozenset(pair) for pair in pairwise(component.chain)}
    lines = [
        (edge, place[edge.src], place[edge.dst], {edge.src, edge.dst} in chain) for edge in component.edges
    ]
    layout = lay_out(boxes, {(min(src, dst), max(src, dst)) for _, src, dst, _ in lines}, gap_y=46)
    parts = []
    # Weak dependencies first, so that strong ones are drawn over them.
    for edge, src, dst, chained in sorted(lines, key=lambda line: (line[3], line[0].in_tree, line[0].weight)):
        top, bottom = min(src, dst), max(src, dst)
        points = [
            (layout.x[top], layout.y[top] + boxes[top].height / 2),
            *layout.bends[top, bottom],
            (layout.x[bottom], layout.y[bottom] - boxes[bottom].height / 2),
        ]
        between = " and ".join(_name(component.variables[end]) for end in (edge.src, edge.dst))
        parts.append(_line(edge, between, points, upwards=src != top, chained=chained))
    for i, node in enumerate(nodes):
        kind = "p" if i == 0 else f"d{shade(node.divergence)} {'up' if (node.t or 0.0) >= 0 else 'down'}"
        kind += " chained" if order[i] in component.chain else ""
        parts.append(_node(kind, f"{_name(node)}: {moved[i]}", texts[i], boxes[i], layout.x[i], layout.y[i]))
    return laid_out("graph network", layout, title, parts)


def _name(variable: NetworkVariable) -> str:
    return f"{variable.component}/{variable.what}".strip("/")


def shade(divergence: float) -> int:
    """Shade of a divergence: 0 for none, 1 to 4 on a square-root scale, so that small divergences are
    visible.

    divergence: |t| relative to the largest one, 0 to 1.
    """
    if divergence <= 0:
        return 0
    return min(_SHADES - 1, 1 + int(divergence**0.5 * (_SHADES - 1)))


def _box(words: tuple[str, str, str]) -> Box:
    where, what, numbers = words
    widest = max(len(where) * CHAR_PX * 0.9, len(what) * CHAR_PX, len(numbers) * CHAR_PX * 0.9)
    return Box(max(110.0, widest + 24), 12.0 + 15 * sum(1 for text in words if text))


def _node(kind: str, title: str, words: tuple[str, str, str], box: Box, x: float, y: float) -> Markup:
    """Draw the box of a variable; rounded if `kind` starts with `p` (the explained variable, response
    time).
    """
    parts = [element("title", title), outline(box, x, y, 14 if kind.startswith("p") else 5)]
    line = y - box.height / 2 + 18
    for text, role in zip(words, ("where", "what", "latency"), strict=True):
        if text:
            parts.append(label(x, line, text, role))
            line += 15
    return element("g", *parts, class_=f"var {kind}")


def _line(
    edge: NetworkEdge, between: str, points: Sequence[tuple[float, float]], *, upwards: bool, chained: bool
) -> Markup:
    """Draw the line of a dependency between two variables, with an arrow head if the edge is directed.

    upwards: True if the edge's first variable is below the second.
    """
    is_only = edge.weight_other <= 0
    words = {"tree": edge.in_tree, "only": is_only, "chained": chained}
    kind = " ".join(["dep", *(word for word, wanted in words.items() if wanted)])
    only = ", not in the other class" if is_only else ""
    title = f"{between}: {wording.percent(edge.weight)} of the instances{only}"
    width = _THIN + (_THICK - _THIN) * edge.weight
    parts = [element("title", title), element("path", d=curve(points), stroke_width=width)]
    if edge.directed:
        (x, y), sign = (points[0], 1) if upwards else (points[-1], -1)
        back = px(y + sign * 9)
        head = f"M{px(x - 5)} {back}L{px(x)} {px(y)}L{px(x + 5)} {back}Z"
        parts.append(element("path", class_="head", d=head))
    return element("g", *parts, class_=kind)


def _downwards(component: NetworkComponent) -> list[int]:
    """Indices of variables in order of occurrence, the explained variable (index 0) last.

    Directed edges are an order in time; undirected ones go along the spanning tree from the outside to the
    explained variable.
    """
    after: dict[int, set[int]] = {i: set() for i in range(len(component.variables))}
    depth = _depths(component)
    for edge in component.edges:
        src, dst = edge.src, edge.dst
        if not edge.directed and depth[src] < depth[dst]:
            src, dst = dst, src
        after[dst].add(src)
    order: list[int] = []
    left = list(range(1, len(component.variables)))
    while left:
        # Directed and undirected lines may form a cycle; then the variable farthest from P goes first.
        ready = [i for i in left if not (after[i] - set(order) - {0})]
        chosen = max(ready or left, key=lambda i: (depth[i], -i))
        order.append(chosen)
        left.remove(chosen)
    return [*order, 0]


def _depths(component: NetworkComponent) -> list[int]:
    """[variables] number of spanning-tree edges between each variable and the explained variable (index
    0)."""
    near: dict[int, list[int]] = {i: [] for i in range(len(component.variables))}
    for edge in component.edges:
        if edge.in_tree:
            near[edge.src].append(edge.dst)
            near[edge.dst].append(edge.src)
    depth = [0] * len(component.variables)
    reached, todo = {0}, [0]
    while todo:
        here = todo.pop(0)
        for other in near[here]:
            if other not in reached:
                reached.add(other)
                depth[other] = depth[here] + 1
                todo.append(other)
    return depth
