"""Graphs of a report, as they are drawn."""

from __future__ import annotations

from schemas.report.parts import Frozen, NodeName


class GraphEdge(Frozen):
    """One edge of a graph that is drawn, with its weighted mean latency over all requests of a period."""

    src: int
    dst: int
    mean0_us: float | None
    mean1_us: float | None


class GraphView(Frozen):
    """A category's graph, to be drawn; nodes in canonical order, the first `len(nodes)` of `nodes_total`."""

    category: str
    root: str
    nodes: tuple[NodeName, ...]
    edges: tuple[GraphEdge, ...]
    nodes_total: int


class GraphDifference(Frozen):
    """Nodes of a mutation and of its precursor that have no partner in the other (by alignment of names)."""

    precursor: str
    only_mutation: tuple[int, ...]
    only_precursor: tuple[int, ...]
