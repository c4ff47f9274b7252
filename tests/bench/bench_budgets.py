"""CPU and peak memory of live ingestion by `--memory`, all of a backlog in one window.

Run: `python tests/bench/bench_budgets.py [SPANS] [LIMITS_MB] [BASE]`. One topic of OTLP protobuf (`trace_stream`),
heavy spans, then light ones, read by `flowdiff ingest --until-end` at each limit, start included. BASE: another
checkout, whose ingestion of the same topic is run in turns with this one's.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

sys.path.extend(str(parent) for parent in Path(__file__).resolve().parents[1:3])

from bench.bench_beside_collector import BEGIN_NS, HERE
from bench.trace_stream import messages
from fixtures.kafka_bench import KafkaBench
from fixtures.kafka_broker import started
from fixtures.timed_command import Took, timed

LIMITS_MB = "1024,512,384"
ROUNDS = 2


def ingested(bootstrap: str, topic: str, folder: Path, limit_mb: int, checkout: Path) -> Took:
    """CPU, wall and peak of the whole process."""
    lake = folder / f"{topic}-{checkout.name}-{time.monotonic_ns()}"
    words = ["--bootstrap", bootstrap, "--topics", topic, "--default-format", "otlp-proto", "--until-end"]
    words += ["--lake", str(lake), "--group", lake.name, "--serve-address=", "--memory", f"{limit_mb}MB"]
    return timed("ingest", *words, checkout=checkout)


def main(spans: int = 1_000_000, limits_mb: str = LIMITS_MB, base: str = "") -> None:
    """Print each limit's figures, and those of the base in turns."""
    checkouts = [Path(base).resolve()] if base else []
    checkouts.append(HERE)
    with tempfile.TemporaryDirectory() as name, started(Path(name) / "kafka") as broker:
        for heavy in (True, False):
            with KafkaBench(broker) as bench:
                topic = bench.topic()
                values = messages(spans, heavy=heavy, begin_ns=BEGIN_NS)
                bench.fill(topic, values, compression_type="zstd")
            for limit_mb in map(int, limits_mb.split(",")):
                for _ in range(ROUNDS):
                    for checkout in checkouts:
                        took = ingested(broker.bootstrap[0], topic, Path(name), limit_mb, checkout)
                        cpu_s, peak_mb = took.cpu_s, 1024 * took.peak_gb
                        print(
                            f"{'heavy' if heavy else 'light'}, {limit_mb} MB, {checkout.name}: {cpu_s:.2f} CPU-s, "
                            f"{1e6 * cpu_s / spans:.2f} us a span, peak {peak_mb:.0f} MB "
                            f"({peak_mb / limit_mb:.2f} of the budget)",
                            flush=True,
                        )


if __name__ == "__main__":
    main(*(int(word) if at == 0 else word for at, word in enumerate(sys.argv[1:])))
