"""What the oracle makes of one request: a labelled DAG with times, in plain Python lists and sets."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import networkx as nx

Event = dict[str, Any]
"""One row of an event batch as `Table.to_pylist` makes it, plus `content`: an int that is equal iff the rows
say the same, and whose order breaks ties that nothing else breaks."""


@dataclass(slots=True)
class Node:
    name: tuple[str, str, str | None, int, int]
    """component, point, label, kind, side."""
    ts_ns: int
    host: str | None = None
    status: str = "ok"
    parent: int = -1
    """Index of the parent's start, where there is one."""
    mate: int = -1
    event: Event | None = None


@dataclass
class PlainFlow:
    """One request. Node indices have no meaning but identity."""

    request_id: str
    nodes: list[Node] = field(default_factory=list)
    edges: set[tuple[int, int]] = field(default_factory=set)
    choices: list[set[int]] = field(default_factory=list)
    """Response nodes. Several sets: the rule takes the first in canonical order, which an oracle cannot know;
    any of them is right, as long as isomorphic flows get the same."""
    chosen: int = 0
    """Index into `choices`."""
    root: int = 0
    quality: int = 0
    weight: float = 1.0
    weight_known: bool = False

    @property
    def responses(self) -> set[int]:
        return self.choices[self.chosen]

    def deferred(self) -> set[int]:
        """Nodes from which no response can be reached."""
        before: list[list[int]] = [[] for _ in self.nodes]
        for src, dst in self.edges:
            before[dst].append(src)
        awaited, stack = set(self.responses), list(self.responses)
        while stack:
            for src in before[stack.pop()]:
                if src not in awaited:
                    awaited.add(src)
                    stack.append(src)
        return set(range(len(self.nodes))) - awaited

    @property
    def start_ns(self) -> int:
        return self.nodes[self.root].ts_ns

    @property
    def response_ns(self) -> int:
        return max(self.nodes[i].ts_ns for i in self.responses) - self.start_ns

    @property
    def kind(self) -> str:
        """Every node of a flow of spans has a side, its root too."""
        return "records" if self.nodes[self.root].name[-1] == 0 else "spans"

    def statuses(self) -> set[tuple[str, str | None]]:
        """Every (status, inner status) the contract allows: failing nodes of one time are equally early."""
        if self.nodes[self.root].status != "ok":
            return {(self.nodes[self.root].status, None)}
        failing = [node for node in self.nodes if node.status != "ok"]
        first = min((node.ts_ns for node in failing), default=0)
        return {("ok", node.status) for node in failing if node.ts_ns == first} or {("ok", None)}

    def error(self, i: int) -> str:
        """Status of the event behind a node, told once: of a span at its start only, never of a mark."""
        node = self.nodes[i]
        told = node.name[-1] == 1 or self.kind == "records"
        return node.status if told else "ok"

    def labels(self) -> list[tuple[Any, ...]]:
        """What the structure knows of each node: its name, and whether it is deferred or a response."""
        deferred = self.deferred()
        return [(*node.name, i in deferred, i in self.responses) for i, node in enumerate(self.nodes)]

    def to_networkx(self) -> nx.DiGraph:
        """The DAG with `label` (structure) and `instance` (time, host and error) on every node."""
        graph = nx.DiGraph()
        for i, (node, label) in enumerate(zip(self.nodes, self.labels(), strict=True)):
            graph.add_node(i, label=label, instance=(node.ts_ns, node.host, self.error(i)))
        graph.add_edges_from(self.edges)
        return graph

    def category(self) -> int:
        """Colour refinement in both directions until the number of colours stops growing.

        A Python hash of the multiset of final colours: equal for isomorphic flows, in one process.
        """
        n = len(self.nodes)
        before: list[list[int]] = [[] for _ in range(n)]
        after: list[list[int]] = [[] for _ in range(n)]
        for src, dst in self.edges:
            before[dst].append(src)
            after[src].append(dst)
        colour = [hash(label) for label in self.labels()]
        seen = len(set(colour))
        while True:
            colour = [
                hash(
                    (
                        colour[v],
                        tuple(sorted([colour[u] for u in before[v]])),
                        0.5,
                        tuple(sorted([colour[u] for u in after[v]])),
                    )
                )
                for v in range(n)
            ]
            now = len(set(colour))
            if now <= seen:
                return hash((n, frozenset(Counter(colour).items())))
            seen = now


def reduce_transitively(n_nodes: int, edges: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """The edges without which reachability would change; `edges` acyclic.

    An edge goes if its end is reached from another successor of its start.
    """
    after: list[list[int]] = [[] for _ in range(n_nodes)]
    n_before = [0] * n_nodes
    for src, dst in edges:
        after[src].append(dst)
        n_before[dst] += 1
    kept = set(edges)
    for src in range(n_nodes):
        if len(after[src]) < 2 or all(n_before[dst] < 2 for dst in after[src]):
            continue
        seen: set[int] = set()
        stack = list(after[src])
        while stack:
            for dst in after[stack.pop()]:
                if dst not in seen:
                    seen.add(dst)
                    stack.append(dst)
        kept -= {(src, dst) for dst in after[src] if dst in seen}
    return kept
