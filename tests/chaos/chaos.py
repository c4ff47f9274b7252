"""Live ingestion while everything around it breaks: processes are killed and put to sleep, members come and
go, brokers restart, readers read all the while. In the end the lake is what one quiet run would have made.

`make chaos MINUTES=60` runs it long, against three brokers; `make test` runs a short one against one broker.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

if __name__ == "__main__":
    sys.path.extend(str(parent) for parent in Path(__file__).resolve().parents[1:3])

from confluent_kafka import Producer
from fixtures.kafka_bench import KafkaBench
from fixtures.kafka_broker import Broker, started
from oracles.live_process import flow_rows

from ingest.formats import codec_for
from schemas.config import DecodeConfig, StitchConfig
from schemas.errors import LakeError
from stitch.kernel import stitch
from stitch.lake.encoding import decode
from stitch.lake.fsck import check
from stitch.lake.manifest import open_manifest
from stitch.lake.store import LocalStore

CHILD = Path(__file__).with_name("live_child.py")
REPOSITORY = Path(__file__).resolve().parents[2]
PARTITIONS = 4
REQUESTS_A_SECOND = 40
RECORDS = 4
PROCESSES = 3
STEP_S = 0.6
"""Between two blows."""


@dataclass
class Figures:
    """What was done, and what came out."""

    kills: int = 0
    pauses: int = 0
    rebalances: int = 0
    broker_restarts: int = 0
    reads: int = 0
    requests: int = 0
    missing: int = 0
    doubled: int = 0
    different: int = 0
    late: int = 0
    vanished: int = 0
    findings: list[str] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        """Whether nothing was lost, doubled or wrong."""
        bad = (self.missing, self.doubled, self.different, self.late, self.vanished)
        return not any(bad) and not self.findings and not self.trouble


class Sender(threading.Thread):
    """Writes requests, a few records each, some of them sent twice, in event time = now."""

    def __init__(self, bootstrap: str, topic: str, seed: int, a_second: int = REQUESTS_A_SECOND) -> None:
        super().__init__(name="sender")
        self._a_second = a_second
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "log_level": 0}
        )
        self._topic = topic
        self._rng = random.Random(seed)
        self.over = threading.Event()
        self.sent: list[bytes] = []

    def run(self) -> None:
        """Until told to stop."""
        number = 0
        while not self.over.is_set():
            for _ in range(self._a_second // 4):
                self._request(number)
                number += 1
            self._producer.poll(0)
            self.over.wait(0.25)
        self._producer.flush(60)

    def _request(self, number: int) -> None:
        at = time.time_ns()
        for step in range(RECORDS):
            at += self._rng.randrange(1_000, 2_000_000)
            value = json.dumps(
                {
                    "request_id": f"r{number}",
                    "breadcrumb": f"b{number}",
                    "ts": at,
                    "component": f"c{step % 2}",
                    "point": f"p{self._rng.randrange(3)}",
                    "kind": "end" if step == RECORDS - 1 else "event",
                    "id": f"{number}-{step}",
                    "params": {"n": number},
                }
            ).encode()
            self.sent.append(value)
            for _ in range(2 if self._rng.random() < 0.05 else 1):
                self._producer.produce(self._topic, value, partition=number % PARTITIONS)


class Reader(threading.Thread):
    """Reads the whole lake again and again: nothing that was there may go, nothing may be there twice."""

    def __init__(self, lake: Path, figures: Figures) -> None:
        super().__init__(name="reader")
        self._store = LocalStore.at(lake)
        self._figures = figures
        self.over = threading.Event()

    def run(self) -> None:
        """Until told to stop."""
        seen: set[str] = set()
        known: dict[str, list[str]] = {}
        while not self.over.is_set():
            try:
                files = open_manifest(self._store).files("flows")
                for file in files:
                    if file.name not in known:
                        table = decode("flows", self._store.read(file.name), ["request_id"])
                        known[file.name] = table["request_id"].to_pylist()
            except LakeError as error:
                if "There is no lake" not in str(error):
                    self._figures.trouble.append(f"reader: {error}")
                time.sleep(0.2)
                continue
            ids = Counter(request for file in files for request in known[file.name])
            self._figures.doubled += sum(n > 1 for n in ids.values())
            self._figures.vanished += len(seen - set(ids))
            seen = set(ids)
            self._figures.reads += 1
            self.over.wait(0.02)


class Children:
    """Processes of one group over one lake."""

    def __init__(self, broker: Broker, topic: str, lake: Path, logs: Path) -> None:
        self._words = [",".join(broker.bootstrap), topic, f"g-{topic}", str(lake)]
        self._logs = logs
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, *more: str) -> subprocess.Popen[bytes]:
        """One more; its log goes on where the one of its name ended."""
        with (self._logs / f"{name}.log").open("ab") as log:
            child = subprocess.Popen(
                [sys.executable, str(CHILD), *self._words, name, *more],
                stdout=log,
                stderr=log,
                cwd=REPOSITORY,
            )
        self._running[name] = child
        return child

    @property
    def names(self) -> list[str]:
        return sorted(self._running)

    def send(self, name: str, number: signal.Signals) -> None:
        """A signal, if the process is still there."""
        if self._running[name].poll() is None:
            self._running[name].send_signal(number)

    def wait(self, name: str, timeout_s: float) -> int:
        """Its end. Raises subprocess.TimeoutExpired."""
        return self._running.pop(name).wait(timeout_s)

    def log(self) -> str:
        return "\n".join(f"{path.name}: {path.read_text()[-1500:]}" for path in sorted(self._logs.iterdir()))


def run_chaos(
    broker: Broker,
    bench: KafkaBench,
    folder: Path,
    *,
    seconds: float,
    seed: int,
    kills: int = 0,
    break_broker: Callable[[random.Random], None] | None = None,
    tell: Callable[[Figures], None] = lambda _: None,
) -> Figures:
    """One run, so long and at least until so many kills; what came out. `break_broker` does something to the
    brokers and undoes it; `tell` gets the figures so far once a minute.
    """
    rng = random.Random(seed)
    topic = bench.topic(partitions=PARTITIONS, name=f"chaos-{seed}-{int(time.time())}")
    lake, logs = folder / "lake", folder / "logs"
    for path in (lake, logs):
        path.mkdir()
    figures = Figures()
    children = Children(broker, topic, lake, logs)
    sender, reader = Sender(",".join(broker.bootstrap), topic, seed), Reader(lake, figures)
    names = [f"{'static' if n % 2 else 'member'}-{n}" for n in range(PROCESSES)]
    for name in names:
        children.start(name)
    sender.start()
    reader.start()
    try:
        told = time.monotonic()
        until = told + seconds
        while time.monotonic() < until or figures.kills < kills:
            time.sleep(STEP_S * rng.uniform(0.5, 1.5))
            blow(children, rng.choice(names), rng, figures)
            if break_broker is not None and rng.random() < 0.02:
                break_broker(rng)
                figures.broker_restarts += 1
            if time.monotonic() > told + 60:
                told = time.monotonic()
                tell(figures)
        sender.over.set()
        sender.join()
        for name in names:
            children.send(name, signal.SIGTERM)
        for name in names:
            children.wait(name, 60)
        last = children.start("last", "--drain", str(PARTITIONS))
        if last.wait(120) != 0:
            figures.trouble.append("the last process failed")
    finally:
        sender.over.set()
        reader.over.set()
        reader.join()
        for name in children.names:
            children.send(name, signal.SIGKILL)
    judge(lake, sender.sent, figures)
    if not figures.sound:
        figures.trouble.append(children.log())
    return figures


def blow(children: Children, name: str, rng: random.Random, figures: Figures) -> None:
    """Something bad happens to a process; it is there again afterwards."""
    what = rng.random()
    if what < 0.75:
        children.send(name, signal.SIGKILL)
        children.wait(name, 30)
        children.start(name)
        figures.kills += 1
        figures.rebalances += 1
    elif what < 0.9:  # a sleep past the session's end, then the zombie wakes
        children.send(name, signal.SIGSTOP)
        time.sleep(rng.uniform(2, 5))
        children.send(name, signal.SIGCONT)
        figures.pauses += 1
        figures.rebalances += 1
    else:
        children.send(name, signal.SIGTERM)
        # Not yet past its start, it has no handler and ends at once.
        if children.wait(name, 60) not in (0, -signal.SIGTERM):
            figures.trouble.append(f"{name} did not stop as it should")
        children.start(name)
        figures.rebalances += 1


def judge(lake: Path, sent: list[bytes], figures: Figures) -> None:
    """The lake against what one stitching of everything makes."""
    store = LocalStore.at(lake)
    figures.findings += [f"{found.invariant}: {found.detail}" for found in check(store)][:20]
    manifest = open_manifest(store)
    rows = [
        row for file in manifest.files("flows") for row in flow_rows(decode("flows", store.read(file.name)))
    ]
    events = codec_for("native").decode(sent, DecodeConfig()).events
    expected = {row[0]: row for row in flow_rows(stitch(events, StitchConfig()).flows)}
    found = {row[0]: row for row in rows}
    figures.requests = len(expected)
    figures.missing += len(expected.keys() - found.keys())
    figures.doubled += len(rows) - len(found)
    figures.different += sum(found[name] != expected[name] for name in found.keys() & expected.keys())
    figures.late += sum(file.rows for file in manifest.files("late"))


def main() -> int:
    """The long run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--nodes", type=int, choices=[1, 3], default=3)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        started(Path(folder) / "kafka", nodes=options.nodes) as broker,
        KafkaBench(broker) as bench,
    ):

        def restart(rng: random.Random) -> None:
            node = rng.choice([1, 2, 3]) if options.nodes == 3 else 1
            broker.kill(node)
            time.sleep(rng.uniform(0, 5))
            broker.up(node)

        figures = run_chaos(
            broker,
            bench,
            Path(folder),
            seconds=options.minutes * 60,
            seed=options.seed,
            break_broker=restart,
            tell=lambda so_far: print(
                f"{so_far.kills} kills, {so_far.rebalances} rebalances, "
                f"{so_far.broker_restarts} brokers killed, {so_far.reads} reads",
                flush=True,
            ),
        )
    print(figures)
    return 0 if figures.sound else 1


if __name__ == "__main__":
    sys.exit(main())
