"""What a reader pays to open a lake whose lane has lived long: flat, but for the list of what it holds.

Run: `python tests/bench/bench_lane.py`. Lakes of 10, 1,000 and 10,000 commits, each of three files in one of
a hundred windows; beside it the baseline, which verifies every record from the first (what version 1 did).
Also what a commit costs the writer, checkpoints included.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from unittest.mock import patch

sys.path.extend(str(parent) for parent in Path(__file__).resolve().parents[1:3])

import pyarrow as pa
from oracles.lake_script import flows_table, structures_table

from schemas.commits import CommitBody, Counters
from schemas.lake import PARAMS_SCHEMA
from schemas.windows import NS_PER_MINUTE, Window
from stitch.lake import staging
from stitch.lake.chain import read_chain
from stitch.lake.disk import LocalDisk
from stitch.lake.encoding import encode
from stitch.lake.lane import Lane
from stitch.lake.layout import ensure_lake
from stitch.lake.manifest import open_manifest
from stitch.lake.store import LocalStore

WINDOW_NS = 5 * NS_PER_MINUTE
WINDOWS = 100
PARAMS = pa.Table.from_pylist(
    [{"request_id": "r", "kind": "spans", "position": 0, "key": "k", "num": 1.0, "text": None}],
    schema=PARAMS_SCHEMA,
)


class NoSync(LocalDisk):
    """Building a lake to read from it needs no durability."""

    def sync_file(self, name: str) -> None:
        """See LocalDisk."""

    def sync_folder(self, name: str) -> None:
        """See LocalDisk."""


def build(folder: Path, n_commits: int) -> float:
    """CPU seconds a commit. Its files are encoded once for all: they are not what is measured."""
    store = LocalStore(NoSync(folder))
    info = ensure_lake(store, WINDOW_NS, WINDOW_NS, "bench")
    lane = Lane(store, info, owner="bench", created_by="bench")
    made = {
        "flows": encode("flows", flows_table(["r"], [0]), Window(0, WINDOW_NS)),
        "structures": encode("structures", structures_table(), Window(0, WINDOW_NS)),
        "params": encode("params", PARAMS, Window(0, WINDOW_NS)),
    }
    begin = time.process_time()
    with patch.object(staging, "encode", lambda table_name, _table, _window: made[table_name]):
        for n in range(n_commits):
            window = Window(n * WINDOWS // n_commits * WINDOW_NS, WINDOW_NS)
            with lane.stage() as coming:
                coming.add_window("flows", window, 0, flows_table([f"r{n}"], [window.start_ns]))
                coming.add_window("structures", window, 0, structures_table())
                coming.add_window("params", window, 0, PARAMS)
                counters = Counters(events_read=1, events_published=1, flows=1)
                lane.commit(coming, CommitBody(kind="import", counters=counters))
    return (time.process_time() - begin) / n_commits


def cost(work: Callable[[], object], repeats: int = 5) -> float:
    """Smallest CPU milliseconds."""
    best = float("inf")
    for _ in range(repeats):
        begin = time.process_time()
        work()
        best = min(best, time.process_time() - begin)
    return best * 1e3


def main(sizes: tuple[int, ...] = (10, 1_000, 10_000)) -> None:
    """Build, open, print."""
    for n_commits in sizes:
        with tempfile.TemporaryDirectory() as name:
            each = build(Path(name), n_commits)
            store = LocalStore.at(Path(name))
            opened = cost(partial(open_manifest, store))
            windows = cost(open_manifest(store).windows)
            whole = cost(partial(deque, read_chain(store, 0), maxlen=0), 1)
            print(
                f"{n_commits:,} commits, {3 * n_commits:,} files: open {opened:.1f} ms, "
                f"its windows {windows:.1f} ms; every record from the first {whole:,.0f} ms, "
                f"ratio {whole / opened:.1f}; a commit {each * 1e3:.2f} ms CPU",
                flush=True,
            )


if __name__ == "__main__":
    main()
