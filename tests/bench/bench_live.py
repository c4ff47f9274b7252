"""Live ingestion beside a real broker: messages on a topic to sealed Parquet, one process.

Run: `python tests/bench/bench_live.py [SPANS] [SECONDS] [PARTITIONS]`. OTLP protobuf messages of 500 spans,
keyed by nothing (each partition has whole traces of its own), SECONDS of event time, zstd. The ingesting
process is a child, so that its CPU and memory are its own.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.extend(str(parent) for parent in Path(__file__).resolve().parents[1:3])

SPANS_PER_TRACE = 48


def ingest(bootstrap: str, topic: str, lake: str, spans: int) -> None:
    """The child: everything there is on the topic, into a lake."""
    from oracles.is_read import is_read

    from flowdiff.live.memory import share_one_heap
    from stitch.drivers.live.watch import Watch

    share_one_heap()  # as `flowdiff ingest` does; MALLOC_ARENA_MAX=8 measures without

    from ingest.kafka.kafka_settings import KafkaSettings
    from ingest.kafka.kafka_source import KafkaSource
    from stitch.drivers.live.live_run import LiveIdentity, LiveRun
    from stitch.drivers.live.live_settings import LiveSettings
    from stitch.drivers.live.steady_clock import SteadyClock
    from stitch.lake.layout import ensure_lake
    from stitch.lake.manifest import open_manifest
    from stitch.lake.store import LocalStore

    Path(lake).mkdir()
    store = LocalStore.at(Path(lake))
    settings = LiveSettings(window_length_ns=60 * 10**9)
    info = ensure_lake(store, settings.window_length_ns, 60 * 10**9, "bench")
    source = KafkaSource(KafkaSettings(bootstrap=(bootstrap,), topics=(topic,), group="bench"))
    run = LiveRun(source, store, info, settings, LiveIdentity("bench", "bench"), SteadyClock(), Watch())
    while not run.status().lanes:
        run.turn(0.1)
    begin = time.perf_counter(), time.process_time()
    while not is_read(run.status()):
        run.turn(0.1)
    assert not run.halted, run.halted
    busiest = max(thread_seconds())
    run.stop(whole=True)
    wall, cpu = time.perf_counter() - begin[0], time.process_time() - begin[1]
    manifest = open_manifest(store)
    flows = sum(entry.flows for entry in manifest.windows())
    assert flows * SPANS_PER_TRACE == spans, (flows, spans)
    size = sum(entry.size for entry in manifest.windows())
    told = {
        "wall": wall,
        "cpu": cpu,
        "busiest": busiest,
        "rss_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "bytes_a_span": size / spans,
    }
    print(json.dumps(told))


def thread_seconds() -> list[float]:
    """CPU of each thread of this process that is alive."""
    ticks = os.sysconf("SC_CLK_TCK")
    found = []
    for task in Path("/proc/self/task").iterdir():
        fields = (task / "stat").read_text(encoding="ascii").rpartition(")")[2].split()
        found.append((int(fields[11]) + int(fields[12])) / ticks)
    return found


def main(n_spans: int = 6_000_000, seconds: int = 900, partitions: int = 4) -> None:
    """Broker, topic, child, figures."""
    from fixtures.kafka_bench import KafkaBench
    from fixtures.kafka_broker import started
    from oracles import traffic

    traffic.SPANS_PER_MESSAGE = 500
    traces = n_spans // SPANS_PER_TRACE // partitions
    with tempfile.TemporaryDirectory() as folder, started(Path(folder) / "kafka") as broker:
        with KafkaBench(broker) as bench:
            topic = bench.topic(partitions=partitions)
            for partition in range(partitions):
                messages = traffic.otlp_messages(
                    traces, seconds=seconds, spans=SPANS_PER_TRACE, seed=partition
                )
                bench.fill(topic, messages, partition, compression_type="zstd")
        n_spans = traces * partitions * SPANS_PER_TRACE
        words = ["ingest", broker.bootstrap[0], topic, str(Path(folder) / "lake"), str(n_spans)]
        done = subprocess.run(
            [sys.executable, __file__, *words], stdout=subprocess.PIPE, check=True, text=True
        )
        told = json.loads(done.stdout)
        print(
            f"live: {n_spans:,} spans in {told['wall']:.1f} s, {n_spans / told['wall']:,.0f} spans/s, "
            f"{n_spans / told['cpu']:,.0f} spans/CPU-s, the busiest thread {told['busiest']:.1f} of "
            f"{told['cpu']:.1f} CPU-s, RSS {told['rss_gb']:.2f} GB, "
            f"{told['bytes_a_span']:.1f} bytes a span"
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["ingest"]:
        bootstrap, topic, lake, spans = sys.argv[2:]
        ingest(bootstrap, topic, lake, int(spans))
    else:
        main(*map(int, sys.argv[1:]))
