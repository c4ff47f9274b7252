"""How far readers are behind, and how soon a killed process is replaced: `flowdiff ingest` beside a broker.

Run: `python tests/bench/bench_latency.py [SECONDS [SPANS_A_SECOND [COMMIT_S [LIFE_S [BASE]]]]]`. Light traces
come in the time of today for SECONDS (200), 20,000 spans a second, each LIFE_S (5) long at most; windows of
1 minute, lateness 10 s, a commit each second. Ten times a second the lake is looked at: how long ago was the
first message written that no commit has, so that no reader with `--unsealed` finds it; when is a window
sealed. After two thirds the process is killed and started again. BASE: another checkout, which is measured
after this one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.extend(str(parent) for parent in Path(__file__).resolve().parents[1:3])

from bench.trace_stream import timed_messages
from confluent_kafka import Producer
from fixtures.kafka_bench import KafkaBench
from fixtures.kafka_broker import started

from schemas.errors import LakeError
from schemas.windows import NS_PER_SECOND
from stitch.lake.chain import lanes, read_tail
from stitch.lake.manifest import open_manifest
from stitch.lake.store import LocalStore

LATENESS_S = 10
LINGER_S = 1
LANE = 1
SET_UP_S = 10
"""Until the first message is written."""
HERE = Path(__file__).resolve().parents[2]


class Watcher:
    """Looks at the lake."""

    def __init__(self, lake: Path, sent_ns: list[int]) -> None:
        """sent_ns: when each message was written."""
        self._lake, self._sent_ns = lake, sent_ns
        self._sealed_to_ns: int | None = None
        self.seals: list[float] = []
        """Seconds from the end of a window until it was seen sealed."""
        self.behind: list[float] = []
        """Seconds since the first message was written that no commit has; 0: all are committed."""

    def look(self) -> None:
        """Once; a lake that is not there yet is looked at the next time."""
        try:
            position, sealed_to_ns = self.position, open_manifest(LocalStore.at(self._lake)).sealed_to_ns
        except LakeError:
            return
        now_ns, sent = time.time_ns(), len(self._sent_ns)
        self.behind.append(0 if position >= sent else (now_ns - self._sent_ns[position]) / NS_PER_SECOND)
        if sealed_to_ns is not None and sealed_to_ns > (self._sealed_to_ns or 0):
            self._sealed_to_ns = sealed_to_ns
            self.seals.append((now_ns - sealed_to_ns) / NS_PER_SECOND)

    @property
    def position(self) -> int:
        """Of the last commit, in messages."""
        store = LocalStore.at(self._lake)
        positions = read_tail(store, LANE).standing.positions if LANE in lanes(store) else ()
        return positions[0].end if positions else 0


def produce(bootstrap: str, topic: str, messages: Iterator[tuple[int, bytes]], sent_ns: list[int]) -> None:
    """Write each message when its last span has ended."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for at_ns, message in messages:
        time.sleep(max(0, (at_ns - time.time_ns()) / NS_PER_SECOND))
        producer.produce(topic, message)
        producer.poll(0)
        sent_ns.append(time.time_ns())
    producer.flush(10)


def started_process(checkout: Path, log: Path, *told: object) -> subprocess.Popen[bytes]:
    """`flowdiff ingest` of a checkout."""
    command = [checkout / ".venv" / "bin" / "python", "-m", "flowdiff", "ingest", "--log-level", "debug"]
    with log.open("wb") as file:
        return subprocess.Popen([*map(str, (*command, *told))], cwd=checkout, stderr=file, env=os.environ)


def reading_again(log: Path) -> float:
    """Seconds from the lane's takeover to the first commit with messages, by the process's log."""
    gained = None
    for line in log.read_text().splitlines():
        said = json.loads(line) if line.startswith("{") else {}
        at = time.mktime(time.strptime(said["timestamp"][:19], "%Y-%m-%dT%H:%M:%S")) if said else 0.0
        at += float(f"0.{said['timestamp'][20:].rstrip('Z')}") if said else 0.0
        if said.get("event") == "lane gained":
            gained = at
        if gained is not None and said.get("event") == "commit" and said.get("messages", 0) > 0:
            return at - gained
    raise AssertionError(log.read_text())


def measure(checkout: Path, seconds: int, rate: int, commit_s: float, life_s: float) -> str:
    """Broker, producer, process, watcher, figures."""
    ready_s = (
        LATENESS_S + life_s + LINGER_S
    )  # after the end of a window: its last request ends and is lingered for
    with (
        tempfile.TemporaryDirectory() as name,
        started(Path(name) / "kafka") as broker,
        KafkaBench(broker) as bench,
    ):
        folder, topic = Path(name), bench.topic()
        told: tuple[object, ...] = ("--bootstrap", broker.bootstrap[0], "--topics", topic)
        told += ("--lake", folder / "lake", "--group", "g", "--default-format", "otlp-proto")
        told += ("--window-length", "1m", "--serve-address", "")
        told += ("--lateness", f"{LATENESS_S}s", "--commit-interval", f"{int(commit_s * 1000)}ms")
        begin_ns = time.time_ns() + SET_UP_S * NS_PER_SECOND
        made = timed_messages(seconds * rate, heavy=False, begin_ns=begin_ns, rate=rate, life_s=life_s)
        sent_ns: list[int] = []
        producer = threading.Thread(
            target=produce, args=(broker.bootstrap[0], topic, made, sent_ns), daemon=True
        )
        watcher = Watcher(folder / "lake", sent_ns)
        process = started_process(checkout, folder / "first", *told)
        producer.start()
        kill_at = begin_ns / NS_PER_SECOND + seconds * 2 / 3
        while time.time() < kill_at:
            watcher.look()
            time.sleep(0.1)
        calm, seals = sorted(watcher.behind[100:]), sorted(watcher.seals)
        process.kill()
        process.wait()
        second = started_process(checkout, folder / "second", *told)
        lost = len(sent_ns)
        while watcher.position <= lost:
            time.sleep(0.1)
        time.sleep(1)
        second.kill()
        second.wait()
        producer.join()
        again = reading_again(folder / "second")
    ends = ", ".join(f"{each:.1f} ({each - ready_s:.1f} after they could be)" for each in seals)
    median, most = (calm[int(len(calm) * share)] for share in (0.5, 0.95))
    return (
        f"{checkout.name}: {rate:,} spans/s, commit {commit_s} s, lateness {LATENESS_S} s, "
        f"lives of {life_s} s: "
        f"messages are committed {median:.2f} s behind in the median, {most:.2f} s at 95 %; "
        f"windows sealed {ends} s after their end; "
        f"after kill -9 the first commit {again:.2f} s behind the takeover"
    )


def main(seconds: int, rate: int, commit_s: float, life_s: float, base: Path | None) -> None:
    """Measure this checkout, then another one."""
    for checkout in (HERE, *([] if base is None else [base])):
        print(measure(checkout, seconds, rate, commit_s, life_s), flush=True)


if __name__ == "__main__":
    given = [*sys.argv[1:], *("200", "20000", "1", "5")[len(sys.argv) - 1 :]]
    main(
        int(given[0]),
        int(given[1]),
        float(given[2]),
        float(given[3]),
        Path(given[4]) if len(given) > 4 else None,
    )
