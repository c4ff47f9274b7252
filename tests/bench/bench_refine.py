"""Refinement and critical path: 200 k requests of 30 nodes, 1,600 stored structures; run by `make bench`.

Prints CPU seconds for spans (sibling order, asynchrony, skew) and for records, and the ratio to the plain
Python walk of `oracles.critical_path` on a subsample.
"""

from __future__ import annotations

import gc
import resource
import time

import pytest
from oracles.critical_path import walk
from oracles.stored_flows import stored_records, stored_spans

from analyze.paths.critical_path import attribute, critical_path, edge_latency_ns
from analyze.population import Population
from analyze.refine.pipeline import refine
from analyze.refine.settings import RefineSettings
from flowdiff.__main__ import GC_THRESHOLDS

REQUESTS = 200_000
CATEGORIES = 1_600
SUBSAMPLE = 20


def measure(population: Population) -> tuple[float, float]:
    """CPU seconds of critical path, latencies and attribution; and of the oracle per subsampled request."""
    start = time.process_time()
    for category in population.categories:
        latency, path = edge_latency_ns(category), critical_path(category)
        attribute(category, latency_ns=latency, on_path=path)
    fast = time.process_time() - start
    start = time.process_time()
    requests = 0
    for category in population.categories[::SUBSAMPLE]:
        walk(category)
        requests += len(category.response_ns)
    return fast, (time.process_time() - start) / requests


@pytest.mark.bench
@pytest.mark.parametrize("kind", ["spans", "records"])
def test_refine_and_critical_path(kind: str) -> None:
    flows, structures = (
        stored_spans(1, REQUESTS, CATEGORIES, 15)
        if kind == "spans"
        else stored_records(1, REQUESTS, CATEGORIES, 30)
    )
    gc.set_threshold(*GC_THRESHOLDS)  # as the command does
    start = time.process_time()
    wall = time.perf_counter()
    population = refine(flows, structures, RefineSettings())
    refined = time.process_time() - start
    wall = time.perf_counter() - wall
    fast, slow_each = measure(population)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"\n{kind}: refine {refined:.2f} s CPU ({wall:.2f} s wall), critical path + latencies + attribution "
        f"{fast:.2f} s, {len(population.categories)} categories, peak {peak:.2f} GB; the plain walk alone "
        f"takes {slow_each * REQUESTS:.1f} s for as many requests: {slow_each * REQUESTS / fast:.0f}x"
    )
    assert sum(len(category.response_ns) for category in population.categories) == REQUESTS
