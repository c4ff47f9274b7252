"""Clusters of 210,000 requests of 30 nodes; run by `make bench`.

Prints CPU and wall seconds and the memory on top of the population; and K-means on every request beside the
same on merged rows.
"""

from __future__ import annotations

import resource
import time
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from oracles.populations import category, graph

from analyze.methods.clusters.features import FeatureSet, feature_rows, feature_space
from analyze.methods.clusters.kmeans import partition
from analyze.methods.clusters.method import analyse
from analyze.methods.clusters.settings import ClustersSettings
from analyze.population import Category, Population, Sample
from analyze.profile.samples import samples_of
from analyze.report.limits import ReportLimits

REQUESTS, NODES, CATEGORIES = 210_000, 30, 300
SECOND_NS = 10**9


def _category(rng: np.random.Generator, number: int, requests: int) -> Category:
    """A chain of 30 of 90 points; in the second sample one point takes longer."""
    points = np.sort(rng.choice(90, NODES - 1, replace=False))
    names = [f"front/r{number % 8}", *(f"c{p % 9}/p{p}" for p in points.tolist())]
    sample = np.sort(rng.integers(0, 2, requests))
    steps = rng.lognormal(0, 0.5, (requests, NODES - 1)) * rng.uniform(10_000, 900_000, NODES - 1)
    steps[:, points == 7] *= 1 + 3 * sample[:, None]
    at = np.concatenate([np.zeros((requests, 1)), steps.cumsum(axis=1)], axis=1)
    made = category(graph(names), at.astype(np.int64), sample)
    start = sample * 3_600 * SECOND_NS + rng.integers(0, 3_600 * SECOND_NS, requests)
    return replace(made, start_ns=start)


def _population() -> Population:
    rng = np.random.default_rng(1)
    share = 1 / np.arange(1, CATEGORIES + 1)
    sizes = np.maximum(2, (REQUESTS * share / share.sum()).astype(int))
    made = [_category(rng, number, int(size)) for number, size in enumerate(sizes.tolist())]
    made.sort(key=lambda one: (one.graph.root, one.graph.key))
    hour = 3_600 * SECOND_NS
    samples = (Sample("reference", "", 0, hour), Sample("problem", "", hour, 2 * hour))
    return Population(tuple(made), {}, (), samples=samples, statuses=("ok",))


@pytest.mark.bench
@pytest.mark.parametrize("features", ["combined", "counts"])
def test_two_hundred_thousand_requests(features: Literal["combined", "counts"]) -> None:
    population = _population()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start, wall = time.process_time(), time.perf_counter()
    found = analyse(samples_of(population), None, ClustersSettings(features=features), ReportLimits())
    used, wall = time.process_time() - start, time.perf_counter() - wall
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    n = sum(one.n_requests for one in population.categories)
    print(
        f"\nclusters by {features}, {n} requests of {NODES} nodes, {len(population.categories)} categories:"
        f" {wall:.1f} s wall, {used:.1f} s CPU, {peak / 2**20:.2f} GB in all,"
        f" {(peak - before) / 2**20:.2f} GB more than at the start"
    )
    assert found.sections


@pytest.mark.bench
def test_merged_rows_beside_every_request() -> None:
    """Structure has a row a path: the same clusters, in no time."""
    population = _population()
    settings = ClustersSettings(features="counts")
    rows = feature_rows(population, (FeatureSet.COUNTS,))
    points = feature_space(rows, settings).points
    start = time.process_time()
    merged = partition(points, rows.weight, 12, settings, seed=0, starts=1)
    ours = time.process_time() - start
    every = np.concatenate(rows.row_of)
    whole = replace_whole(settings)
    start = time.process_time()
    plain = partition(points[every], np.ones(len(every)), 12, whole, seed=0, starts=1)
    theirs = time.process_time() - start
    print(
        f"\nK-means of {len(points)} merged rows: {ours:.3f} s CPU, {theirs / ours:.0f} x faster than of "
        f"{len(every)} requests; inertia {merged.inertia:.1f} and {plain.inertia:.1f}"
    )


def replace_whole(settings: ClustersSettings) -> ClustersSettings:
    """The same, all rows at once."""
    return settings.model_copy(update={"whole_rows": 10**9})
