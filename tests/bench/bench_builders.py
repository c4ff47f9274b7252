"""Throughput of a builder by number of its processes and of lanes, and commits a second of one chain.

Run: `python tests/bench/bench_builders.py [SPANS]`. Lanes have logged SPANS spans (`trace_stream`), dealt to
them by message, a commit each ten seconds of event time; windows of a minute. A builder that has just started
builds them all, in a process of its own for each number of workers, in turns; the log is read back. Events a
second are those of the wall clock and of the CPU time of all processes.
"""

from __future__ import annotations

import hashlib
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.extend(str(parent) for parent in Path(__file__).resolve().parents[1:3])

import pyarrow as pa
import pyarrow.compute as pc
from bench.trace_stream import messages
from oracles.bucket_server import moto_server

from ingest.formats import codec_for
from ingest.source import Payloads, Place, StreamId
from schemas.commits import CommitBody, Standing
from schemas.config import DecodeConfig
from schemas.windows import NS_PER_MINUTE, NS_PER_SECOND
from stitch.drivers.build.build_settings import BuildSettings
from stitch.drivers.build.builder import Builder
from stitch.drivers.live.live_lane import LiveLane
from stitch.drivers.live.live_settings import LiveSettings
from stitch.drivers.live.steady_clock import Moment
from stitch.lake.bucket.bucket_settings import bucket_settings
from stitch.lake.bucket.bucket_store import BucketStore
from stitch.lake.lane import Lane
from stitch.lake.layout import ensure_lake
from stitch.lake.manifest import open_manifest
from stitch.lake.store import LocalStore, Store
from stitch.lake.upkeep.upkeep_lane import UpkeepRun
from stitch.scratch import Scratch

BEGIN_NS = 1_800_000_000 * NS_PER_SECOND
COMMIT_NS = 10 * NS_PER_SECOND
COMMITS = 300
RATE = 20_000
"""Spans a second of event time, of all lanes."""


def fill(folder: Path, spans: int, n_lanes: int, *, heavy: bool) -> int:
    """Log spans in a new lake; return their number."""
    decode, config = codec_for("otlp-proto").decode, DecodeConfig()
    store = LocalStore.at(folder)
    info = ensure_lake(store, NS_PER_MINUTE, NS_PER_MINUTE, "bench")
    settings = LiveSettings(commit_interval_ns=COMMIT_NS)
    lanes = [
        LiveLane(store, info, number + 1, settings, owner="o", created_by="b", cluster_id=None)
        for number in range(n_lanes)
    ]
    streams = [StreamId("t", number) for number in range(n_lanes)]
    for lane, stream in zip(lanes, streams, strict=True):
        lane.begin(stream, Place(0), Moment.exactly(BEGIN_NS))
    latest, total, committed = BEGIN_NS, 0, BEGIN_NS
    sent = [0] * n_lanes
    for at, message in enumerate(messages(spans, heavy=heavy, begin_ns=BEGIN_NS, rate=RATE)):
        decoded = decode([message], config)
        latest = max(latest, pc.max(decoded.events["end_ns"]).as_py())
        total += decoded.events.num_rows
        to, now = at % n_lanes, Moment.exactly(latest)
        sent[to] += 1
        payloads = Payloads(streams[to].name, "otlp-proto", [message], [sent[to] - 1], sent[to])
        lanes[to].take(streams[to], payloads, decoded, now)
        if latest >= committed + COMMIT_NS:
            committed = latest
            for lane in lanes:
                lane.commit(latest)
    for lane in lanes:
        lane.commit(latest, whole=True)
    return total


def build(lake: str, into: str, workers: int) -> None:
    """The child: build a second lake; print seconds of the wall clock and of the CPU, and a hash of all
    files.
    """
    pa.set_cpu_count(1)
    store = LocalStore.at(Path(into))
    ensure_lake(store, NS_PER_MINUTE, NS_PER_MINUTE, "bench")
    settings = BuildSettings(workers=workers, memory_bytes=2**31)
    began = time.monotonic()
    with Scratch() as scratch:
        run = UpkeepRun(store, into, 0, 0, "o", "b")
        builder = Builder(LocalStore.at(Path(lake)), run, scratch, settings, log_lake=lake)
        opened = time.process_time()
        while builder.step(time.time_ns(), finished=True).did_anything:
            pass
    wall = time.monotonic() - began
    own, others = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    cpu = own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime
    manifest = open_manifest(store, into)
    files = sorted(file.sha256 for name in ("flows", "params") for file in manifest.files(name))
    digest = hashlib.sha256("\n".join(files).encode()).hexdigest()[:8]
    print(f"{wall} {cpu} {own.ru_utime + own.ru_stime} {opened} {digest}", flush=True)


def commits(store: Store) -> float:
    """Commits a second of one chain, without files."""
    info = ensure_lake(store, NS_PER_MINUTE, NS_PER_MINUTE, "bench")
    lane = Lane(store, info, owner="o", created_by="b", lane=1)
    began = time.monotonic()
    for _ in range(COMMITS):
        with lane.stage() as staging:
            lane.commit(staging, CommitBody(kind="live", standing=Standing()))
    return COMMITS / (time.monotonic() - began)


def main(spans: int = 6_000_000) -> None:
    """Print a line for each number of lanes and workers."""
    print(f"load {os.getloadavg()[0]:.1f}", flush=True)
    with tempfile.TemporaryDirectory() as disk, tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
        print(f"commits/s of one chain: disk {commits(LocalStore.at(Path(disk))):.0f}", flush=True)
        with moto_server(Path(memory) / "log") as bucket:
            store = BucketStore(bucket_settings(f"{bucket.new_lake()}/lake", bucket.environ))
            print(f"commits/s of one chain: bucket of moto {commits(store):.0f}", flush=True)
    for heavy in (False, True):
        for n_lanes in (4, 64):
            with tempfile.TemporaryDirectory(dir="/dev/shm") as lake:
                total = fill(Path(lake), spans, n_lanes, heavy=heavy)
                for workers in (1, 2, 4, 1, 2):
                    with tempfile.TemporaryDirectory(dir="/dev/shm") as into:
                        said = subprocess.run(
                            [sys.executable, __file__, "build", lake, into, str(workers)],
                            check=True,
                            capture_output=True,
                            text=True,
                        ).stdout.split()
                        wall, cpu, own, opened = map(float, said[:4])
                        print(
                            f"{'heavy' if heavy else 'light'}, {n_lanes} lanes, {workers} workers: "
                            f"{total / wall / 1e3:.0f} k events/s, {total / cpu / 1e3:.0f} k a CPU second; "
                            f"wall {wall:.1f} s, CPU {cpu:.1f} s, of which the builder's own {own:.1f} s, "
                            f"to start and plan {opened:.1f} s; files {said[4]}",
                            flush=True,
                        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["build"]:
        build(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        main(*map(int, sys.argv[1:]))
