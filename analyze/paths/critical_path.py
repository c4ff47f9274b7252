"""Find critical paths of requests, and attribute a change of the mean response time to edges.

Matrices [requests, edges] are in Fortran order, so that the values of one edge are contiguous. A change is
from sample 0 (reference) to sample 1 (problem) of a population.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analyze.cache_blocks import MANY_CELLS, blocks
from analyze.population import Category, Graph
from schemas.arrays import B1, F8, I8


def edge_latency_ns(category: Category) -> I8:
    """int64[requests, edges]: latency of each edge in each request, ns, >= 0.

    The latency is the difference between the times of the edge's two nodes; edges are in the order of
    `category.graph.edges`. O(requests · edges).
    """
    edges = category.graph.edges
    latency = np.empty((len(category.response_ns), len(edges)), dtype=np.int64, order="F")
    for rows in blocks(category.n_requests, len(category.node_ns)):
        times = category.node_ns[:, rows]
        np.subtract(times[edges[:, 1]], times[edges[:, 0]], out=latency[rows].T)
    return latency


def critical_path(category: Category) -> B1:
    """Find the critical path of each request: bool[requests, edges], True for edges on it.

    The walk goes backwards from the latest response node, at each node to the predecessor that was reached
    last; among equals (also of response nodes) to the one with the lowest index. The latencies on the path
    add up to the response time exactly, because the walk ends at node 0, at time 0. Raises ValueError for a
    category that violates this. O(requests · (nodes + edges)).
    """
    graph = category.graph
    path = np.zeros((len(category.response_ns), len(graph.edges)), dtype=np.bool_, order="F")
    incoming = _incoming(graph)
    for rows in blocks(category.n_requests, graph.n_nodes):
        times = category.node_ns[:, rows]
        on_path = _response_nodes(graph, times, category.response_ns[rows])
        by_edge = path[rows].T
        for node in range(graph.n_nodes - 1, 0, -1):
            _step_back(incoming[node], on_path[node], times, on_path, by_edge)
        if not on_path[0].all():
            raise ValueError(f"category {graph.key}: a critical path does not reach the root")
    return path


def critical_positions(
    offsets: Sequence[int], edges: Sequence[tuple[int, int]], responses: Sequence[int]
) -> list[int]:
    """Find the critical path of one request: indices of its nodes, from the root to the response.

    offsets: time of each node; edges: (src, dst) node indices; responses: nodes that may send the response.
    At a join the edge from the latest predecessor is taken; ties by lowest index. O(nodes + edges).
    """
    predecessors: dict[int, list[int]] = {}
    for src, dst in edges:
        predecessors.setdefault(dst, []).append(src)
    at = max(responses, key=lambda position: (offsets[position], -position))
    path = [at]
    while at in predecessors:
        at = max(predecessors[at], key=lambda position: (offsets[position], -position))
        path.append(at)
    return path[::-1]


def _incoming(graph: Graph) -> list[list[tuple[int, int]]]:
    """In-edges of each node as (index of the edge, index of the source), sources ascending."""
    incoming: list[list[tuple[int, int]]] = [[] for _ in range(graph.n_nodes)]
    for edge, (src, dst) in enumerate(graph.edges.tolist()):
        incoming[dst].append((edge, src))
    return incoming


def _response_nodes(graph: Graph, times: I8, response_ns: I8) -> B1:
    """bool[nodes, requests]: True at the node that sent the response. Raises ValueError if node times and
    response times do not agree."""
    on_path = np.zeros(times.shape, dtype=np.bool_)
    responses = graph.responses
    latest = responses[np.argmax(times[responses], axis=0)]
    requests = np.arange(times.shape[1])
    on_path[latest, requests] = True
    if (times[0] != 0).any() or (times[latest, requests] != response_ns).any():
        raise ValueError(f"category {graph.key}: node times do not span the response time")
    return on_path


def _step_back(incoming: list[tuple[int, int]], visited: B1, times: I8, on_path: B1, path: B1) -> None:
    """Mark one step of the critical paths that reach a node: the in-edge of the node, in `path`, and the
    source of this edge, in `on_path`.

    incoming: in-edges of the node as (edge, source node). visited: bool[requests], True if the critical path
    reaches the node. times: int64[nodes, requests], ns.
    """
    edge, src = incoming[0]
    if len(incoming) == 1:
        path[edge] = visited
        on_path[src] |= visited
        return
    if not visited.any():
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


@dataclass(frozen=True, slots=True)
class Attribution:
    """Change of a category's mean response time, attributed to the edges of the category's graph.

    All means and shares are weighted by request. An edge is critical in a request if it is on the request's
    critical path. A sample without requests counts as zeros, so that `contribution_us` still adds up to the
    change of the mean.
    """

    criticality_0: F8
    """float64[edges]: share of the reference's requests in which the edge is critical, in [0, 1]."""
    criticality_1: F8
    """float64[edges]: share of the problem's requests in which the edge is critical, in [0, 1]."""
    critical_mean_0_us: F8
    """float64[edges]: mean latency over the reference's requests in which the edge is critical, µs.

    If there are none, the mean of the problem, so that the whole contribution is a change of criticality; 0
    if neither sample has such requests.
    """
    critical_mean_1_us: F8
    """float64[edges]: mean latency over the problem's requests in which the edge is critical, µs; if there
    are none, the mean of the reference."""
    contribution_us: F8
    """float64[edges]: change of the edge's mean critical time, µs (criticality × critical mean, problem minus
    reference); adds up over edges to the change of the mean response time."""
    latency_part_us: F8
    """float64[edges]: part of `contribution_us` due to latency, µs: mean criticality of both samples × change
    of the critical mean."""
    criticality_part_us: F8
    """float64[edges]: part of `contribution_us` due to criticality, µs: mean of the critical means of both
    samples × change of the criticality."""


