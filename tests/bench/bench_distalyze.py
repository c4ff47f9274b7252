"""DISTALYZER of 10,000 instances of 2,000 event variables and 1,999 state variables; run by `make bench`.

Prints CPU and wall seconds and the memory on top of the population, and the same networks by one tree of the
library a variable (refits avoided, still), measured on a few variables and multiplied.
"""

from __future__ import annotations

import resource
import time

import numpy as np
import pytest
from oracles.populations import category, graph
from sklearn.tree import DecisionTreeRegressor

from analyze.methods.distalyze.dependency_network import TreeRules, coded, split_sizes
from analyze.methods.distalyze.distalyze_run import distalyze_run
from analyze.methods.distalyze.settings import DistalyzeSettings
from analyze.population import Population, Sample

INSTANCES = 10_000
VARIABLES = 2_000


def _population() -> Population:
    """Two periods; one step of two thousand takes longer in the second."""
    rng = np.random.default_rng(1)
    steps = rng.lognormal(0, 1, (INSTANCES, VARIABLES - 1)) * 10_000
    problem = np.arange(INSTANCES) % 2
    steps[:, VARIABLES // 3] += problem * 2_000_000
    times = np.concatenate([np.zeros((INSTANCES, 1)), np.cumsum(steps, axis=1)], axis=1)
    made = category(graph([f"c{i % 7}/p{i}" for i in range(VARIABLES)]), times, problem)
    return Population((made,), {}, (), samples=(Sample("reference"), Sample("problem")), statuses=("ok",))


@pytest.mark.bench
def test_ten_thousand_by_two_thousand() -> None:
    population = _population()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start, wall = time.process_time(), time.perf_counter()
    run = distalyze_run(population, DistalyzeSettings())
    used, wall = time.process_time() - start, time.perf_counter() - wall
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        f"\ndistalyze, {INSTANCES} instances, {2 * VARIABLES - 1} variables, {run.features} features:"
        f" {wall:.1f} s wall, {used:.1f} s CPU, {peak / 2**20:.2f} GB in all, "
        f"{(peak - before) / 2**20:.2f} GB more than at the start"
    )
    assert run.components


@pytest.mark.bench
def test_networks_beside_a_library_tree_a_variable() -> None:
    rng = np.random.default_rng(2)
    k, n, few = 200, 4_000, 4
    values = np.cumsum(rng.lognormal(0, 1, (k, n)), axis=0)
    codes = coded(values)
    start = time.process_time()
    split_sizes(values, np.ones(n), TreeRules(n // 3, 40, 0.01, 0.2))
    ours = time.process_time() - start
    start = time.process_time()
    for target in range(few):
        others = np.delete(np.arange(k), target)
        DecisionTreeRegressor(min_samples_split=n // 3, min_samples_leaf=40).fit(
            codes[others].T, values[target]
        )
    theirs = (time.process_time() - start) / few * k
    ratio = theirs / ours
    print(
        f"\nnetwork of {k} variables, {n} instances: {ours:.2f} s CPU, {ratio:.1f} x faster than a tree each"
    )
