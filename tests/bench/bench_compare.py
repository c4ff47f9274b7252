"""Paper-mode comparison of 2 x 210 k requests of 30 nodes, 1,600 categories; run by `make bench`.

Prints CPU and wall seconds of refinement (from tables as the lake holds them), comparison and page, the peak
of memory, and the ratio of the column-wise KS to `scipy.stats.ks_2samp` edge by edge on a subsample.
"""

from __future__ import annotations

import resource
import time
from pathlib import Path

import numpy as np
import pytest
from fixtures.timed_command import timed
from oracles.changed_population import changed_population
from oracles.faulty_flows import slow_plans
from oracles.stored_flows import stored_spans
from oracles.stored_lake import write_lake
from scipy import stats

from analyze.compare import compare
from analyze.methods.paper.method import METHOD
from analyze.methods.paper.settings import PaperSettings
from analyze.methods.port import Chosen
from analyze.paths.critical_path import edge_latency_ns
from analyze.population import Population
from analyze.refine.pipeline import refine
from analyze.refine.settings import RefineSettings
from analyze.report.page import render_html
from analyze.stats.ks import ks_columns
from schemas.report.mutations import MutationsSection
from schemas.report.report import to_json

REQUESTS = 210_000
CATEGORIES = 1_600
NODES = 30
SUBSAMPLE = 40
FAULTS = 20
PERIODS = ("--reference", "1970-01-01T00:00/5m", "--problem", "1970-01-01T00:05/5m")


class _Clock:
    """CPU and wall seconds since it was made."""

    def __init__(self) -> None:
        self._cpu, self._wall = time.process_time(), time.perf_counter()

    def __str__(self) -> str:
        return f"{time.process_time() - self._cpu:.2f} s CPU ({time.perf_counter() - self._wall:.2f} s wall)"


def _peak_gb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def _compare_and_render(population: Population, settings: PaperSettings) -> str:
    clock = _Clock()
    outcome = compare(population, [Chosen(METHOD, settings)])
    compared = str(clock)
    clock = _Clock()
    page = render_html(outcome.report, outcome.views)
    found = outcome.report.section(MutationsSection)
    kinds = f"{found.structural_total} structural and {found.response_time_total} response-time mutations"
    json = to_json(outcome.report)
    sizes = f"page {len(page) / 1e6:.1f} MB, JSON {len(json) / 1e6:.1f} MB, peak {_peak_gb():.2f} GB"
    return f"compare {compared}, page {clock}: {kinds}; {sizes}"


@pytest.mark.bench
@pytest.mark.parametrize("variant", ["text", "released"])
def test_compare_changed_traffic(variant: str) -> None:
    population = changed_population(REQUESTS, CATEGORIES, NODES)
    settings = PaperSettings.model_validate({"variant": variant, "one_to_n": False})
    print(f"\n{variant}: {_compare_and_render(population, settings)}")


@pytest.mark.bench
def test_refine_and_compare() -> None:
    flows, structures = stored_spans(1, 2 * REQUESTS, CATEGORIES, NODES // 2)
    clock = _Clock()
    population = refine(flows, structures, RefineSettings())
    print(f"\nrefine {clock}, {_compare_and_render(population, PaperSettings())}")


@pytest.mark.bench
@pytest.mark.parametrize(("method", "faults"), [("paper", 0), ("robust", 0), ("robust", FAULTS)])
def test_whole_command(tmp_path: Path, method: str, faults: int) -> None:
    """`flowdiff compare` as a process, from the lake to the written report.

    faults: categories in which one plan of two got slower; what was found is explained by it.
    """
    lake = tmp_path / "lake"
    flows, structures = stored_spans(1, 2 * REQUESTS, CATEGORIES, NODES // 2)
    flows, params = slow_plans(flows, NODES, faults) if faults else (flows, None)
    write_lake(lake, flows, structures, params=params)
    took = timed("compare", "--lake", str(lake), *PERIODS, "--method", method, codes=(0, 1, 3))
    print(f"\nwhole command, {method}, {faults} faults: {took}")


@pytest.mark.bench
def test_ks_against_scipy_edge_by_edge() -> None:
    population = changed_population(REQUESTS, CATEGORIES, NODES)
    chosen = [
        (edge_latency_ns(c), c.sample == 1)
        for c in population.categories[::SUBSAMPLE]
        if min((c.sample == 0).sum(), (c.sample == 1).sum()) > 0
    ]
    start = time.process_time()
    columns = np.concatenate([ks_columns(latency, problem).d for latency, problem in chosen])
    fast = time.process_time() - start
    start = time.process_time()
    single = [
        stats.ks_2samp(latency[~problem, e], latency[problem, e], method="asymp").statistic
        for latency, problem in chosen
        for e in range(latency.shape[1])
    ]
    slow = time.process_time() - start
    np.testing.assert_allclose(columns, single, atol=1e-12)
    print(
        f"\nKS of {len(single)} edges: {fast:.3f} s, scipy one by one {slow:.3f} s, ratio {slow / fast:.1f}"
    )
