"""Small populations built by hand: labels, edges and latencies in, `Category` out."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from analyze.population import Category, Graph, GraphNode, GraphText, Population


class KnownText(GraphText):
    """A text that is known beforehand."""

    def __init__(self, canonical: str, tokens: tuple[str, ...] = ()) -> None:
        self._known = canonical, tokens

    @property
    def canonical(self) -> str:
        return self._known[0]

    @property
    def tokens(self) -> tuple[str, ...]:
        return self._known[1]


def graph(labels: Sequence[str], edges: Sequence[tuple[int, int]] | None = None) -> Graph:
    """A graph over `labels`; a chain unless edges say otherwise. The last node is the response."""
    links = sorted(edges or [(i, i + 1) for i in range(len(labels) - 1)], key=lambda e: (e[1], e[0]))
    text = " ".join(labels) + "".join(f" {s}>{d}" for s, d in links)
    return Graph(
        key=hashlib.blake2b(text.encode(), digest_size=16).hexdigest(),
        root=labels[0],
        nodes=tuple(_node(label) for label in labels),
        edges=np.array(links, dtype=np.int32).reshape(-1, 2),
        responses=np.array([len(labels) - 1], dtype=np.int32),
        text=KnownText(" ".join(labels), tuple(labels)),
    )


class _Plain(GraphNode):
    """A node that is displayed as its component alone."""

    @property
    def text(self) -> str:
        return self.component


def _node(label: str) -> GraphNode:
    component, slash, point = label.partition("/")
    return GraphNode(component, point) if slash else _Plain(label, "")


def category(
    g: Graph, offset_ns: np.ndarray, problem: np.ndarray, weight: np.ndarray | None = None
) -> Category:
    """A category from a matrix of node times and the sample of each row; rows are put in order of sample."""
    order = np.argsort(problem, kind="stable")
    offsets = np.ascontiguousarray(offset_ns[order], dtype=np.int64)
    n = len(offsets)
    return Category(
        graph=g,
        node_ns=np.ascontiguousarray(offsets.T),
        response_ns=offsets[:, g.responses].max(axis=1),
        start_ns=np.arange(n, dtype=np.int64),
        weight=np.ones(n) if weight is None else weight[order],
        sample=np.asarray(problem, dtype=np.uint8)[order],
        status=np.zeros(n, dtype=np.int32),
        request_id=pa.array([f"{g.key[:6]}-{i}" for i in range(n)], pa.string()),
        stored=(g.key,),
        skewed_edges=np.zeros(len(g.edges), dtype=np.bool_),
    )


def chain(
    labels: Sequence[str], reference_ns: Sequence[Sequence[int]], problem_ns: Sequence[Sequence[int]]
) -> Category:
    """A chain whose rows give the latency of each edge, for the requests of either period."""
    rows = np.array([*reference_ns, *problem_ns], dtype=np.int64).reshape(-1, len(labels) - 1)
    offsets = np.concatenate([np.zeros((len(rows), 1), np.int64), rows.cumsum(axis=1)], axis=1)
    return category(graph(labels), offsets, np.repeat([0, 1], [len(reference_ns), len(problem_ns)]))


def constant_chain(labels: Sequence[str], n0: int, n1: int, us0: int, us1: int) -> Category:
    """A chain with constant response times: n0 requests of us0 µs before, n1 of us1 µs after."""
    edges = len(labels) - 1

    def row(us: int) -> list[int]:
        ns = us * 1000
        return [ns // edges] * (edges - 1) + [ns - (ns // edges) * (edges - 1)]

    return chain(labels, [row(us0)] * n0, [row(us1)] * n1)


def population(*categories: Category, **extra: object) -> Population:
    """Categories in the order of the contract, nothing excluded, no notes unless told."""
    ordered = tuple(sorted(categories, key=lambda c: (c.graph.root, c.graph.key)))
    defaults: dict[str, object] = {"excluded": {}, "notes": ()}
    return Population(ordered, **(defaults | extra))  # type: ignore[arg-type]
