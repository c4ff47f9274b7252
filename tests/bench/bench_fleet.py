"""A fleet compared from statistics: two days of hourly windows with a week of history; `make bench FLEET=1`.

Statistics of windows are drawn (`oracles.made_fleet`), each with a noise of its own, and kept under the keys
of real windows. What is measured is the whole command, as a process of its own. It must have read every
window's statistics, and find the calls that were made slower and nothing else.

    PYTHONPATH=.:tests python tests/bench/bench_fleet.py 320 1000 10000
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from fixtures.timed_command import timed
from oracles.made_fleet import Fleet, periods, write_fleet

SLOWER_SITES = 5
SLOWER_TIMES = 3.0
"""So many times as long take the calls that the problem makes slower: 4 % of their requests' response."""


def run(n_sites: int, n_compared: int, n_history: int, most_drawn: int, folder: Path) -> None:
    """Make the lake where it is not there, compare, print."""
    begin = time.process_time()
    fleet = Fleet(n_sites)
    slower = fleet.loaded_sites(SLOWER_SITES)
    lake = folder / "lake"
    if not lake.exists():
        write_fleet(lake, fleet, n_compared, n_history, slower, SLOWER_TIMES, most_drawn=most_drawn)
    sizes = [file.stat().st_size for file in lake.glob("stats/*/*.parquet")]
    size = sum(sizes) / len(sizes) / n_sites
    made = time.process_time() - begin
    report = folder / "report.json"
    words = (
        "compare",
        "--lake",
        str(lake),
        *periods(n_compared, n_history),
        "--statistics",
        "all",
    )
    took = timed(*words, "--no-save", "--json", str(report), codes=(0, 1, 3))
    found = checked(json.loads(report.read_text()), fleet, n_compared)
    print(
        f"{n_sites:,} sites, {n_compared} windows against {n_compared}, {n_history} of history, {size:.0f} "
        f"bytes a site and window: {took}; found {', '.join(found)} "
        f"(made in {made:.0f} s CPU)",
        flush=True,
    )


def checked(report: dict[str, Any], fleet: Fleet, n_compared: int) -> list[str]:
    """Findings of a report, which must be of all requests and name the calls that were made slower."""
    expected = fleet.requests * n_compared
    for sample in report["samples"]:
        # A window that is not read as statistics counts as the one request that lies in it.
        assert abs(sample["requests"] / expected - 1) < 0.01, (sample["requests"], expected)
    (section,) = [s for s in report["sections"] if s["section"] == "findings"]
    found = sorted(f"{f['site']['component']}/{f['site']['operation']}" for f in section["findings"])
    slower = sorted(fleet.operation(site).text for site in fleet.loaded_sites(SLOWER_SITES))
    assert section["findings_total"] == len(found), section["findings_total"]
    assert found == slower, (found, slower)
    return found


def main() -> None:
    """For every number of sites."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sites", type=int, nargs="*", default=[320, 1_000, 10_000])
    parser.add_argument("--windows", type=int, default=24)
    parser.add_argument("--history", type=int, default=168)
    parser.add_argument("--drawn", type=int, default=1 << 30, help="draw so many windows, and repeat them")
    parser.add_argument("--folder", type=Path, help="keep the lakes here, and find them again")
    given = parser.parse_args()
    for n_sites in given.sites:
        with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
            kept = Path(folder) if given.folder is None else given.folder / str(n_sites)
            run(n_sites, given.windows, given.history, given.drawn, kept)


if __name__ == "__main__":
    main()
