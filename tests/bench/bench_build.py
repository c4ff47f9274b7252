"""Cost of logging events and building windows of the log, beside a live lane that stitches them itself.

Run: `python tests/bench/bench_build.py [SPANS] [PAIRS]`. OTLP protobuf messages of 500 spans in memory, 20 to
a poll, light ones, then heavy ones (`trace_stream`); windows of a minute, a commit each two seconds of event
time, a builder after each. Both do the same work down to synced files, in turns, each in a process of its
own; the live lane logs, too, as its log is what the builder of another process reads.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.extend(str(parent) for parent in Path(__file__).resolve().parents[1:3])

import pyarrow as pa
import pyarrow.compute as pc
from bench.trace_stream import messages

from ingest.formats import codec_for
from ingest.source import Payloads, Place, StreamId
from schemas.commits import CommitBody, Counters, PartitionRange, Standing
from schemas.config import DecodeConfig
from schemas.events import concat_events, empty_events
from schemas.windows import NS_PER_MINUTE, NS_PER_SECOND
from stitch.drivers.build.build_settings import BuildSettings
from stitch.drivers.build.builder import Builder
from stitch.drivers.live.due import log_rows
from stitch.drivers.live.live_lane import LiveLane
from stitch.drivers.live.live_settings import LiveSettings
from stitch.drivers.live.steady_clock import Moment
from stitch.lake.lane import Lane
from stitch.lake.layout import ensure_lake
from stitch.lake.manifest import open_manifest
from stitch.lake.store import LocalStore
from stitch.lake.upkeep.upkeep_lane import UpkeepRun

BEGIN_NS = 1_800_000_000 * NS_PER_SECOND
POLL = 20
COMMIT_NS = 2 * NS_PER_SECOND
LATENESS_NS = 2 * NS_PER_SECOND


class Appended:
    """A lane that logs, and does nothing else."""

    def __init__(self, store: LocalStore, lateness_ns: int) -> None:
        info = ensure_lake(store, NS_PER_MINUTE, NS_PER_MINUTE, "bench")
        self._lane = Lane(store, info, owner="o", created_by="b", lane=1, fence=True)
        self._lateness_ns = lateness_ns
        self._held: list[pa.Table] = []
        self._at = 0

    def commit(self, latest_ns: int) -> None:
        """Write what came as one segment."""
        events = concat_events(self._held)
        n = events.num_rows
        with self._lane.stage() as staging:
            segment = staging.add_segment(log_rows(events, empty_events()))
            before = self._lane.events_open
            position = PartitionRange(topic="t", partition=0, start=self._at, end=self._at + n)
            self._lane.commit(
                staging,
                CommitBody(
                    kind="live",
                    counters=Counters(events_read=n, events_carried=before, events_open=before + n),
                    standing=Standing(
                        positions=(position,),
                        watermark_ns=latest_ns - self._lateness_ns,
                        segments=(segment,),
                        kept_from=1,
                    ),
                ),
            )
        self._held, self._at = [], self._at + n

    def take(self, events: pa.Table) -> None:
        """Hold a poll."""
        self._held.append(events)


def work(how: str, file: str, folder: str) -> None:
    """The child: print CPU seconds by part, spans, flows."""
    pa.set_cpu_count(1)
    payloads = pickle.loads(Path(file).read_bytes())
    decode, config = codec_for("otlp-proto").decode, DecodeConfig()
    decode(payloads[:POLL], config)
    source, target = LocalStore.at(Path(folder) / "a"), LocalStore.at(Path(folder) / "b")
    info = ensure_lake(source, NS_PER_MINUTE, NS_PER_MINUTE, "bench")
    ensure_lake(target, NS_PER_MINUTE, NS_PER_MINUTE, "bench")
    cpu = dict.fromkeys(("decode", "lane", "log", "build"), 0.0)
    latest, committed, spans = BEGIN_NS, BEGIN_NS, 0
    stream = StreamId("t", 0)
    if how == "live":
        settings = LiveSettings(commit_interval_ns=COMMIT_NS, lateness_ns=LATENESS_NS)
        live = LiveLane(source, info, 1, settings, owner="o", created_by="b", cluster_id=None)
        live.begin(stream, Place(0), Moment.exactly(latest))
    else:
        lane = Appended(source, LATENESS_NS)
        run = UpkeepRun(target, "b", 0, 0, "o", "b")
        builder = Builder(source, run, Path(folder) / "scratch", BuildSettings())
    begin = time.process_time()
    for at in range(0, len(payloads), POLL):
        since = time.process_time()
        some = payloads[at : at + POLL]
        decoded = decode(some, config)
        cpu["decode"] += time.process_time() - since
        since = time.process_time()
        latest = max(latest, pc.max(decoded.events["end_ns"]).as_py())
        spans += decoded.events.num_rows
        last = at + POLL >= len(payloads)
        if how == "live":
            now = Moment.exactly(latest)
            live.take(
                stream, Payloads("t/0", "otlp-proto", some, [*range(len(some))], at + len(some)), decoded, now
            )
            live.advance({}, now)
            if live.is_due(latest) or last:
                live.commit(latest, whole=last)
            cpu["lane"] += time.process_time() - since
            continue
        lane.take(decoded.events)
        if latest - committed >= COMMIT_NS or last:
            committed = latest
            lane.commit(latest)
            cpu["log"] += time.process_time() - since
            since = time.process_time()
            while builder.step(latest, finished=last).did_anything:
                pass
            cpu["build"] += time.process_time() - since
        else:
            cpu["log"] += time.process_time() - since
    total = time.process_time() - begin
    lake = source if how == "live" else target
    flows = sum(entry.flows for entry in open_manifest(lake).windows())
    parts = ", ".join(f"{name} {1e6 * taken / spans:.2f}" for name, taken in cpu.items() if taken)
    print(
        f"{how}: {1e6 * total / spans:.2f} us a span ({parts}), {spans:,} spans, {flows:,} flows", flush=True
    )


def main(spans: int = 1_000_000, pairs: int = 3) -> None:
    """Print both, in turns."""
    for heavy in (False, True):
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            file = Path(folder) / "messages.pickle"
            file.write_bytes(pickle.dumps([*messages(spans, heavy=heavy, begin_ns=BEGIN_NS)]))
            print("heavy" if heavy else "light", flush=True)
            for _ in range(pairs):
                for how in ("live", "log and build"):
                    with tempfile.TemporaryDirectory(dir="/dev/shm") as lakes:
                        for name in ("a", "b"):
                            (Path(lakes) / name).mkdir()
                        subprocess.run([sys.executable, __file__, how, str(file), lakes], check=True)


if __name__ == "__main__":
    if sys.argv[1:2] and not sys.argv[1].isdecimal():
        work(*sys.argv[1:4])
    else:
        main(*map(int, sys.argv[1:]))
