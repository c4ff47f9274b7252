"""CPU and memory of the index of a log of hours: opened, then followed by one more commit at a time.

Run: `python tests/bench/bench_log_index.py [REQUESTS] [BASE]`. One lane, commits of 14,000 requests of an
event each and a second event of a fifth of those before, ten seconds apart, windows of five minutes; nothing
is built. BASE: another checkout, which opens the same log.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from inspect import signature
from pathlib import Path
from typing import Any

sys.path.extend(str(parent) for parent in Path(__file__).resolve().parents[1:3])
if len(sys.argv) > 1 and sys.argv[1] == "open":
    sys.path.insert(0, sys.argv[4])

import numpy as np
import pyarrow as pa

from ingest.codecs.port import Decoded
from ingest.source import Payloads, Place, StreamId
from schemas.events import EVENT_SCHEMA, EventKind
from schemas.windows import NS_PER_MINUTE, NS_PER_SECOND
from stitch.drivers.build.log_view import LogView
from stitch.drivers.live.live_lane import LiveLane
from stitch.drivers.live.live_settings import LiveSettings
from stitch.drivers.live.steady_clock import Moment
from stitch.drivers.live.young_segments import YoungSegments
from stitch.lake.layout import ensure_lake
from stitch.lake.manifest import open_manifest
from stitch.lake.store import LocalStore
from stitch.scratch import Scratch

HERE = Path(__file__).resolve().parents[2]
BEGIN_NS = 1_800_000_000 * NS_PER_SECOND
REQUESTS = 10_000_000
PER_COMMIT, AGAIN = 14_000, 2_800
STEP_NS = 10 * NS_PER_SECOND
STREAM = StreamId("t", 0)


def events_of(commit: int) -> pa.Table:
    """Events of one commit: its requests, and the last ones of the commit before."""
    first = commit * PER_COMMIT - (AGAIN if commit else 0)
    number = np.arange(first, (commit + 1) * PER_COMMIT)
    n = len(number)
    at = BEGIN_NS + commit * STEP_NS + (number - first) * (STEP_NS // n)
    words = {name: pa.array(["w"] * n).dictionary_encode() for name in ("component", "point", "status")}
    columns = {
        "kind": pa.array(np.full(n, EventKind.SPAN_SERVER, np.uint8)),
        "request_id": pa.array(np.char.mod("%032x", number)),
        "id": pa.array(np.char.mod("%08d", number % 10**8).astype("S8")),
        "ts_ns": pa.array(at),
        "end_ns": pa.array(at + 1_000),
        "shared": pa.array(np.zeros(n, np.bool_)),
        **words,
    }
    return pa.table(
        [columns[f.name].cast(f.type) if f.name in columns else pa.nulls(n, f.type) for f in EVENT_SCHEMA],
        schema=EVENT_SCHEMA,
    )


class Writer:
    """A lane that logs such events."""

    def __init__(self, folder: Path, begin: int = 0) -> None:
        store = LocalStore.at(folder)
        info = ensure_lake(store, 5 * NS_PER_MINUTE, 5 * NS_PER_MINUTE, "bench")
        self._lane = LiveLane(store, info, 1, LiveSettings(), owner="o", created_by="b", cluster_id=None)
        self._lane.begin(STREAM, self._lane.place(STREAM) or Place(0), Moment.exactly(BEGIN_NS))
        self._commit = begin

    def write(self) -> None:
        """One more commit."""
        now = Moment.exactly(BEGIN_NS + (self._commit + 1) * STEP_NS)
        payloads = Payloads("t/0", "otlp-proto", [b""], [self._commit], self._commit + 1)
        self._lane.take(STREAM, payloads, Decoded(events_of(self._commit), []), now)
        self._lane.advance({}, now)
        self._lane.commit(now.latest_ns)
        self._commit += 1


def opened(folder: Path, commits: int, steps: int = 12) -> None:
    """The child: open the log, follow some more commits, print figures."""
    store = LocalStore.at(folder)
    writer = Writer(folder, commits)
    before_mb = resident_mb()
    begin = time.process_time()
    # Older versions have all of it in memory.
    more: dict[str, Any] = (
        {} if "scratch" not in signature(LogView).parameters else {"scratch": Scratch(), "in_memory": 2**19}
    )
    view = LogView(store, open_manifest(store), YoungSegments(0), is_inside=True, **more)
    took_s, held_mb = time.process_time() - begin, resident_mb() - before_mb
    spent = []
    for _ in range(steps):
        writer.write()
        begin = time.process_time()
        view._follow()
        n_dirty = len(view.dirty())
        spent.append(time.process_time() - begin)
        assert not n_dirty
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before_mb
    n = commits * PER_COMMIT
    print(
        f"opened in {took_s:.2f} CPU-s, {held_mb:.0f} MB ({2**20 * held_mb / n:.0f} bytes a request), peak "
        f"{peak_mb:.0f} MB; a step {1e3 * float(np.median(spent)):.0f} ms, at most {1e3 * max(spent):.0f}",
        flush=True,
    )


def resident_mb() -> float:
    """Memory of this process that is its own."""
    fields = Path("/proc/self/statm").read_text(encoding="ascii").split()
    return (int(fields[1]) - int(fields[2])) * os.sysconf("SC_PAGE_SIZE") / 2**20


def main(requests: int, base: str = "") -> None:
    """Write the log, let each version open it."""
    commits = requests // PER_COMMIT
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        writer = Writer(Path(name))
        for _ in range(commits):
            writer.write()
        del writer
        for checkout in [*([Path(base).resolve()] if base else []), HERE]:
            print(
                f"{commits * PER_COMMIT:,} requests, {commits:,} commits, {checkout.name}: ",
                end="",
                flush=True,
            )
            words = [sys.executable, __file__, "open", name, str(commits), str(checkout)]
            subprocess.run(words, check=True, env={**os.environ, "PYTHONPATH": str(checkout)})
            commits += 12


if __name__ == "__main__":
    if sys.argv[1:2] == ["open"]:
        opened(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        main(int(sys.argv[1]) if sys.argv[1:] else REQUESTS, *sys.argv[2:])
