"""What a year of windows costs who reads a day of it: 100,000 windows in 10,000 commits, beside two days.

Run: `python tests/bench/bench_year.py [FOLDER]`. Both lakes hold the same two days of traffic; the large one
has a window of one request every five minutes before them. Each command runs in a process of its own: figures
are its CPU seconds (user and system), the smallest of three, and its peak of memory. Lakes that are in FOLDER
already are measured as they are.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

sys.path.extend(str(parent) for parent in Path(__file__).resolve().parents[1:3])

from bench_lane import PARAMS, WINDOW_NS, NoSync
from oracles.lake_script import flows_table, structures_table
from oracles.traffic import START_NS, write_native

from schemas.commits import CommitBody, Counters
from schemas.windows import NS_PER_DAY, Window
from stitch.lake import staging
from stitch.lake.encoding import encode
from stitch.lake.lane import Lane
from stitch.lake.layout import ensure_lake
from stitch.lake.store import LocalStore

WINDOWS = 100_000
COMMITS = 10_000
DAY_NS = START_NS - START_NS % NS_PER_DAY
REQUESTS = 288 * 10
"""Of each of the two days."""
REFERENCE, PROBLEM = "2025-11-20/1d", "2025-11-21/1d"
COMMANDS = (
    ("sql", "-c", "select 1", "--period", PROBLEM),
    ("windows",),
    ("windows", "--period", PROBLEM),
    ("compare", "--reference", REFERENCE, "--problem", PROBLEM, "--no-save"),
)


def build(folder: Path, n_windows: int) -> Path:
    """A lake of so many windows, and of two days of traffic behind them."""
    if folder.exists():
        return folder
    if n_windows:
        _fill(folder, n_windows)
    traffic = folder.with_suffix(".ndjson")
    write_native(traffic, 2 * REQUESTS, seconds=2 * NS_PER_DAY // 10**9)
    _run(["import", str(traffic), "--lake", str(folder), "--any-time"])
    return folder


def _fill(folder: Path, n_windows: int) -> None:
    """Files are encoded once for all: they are not what is measured."""
    folder.mkdir()
    store = LocalStore(NoSync(folder))
    lane = Lane(store, ensure_lake(store, WINDOW_NS, WINDOW_NS, "bench"), owner="bench", created_by="bench")
    flows, structures = flows_table(["r"], [0]), structures_table()
    tables = {"flows": flows, "structures": structures, "params": PARAMS}
    made = {name: encode(name, table, None) for name, table in tables.items()}
    each = n_windows // COMMITS
    with patch.object(staging, "encode", lambda table_name, _table, _window: made[table_name]):
        for n in range(COMMITS):
            with lane.stage() as coming:
                for place in range(n * each, (n + 1) * each):
                    window = Window(DAY_NS - (n_windows - place) * WINDOW_NS, WINDOW_NS)
                    coming.add_window("flows", window, 0, flows)
                    coming.add_window("structures", window, 0, structures)
                    coming.add_window("params", window, 0, PARAMS)
                counters = Counters(events_read=each, events_published=each, flows=each)
                lane.commit(coming, CommitBody(kind="import", counters=counters))


def _run(arguments: Sequence[str]) -> tuple[float, float]:
    """CPU seconds and MB of a command, with its children."""
    process = subprocess.Popen([sys.executable, "-m", "flowdiff", *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        raise RuntimeError(f"flowdiff {arguments[0]} failed")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main(folder: Path) -> None:
    """Build, run, print."""
    days, year = build(folder / "days", 0), build(folder / "year", WINDOWS)
    for command in COMMANDS:
        cost = []
        for lake in (days, year):
            runs = [_run([*command, "--lake", str(lake)]) for _ in range(3)]
            cost.append((min(cpu for cpu, _ in runs), max(peak for _, peak in runs)))
        (cpu, peak), (cpu_year, peak_year) = cost
        told = f"{cpu:.2f} s, {peak:.0f} MB; in a year {cpu_year:.2f} s, {peak_year:.0f} MB"
        print(f"{' '.join(command):<80}{told}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as name:
            main(Path(name))
