"""What browsing tells of a period, request by request and instant by instant: slow and obvious."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from oracles.sites import requests

from analyze.population import Category, Population


@dataclass
class PlainPart:
    """Requests of a range, or all others."""

    n: int = 0
    weight: Fraction = Fraction(0)
    ns: Fraction = Fraction(0)
    failed: Fraction = Fraction(0)
    categories: dict[int, Fraction] = field(default_factory=lambda: defaultdict(Fraction))
    categories_n: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    categories_failed: dict[int, Fraction] = field(default_factory=lambda: defaultdict(Fraction))
    waited: dict[object, Fraction] = field(default_factory=lambda: defaultdict(Fraction))
    """Site -> weight of the requests with a step of it on their path."""
    site_ns: dict[object, Fraction] = field(default_factory=lambda: defaultdict(Fraction))
    site_failed: dict[object, Fraction] = field(default_factory=lambda: defaultdict(Fraction))


def plain_range(
    population: Population, sample: int, low_ns: int, high_ns: int
) -> tuple[PlainPart, PlainPart]:
    """A sample's requests of [low, high), and its others."""
    inside, outside = PlainPart(), PlainPart()
    places = [(number, row) for number, c in enumerate(population.categories) for row in range(c.n_requests)]
    for (number, row), request in zip(places, requests(population), strict=True):
        if request.sample != sample:
            continue
        status = population.categories[number].status[row]
        bad = bool(population.statuses) and population.statuses[status] != "ok"
        part = inside if low_ns <= request.response_ns < high_ns else outside
        w = Fraction(request.weight)
        part.n += 1
        part.weight += w
        part.ns += w * request.response_ns
        part.failed += w * bad
        part.categories[number] += w
        part.categories_n[number] += 1
        part.categories_failed[number] += w * bad
        for site in {unit.site for unit in request.units if unit.on_path}:
            part.waited[site] += w
        for unit in request.units:
            part.site_ns[unit.site] += w * unit.critical_ns
        for site in {site for site, _ in request.failing}:
            part.site_failed[site] += w
    return inside, outside


@dataclass
class PlainFlow:
    """Requests by bin, counted at each instant."""

    gaps: list[int]
    at_work: list[int]
    """[bins] requests at work, summed over the instants."""
    most: list[int]
    busy: list[int]


def plain_flow(start: Sequence[int], response: Sequence[int], edges: Sequence[int]) -> PlainFlow:
    """Instant by instant, for times of some dozens."""
    order = sorted(range(len(start)), key=lambda i: start[i])
    gaps = [start[order[i]] - max(start[j] + response[j] for j in order[:i]) for i in range(1, len(order))]
    at_work, most, busy = [], [], []
    for first, past in itertools.pairwise(edges):
        levels = [
            sum(s <= t < s + r for s, r in zip(start, response, strict=True)) for t in range(first, past)
        ]
        at_work.append(sum(levels))
        most.append(max(levels))
        busy.append(sum(level > 0 for level in levels))
    return PlainFlow(gaps, at_work, most, busy)


def plain_medoid(category: Category, rows: slice) -> float:
    """The smallest sum of distances to the edges' lower weighted medians."""
    times = category.node_ns.T.tolist()[rows]
    weights = category.weight.tolist()[rows]
    edges = category.graph.edges.tolist()
    logs = [[math.log1p((row[dst] - row[src]) / 1e3) for src, dst in edges] for row in times]

    def median(values: list[float]) -> float:
        half, reached = sum(weights) / 2, 0.0
        for value, weight in sorted(zip(values, weights, strict=True)):
            reached += weight
            if reached >= half * (1 - 1e-12):
                return value
        raise AssertionError

    middle = [median([row[e] for row in logs]) for e in range(len(edges))]
    return min(sum(abs(a - b) for a, b in zip(row, middle, strict=True)) for row in logs)


def distance_of(category: Category, rows: slice, row: int) -> float:
    """The same sum for one request; medians as above."""
    one = slice(row, row + 1)
    logs = np.log1p(np.diff(category.node_ns[:, rows][category.graph.edges], axis=1)[:, 0] / 1e3)
    weights = category.weight[rows]
    total = 0.0
    mine = np.log1p(np.diff(category.node_ns[:, one][category.graph.edges], axis=1)[:, 0, 0] / 1e3)
    for values, x in zip(logs, mine, strict=True):
        order = np.argsort(values, kind="stable")
        reached = np.cumsum(weights[order])
        middle = values[order][np.searchsorted(reached, reached[-1] / 2 * (1 - 1e-12))]
        total += abs(x - middle)
    return float(total)


def plain_density(x: Sequence[float], weight: Sequence[float], bandwidth: float, at: float) -> float:
    """A Gaussian at each time."""
    whole = sum(weight)
    return sum(
        w / whole / bandwidth / math.sqrt(2 * math.pi) * math.exp(-(((at - v) / bandwidth) ** 2) / 2)
        for v, w in zip(x, weight, strict=True)
    )


def plain_modes(density: Sequence[float], least: float) -> list[int]:
    """Maxima (the middle of a flat one) that rise by `least` above the higher of the two saddles to what is
    higher, or to the end."""
    found = []
    padded = [0.0, *density, 0.0]
    i = 1
    while i < len(padded) - 1:
        j = i
        while j + 1 < len(padded) - 1 and padded[j + 1] == padded[i]:
            j += 1
        if padded[i - 1] < padded[i] > padded[j + 1]:
            middle = (i + j) // 2
            left = right = padded[i]
            k = middle
            while k >= 0 and padded[k] <= padded[middle]:
                left = min(left, padded[k])
                k -= 1
            k = middle
            while k < len(padded) and padded[k] <= padded[middle]:
                right = min(right, padded[k])
                k += 1
            if padded[middle] - max(left, right) >= least:
                found.append(middle - 1)
        i = j + 1
    return found
