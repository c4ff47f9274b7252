"""Draw request-flow graphs and their differences as SVG: boxes, arrows, latencies before → after.

Spans without calls become one box, long unchanged stretches one pill.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from markupsafe import Markup
from rapidfuzz.distance import LCSseq

from analyze.population import Category
from analyze.report import wording
from analyze.report.drawing.layout import Box, Layout, lay_out
from analyze.report.drawing.svg import element, px
from analyze.report.model_values import node_name
from schemas.report.parts import GraphDifference, GraphEdge, GraphView, NodeName
from schemas.windows import NS_PER_US


def graph_view(category: Category, limit: int) -> GraphView:
    """GraphView of the first `limit` nodes in canonical order, with the edges among them and their mean
    latencies.
    """
    graph = category.graph
    means = [_mean_latency_us(category, period) for period in (0, 1)]
    shown = min(limit, graph.n_nodes)
    return GraphView(
        category=graph.key,
        root=graph.root,
        nodes=tuple(node_name(node) for node in graph.nodes[:shown]),
        edges=tuple(
            GraphEdge(src=int(src), dst=int(dst), mean0_us=before, mean1_us=after)
            for (src, dst), before, after in zip(graph.edges, *means, strict=True)
            if dst < shown
        ),
        nodes_total=graph.n_nodes,
    )


def _mean_latency_us(category: Category, period: int) -> list[float | None]:
    """Weighted mean latency of each edge in a period, µs, [edges]: mean time of the later node minus mean
    time of the earlier one; None without requests."""
    mine = category.rows(period)
    weight = category.weight[mine]
    if len(weight) == 0:
        return [None] * len(category.graph.edges)
    # einsum and not `@`: a BLAS product's last digits depend on the number of threads.
    sums = np.einsum("r,nr->n", weight, category.node_ns[:, mine])
    node_us = sums / weight.sum() / NS_PER_US
    src, dst = category.graph.edges.T
    return [float(x) for x in node_us[dst] - node_us[src]]


def difference(mutation: GraphView, precursor: GraphView) -> GraphDifference:
    """Nodes of each of two graphs that have no counterpart in the other, by a longest common subsequence of
    node names.

    Names are in canonical order, which is topological, so common nodes keep their order of occurrence. O(n·m
    / 64).
    """
    operations = LCSseq.editops(mutation.nodes, precursor.nodes)
    return GraphDifference(
        precursor=precursor.category,
        only_mutation=tuple(op.src_pos for op in operations if op.tag == "delete"),
        only_precursor=tuple(op.dest_pos for op in operations if op.tag == "insert"),
    )


FOLD_LEAST = 3
"""Minimum number of boxes to fold into one (a pill): a pill for fewer would hide more than it saves."""


class StepKind(StrEnum):
    """Kind of a box in a drawing of a graph."""

    NODE = "node"
    SPAN = "span"
    """Start and end of an operation that calls nothing: one box, with the latency inside."""
    FOLD = "fold"


@dataclass(frozen=True, slots=True)
class Step:
    """A box in a drawing of a graph, for one or several of its nodes."""

    kind: StepKind
    members: tuple[int, ...]
    """Canonical positions of the box's nodes, ascending."""
    names: tuple[NodeName, ...]
    """Names of the box's nodes, in the order of `members`."""
    marked: bool
    """True if the box's nodes have no counterpart in the other graph."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Boxes of a drawing of a graph, in topological order, and the arrows between them."""

    steps: tuple[Step, ...]
    arrows: Mapping[tuple[int, int], tuple[int, int] | None]
    """(Index of a box, index of a later box) -> edge (src, dst) that the arrow between the boxes shows; None
    if it shows several edges, into or out of folded branches."""


def all_steps(view: GraphView, marked: Set[int]) -> Steps:
    """Make one box for each node; a span without calls becomes a single box.

    marked: nodes without a counterpart.
    """
    heads = _leaf_spans(view, marked)
    groups: list[tuple[int, ...]] = [
        (node, heads[node]) if node in heads else (node,)
        for node in range(len(view.nodes))
        if node not in set(heads.values())
    ]
    return _group(view, groups, marked, folds=frozenset())


