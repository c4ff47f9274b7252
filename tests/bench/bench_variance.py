"""Variance of 210 k requests of 30 nodes, 1,600 categories; run by `make bench`.

Prints CPU and wall seconds of the method and of the whole command, and peaks of memory.
"""

from __future__ import annotations

import resource
import time
from pathlib import Path

import pytest
from fixtures.timed_command import timed
from oracles.stored_flows import stored_spans
from oracles.stored_lake import write_lake

from analyze.methods.variance.method import variance_result
from analyze.methods.variance.settings import VarianceSettings
from analyze.refine.pipeline import refine
from analyze.refine.settings import RefineSettings
from analyze.report.limits import ReportLimits

REQUESTS = 210_000
CATEGORIES = 1_600
NODES = 30


@pytest.mark.bench
def test_method() -> None:
    flows, structures = stored_spans(1, 2 * REQUESTS, CATEGORIES, NODES // 2)
    population = refine(flows, structures, RefineSettings()).of_samples(0, 1)
    cpu, wall = time.process_time(), time.perf_counter()
    result = variance_result(population, (), VarianceSettings(), ReportLimits())
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    rows = {name: table.num_rows for name, table in result.tables.items()}
    print(f"\nvariance: {cpu:.2f} s CPU ({wall:.2f} s wall), peak {peak:.2f} GB with its population; {rows}")


@pytest.mark.bench
def test_whole_command(tmp_path: Path) -> None:
    """`flowdiff variance` as a process, from the lake to the written report."""
    lake = tmp_path / "lake"
    write_lake(lake, *stored_spans(1, REQUESTS, CATEGORIES, NODES // 2))
    took = timed("variance", "--lake", str(lake))
    (page,) = lake.glob("reports/*/report.html")
    print(f"\nwhole command: {took}, page {page.stat().st_size / 1e6:.2f} MB")
