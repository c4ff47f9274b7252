"""Diverging components on the page: what to look at first, the network, each variable's two distributions.

`DISTALYZE` is the section's view, on the page and on a terminal.
"""

from __future__ import annotations

from importlib import resources
from typing import Final

from markupsafe import Markup

from analyze.report.drawing.network import NetworkLine, NetworkNode, draw_network
from analyze.report.drawing.spread import draw_spread
from analyze.report.page_templates import template
from analyze.report.section_view import SectionView
from analyze.report.sections.distalyze import distalyze_words as words
from analyze.report.sections.distalyze.distalyze_terminal import print_distalyze
from schemas.report.networks import DistalyzeSection, NetworkComponent, NetworkVariable

_PACKAGE: Final = "analyze.report.sections.distalyze"
OPEN: Final = 2
"""Components whose card is open."""


def distalyze_html(section: DistalyzeSection, end: str) -> Markup:
    """The section's block of the page; `end` ends every id."""
    return Markup(
        template(_PACKAGE, "distalyze.html.jinja").render(
            s=section, end=end, words=words, network=_network, spread=_spread, opened=OPEN
        )
    )


def _network(component: NetworkComponent) -> Markup:
    """Its drawing: variables in the order in which they lie from where it began to P."""
    order = _downwards(component)
    place = {variable: i for i, variable in enumerate(order)}
    links = {*zip(component.chain, component.chain[1:], strict=False)}
    links |= {(b, a) for a, b in links}
    nodes = [
        NetworkNode(
            where=variable.component,
            what=variable.what,
            numbers=f"{variable.measure} {words.moved(variable)}".lstrip(),
            divergence=variable.divergence,
            higher=(variable.t or 0.0) >= 0,
            performance=i == 0,
            in_chain=i in component.chain,
        )
        for i, variable in ((i, component.variables[i]) for i in order)
    ]
    lines = [
        NetworkLine(
            place[edge.src],
            place[edge.dst],
            edge.weight,
            edge.directed,
            edge.in_tree,
            edge.weight_other <= 0,
            (edge.src, edge.dst) in links,
        )
        for edge in component.edges
    ]
    return draw_network(nodes, lines, f"Component {component.rank}: {words.told_as(component)}")


def _downwards(component: NetworkComponent) -> list[int]:
    """Variables such that what happens first comes first and P comes last.

    Directed lines are an order in time; the others go from the outside to P along the spanning tree.
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
        # Directed and undirected lines may turn in a circle together; then the farthest from P goes first.
        ready = [i for i in left if not (after[i] - set(order) - {0})]
        chosen = max(ready or left, key=lambda i: (depth[i], -i))
        order.append(chosen)
        left.remove(chosen)
    return [*order, 0]


def _depths(component: NetworkComponent) -> list[int]:
    """[variables] lines of the spanning tree between a variable and P."""
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


def _spread(variable: NetworkVariable, section: DistalyzeSection) -> Markup:
    """Its two distributions; empty where no instance has it."""
    of = variable.distribution
    if of is None:
        return Markup()
    return draw_spread(
        of.edges,
        (of.counts0, of.counts1),
        log=of.log,
        title=f"{variable.text}: {section.class0} filled, {section.class1} outlined",
        worded=lambda number: words.value(variable.quantity, number),
    )


DISTALYZE: Final = SectionView(
    DistalyzeSection,
    html=distalyze_html,
    text=print_distalyze,
    style=resources.files(_PACKAGE).joinpath("distalyze.css").read_text(encoding="utf-8"),
)
