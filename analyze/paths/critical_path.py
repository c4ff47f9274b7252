"""Critical path and edge latencies of a category, as walks over columns (ALGORITHMS B.9).

Results are [requests, edges] in Fortran order: the values of one edge lie together.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from analyze.population import Category, Graph
from schemas.arrays import B1, I8

_BLOCK_CELLS = 1 << 16
"""Cells of a block worked on at a time: 64 K cells of 8 bytes stay in a core's second-level cache."""


def edge_latency_ns(category: Category) -> I8:
    """[requests, edges] int64 latency of every edge in every request, ns, >= 0.

    Edges are in the order of `category.graph.edges`. The difference of two nodes' times; O(requests · edges).
    """
    edges = category.graph.edges
    latency = np.empty((len(category.response_ns), len(edges)), dtype=np.int64, order="F")
    for rows, times in _blocks(category):
        np.subtract(times[edges[:, 1]], times[edges[:, 0]], out=latency[rows].T)
    return latency


def critical_path(category: Category) -> B1:
    """[requests, edges] whether the edge is on the critical path of the request.

    From the latest response node backwards, at each node to the predecessor that was reached last; ties
    (response nodes, too) go to the lower canonical position. The latencies on the path add up to the
    response time exactly, because the walk ends at node 0, at time 0: that is checked, and a category that
    breaks it raises ValueError. O(requests · (nodes + edges)).
    """
    graph = category.graph
    path = np.zeros((len(category.response_ns), len(graph.edges)), dtype=np.bool_, order="F")
    incoming = _incoming(graph)
    for rows, times in _blocks(category):
        on_path = _response_nodes(graph, times, category.response_ns[rows])
        for node in range(graph.n_nodes - 1, 0, -1):
            visited = on_path[node]
            if visited.any():
                _step_back(incoming[node], visited, times, on_path, path[rows].T)
        if not on_path[0].all():
            raise ValueError(f"category {graph.key}: a critical path does not reach the root")
    return path


def _blocks(category: Category) -> Iterator[tuple[slice, I8]]:
    """(rows, their times [nodes, requests]) blocks of the category."""
    n_nodes, n_requests = category.node_ns.shape
    step = max(1, _BLOCK_CELLS // n_nodes)
    for start in range(0, n_requests, step):
        rows = slice(start, min(start + step, n_requests))
        yield rows, category.node_ns[:, rows]


def _incoming(graph: Graph) -> list[list[tuple[int, int]]]:
    """For each node its in-edges as (edge, source), sources ascending."""
    incoming: list[list[tuple[int, int]]] = [[] for _ in range(graph.n_nodes)]
    for edge, (src, dst) in enumerate(graph.edges.tolist()):
        incoming[dst].append((edge, src))
    return incoming


def _response_nodes(graph: Graph, times: I8, response_ns: I8) -> B1:
    """[nodes, requests] with the node set at which each response left."""
    on_path = np.zeros(times.shape, dtype=np.bool_)
    responses = graph.responses
    latest = responses[np.argmax(times[responses], axis=0)]
    requests = np.arange(times.shape[1])
    on_path[latest, requests] = True
    if (times[0] != 0).any() or (times[latest, requests] != response_ns).any():
        raise ValueError(f"category {graph.key}: node times do not span the response time")
    return on_path


def _step_back(incoming: list[tuple[int, int]], visited: B1, times: I8, on_path: B1, path: B1) -> None:
    """Mark the in-edge by which each visited request came, and its source."""
    edge, src = incoming[0]
    if len(incoming) == 1:
        path[edge] = visited
        on_path[src] |= visited
        return
    last = times[src].copy()
    chosen = np.zeros(len(last), dtype=np.int64)
    for number, (_, src) in enumerate(incoming[1:], start=1):
        later = times[src] > last
        chosen[later] = number
        np.maximum(last, times[src], out=last)
    for number, (edge, src) in enumerate(incoming):
        took = visited & (chosen == number)
        path[edge] = took
        on_path[src] |= took
