"""The critical path of every request by a plain walk, slow and obvious."""

from __future__ import annotations

from analyze.population import Category


def walk(category: Category) -> list[set[int]]:
    """Edges on the critical path of each request."""
    edges = [(int(src), int(dst)) for src, dst in category.graph.edges]
    responses = [int(node) for node in category.graph.responses]
    paths = []
    for times in category.node_ns.T.tolist():
        latest = max(times[node] for node in responses)
        node = min(node for node in responses if times[node] == latest)
        path = set()
        while node != 0:
            arrivals = [(times[src], src, edge) for edge, (src, dst) in enumerate(edges) if dst == node]
            last = max(time for time, _, _ in arrivals)
            src, edge = min((src, edge) for time, src, edge in arrivals if time == last)
            path.add(edge)
            node = src
        paths.append(path)
    return paths
