"""Profiles of 2 x 210 k requests of 30 nodes, 1,600 categories; run by `make bench`.

Prints CPU and wall seconds and the memory that a profile needs on top of its population, for calls and for
activity records, and the ratio to critical path and latencies alone.
"""

from __future__ import annotations

import resource
import time

import numpy as np
import pytest
from oracles.changed_population import changed_population
from oracles.stored_flows import stored_spans

from analyze.paths.critical_path import critical_path
from analyze.population import Population
from analyze.profile.build import profile_of
from analyze.profile.profile import Slot
from analyze.refine.pipeline import refine
from analyze.refine.settings import RefineSettings

REQUESTS = 210_000
CATEGORIES = 1_600
NODES = 30
BLOCKS = 8


def _spans() -> Population:
    flows, structures = stored_spans(1, 2 * REQUESTS, CATEGORIES, NODES // 2)
    return refine(flows, structures, RefineSettings())


def _records() -> Population:
    return changed_population(REQUESTS, CATEGORIES, NODES)


@pytest.mark.bench
@pytest.mark.parametrize("kind", ["spans", "records"])
def test_profile(kind: str) -> None:
    population = _spans() if kind == "spans" else _records()
    ends = [
        max((int(c.start_ns[c.rows(s)].max(initial=0)) for c in population.categories), default=0) + 1
        for s in (0, 1)
    ]
    slots = [
        Slot(sample, end * block // BLOCKS, end * (block + 1) // BLOCKS)
        for sample, end in enumerate(ends)
        for block in range(BLOCKS)
    ]
    slow = float(np.quantile(np.concatenate([c.response_ns for c in population.categories]), 0.95))
    start = time.process_time()
    for category in population.categories:
        critical_path(category)
    walked = time.process_time() - start
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start, wall = time.process_time(), time.perf_counter()
    profile = profile_of(population, slots, slow).profile
    used, wall = time.process_time() - start, time.perf_counter() - wall
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**10
    rows = {name: table.num_rows for name, table in profile.tables().items()}
    print(
        f"\nprofile of {kind}: {used:.2f} s CPU ({wall:.2f} s wall), {more:.0f} MB on top;"
        f" critical paths alone {walked:.2f} s; {len(profile.names.sites)} sites,"
        f" {len(population.categories)} categories, {rows}"
    )
