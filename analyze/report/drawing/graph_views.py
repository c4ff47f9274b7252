"""What a report needs to draw: a category's graph, and where it differs from another's."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
from rapidfuzz.distance import LCSseq

from analyze.population import Category, GraphNode
from schemas.report.parts import GraphDifference, GraphEdge, GraphView, NodeName
from schemas.windows import NS_PER_US
from stitch.graph.placed import END, POINT, START

_SIDES: Final[dict[int, Literal["", "start", "end"]]] = {POINT: "", START: "start", END: "end"}


def node_name(node: GraphNode) -> NodeName:
    """What a node is called, field by field."""
    return NodeName(
        component=node.component, point=node.point, label=node.label, host=node.host, side=_SIDES[node.side]
    )


def graph_view(category: Category, limit: int) -> GraphView:
    """The first `limit` nodes in canonical order, and the edges among them with their mean latencies."""
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
    """Weighted mean latency of each edge, as the difference of its nodes' mean times; None if no request."""
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
    """Nodes without a partner, by a longest common subsequence of names in canonical order.

    Canonical order is topological, so common nodes keep their order of happening. O(n·m / 64).
    """
    operations = LCSseq.editops(mutation.nodes, precursor.nodes)
    return GraphDifference(
        precursor=precursor.category,
        only_mutation=tuple(op.src_pos for op in operations if op.tag == "delete"),
        only_precursor=tuple(op.dest_pos for op in operations if op.tag == "insert"),
    )