def folded_steps(view: GraphView, marked: Set[int], changed: Set[tuple[int, int]]) -> Steps:
    """Make boxes for nodes, with unchanged regions folded.

    A box stays unfolded if it touches a changed edge or is next to a box that does, if it is first or last,
    or if marked and unmarked boxes meet there. All other boxes are merged by series-parallel reduction: boxes
    in series, and branches between the same two boxes; such a region has one entry and one exit, so the
    drawing stays a DAG. Regions of `FOLD_LEAST` boxes or more become one pill. Every node is in one box.
    """
    whole = all_steps(view, marked)
    regions = reduce_series_parallel(
        len(whole.steps),
        whole.arrows,
        quiet=set(range(len(whole.steps))) - _kept(whole, changed),
        colour=[step.marked for step in whole.steps],
    )
    groups: list[tuple[int, ...]] = []
    folds: set[int] = set()
    for region in regions:
        if len(region) >= FOLD_LEAST:
            folds.add(len(groups))
            groups.append(tuple(sorted(p for i in region for p in whole.steps[i].members)))
        else:
            groups += [whole.steps[i].members for i in region]
    return _group(view, groups, marked, folds=frozenset(folds))


def _kept(whole: Steps, changed: Set[tuple[int, int]]) -> set[int]:
    """Indices of the boxes that must not be folded. changed: edges (src, dst)."""
    hot = {i for arrow, edge in whole.arrows.items() if edge in changed for i in arrow}
    hot |= {i for i, step in enumerate(whole.steps) if step.kind is StepKind.SPAN and step.members in changed}
    kept = set(hot)
    for a, b in whole.arrows:
        if a in hot or b in hot or whole.steps[a].marked != whole.steps[b].marked:
            kept |= {a, b}
    return kept


def reduce_series_parallel(
    n: int, arrows: Iterable[tuple[int, int]], *, quiet: Set[int], colour: Sequence[bool]
) -> list[list[int]]:
    """Merge boxes 0..n-1 into regions of boxes in `quiet` that have the same colour; all other boxes stay
    single.

    In series: a box and its only successor, if the box is the successor's only predecessor. In parallel:
    boxes with the same only predecessor and the same only successor. Boxes without predecessor or successor
    stay single. Repeated until nothing more merges; O(n · rounds), at most n rounds, few in practice.
    """
    after: dict[int, set[int]] = {i: set() for i in range(n)}
    before: dict[int, set[int]] = {i: set() for i in range(n)}
    for a, b in arrows:
        after[a].add(b)
        before[b].add(a)
    members = {i: [i] for i in range(n)}
    merged = True
    while merged:
        merged = False
        between: dict[tuple[int, int, bool], int] = {}
        for i in sorted(members):
            if i not in members or i not in quiet or len(before[i]) != 1 or len(after[i]) != 1:
                continue
            (source,), (target,) = before[i], after[i]
            twin = between.setdefault((source, target, colour[i]), i)
            if twin != i:
                after[source].discard(i)
                before[target].discard(i)
            elif (
                source in quiet and colour[source] == colour[i] and len(after[source]) == 1 and before[source]
            ):
                twin = source
                del between[source, target, colour[i]]
                after[source] = {target}
                before[target] = before[target] - {i} | {source}
            else:
                continue
            members[twin] += members.pop(i)
            merged = True
    return [sorted(members[i]) for i in sorted(members)]


def _leaf_spans(view: GraphView, marked: Set[int]) -> dict[int, int]:
    """Start -> end of the spans without calls: positions whose only edge leads to the span's own end."""
    outs = [0] * len(view.nodes)
    ins = [0] * len(view.nodes)
    for src, dst in ((e.src, e.dst) for e in view.edges):
        outs[src] += 1
        ins[dst] += 1
    pairs = {}
    for src, dst in ((e.src, e.dst) for e in view.edges):
        start, end = view.nodes[src], view.nodes[dst]
        alone = outs[src] == 1 and ins[dst] == 1
        if (
            alone
            and (start.side, end.side) == ("start", "end")
            and start.model_copy(update={"side": "end"}) == end
            and (src in marked) == (dst in marked)
        ):
            pairs[src] = dst
    return pairs


