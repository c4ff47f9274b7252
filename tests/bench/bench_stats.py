"""Comparisons read from `stats/`: windows that hold two requests and the statistics of many; `make bench`.

Profiles are drawn bin by bin (`oracles.made_profiles`) and kept under the keys of real windows, so what is
measured is what a comparison does: manifest, hashes, decoding, joining.
"""

from __future__ import annotations

import resource
import time
from pathlib import Path

import pytest
from oracles.lake_script import flows_table, structures_table
from oracles.made_profiles import Service
from oracles.stored_lake import write_lake

from analyze.history.stored_profiles import encode
from analyze.history.window_profiles import Tally, key_of, of_window, sample_profile
from analyze.refine.settings import RefineSettings
from analyze.scope import LakePeriod, Lakes
from analyze.sites.profile import Slot
from schemas.periods import format_instant
from schemas.ranges import parse_ranges
from schemas.windows import NS_PER_MINUTE
from stitch.lake.stats_files import put_stats
from stitch.lake.store import LocalStore

START_NS = 1_793_491_200 * 10**9
"""2026-11-01."""
WINDOW_NS = 5 * NS_PER_MINUTE
SETTINGS = RefineSettings()
SERVICE = Service(n_roots=8, n_sites=40)


def make_lake(folder: Path, n_windows: int, requests: float, service: Service) -> int:
    """A lake of windows with two requests each, and statistics of `requests` each; bytes of those."""
    starts = [START_NS + n * WINDOW_NS + second * 10**9 for n in range(n_windows) for second in (10, 200)]
    write_lake(folder, flows_table([f"r{n}" for n in range(len(starts))], starts), structures_table())
    (whole,) = Lakes(str(folder)).ranges(parse_ranges(["all"], now_ns=0))
    size = 0
    for number, window in enumerate(whole.windows):
        here = of_window(whole, window, window.start_ns, window.end_ns)
        data = encode(service.profile(number, (Slot(0, window.start_ns, window.end_ns),), requests))
        put_stats(LocalStore.at(folder), key_of(here, window, SETTINGS), data)
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
    size = make_lake(folder, 2 * n_compared + n_history, requests, SERVICE)
    begin, cpu = time.perf_counter(), time.process_time()
    lakes = Lakes(str(folder))
    samples = [part(lakes, 0, n_compared), part(lakes, n_compared, n_compared)]
    samples += [part(lakes, 2 * n_compared + n, 1) for n in range(n_history)]
    tally = Tally()
    profile = sample_profile(samples, SETTINGS, tally=tally)
    wall, cpu = time.perf_counter() - begin, time.process_time() - cpu
    assert tally.made == 0, "statistics were not read"
    rows = sum(table.num_rows for table in profile.tables().values())
    print(
        f"\n{title}: {tally.read} windows, {tally.read * requests:.2g} requests, {size / 1e6:.1f} MB, "
        f"{rows:,} rows: {wall:.2f} s, {cpu:.2f} s CPU, "
        f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB"
    )


def part(lakes: Lakes, first: int, n: int) -> tuple[LakePeriod, ...]:
    """`n` windows from the `first` on."""
    start = format_instant(START_NS + first * WINDOW_NS)
    return lakes.ranges(parse_ranges([f"{start}/{n * WINDOW_NS // NS_PER_MINUTE}m"], now_ns=0))
