"""What one read of a growing lake costs, by how long its live lanes have lived: it should be flat.

Run: `python tests/bench/bench_read.py`. Lakes of four live lanes with 100, 1,000 and 4,000 commits each, as a
run of an hour with a commit a second leaves them: a commit keeps the segments of the last two minutes, and
one in ten publishes a file of each table, in windows of a minute. A read is `open_manifest` and the names of
all files of flows, as the reader of `make chaos` asks for them. Beside it: `windows`, opening a lane for
writing, and what a commit costs the writer, checkpoints included. CPU milliseconds, the median of twelve
moments five commits apart: how far a lane is past its last checkpoint decides much.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from unittest.mock import patch

sys.path.extend(str(parent) for parent in Path(__file__).resolve().parents[1:3])

import pyarrow as pa
from bench.bench_lane import PARAMS, NoSync
from oracles.lake_script import flows_table, structures_table

from schemas.commits import CommitBody, Counters, Segment, Standing
from schemas.windows import NS_PER_MINUTE, NS_PER_SECOND, Window
from stitch.lake import staging
from stitch.lake.encoding import encode
from stitch.lake.event_log import segment_name
from stitch.lake.lane import Lane
from stitch.lake.layout import LakeInfo, WindowTable, ensure_lake
from stitch.lake.manifest import open_manifest
from stitch.lake.store import LocalStore

LANES = 4
SEGMENTS = 120
"""That a commit keeps: an open window, its lateness, and a second for each."""
PUBLISHES_EVERY = 10
"""Commits."""
MOMENTS = 12
TABLES: dict[WindowTable, pa.Table] = {
    "flows": flows_table(["r"], [0]),
    "structures": structures_table(),
    "params": PARAMS,
}


class Lanes:
    """Live lanes of a lake, in step."""

    def __init__(self, folder: Path) -> None:
        self.store = LocalStore(NoSync(folder))
        self.info = ensure_lake(self.store, NS_PER_MINUTE, NS_PER_MINUTE, "bench")
        self._lanes = [opened(self.store, self.info, number) for number in range(1, LANES + 1)]
        self._segments: list[tuple[Segment, ...]] = [()] * LANES
        self._made = {name: encode(name, table, Window(0, NS_PER_MINUTE)) for name, table in TABLES.items()}
        self.commits = 0

    def go_on(self, n_commits: int) -> None:
        """Let every lane commit so often. Files are encoded once for all: they are not what is measured."""
        with patch.object(staging, "encode", lambda table_name, _table, _window: self._made[table_name]):
            for _ in range(n_commits):
                self.commits += 1
                for place in range(LANES):
                    self._commit(place)

    def _commit(self, place: int) -> None:
        lane, number = self._lanes[place], place + 1
        new = Segment(name=segment_name(number, lane.seq), sha256="5" * 64, size=12_345, rows=160)
        self._segments[place] = (*self._segments[place], new)[-SEGMENTS:]
        window = Window(self.commits * NS_PER_SECOND // NS_PER_MINUTE * NS_PER_MINUTE, NS_PER_MINUTE)
        published = self.commits % PUBLISHES_EVERY == 0
        with lane.stage() as coming:
            if published:
                for name, table in TABLES.items():
                    coming.add_window(name, window, 0, table)
            counters = Counters(events_read=published, events_published=published, flows=published)
            standing = Standing(segments=self._segments[place], sealed_to_ns=window.start_ns)
            lane.commit(coming, CommitBody(kind="live", counters=counters, standing=standing))


def opened(store: LocalStore, info: LakeInfo, number: int) -> Lane:
    """A lane, open for writing."""
    return Lane(store, info, lane=number, owner="bench", created_by="bench")


def read(store: LocalStore) -> None:
    """What somebody pays who looks for files that are new."""
    manifest = open_manifest(store)
    manifest.listed.whole(manifest.listing, ["name"])


def took(work: Callable[[], object]) -> float:
    """CPU milliseconds."""
    begin = time.process_time()
    work()
    return (time.process_time() - begin) * 1e3


def costs(lanes: Lanes, folder: Path) -> tuple[dict[str, float], int]:
    """Median of some moments, by what is done; and the files of the lake."""
    store, found = LocalStore.at(folder), dict[str, list[float]]()
    for _ in range(MOMENTS):
        lanes.go_on(5)
        manifest = open_manifest(store)
        works: dict[str, Callable[[], object]] = {
            "a read": partial(read, store),
            "windows": manifest.windows,
            "opening a lane": partial(opened, store, lanes.info, 1),
        }
        for what, work in works.items():
            found.setdefault(what, []).append(min(took(work) for _ in range(3)))
    return {what: statistics.median(each) for what, each in found.items()}, manifest.listing.num_rows


def main(sizes: tuple[int, ...] = (100, 1_000, 4_000)) -> None:
    """Build, read, print."""
    with tempfile.TemporaryDirectory() as name:
        lanes = Lanes(Path(name))
        for size in sizes:
            n_commits = size - lanes.commits
            committed = took(partial(lanes.go_on, n_commits)) / n_commits / LANES
            found, files = costs(lanes, Path(name))
            shown = ", ".join(f"{what} {each:.1f} ms" for what, each in found.items())
            print(
                f"{size:,} commits a lane, {files:,} files: {shown}, a commit {committed:.2f} ms", flush=True
            )


if __name__ == "__main__":
    main()
