"""The released Spectroscope, rule by rule: slow, one request and one edge at a time.

It starts from a population, as the analyzer does, and takes nothing else of it than names, times and samples.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

from oracles.edit_distance import levenshtein

from analyze.population import Category, Population

NAME = tuple[str, str]
"""(source label, destination label) of an edge."""


@dataclass(frozen=True)
class Answer:
    """One test; `p` None: not run."""

    n0: int
    n1: int
    p: float | None
    changed: bool


@dataclass(frozen=True)
class Row:
    """One mutation."""

    kind: str
    category: str
    cost_us: float
    weights: dict[str, float]
    """Precursor key -> weight, summing to 1; empty for response-time mutations."""


@dataclass(frozen=True)
class Released:
    """All that the tool prints."""

    ranked: list[Row]
    """One list by cost, largest first."""
    edges: dict[str, dict[NAME, Answer]]
    """Category key -> edge name -> test, mutated or not."""


def released(population: Population, threshold: int, *, one_to_n: bool) -> Released:
    """Response-time and structural mutations with costs, and the painted edges of every category."""
    rows = _structural(population.categories, threshold, one_to_n=one_to_n)
    edges = {}
    for category in population.categories:
        before, after = _responses_us(category, 0), _responses_us(category, 1)
        if _test(before, after).changed:
            cost = len(before) * (_mean(after) - _mean(before))
            rows.append(Row("response-time", category.graph.key, cost, {}))
        edges[category.graph.key] = _edges(category)
    return Released(sorted(rows, key=lambda row: -row.cost_us), edges)


def _structural(categories: tuple[Category, ...], threshold: int, *, one_to_n: bool) -> list[Row]:
    gained = {c.graph.key: len(_responses_us(c, 1)) - len(_responses_us(c, 0)) for c in categories}
    rows = []
    for mutation in categories:
        key = mutation.graph.key
        if not gained[key] > threshold:
            continue
        inverse, costs = {}, {}
        for other in categories:
            lost = -gained[other.graph.key]
            if not lost > threshold or other.graph.root != mutation.graph.root:
                continue
            if one_to_n and gained[key] > lost:
                continue
            left, right = _sequence(mutation), _sequence(other)
            inverse[other.graph.key] = max(len(left), len(right)) / levenshtein(left, right)
            mean = _mean(_responses_us(other, 1) or _responses_us(other, 0))
            costs[other.graph.key] = gained[key] * (_mean(_responses_us(mutation, 1)) - mean)
        total = sum(inverse.values())
        weights = {name: value / total for name, value in inverse.items()}
        rows.append(Row("structural", key, sum(weights[n] * costs[n] for n in costs), weights))
    return rows


def _edges(category: Category) -> dict[NAME, Answer]:
    pooled: dict[NAME, tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    labels = category.graph.labels
    for src, dst in category.graph.edges.tolist():
        for request, sample in enumerate(category.sample.tolist()):
            ns = int(category.node_ns[dst, request]) - int(category.node_ns[src, request])
            pooled[labels[src], labels[dst]][sample].append(ns / 1000)
    return {name: _test(*values) for name, values in pooled.items()}


def _test(before_us: list[float], after_us: list[float]) -> Answer:
    """Drop zeros, check sizes, round to whole milliseconds, one-sided KS, in this order."""
    before, after = ([us for us in values if us != 0] for values in (before_us, after_us))
    n0, n1 = len(before), len(after)
    if n0 * n1 / (n0 + n1 + 0.0001) < 4:
        return Answer(n0, n1, None, changed=False)
    first, second = ([math.floor(us / 1000 + 0.5) for us in values] for values in (before, after))
    d = max(sum(x <= at for x in first) / n0 - sum(x <= at for x in second) / n1 for at in {*first, *second})
    root = math.sqrt(n0 * n1 / (n0 + n1))
    p = math.exp(-2 * (max(d, 0) * (root + 0.12 + 0.11 / root)) ** 2)
    return Answer(n0, n1, p, changed=p < 0.05)


def _sequence(category: Category) -> list[str]:
    labels = category.graph.labels
    return [labels[end] for edge in category.graph.edges.tolist() for end in edge]


def _responses_us(category: Category, sample: int) -> list[float]:
    both = zip(category.response_ns.tolist(), category.sample.tolist(), strict=True)
    return [ns / 1000 for ns, mine in both if mine == sample]


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
