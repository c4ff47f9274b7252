"""Clusters the slow way: features a request at a time, Lloyd's algorithm in loops, ways from the root."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from analyze.population import Category, Population
from stitch.graph.placed import END


def requests_of(population: Population) -> Iterator[tuple[int, int, Category]]:
    """(category, row, category) of every request."""
    for number, category in enumerate(population.categories):
        for row in range(category.n_requests):
            yield number, row, category


def features(category: Category, row: int) -> dict[tuple[str, str], float]:
    """(set, name) -> value of one request, zeros left out."""
    graph = category.graph
    found: dict[tuple[str, str], float] = {}
    for node in graph.nodes:
        if node.side != END:
            name = f"{node.host}/{node.operation}" if node.host else node.operation
            found["points", name] = 1.0
    latencies = defaultdict(list)
    for src, dst in graph.edges.tolist():
        spent = int(category.node_ns[dst, row]) - int(category.node_ns[src, row])
        latencies[f"{graph.labels[src]} -> {graph.labels[dst]}"].append(spent / 1000)
    for name, values in latencies.items():
        found["counts", name] = float(len(values))
        if sum(values):
            found["latencies", name] = sum(values) / len(values)
    return found


def lloyd(points: np.ndarray, weight: np.ndarray, centre: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(labels, centres) when no row changes its cluster any more; none may become empty."""
    centre = centre.copy()
    label = np.full(len(points), -1)
    while True:
        new = np.array([int(np.argmin([((p - c) ** 2).sum() for c in centre])) for p in points])
        if (new == label).all():
            return label, centre
        label = new
        for k in range(len(centre)):
            rows = [i for i in range(len(points)) if label[i] == k]
            centre[k] = sum(weight[i] * points[i] for i in rows) / sum(weight[i] for i in rows)


@dataclass
class Way:
    """Sums over requests of one group, of one way from the root."""

    through: float = 0.0
    visits: float = 0.0
    time_us: float = 0.0
    seen: set[tuple[int, int]] = field(default_factory=set)


WayName = tuple[tuple[str, str], ...]


def ways(population: Population, group: list[np.ndarray]) -> dict[tuple[WayName, int], Way]:
    """(names from the root, group) -> sums, request by request."""
    found: dict[tuple[WayName, int], Way] = defaultdict(Way)
    for number, row, category in requests_of(population):
        for name, spent in _walk(category, row):
            way = found[name, int(group[number][row])]
            weight = float(category.weight[row])
            way.visits += weight
            way.time_us += weight * spent / 1000
            if (number, row) not in way.seen:
                way.seen.add((number, row))
                way.through += weight
    return found


def _walk(category: Category, row: int) -> Iterator[tuple[WayName, float]]:
    """(names from the root, own time in ns) of every node of one request."""
    graph, times = category.graph, category.node_ns[:, row]
    names: dict[int, WayName] = {}
    if graph.nesting is None:
        for place, node in enumerate(graph.nodes):
            what = node.point if node.label is None else f"{node.point}/{node.label}"
            here = ((f"{node.host}/{node.component}" if node.host else node.component, what),)
            before = _before(category, place)
            names[place] = here if before is None else names[before] + here
            yield names[place], float(0 if before is None else times[place] - times[before])
        return
    owner, parent = graph.nesting.owner.tolist(), graph.nesting.parent.tolist()
    for start, node in enumerate(graph.nodes):
        if node.side == END:
            continue
        ends = [i for i, mine in enumerate(owner) if mine == start and graph.nodes[i].side == END]
        end = ends[0] if ends else start
        below = [
            (int(times[i]), int(times[j]))
            for i, mine in enumerate(parent)
            if mine == start and graph.nodes[i].side != END and owner[i] == i
            for j in range(len(owner))
            if owner[j] == i and graph.nodes[j].side == END
        ]
        what = node.point if node.label is None else f"{node.point}/{node.label}"
        here = ((f"{node.host}/{node.component}" if node.host else node.component, what),)
        names[start] = here if parent[start] < 0 else names[parent[start]] + here
        covered = {ns for first, past in below for ns in range(first // 1000, past // 1000)}
        yield names[start], max(0.0, float(times[end] - times[start]) - 1000.0 * len(covered))


def _before(category: Category, place: int) -> int | None:
    """The node before: of several the one that was reached last in most requests, by weight."""
    sources = [int(src) for src, dst in category.graph.edges.tolist() if dst == place]
    if not sources:
        return None
    votes: dict[int, float] = defaultdict(float)
    for row in range(category.n_requests):
        last = max(int(category.node_ns[src, row]) for src in sources)
        votes[next(src for src in sources if category.node_ns[src, row] == last)] += category.weight[row]
    return max(sources, key=lambda src: (votes[src], -src))
