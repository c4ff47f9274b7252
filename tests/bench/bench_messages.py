"""One record a message, beside a real broker: what a message costs, in messages a CPU second.

Run: `python tests/bench/bench_messages.py [MESSAGES]`. Native JSON records of some 200 bytes, zstd, 2
partitions. First kafka-python alone, which makes an object of every message and reads its value; then our
source; then the whole pipeline, topic to sealed Parquet. Each in a process of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ingest.kafka.kafka_source import KafkaSource

sys.path.extend(str(parent) for parent in Path(__file__).resolve().parents[1:3])

PARTITIONS = 2
RECORDS_PER_REQUEST = 10
START_NS = 1_763_600_000_000_000_000


def records(n: int, partition: int) -> Iterator[bytes]:
    """`n` records in requests of ten, 2 ms apart, in the order of time."""
    for number in range(n):
        request, step = divmod(number, RECORDS_PER_REQUEST)
        record = {
            "request_id": f"{partition}-{request:012d}",
            "breadcrumb": f"{partition}-{request:012d}.0",
            "ts": START_NS + request * 2_000_000 + step * 90_000,
            "component": "storage" if step % 2 else "front",
            "point": f"POINT_{step}",
            "host": f"node-{request % 4}",
            "kind": "end" if step == RECORDS_PER_REQUEST - 1 else "event",
        }
        yield json.dumps(record).encode()


class Meter:
    """Messages a CPU second of this process since the first came: imports and joining do not count."""

    def __init__(self) -> None:
        self._begin = 0.0
        self._first = self.seen = 0

    def saw(self, n: int) -> None:
        """So many more."""
        if not self.seen and n:
            self._begin, self._first = time.process_time(), n
        self.seen += n

    @property
    def rate(self) -> float:
        """Of what came after the first look."""
        return (self.seen - self._first) / (time.process_time() - self._begin)


def python_alone(bootstrap: str, topic: str, n: int) -> float:
    """kafka-python's consumer."""
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=[bootstrap], auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, partition) for partition in range(PARTITIONS)])
    size, meter = 0, Meter()
    while meter.seen < n:
        for messages in consumer.poll(timeout_ms=200, max_records=10_000).values():
            meter.saw(len(messages))
            size += sum(len(message.value) for message in messages)
    return meter.rate


def source_of(bootstrap: str, topic: str, group: str) -> KafkaSource:
    """Reads native records."""
    from ingest.kafka.kafka_settings import KafkaSettings
    from ingest.kafka.kafka_source import KafkaSource

    return KafkaSource(
        KafkaSettings(
            bootstrap=(bootstrap,),
            topics=(topic,),
            group=group,
            default_format="native",
        )
    )


def our_source(bootstrap: str, topic: str, n: int) -> float:
    """Payloads of a source, and nothing done with them."""
    source = source_of(bootstrap, topic, "source")
    meter = Meter()
    while meter.seen < n:
        for stream in source.change().gained:
            source.start(stream, None)
        payloads = source.poll(0.2)
        meter.saw(0 if payloads is None else len(payloads.payloads))
    rate = meter.rate
    source.close()
    return rate


def pipeline(bootstrap: str, topic: str, n: int) -> float:
    """Everything: a lake, sealed."""
    from oracles.is_read import is_read

    from stitch.drivers.live.live_run import LiveIdentity, LiveRun
    from stitch.drivers.live.live_settings import LiveSettings
    from stitch.drivers.live.steady_clock import SteadyClock
    from stitch.drivers.live.watch import Watch
    from stitch.lake.layout import ensure_lake
    from stitch.lake.manifest import open_manifest
    from stitch.lake.store import LocalStore

    with tempfile.TemporaryDirectory() as lake:
        store = LocalStore.at(Path(lake))
        info = ensure_lake(store, None, 60 * 10**9, "bench")
        source, who = source_of(bootstrap, topic, "all"), LiveIdentity("bench", "bench")
        run = LiveRun(source, store, info, LiveSettings(), who, SteadyClock(), Watch())
        while not run.status().lanes:
            run.turn(0.1)
        begin = time.process_time()
        while not is_read(run.status()):
            run.turn(0.1)
        run.stop(whole=True)
        rate = n / (time.process_time() - begin)
        assert n == RECORDS_PER_REQUEST * sum(window.flows for window in open_manifest(store).windows())
    return rate


WORK: dict[str, Callable[[str, str, int], float]] = {
    "kafka-python alone": python_alone,
    "our source": our_source,
    "whole pipeline": pipeline,
}


def main(n: int = 600_000) -> None:
    """Broker, topic, a child for each figure."""
    from fixtures.kafka_bench import KafkaBench
    from fixtures.kafka_broker import started

    n -= n % (PARTITIONS * RECORDS_PER_REQUEST)
    with tempfile.TemporaryDirectory() as folder, started(Path(folder) / "kafka") as broker:
        with KafkaBench(broker) as bench:
            topic = bench.topic(partitions=PARTITIONS)
            for partition in range(PARTITIONS):
                bench.fill(
                    topic,
                    records(n // PARTITIONS, partition),
                    partition,
                    batch=50_000,
                    compression_type="zstd",
                )
        for name in WORK:
            words = [sys.executable, __file__, name, broker.bootstrap[0], topic, str(n)]
            done = subprocess.run(words, stdout=subprocess.PIPE, check=True, text=True)
            print(f"{name}: {float(done.stdout):,.0f} messages a CPU second", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in WORK:
        print(WORK[sys.argv[1]](sys.argv[2], sys.argv[3], int(sys.argv[4])))
    else:
        main(*map(int, sys.argv[1:]))