def attribute(category: Category, *, latency_ns: I8 | None = None, on_path: B1 | None = None) -> Attribution:
    """Attribute the change of a category's mean response time, from sample 0 to sample 1, to its edges.

    latency_ns, on_path: results of `edge_latency_ns` and `critical_path`, if already computed. O(requests ·
    edges).
    """
    latency = edge_latency_ns(category) if latency_ns is None else latency_ns
    path = critical_path(category) if on_path is None else on_path
    pi_0, mean_0 = _moments(category, latency, path, 0)
    pi_1, mean_1 = _moments(category, latency, path, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        m_0 = np.where(pi_0 > 0, mean_0 / pi_0, np.where(pi_1 > 0, mean_1 / pi_1, 0.0))
        m_1 = np.where(pi_1 > 0, mean_1 / pi_1, m_0)
    return Attribution(
        criticality_0=pi_0,
        criticality_1=pi_1,
        critical_mean_0_us=m_0,
        critical_mean_1_us=m_1,
        contribution_us=mean_1 - mean_0,
        latency_part_us=(pi_0 + pi_1) / 2 * (m_1 - m_0),
        criticality_part_us=(m_0 + m_1) / 2 * (pi_1 - pi_0),
    )


def critical_time_us(category: Category, sample: int) -> F8:
    """float64[edges]: mean time that the edge adds to the critical path in a sample, µs; adds up over edges
    to the mean response time.

    All zero for a sample without requests. O(requests · edges).
    """
    return _moments(category, edge_latency_ns(category), critical_path(category), sample)[1]


def _moments(category: Category, latency: I8, path: B1, sample: int) -> tuple[F8, F8]:
    """(weighted share of requests with the edge on the critical path, weighted mean of the edge's time on the
    critical path in µs), each float64[edges], for sample number `sample`."""
    n_edges = latency.shape[1]
    rows = category.rows(sample)
    weight = category.weight[rows]
    total = weight.sum()
    pi, mean = np.zeros(n_edges), np.zeros(n_edges)
    if total == 0:
        return pi, mean
    uniform = bool((weight == weight[0]).all())
    for edges in blocks(n_edges, len(weight), MANY_CELLS):
        on_path = path[rows, edges]
        critical = on_path * latency[rows, edges]
        if uniform:  # whole numbers: exact in any order
            pi[edges] = np.count_nonzero(on_path, axis=0) / len(weight)
            mean[edges] = critical.sum(axis=0) / len(weight) / 1_000
        else:
            pi[edges] = (on_path * weight[:, None]).sum(axis=0) / total
            mean[edges] = (critical * weight[:, None]).sum(axis=0) / total / 1_000
    return pi, mean


def recoverable_us(category: Category, flagged: B1, *, max_requests: int = 2_000) -> float:
    """Reduction of the problem's mean response time, µs, if flagged edges had the latencies of the reference.

    flagged: bool[edges]. Each latency of a flagged edge in the problem is replaced by the reference's latency
    at the same quantile, and the longest path is computed again, so that time hidden behind a slower branch
    does not count. The delay of a node after its last predecessor stays the same, except that a flagged edge
    changes it by the edge's change of latency. At most `max_requests` requests of the problem are used,
    evenly spaced in time. 0 if a sample is empty. O(requests · edges).
    """
    graph = category.graph
    before_rows, after_rows = (category.rows(sample) for sample in (0, 1))
    n_problem = after_rows.stop - after_rows.start
    if before_rows.start == before_rows.stop or n_problem == 0 or not flagged.any():
        return 0.0
    latency = edge_latency_ns(category)
    taken = np.unique(np.linspace(0, n_problem - 1, min(n_problem, max_requests)).astype(np.int64))
    times = category.node_ns[:, after_rows.start + taken].astype(np.float64)
    change = np.zeros((len(graph.edges), len(taken)))
    for edge in np.flatnonzero(flagged).tolist():
        column = latency[:, edge]
        reference = np.sort(column[before_rows])
        problem = np.sort(column[after_rows])
        own = column[after_rows.start + taken]
        below, upto = (np.searchsorted(problem, own, side=side) for side in ("left", "right"))
        # Mid-ranks and Hazen's quantiles: equal samples change nothing.
        change[edge] = np.quantile(reference, (below + upto) / 2 / n_problem, method="hazen") - own
    incoming = _incoming(graph)
    again = np.zeros_like(times)
    for node in range(1, graph.n_nodes):
        wait = times[node] - np.max([times[src] for _, src in incoming[node]], axis=0)
        again[node] = np.max(
            [again[src] + np.maximum(wait + change[edge], 0) for edge, src in incoming[node]], axis=0
        )
    before = times[graph.responses].max(axis=0)
    after = again[graph.responses].max(axis=0)
    weight = category.weight[after_rows.start + taken]
    return float(((before - after) @ weight) / weight.sum() / 1_000)
