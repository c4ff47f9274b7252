"""A small made-up shop with one response-time and two structural mutations, and hostile names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from oracles.paper_report import paper_outcome
from oracles.populations import category, graph, population

from analyze.population import Category, Population, Sample
from analyze.report.gate import Outcome

HOSTILE = '<script>alert(1)</script>/"quoted" & </script><b>bold</b>'

Tree = tuple[str, list["Tree"], bool]


def leaf(name: str) -> Tree:
    """An operation that calls nothing."""
    return (name, [], False)


def spans(tree: Tree) -> tuple[list[str], list[tuple[int, int]]]:
    """Labels and edges of a tree of operations; the flag of a node makes its children parallel."""
    labels: list[str] = []
    edges: list[tuple[int, int]] = []

    def walk(node: Tree) -> tuple[int, int]:
        name, children, parallel = node
        labels.append(f"{name}>")
        start = previous = len(labels) - 1
        ends = []
        for child in children:
            first, last = walk(child)
            edges.append((start if parallel else previous, first))
            previous = last
            ends.append(last)
        labels.append(f"{name}<")
        edges.extend((end, len(labels) - 1) for end in (ends if parallel and ends else [previous]))
        return start, len(labels) - 1

    walk(tree)
    return labels, edges


def requests(
    rng: np.random.Generator,
    tree: Tree,
    n0: int,
    n1: int,
    mean_us: float,
    *,
    slow: Sequence[str] = (),
    slow_us: float = 0.0,
) -> Category:
    """Log-normal latencies around `mean_us`; after, edges out of the nodes `slow` take `slow_us` longer."""
    labels, edges = spans(tree)
    g = graph(labels, edges)
    latency = rng.lognormal(np.log(mean_us * 1000), 0.4, (n0 + n1, len(g.edges))).astype(np.int64)
    offsets = np.zeros((n0 + n1, len(labels)), np.int64)
    for e, (src, dst) in enumerate(g.edges):
        if labels[src] in slow:
            latency[n0:, e] += int(slow_us * 1000)
        offsets[:, dst] = np.maximum(offsets[:, dst], offsets[:, src] + latency[:, e])
    return category(g, offsets, np.repeat([0, 1], [n0, n1]))


def shop(seed: int = 1) -> Population:
    """Recommendations wait 467 ms; carts are refused early (structure) or miss a cache (structure)."""
    rng = np.random.default_rng(seed)
    catalog = leaf("productcatalogservice/hipstershop.ProductCatalogService/GetProduct")
    convert = leaf("currencyservice/hipstershop.CurrencyService/Convert")
    cart = leaf("cartservice/hipstershop.CartService/GetCart")
    recommend: Tree = ("recommendationservice/ListRecommendations", [catalog], False)
    product: Tree = (
        "frontend/Recv./product",
        [catalog, convert, cart, convert, recommend, *[catalog] * 5, leaf("adservice/GetAds")],
        False,
    )
    pay: Tree = ("checkout/place", [leaf("shipping/Quote"), leaf("payment/Charge"), leaf(HOSTILE)], True)
    pay_less: Tree = ("checkout/place", [leaf("shipping/Quote"), leaf("payment/Charge")], True)
    send = leaf("email/Send")
    root = "frontend/Recv./cart"
    return population(
        requests(
            rng, product, 140, 150, 300, slow=("recommendationservice/ListRecommendations>",), slow_us=467_000
        ),
        requests(rng, (root, [cart, pay, send], False), 300, 120, 500),
        requests(rng, leaf(root), 20, 220, 80),
        requests(rng, (root, [cart, pay_less, leaf("cache/Miss"), send, send], False), 5, 90, 700),
        requests(rng, ("frontend/Recv./home", [catalog, *[convert] * 9], False), 500, 520, 200),
        excluded={"INCOMPLETE": (3, 7)},
        notes=("Clock of host <b> is 3.1 ms behind host a.",),
    )


def shop_outcome(seed: int = 1) -> Outcome:
    """The shop compared in paper mode."""
    minute = 60 * 10**9
    samples = (
        Sample("reference", "2022-08-22T17:00Z/1m", 0, minute),
        Sample("problem", "2022-08-23T12:11Z/1m", minute, 2 * minute, "service.version = '<v2>'"),
    )
    return paper_outcome(replace(shop(seed), samples=samples), source="shop")