def _group(
    view: GraphView, groups: list[tuple[int, ...]], marked: Set[int], *, folds: frozenset[int]
) -> Steps:
    """Make boxes from groups of positions, in topological order. folds: indices of groups that are drawn as a
    pill (folded steps)."""
    order = sorted(range(len(groups)), key=lambda g: groups[g][0])
    box = {position: i for i, g in enumerate(order) for position in groups[g]}
    steps = []
    for g in order:
        members = groups[g]
        kind = StepKind.FOLD if g in folds else StepKind.SPAN if len(members) == 2 else StepKind.NODE
        names = tuple(view.nodes[position] for position in members)
        steps.append(Step(kind, members, names, members[0] in marked))
    arrows: dict[tuple[int, int], tuple[int, int] | None] = {}
    for src, dst in ((e.src, e.dst) for e in view.edges):
        if box[src] != box[dst]:
            arrow = (box[src], box[dst])
            arrows[arrow] = None if arrow in arrows else (src, dst)
    return Steps(tuple(steps), arrows)


MOST_UNFOLDED = 24
"""Maximum number of boxes of a graph for all changed edges to stay unfolded; in larger graphs minor changed
edges may be folded."""
CHAR_PX = 7.8
"""Mean width, px, of a bold 12 px letter in the widest of the usual system fonts."""
LABEL_CHARS = 36
MARGIN = 10
LATENCY_PX = 6.8


_ONLY = {"+": "gained", "−": "lost"}
_WIDTH_CLASSES = ((560, "narrow"), (900, "medium"), (1400, "wide"), (2100, "vast"))
"""(widest drawing in px, class name): the style sheet sets how far each class may be shrunk to fit."""


class Heat(StrEnum):
    """Colour of an edge, by the change of its latency."""

    QUIET = "quiet"
    SLOWER = "slower"
    FASTER = "faster"


@dataclass(frozen=True, slots=True)
class EdgeMark:
    """Text beside an edge, and the edge's colour."""

    text: str
    heat: Heat = Heat.QUIET
    minor: bool = False
    """True for a changed edge with a small part of the change: drawn thin, may be folded."""


@dataclass(frozen=True, slots=True)
class Marks:
    """Annotations of a drawn graph."""

    only_here: frozenset[int] = frozenset()
    """Canonical positions of nodes without a counterpart in the other graph."""
    sign: str = ""
    """Badge of boxes without a counterpart: `+` in a mutation, `−` in a precursor."""
    edges: Mapping[tuple[int, int], EdgeMark] = field(default_factory=dict)
    """Edge (src, dst) -> its text and colour."""

    @property
    def changed(self) -> frozenset[tuple[int, int]]:
        """Edges (src, dst) with a colour other than quiet."""
        return frozenset(link for link, mark in self.edges.items() if mark.heat is not Heat.QUIET)


def draw_graph(view: GraphView, marks: Marks, title: str) -> Markup:
    """Draw a graph as SVG; unchanged stretches are folded."""
    whole = all_steps(view, marks.only_here)
    kept = (
        marks.changed
        if len(whole.steps) <= MOST_UNFOLDED
        else frozenset(link for link in marks.changed if not marks.edges[link].minor)
    )
    return _svg(folded_steps(view, marks.only_here, kept), marks, title)


def _svg(drawn: Steps, marks: Marks, title: str) -> Markup:
    steps = drawn.steps
    layout = lay_out([_box(step, marks) for step in steps], drawn.arrows)
    parts = []
    for link, edge in drawn.arrows.items():
        a, b = link
        start = (layout.x[a], layout.y[a] + _box(steps[a], marks).height / 2)
        end = (layout.x[b], layout.y[b] - _box(steps[b], marks).height / 2)
        parts.append(
            _arrow([start, *layout.bends[link], end], marks.edges.get(edge) if edge is not None else None)
        )
    for i, step in enumerate(steps):
        parts.append(_step(step, marks, layout.x[i], layout.y[i]))
    return laid_out("graph", layout, title, parts, room=_label_room(drawn, marks))


def laid_out(kind: str, layout: Layout, title: str, parts: Sequence[Markup], room: float = 0.0) -> Markup:
    """SVG element of a graph whose layout is computed.

    kind: CSS class; parts: SVG of boxes and arrows; room: free space at the right, px.
    """
    width, height = layout.width + 2 * MARGIN + room, layout.height + 2 * MARGIN
    fit = next((name for limit, name in _WIDTH_CLASSES if width <= limit), "endless")
    box = f"{-MARGIN} {-MARGIN} {px(width)} {px(height)}"
    size = {"width": width, "height": height}
    inside = (element("title", title), *parts)
    return element("svg", *inside, class_=f"{kind} {fit}", role="img", **size, viewBox=box)


