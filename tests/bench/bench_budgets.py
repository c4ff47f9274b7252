"""CPU and peak memory of live ingestion by `--memory`, all of a backlog in one window.

Run: `python tests/bench/bench_budgets.py [SPANS] [LIMITS_MB] [KINDS] [BASE]`. A topic of OTLP protobuf
(`trace_stream`) of each kind, read by `flowdiff ingest --until-end` at each limit, start included: `heavy`,
`light`, or `one`, the heavy spans as one trace. BASE: another checkout, whose ingestion of the same topics is
run in turns with this one's.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.extend(str(parent) for parent in Path(__file__).resolve().parents[1:3])

from bench.bench_beside_collector import BEGIN_NS, HERE
from bench.trace_stream import messages
from fixtures.kafka_bench import KafkaBench
from fixtures.kafka_broker import started
from fixtures.timed_command import Took, timed

LIMITS_MB = "1024,512,384"
KINDS = "heavy,light,one"
ROUNDS = 2
SPANS = 1_000_000
TRACE_AND_SPAN = re.compile(rb"\x0a\x10.{16}\x12\x08", re.DOTALL)
"""Fields 1 and 2 of a span, up to the span id."""


def payloads(kind: str, spans: int) -> Iterator[bytes]:
    """Messages of a topic."""
    for message in messages(spans, heavy=kind != "light", begin_ns=BEGIN_NS):
        yield message if kind != "one" else TRACE_AND_SPAN.sub(b"\x0a\x10" + b"1" * 16 + b"\x12\x08", message)


def ingested(bootstrap: str, topic: str, folder: Path, limit_mb: int, checkout: Path) -> Took:
    """CPU, wall and peak of the whole process."""
    lake = folder / f"{topic}-{checkout.name}-{time.monotonic_ns()}"
    words = ["--bootstrap", bootstrap, "--topics", topic, "--default-format", "otlp-proto", "--until-end"]
    words += ["--lake", str(lake), "--group", lake.name, "--serve-address=", "--memory", f"{limit_mb}MB"]
    return timed("ingest", *words, checkout=checkout)


def main(spans: int, limits_mb: str = LIMITS_MB, kinds: str = KINDS, base: str = "") -> None:
    """Print each limit's figures, and those of the base in turns."""
    checkouts = [*([Path(base).resolve()] if base else []), HERE]
    with tempfile.TemporaryDirectory() as name, started(Path(name) / "kafka") as broker:
        for kind in kinds.split(","):
            with KafkaBench(broker) as bench:
                topic = bench.topic()
                bench.fill(topic, payloads(kind, spans), compression_type="zstd")
            for limit_mb in map(int, limits_mb.split(",")):
                for checkout in ROUNDS * checkouts:
                    took = ingested(broker.bootstrap[0], topic, Path(name), limit_mb, checkout)
                    peak_mb = 1024 * took.peak_gb
                    print(
                        f"{kind}, {limit_mb} MB, {checkout.name}: {1e6 * took.cpu_s / spans:.2f} us of CPU a "
                        f"span, peak {peak_mb:.0f} MB, {peak_mb / limit_mb:.2f} of the budget",
                        flush=True,
                    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else SPANS, *sys.argv[2:])
