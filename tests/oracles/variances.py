"""Variances request by request in rational numbers: slow, obvious, and without rounding."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
from oracles.sites import requests

from analyze.population import Category, Population

LARGE = 10


@dataclass(frozen=True)
class PlainRequest:
    """One request: its parts, in ns."""

    root: str
    category: int
    weight: Fraction
    sites: dict[object, int]
    """Site in words -> time on the critical path."""
    touched: frozenset[object]
    """Sites with an edge on the critical path."""

    @property
    def response(self) -> int:
        """The parts' sum."""
        return sum(self.sites.values())


@dataclass(frozen=True)
class PlainVariance:
    """Of one sample, ns²."""

    mean: Fraction
    total: Fraction
    roots: Fraction
    paths: Fraction
    within: dict[object, Fraction]
    """By group: number of a category, or name of a root type for its rare ones."""
    sites: dict[object, tuple[Fraction, Fraction, Fraction]]
    """Cov(y, T): between root types, between paths, within paths."""


def plain_requests(population: Population, sample: int) -> list[PlainRequest]:
    """Requests of a sample."""
    places = [(number, row) for number, c in enumerate(population.categories) for row in range(c.n_requests)]
    found = []
    for (number, _), request in zip(places, requests(population), strict=True):
        if request.sample != sample:
            continue
        sites: dict[object, int] = defaultdict(int)
        for unit in request.units:
            sites[unit.site] += unit.critical_ns
        touched = frozenset(unit.site for unit in request.units if unit.critical_ns)
        found.append(PlainRequest(request.root, number, Fraction(request.weight), dict(sites), touched))
    return found


def mean_of(found: Iterable[PlainRequest], value: Callable[[PlainRequest], int]) -> Fraction:
    """Weighted mean."""
    every = list(found)
    return sum((r.weight * value(r) for r in every), Fraction(0)) / sum(r.weight for r in every)


def plain_variance(found: Sequence[PlainRequest]) -> PlainVariance:
    """The split, by the definitions."""
    size: defaultdict[object, int] = defaultdict(int)
    for request in found:
        size[request.category] += 1

    def group(request: PlainRequest) -> object:
        return request.category if size[request.category] > LARGE else request.root

    def response(request: PlainRequest) -> int:
        return request.response

    groups: dict[object, list[PlainRequest]] = defaultdict(list)
    roots: dict[str, list[PlainRequest]] = defaultdict(list)
    for request in found:
        groups[group(request)].append(request)
        roots[request.root].append(request)
    weight = sum(r.weight for r in found)
    mean = mean_of(found, response)
    root_mean = {root: mean_of(members, response) for root, members in roots.items()}
    group_mean = {name: mean_of(members, response) for name, members in groups.items()}
    sites: dict[object, list[Fraction]] = defaultdict(lambda: [Fraction(0)] * 3)
    for request in found:
        p = request.weight / weight
        mu_g, mu_r = group_mean[group(request)], root_mean[request.root]
        for site, y in request.sites.items():
            for place, off in enumerate((mu_r - mean, mu_g - mu_r, request.response - mu_g)):
                sites[site][place] += p * y * off
    return PlainVariance(
        mean,
        sum((r.weight * (r.response - mean) ** 2 for r in found), Fraction(0)) / weight,
        sum((r.weight * (root_mean[r.root] - mean) ** 2 for r in found), Fraction(0)) / weight,
        sum((r.weight * (group_mean[group(r)] - root_mean[r.root]) ** 2 for r in found), Fraction(0))
        / weight,
        {
            name: sum((r.weight * (r.response - group_mean[name]) ** 2 for r in members), Fraction(0))
            / weight
            for name, members in groups.items()
        },
        {site: (a, b, c) for site, (a, b, c) in sites.items()},
    )


def plain_shares(us: np.ndarray, weight: np.ndarray) -> list[Fraction]:
    """Cov(y_e, T)/Var(T) of parts [parts, requests]."""
    w = [Fraction(x) for x in weight.tolist()]
    rows = [[Fraction(x) for x in row] for row in us.tolist()]
    total = [sum(column, Fraction(0)) for column in zip(*rows, strict=True)]
    whole = sum(w)

    def mean(values: Sequence[Fraction]) -> Fraction:
        return sum((a * b for a, b in zip(w, values, strict=True)), Fraction(0)) / whole

    middle = mean(total)
    variance = mean([(t - middle) ** 2 for t in total])
    return [mean([y * (t - middle) for y, t in zip(row, total, strict=True)]) / variance for row in rows]


def stretched(population: Population, times: int) -> Population:
    """Every request `times` times over, the n-th n times as slow, so that categories become large."""
    return replace(population, categories=tuple(_stretched(c, times) for c in population.categories))


def _stretched(category: Category, times: int) -> Category:
    order = np.lexsort((np.tile(category.start_ns, times), np.tile(category.sample, times)))

    def again(values: np.ndarray) -> np.ndarray:
        return np.tile(values, times)[order]

    scale = np.repeat(np.arange(1, times + 1), category.n_requests)[order]
    copies = np.tile(np.arange(category.n_requests), times)[order]
    return replace(
        category,
        node_ns=np.ascontiguousarray(category.node_ns[:, copies] * scale),
        response_ns=again(category.response_ns) * scale,
        start_ns=again(category.start_ns),
        weight=again(category.weight),
        sample=again(category.sample),
        status=again(category.status),
        request_id=pa.array([f"{i}" for i in range(len(order))], pa.string()),
        skewed_edges=category.skewed_edges,
        host=None if category.host is None else category.host[:, copies],
        failures=type(category.failures)(*(np.zeros(0, np.int32),) * 3),
        origin=None if category.origin is None else again(category.origin),
    )