def _label_room(drawn: Steps, marks: Marks) -> float:
    """Width, px, that the latencies beside a straight column of arrows need to the right of the boxes."""
    shown = [edge for edge in drawn.arrows.values() if edge is not None and edge in marks.edges]
    texts = [marks.edges[edge].text for edge in shown]
    return max((len(t) * LATENCY_PX / 2 for t in texts), default=0.0)


def _lines(step: Step) -> tuple[str, str]:
    """Two clipped lines of a box that is not a pill: component, and operation."""
    name = step.names[0]
    where, what = (text for text in (name.where, name.what))
    if not what:
        where, what = "", where
    happens = f" {name.happens}" if name.side and step.kind is StepKind.NODE else ""
    return wording.clip(where, LABEL_CHARS), wording.clip(what, LABEL_CHARS - len(happens)) + happens


def _title(step: Step) -> str:
    """Full names of a box's nodes, for the tooltip."""
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
    """Mark of the latency inside a span's box; None for other boxes."""
    if step.kind is not StepKind.SPAN:
        return None
    return marks.edges.get((step.members[0], step.members[1]))


def _heat(mark: EdgeMark | None) -> str:
    """CSS classes of an edge or of a span's box."""
    if mark is None:
        return Heat.QUIET
    return f"{mark.heat} minor" if mark.minor else mark.heat


def _step(step: Step, marks: Marks, x: float, y: float) -> Markup:
    box = _box(step, marks)
    row = _inner_edge(step, marks)
    left, top = x - box.width / 2, y - box.height / 2
    classes = f"step {step.kind} {_heat(row)}" + (f" only {_ONLY[marks.sign]}" if step.marked else "")
    parts = [element("title", _title(step)), outline(box, x, y, 12 if step.kind is StepKind.FOLD else 5)]
    if step.kind is StepKind.FOLD:
        what = _fold_text(step, marks)
        parts.append(label(x, y + 4, what, "pill"))
    else:
        component, rest = _lines(step)
        line = top + 16
        if component:
            parts.append(label(x, line - 1, component, "where"))
            line += 14
        parts.append(label(x, line, rest, "what"))
        if row is not None:
            parts.append(label(x, line + 15, row.text, "latency"))
    if step.marked:
        parts += [element("circle", cx=left, cy=top, r=8), label(left, top + 4, marks.sign, "sign")]
    return element("g", *parts, class_=classes)


def outline(box: Box, x: float, y: float, radius: int) -> Markup:
    """SVG rectangle of a box with centre (x, y). radius: radius of the corners, px."""
    left, top = x - box.width / 2, y - box.height / 2
    return element("rect", x=left, y=top, width=box.width, height=box.height, rx=radius)


def _fold_text(step: Step, marks: Marks) -> str:
    """Label of a pill: number of hidden steps, and of changed edges between them."""
    n, inside = len(step.members), set(step.members)
    changed = sum(1 for src, dst in marks.changed if src in inside and dst in inside)
    if step.marked:
        return f"… {n} steps, only here"
    return f"… {n} steps, {changed} changed slightly" if changed else f"… {n} unchanged steps"


def _arrow(points: list[tuple[float, float]], mark: EdgeMark | None) -> Markup:
    """Draw a smooth line through `points`, an arrow head, and the latency beside its middle."""
    x, y = points[-1]
    head = f"M{px(x - 4)} {px(y - 7)}L{px(x)} {px(y)}L{px(x + 4)} {px(y - 7)}"
    parts = [element("path", d=curve(points)), element("path", class_="head", d=head)]
    if mark is not None:
        k = len(points) // 2
        (xa, ya), (xb, yb) = points[k - 1], points[k]
        parts.append(label((xa + xb) / 2 + 7, (ya + yb) / 2 + 4, mark.text, "latency"))
    return element("g", *parts, class_=f"arrow {_heat(mark)}")


def curve(points: Sequence[tuple[float, float]]) -> str:
    """SVG path of a smooth line through points, from top to bottom."""
    path = f"M{px(points[0][0])} {px(points[0][1])}"
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        middle = px((y0 + y1) / 2)
        path += f"C{px(x0)} {middle} {px(x1)} {middle} {px(x1)} {px(y1)}"
    return path


def label(x: float, y: float, text: str, kind: str) -> Markup:
    """SVG text element of CSS class `kind`, escaped."""
    return element("text", text, class_=kind, x=x, y=y)
