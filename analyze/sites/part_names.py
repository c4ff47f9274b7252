"""What edges and sites are called: in tables, and in the patterns of markers."""

from __future__ import annotations

from typing import NamedTuple

from analyze.population import Graph
from analyze.sites.names import Names, SiteKind

ARROW = " -> "


class PartName(NamedTuple):
    """An edge of a graph, or a site."""

    source: str
    """Node at which the edge begins; of a call the call itself."""
    target: str
    """Node at which it ends; empty for a call."""
    src: int
    dst: int
    """Positions in the graph; -1 for a site."""
    site: int
    """Number of the site; -1 for several."""

    @property
    def text(self) -> str:
        """`a/x -> b/y`, or `a/x`: what a marker's pattern is held against."""
        return f"{self.source}{ARROW}{self.target}" if self.target else self.source


def edge_name(graph: Graph, edge: int, site: int) -> PartName:
    """An edge by its nodes, without hosts: the same on every machine."""
    src, dst = (int(position) for position in graph.edges[edge])
    return PartName(_node(graph, src), _node(graph, dst), src, dst, site)


def _node(graph: Graph, position: int) -> str:
    text, host = graph.labels[position], graph.nodes[position].host
    return text.removeprefix(f"{host}/") if host else text


def site_name(site: int, names: Names) -> PartName:
    """A site: of records the step between two points; of spans the call, whoever makes it."""
    name = names.sites[site]
    operation = names.operation(site).text
    caller = names.caller(site)
    if name.kind == SiteKind.STEP and caller is not None:
        return PartName(caller.text, operation, -1, -1, site)
    return PartName(operation, "", -1, -1, site)
