"""`flowdiff browse` of one period of the size of the papers' largest benchmark.

Aims: a page of at most 5 MB that opens within 2 s. Prints CPU seconds of the method and of the whole command,
peaks of memory, and how long Chromium takes to the page's `load` event with the script and without.
"""

from __future__ import annotations

import resource
import statistics
import time
from pathlib import Path

import pytest
from fixtures.chromium_pages import browser_path
from fixtures.timed_command import timed
from oracles.devtools import chromium
from oracles.stored_flows import stored_spans
from oracles.stored_lake import write_lake

from analyze.methods.browse.method import analyse
from analyze.methods.browse.settings import BrowseSettings
from analyze.profile.samples import samples_of
from analyze.refine.pipeline import refine
from analyze.refine.settings import RefineSettings
from analyze.report.limits import ReportLimits

REQUESTS = 210_000
CATEGORIES = 1_600
NODES = 30
TIMES = 5


@pytest.mark.bench
def test_method() -> None:
    flows, structures = stored_spans(1, REQUESTS, CATEGORIES, NODES // 2)
    population = refine(flows, structures, RefineSettings()).of_samples(0, 1)
    cpu, wall = time.process_time(), time.perf_counter()
    result = analyse(samples_of(population), None, BrowseSettings(), ReportLimits())
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    rows = {name: table.num_rows for name, table in result.tables.items()}
    print(f"\nbrowse: {cpu:.2f} s CPU ({wall:.2f} s wall), peak {peak:.2f} GB with its population; {rows}")


@pytest.mark.bench
def test_whole_command(tmp_path: Path) -> None:
    """`flowdiff browse` as a process, from the lake to the page, and the page in a browser."""
    lake = tmp_path / "lake"
    write_lake(lake, *stored_spans(1, REQUESTS, CATEGORIES, NODES // 2))
    took = timed("browse", "--lake", str(lake))
    (page,) = lake.glob("reports/*/report.html")
    print(f"\nwhole command: {took}, page {page.stat().st_size / 1e6:.2f} MB")
    with chromium(browser_path(), tmp_path / "profile") as tab:
        for script in (True, False):
            opened = [tab.open(page.as_uri(), script=script) for _ in range(TIMES)]
            assert tab.complaints == []
            how = "with" if script else "without"
            print(
                f"opened {how} its script: median {statistics.median(opened):.2f} s, first {opened[0]:.2f} s"
            )
