"""What a year of windows, or 2,000 lanes, cost who reads a day: 100,000 windows in 10,000 commits.

Run: `python tests/bench/bench_year.py [FOLDER [year|lanes …]]`. All lakes hold the same two days of traffic;
`year` has a window of one request every five minutes before them, `lanes` a commit of one request by each of
2,000 live lanes, all in the last day before them. Each command runs in a process of its own: figures
are its CPU seconds (user and system), the smallest of three, and its peak of memory; `seal` imports one more
window of one request. Lakes that are in FOLDER
already are measured as they are.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from unittest.mock import patch

sys.path.extend(str(parent) for parent in Path(__file__).resolve().parents[1:3])

import pyarrow as pa
from bench.bench_lane import PARAMS, WINDOW_NS, NoSync
from fixtures.timed_command import Took, timed
from oracles.lake_script import flows_table, structures_table
from oracles.traffic import START_NS, write_native

from schemas.commits import CommitBody, Counters, Standing
from schemas.windows import NS_PER_DAY, Window
from stitch.lake import staging
from stitch.lake.encoding import encode
from stitch.lake.lane import Lane
from stitch.lake.layout import WindowTable, ensure_lake
from stitch.lake.store import LocalStore

WINDOWS = 100_000
COMMITS = 10_000
LANES = 2_000
DAY_NS = START_NS - START_NS % NS_PER_DAY
REQUESTS = 288 * 10
"""Of each of the two days."""
REFERENCE, PROBLEM = "2025-11-20/1d", "2025-11-21/1d"
COMMANDS = (
    ("sql", "-c", "select 1", "--period", PROBLEM),
    ("sql", "-c", "select 1"),
    ("sql", "-c", "select count(*) from requests where started_at::date = '2025-11-21'"),
    ("sql", "-c", "select count(*) from spans where window_start::date = '2025-11-21'"),
    ("windows",),
    ("windows", "--period", PROBLEM),
    ("windows", "--period", "all"),
    ("compare", "--reference", REFERENCE, "--problem", PROBLEM, "--no-save"),
)


def build(folder: Path, before: str = "") -> Path:
    """A lake of two days of traffic, and of what is `before` them: `year`, `lanes` or nothing."""
    if folder.exists():
        return folder
    if before:
        folder.mkdir()
        _fill(LocalStore(NoSync(folder)), before)
    traffic = folder.with_suffix(".ndjson")
    write_native(traffic, 2 * REQUESTS, seconds=2 * NS_PER_DAY // 10**9)
    timed("import", str(traffic), "--any-time", "--lake", str(folder))
    return folder


def _fill(store: LocalStore, before: str) -> None:
    """Files are encoded once for all: they are not what is measured."""
    info = ensure_lake(store, WINDOW_NS, WINDOW_NS, "bench")
    open_lane = partial(Lane, store, info, owner="bench", created_by="bench")
    flows, structures = flows_table(["r"], [0]), structures_table()
    tables: dict[WindowTable, pa.Table] = {"flows": flows, "structures": structures, "params": PARAMS}
    made = {name: encode(name, table, Window(0, WINDOW_NS)) for name, table in tables.items()}

    def commit(lane: Lane, windows: range, body: CommitBody) -> None:
        with lane.stage() as coming:
            for place in windows:
                window = Window(DAY_NS - (place + 1) * WINDOW_NS, WINDOW_NS)
                for name, table in tables.items():
                    coming.add_window(name, window, 0, table)
            counted = Counters(events_read=len(windows), events_published=len(windows), flows=len(windows))
            lane.commit(coming, body.model_copy(update={"counters": counted}))

    with patch.object(staging, "encode", lambda table_name, _table, _window: made[table_name]):
        if before == "year":
            lane, each = open_lane(), WINDOWS // COMMITS
            for n in range(WINDOWS, 0, -each):
                commit(lane, range(n - each, n), CommitBody(kind="import"))
        else:
            live = CommitBody(kind="live", standing=Standing(sealed_to_ns=DAY_NS + 2 * NS_PER_DAY))
            for number in range(1, LANES + 1):
                place = number % (NS_PER_DAY // WINDOW_NS)
                commit(open_lane(lane=number), range(place, place + 1), live)


def _run(arguments: Sequence[str], lake: Path) -> Took:
    os.environ["FLOWDIFF_LAKE"] = str(lake)
    return timed(*arguments, codes=(0, 1))


def _seal(lake: Path) -> Took:
    """One more window, after all others."""
    number = len(list(lake.parent.glob(f"{lake.name}-more-*")))
    one = lake.with_name(f"{lake.name}-more-{number}")
    name, at = f"more-{number}", DAY_NS + 2 * NS_PER_DAY + number * WINDOW_NS
    record = {"request_id": name, "breadcrumb": name, "ts": at, "component": "nfs", "point": "ENTER"}
    one.write_text(json.dumps(record))
    return _run(("import", str(one)), lake)


def main(folder: Path, large: Sequence[str] = ("year", "lanes")) -> None:
    """Build, run, print."""
    lakes = {name: build(folder / (name or "days"), name) for name in ("", *large)}
    measures: dict[str, Callable[[Path], Took]] = {
        " ".join(command): partial(_run, command) for command in COMMANDS
    }
    # Once it is compact there is nothing left to do: last, once, and not in a folder that is kept.
    measures |= {"seal": _seal, "compact": partial(_run, ("compact",))}
    for name, measure in measures.items():
        said = []
        for which, lake in lakes.items():
            runs = [measure(lake) for _ in range(1 if name == "compact" else 3)]
            cost = f"{min(run.cpu_s for run in runs):.2f} s, {max(run.peak_gb for run in runs) * 1024:.0f} MB"
            said.append(f"{which} {cost}".strip())
        print(f"{name:<80}{'; '.join(said)}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]), sys.argv[2:] or ("year", "lanes"))
    else:
        with tempfile.TemporaryDirectory() as name:
            main(Path(name))
