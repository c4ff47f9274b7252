"""`flowdiff ingest` under a steady load for a long time: its memory must not grow.

`make soak MINUTES=30`. The first third warms up; over the rest, the slope of resident memory (Theil-Sen, with
its 95 % interval) is told, and is to be less than what makes 5 % of it by the end.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from pathlib import Path

if __name__ == "__main__":
    sys.path[:1] = [str(parent) for parent in Path(__file__).resolve().parents[1:3]]

from chaos.chaos import PARTITIONS, Figures, Sender, judge
from fixtures.ingest_process import IngestProcess
from fixtures.kafka_bench import KafkaBench
from fixtures.kafka_broker import started
from scipy.stats import theilslopes

SAMPLE_S = 2.0
GROWTH = 0.05
"""Share of the memory at the end of warming up that the fitted line may rise by."""


def resident_mb(pid: int) -> float:
    """Resident memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


def main() -> int:
    """The run; 0 if memory stays and nothing is lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--requests-a-second", type=int, default=100)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as name,
        started(Path(name) / "kafka") as broker,
        KafkaBench(broker) as bench,
    ):
        folder = Path(name)
        topic = bench.topic(partitions=PARTITIONS)
        words: list[str | Path] = ["--bootstrap", ",".join(broker.bootstrap), "--topics", topic]
        words += ["--lake", folder / "lake", "--default-format", "native", "--group", "soak"]
        words += ["--window-length", "1m", "--commit-interval", "5s", "--lateness", "10s", "--idle", "30s"]
        # What was closed is remembered for so long (an hour by default), and so are the segments that are
        # kept for repairs (two hours): past it, memory is to stay.
        words += ["--keep-events", "5m", "--serve-address", ""]
        env = {"FLOWDIFF_LIVE_STITCH_MAX_AGE": "5m"}
        sender = Sender(",".join(broker.bootstrap), topic, 1, options.requests_a_second)
        samples: list[tuple[float, float]] = []
        with IngestProcess(folder / "log", *words, env=env) as ingest:
            sender.start()
            began = told = time.monotonic()
            while (now := time.monotonic()) < began + options.minutes * 60:
                samples.append((now - began, resident_mb(ingest.process.pid)))
                if now > told + 60:
                    told = now
                    print(f"{samples[-1][0] / 60:.0f} min: {samples[-1][1]:.0f} MB", flush=True)
                time.sleep(SAMPLE_S)
            sender.over.set()
            sender.join()
            ingest.signal(signal.SIGTERM)
            assert ingest.ended() == 0, ingest.text[-2000:]
        with IngestProcess(folder / "log-last", *words, "--until-end") as last:
            assert last.ended() == 0, last.text[-2000:]
        figures = Figures()
        judge(folder / "lake", sender.sent, figures)
    warm = [(at, mb) for at, mb in samples if at > options.minutes * 20]
    slope, _, low, high = theilslopes([mb for _, mb in warm], [at / 3600 for at, _ in warm])
    rise = slope * (warm[-1][0] - warm[0][0]) / 3600
    print(
        f"{options.minutes:g} min, {figures.requests:,} requests: {warm[0][1]:.0f} MB after warming up, "
        f"{warm[-1][1]:.0f} MB at the end; slope {slope:+.1f} MB an hour ({low:+.1f} to {high:+.1f})"
    )
    print(figures)
    return 0 if figures.sound and rise <= GROWTH * warm[0][1] else 1


if __name__ == "__main__":
    sys.exit(main())
