"""Comparisons read from `stats/`: windows that hold two requests and the statistics of many; `make bench`.

Profiles are drawn bin by bin (`oracles.made_profiles`) and kept under the keys of real windows, so what is
measured is what a comparison does: manifest, hashes, decoding, joining, robust mode, report.
"""

from __future__ import annotations

import resource
import time
from pathlib import Path

import pytest
from oracles.lake_script import flows_table, structures_table
from oracles.made_profiles import Service
from oracles.stored_lake import write_lake

from analyze.compare import compare
from analyze.methods.port import Chosen
from analyze.methods.robust.method import METHOD
from analyze.profile.encoding import encode
from analyze.profile.history import cut_history, read_samples
from analyze.profile.profile import Slot
from analyze.profile.stored import key_of, whole_windows
from analyze.refine.settings import RefineSettings
from analyze.report.page import render_html
from analyze.scope import LakePeriod, Lakes
from schemas.periods import Period
from schemas.ranges import parse_ranges
from schemas.report.findings import FindingsSection
from schemas.windows import NS_PER_MINUTE
from stitch.lake.stats_files import put_stats
from stitch.lake.store import LocalStore

START_NS = 1_793_491_200 * 10**9
"""2026-11-01."""
WINDOW_NS = 5 * NS_PER_MINUTE
SETTINGS = RefineSettings()
SERVICE = Service(n_roots=8, n_sites=40)


def make_lake(folder: Path, n_compared: int, n_history: int, requests: float, service: Service) -> int:
    """A lake of windows with two requests each, and statistics of `requests` each; bytes of those.

    In the second `n_compared` windows one step takes 1.5 times as long.
    """
    n_windows = 2 * n_compared + n_history
    starts = [START_NS + n * WINDOW_NS + second * 10**9 for n in range(n_windows) for second in (10, 200)]
    write_lake(folder, flows_table([f"r{n}" for n in range(len(starts))], starts), structures_table())
    (whole,) = Lakes(str(folder)).ranges(parse_ranges(["all"], now_ns=0))
    size = 0
    for number, here in enumerate(whole_windows(whole)):
        slower = {0: {7: 1.5}} if n_compared <= number < 2 * n_compared else None
        slots = (Slot(0, here.period.start_ns, here.period.end_ns),)
        data = encode(service.profile(number, slots, requests, slower=slower))
        put_stats(LocalStore.at(folder), key_of(here, SETTINGS), data)
        size += len(data)
    return size


@pytest.mark.bench
@pytest.mark.parametrize(
    ("title", "n_compared", "n_history", "requests"),
    [("one window against 24", 1, 24, 5_000), ("two hours from statistics alone", 12, 24, 1e8 / 48)],
)
def test_samples_from_statistics(
    tmp_path: Path, title: str, n_compared: int, n_history: int, requests: float
) -> None:
    folder = tmp_path / "lake"
    size = make_lake(folder, n_compared, n_history, requests, SERVICE)
    begin, cpu = time.perf_counter(), time.process_time()
    lakes = Lakes(str(folder))
    compared = [
        ("reference", part(lakes, 0, n_compared)),
        ("problem", part(lakes, n_compared, n_compared)),
    ]
    usual = cut_history([period(2 * n_compared, n_history)], [parts for _, parts in compared], lakes)
    read = read_samples(compared, usual.samples, SETTINGS, use="all")
    wall = time.perf_counter() - begin
    assert read.compared.kept is not None
    outcome = compare(read.compared, [Chosen(METHOD, METHOD.settings())], history=read.history)
    page = render_html(outcome.report, outcome.views)
    assert len(page) > 1000
    total, cpu = time.perf_counter() - begin, time.process_time() - cpu
    (found,) = [s.findings for s in outcome.report.sections if isinstance(s, FindingsSection)]
    print(
        f"\n{title}: {2 * n_compared + n_history} windows, {(2 * n_compared + n_history) * requests:.2g} "
        f"requests, {size / 1e6:.1f} MB of statistics: read in {wall:.2f} s, compared and reported in "
        f"{total:.2f} s, {cpu:.2f} s CPU; {len(found)} findings; "
        f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB"
    )
    assert [finding.site.operation for finding in found] == ["step 0-7"]


def period(first: int, n: int) -> Period:
    """`n` windows from the `first` on."""
    start = START_NS + first * WINDOW_NS
    return Period(None, start, start + n * WINDOW_NS)


def part(lakes: Lakes, first: int, n: int) -> tuple[LakePeriod, ...]:
    """The same, found in a lake."""
    return lakes.ranges([period(first, n)])
