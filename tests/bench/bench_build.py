"""Cost of logging events and building windows: from memory of the process, or from the log read back.

Run: `python tests/bench/bench_build.py [SPANS] [PAIRS]`. OTLP protobuf messages of 500 spans in memory, 20 to
a poll, light ones, then heavy ones (`trace_stream`); windows of a minute, a commit each two seconds of event
time, a builder after each. Both do the same work down to synced files, in turns, each in a process of its
own.
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
from schemas.config import DecodeConfig
from schemas.windows import NS_PER_MINUTE, NS_PER_SECOND
from stitch.drivers.build.build_settings import BuildSettings
from stitch.drivers.build.builder import Builder
from stitch.drivers.live.live_lane import LiveLane
from stitch.drivers.live.live_settings import LiveSettings
from stitch.drivers.live.steady_clock import Moment
from stitch.drivers.live.young_segments import YoungSegments
from stitch.lake.layout import ensure_lake
from stitch.lake.manifest import open_manifest
from stitch.lake.store import LocalStore
from stitch.lake.upkeep.upkeep_lane import UpkeepRun
from stitch.scratch import Scratch

BEGIN_NS = 1_800_000_000 * NS_PER_SECOND
POLL = 20
COMMIT_NS = 2 * NS_PER_SECOND
LATENESS_NS = 2 * NS_PER_SECOND


def work(how: str, file: str, folder: str) -> None:
    """The child: print CPU seconds by part, spans, flows."""
    pa.set_cpu_count(1)
    payloads = pickle.loads(Path(file).read_bytes())
    decode, config = codec_for("otlp-proto").decode, DecodeConfig()
    decode(payloads[:POLL], config)
    store = LocalStore.at(Path(folder))
    info = ensure_lake(store, NS_PER_MINUTE, NS_PER_MINUTE, "bench")
    cpu = dict.fromkeys(("decode", "log", "build"), 0.0)
    latest, spans = BEGIN_NS, 0
    stream = StreamId("t", 0)
    settings = LiveSettings(commit_interval_ns=COMMIT_NS, lateness_ns=LATENESS_NS)
    young = YoungSegments(2**29 if how == "young" else 0)
    live = LiveLane(store, info, 1, settings, owner="o", created_by="b", cluster_id=None, young=young)
    live.begin(stream, Place(0), Moment.exactly(latest))
    run = UpkeepRun(store, "b", 0, 0, "o", "b")
    builder = Builder(store, run, Scratch(), BuildSettings(), young)
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
        now = Moment.exactly(latest)
        live.take(
            stream, Payloads("t/0", "otlp-proto", some, [*range(len(some))], at + len(some)), decoded, now
        )
        live.advance({}, now)
        is_due = live.is_due(latest) or last
        if is_due:
            live.commit(latest, whole=last)
        cpu["log"] += time.process_time() - since
        since = time.process_time()
        while is_due and builder.step(latest, finished=last).did_anything:
            pass
        cpu["build"] += time.process_time() - since
    total = time.process_time() - begin
    flows = sum(entry.flows for entry in open_manifest(store).windows())
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
                for how in ("young", "read back"):
                    with tempfile.TemporaryDirectory(dir="/dev/shm") as lakes:
                        subprocess.run([sys.executable, __file__, how, str(file), lakes], check=True)


if __name__ == "__main__":
    if sys.argv[1:2] and not sys.argv[1].isdecimal():
        work(*sys.argv[1:4])
    else:
        main(*map(int, sys.argv[1:]))
