"""A large made-up population for benchmarks: many categories, the papers' sizes, some of them changed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from oracles.populations import graph

from analyze.population import Category, Graph, Population

ROOTS = 20


def fork_join(root: str, number: int, n_nodes: int, rng: np.random.Generator) -> Graph:
    """A chain with two forks and joins, its trace points drawn from a small vocabulary."""
    points = rng.integers(0, 40, n_nodes)
    labels = [root, *(f"c{p % 6}/point{p}" for p in points[1:-1]), f"c0/reply{number}"]
    edges = [(i, i + 1) for i in range(n_nodes - 1)]
    third = n_nodes // 3
    for fork in (2, third + 2):
        edges.remove((fork + 2, fork + 3))
        edges += [(fork, fork + 3), (fork + 2, fork + 5)]
    return graph(labels, sorted(set(edges)))


def changed_population(
    n_requests: int,
    n_categories: int,
    n_nodes: int,
    *,
    seed: int = 0,
    slower: float = 0.3,
    moved: float = 0.1,
) -> Population:
    """2 x `n_requests` requests; few categories hold nearly all (Table 1 of the paper).

    A share `slower` of the categories has one slower edge, `moved` of them lost or gained half.
    """
    rng = np.random.default_rng(seed)
    size = 1 / np.arange(1, n_categories + 1) ** 1.1
    size = np.maximum(1, size / size.sum() * n_requests).astype(int)
    size[0] += max(0, n_requests - size.sum())
    categories = []
    for number in range(n_categories):
        g = fork_join(f"op{number % ROOTS}/start", number, n_nodes, rng)
        n0 = n1 = int(size[number])
        if rng.random() < moved:
            n1 = n1 // 2 if number // ROOTS % 2 else n1 * 3 // 2
        n = n0 + n1
        latency = rng.lognormal(11, 0.5, (n, len(g.edges))).astype(np.int64)
        if rng.random() < slower:
            latency[n0:, rng.integers(len(g.edges))] += 200_000
        offsets = np.zeros((n, n_nodes), np.int64)
        for e, (src, dst) in enumerate(g.edges):
            offsets[:, dst] = np.maximum(offsets[:, dst], offsets[:, src] + latency[:, e])
        categories.append(
            Category(
                graph=g,
                node_ns=np.ascontiguousarray(offsets.T),
                response_ns=offsets[:, -1].copy(),
                start_ns=np.arange(n, dtype=np.int64),
                weight=np.ones(n),
                sample=np.repeat(np.array([0, 1], np.uint8), [n0, n1]),
                status=np.zeros(n, np.int32),
                request_id=pa.array(np.arange(n).astype(str), pa.string()),
                stored=(g.key,),
                skewed_edges=np.zeros(len(g.edges), np.bool_),
            )
        )
    ordered = sorted(categories, key=lambda c: (c.graph.root, c.graph.key))
    return Population(tuple(ordered), {}, ())
