"""Populations of whole paths spread over windows, and slow answers to what is asked of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import networkx as nx
import numpy as np
from oracles.populations import chain, population

from analyze.population import DEFAULT_WINDOW_NS, Category, Population

WINDOWS = 6
"""Windows of the reference, and as many of the problem after them."""


def path(
    labels: Sequence[str],
    counts: tuple[int, int],
    us: tuple[float, float],
    *,
    seed: int = 0,
    weight: float = 1.0,
    windows: int = WINDOWS,
) -> Category:
    """A chain whose requests are spread evenly over the windows; times log-normal around `us`."""
    rng = np.random.default_rng((seed, len(labels), *counts))
    steps = len(labels) - 1
    times = [
        (rng.lognormal(0, 0.2, (n, steps)) * 1_000 * mean / steps).astype(np.int64).tolist()
        for n, mean in zip(counts, us, strict=True)
    ]
    made = chain(labels, *times)
    start = np.concatenate(
        [
            np.sort(rng.integers(0, windows * DEFAULT_WINDOW_NS, n)) + t * windows * DEFAULT_WINDOW_NS
            for t, n in enumerate(counts)
        ]
    )
    return replace(made, start_ns=start, weight=np.full(sum(counts), weight))


def duplicated(category: Category) -> Category:
    """Every request twice, with half of the weight."""
    twice = np.repeat(np.arange(category.n_requests), 2)
    return replace(
        category,
        node_ns=np.ascontiguousarray(category.node_ns[:, twice]),
        response_ns=category.response_ns[twice],
        start_ns=category.start_ns[twice],
        weight=category.weight[twice] / 2,
        sample=category.sample[twice],
        status=category.status[twice],
        request_id=category.request_id.take(twice),
    )


def swapped(found: Population) -> Population:
    """Reference and problem the other way round."""

    def turn(category: Category) -> Category:
        order = np.argsort(1 - category.sample, kind="stable")
        return replace(
            category,
            node_ns=np.ascontiguousarray(category.node_ns[:, order]),
            response_ns=category.response_ns[order],
            start_ns=category.start_ns[order],
            weight=category.weight[order],
            sample=(1 - category.sample)[order],
            status=category.status[order],
            request_id=category.request_id.take(order),
        )

    return population(*(turn(category) for category in found.categories))


def cheapest(
    supply: Sequence[int], demand: Sequence[int], cost: Mapping[tuple[int, int], int], other_cost: int
) -> int:
    """Cost of the cheapest assignment in whole numbers, by network simplex; `other` takes the rest."""
    flow = nx.DiGraph()
    for i, s in enumerate(supply):
        flow.add_node(("from", i), demand=-s)
        flow.add_edge(("from", i), "other", weight=0)
    for j, d in enumerate(demand):
        flow.add_node(("to", j), demand=d)
        flow.add_edge("other", ("to", j), weight=other_cost)
    flow.add_node("other", demand=sum(supply) - sum(demand))
    for (i, j), c in cost.items():
        flow.add_edge(("from", i), ("to", j), weight=c)
    return int(nx.network_simplex(flow)[0])
