"""Live ingestion while everything around it breaks: processes are killed and put to sleep, members come and
go, brokers restart, logs lose their ends and their beginnings until a person says to go on, readers read all
the while. In the end the lake is what one quiet run would have made, and its ledger has the gaps, no others.

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
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

if __name__ == "__main__":
    sys.path[:1] = [str(parent) for parent in Path(__file__).resolve().parents[1:3]]

from chaos.reading import GrowingLake
from confluent_kafka import Message, Producer
from fixtures.kafka_bench import KafkaBench
from fixtures.kafka_broker import Broker, cut_log, started
from kafka import KafkaAdminClient, TopicPartition
from kafka.errors import KafkaError
from oracles import fork_server
from oracles.live_process import flow_rows
from oracles.whole_lake import check

from ingest.formats import codec_for
from ingest.source import StreamId
from schemas.config import DecodeConfig, StitchConfig
from schemas.errors import InputError, LakeError
from stitch.kernel import stitch
from stitch.lake.chain import read_chain, read_tail
from stitch.lake.encoding import decode
from stitch.lake.manifest import open_manifest
from stitch.lake.store import LocalStore

CHILD = Path(__file__).with_name("live_child.py")
REPOSITORY = Path(__file__).resolve().parents[2]
PARTITIONS = 4
REQUESTS_A_SECOND = 40
RECORDS = 4
PROCESSES = 4
STEP_S = 0.9
"""Between two blows: a process starts in one to two seconds, and should come to commit now and then."""
AT_WORK_SHARE = 0.75
"""So many blows are only for processes that are past their start; the others for any."""
BROKER_SHARE = 0.02
"""Of blows, so many hit a broker too."""
READ_PAUSE_S = 0.005
"""Between two reads."""
GAP_EVERY_S = 90.0
"""From one log that loses something to the next: each takes most of a minute."""
MOST_CUT = 100
"""Messages that a log loses of its end, at most: it has as many again within seconds."""


@dataclass
class Figures:
    """What was done, and what came out."""

    kills: int = 0
    kills_at_work: int = 0
    """Of processes that were past their start: the others may have hit one that still imported modules."""
    pauses: int = 0
    rebalances: int = 0
    broker_restarts: int = 0
    cut_back: int = 0
    """Logs that lost their end, and of which a lane halted until a person said to go on."""
    cut_off: int = 0
    """The same of their beginning."""
    reads: int = 0
    reading_s: float = 0.0
    """CPU seconds of the reads."""
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
        self._servers = bootstrap
        self._producer = self._connected()
        self._topic = topic
        self._rng = random.Random(seed)
        self._free = threading.Lock()
        self.over = threading.Event()
        self.sent: list[bytes] = []
        self._written: list[tuple[int, int, int]] = []
        """(partition, offset, place in `sent`) of every message; some are written twice."""
        self._lost: set[tuple[int, int]] = set()
        """(partition, offset) of messages that nobody can have read."""

    def _connected(self) -> Producer:
        return Producer(
            {"bootstrap.servers": self._servers, "acks": "all", "enable.idempotence": True, "log_level": 0}
        )

    @contextmanager
    def held(self) -> Iterator[None]:
        """Nothing is written inside, and all that was sent is in the log."""
        with self._free:
            assert self._producer.flush(60) == 0
            yield
            self._producer = self._connected()  # a log without its end knows nothing of the one before

    def leader(self, partition: int) -> int:
        """Node that has a partition."""
        told = self._producer.list_topics(self._topic, 10)
        return int(told.topics[self._topic].partitions[partition].leader)

    def lose(self, partition: int, first: int, until: int) -> None:
        """A range is gone, and was not read."""
        self._lost |= {(partition, offset) for offset in range(first, until)}

    def kept(self) -> list[bytes]:
        """What was sent and could be read."""
        places = {
            place for partition, offset, place in self._written if (partition, offset) not in self._lost
        }
        return [self.sent[place] for place in sorted(places)]

    def run(self) -> None:
        """Until told to stop."""
        number = 0
        while not self.over.is_set():
            with self._free:
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
            written = partial(self._is_written, len(self.sent) - 1)
            for _ in range(2 if self._rng.random() < 0.05 else 1):
                self._producer.produce(self._topic, value, partition=number % PARTITIONS, on_delivery=written)

    def _is_written(self, place: int, error: object, message: Message) -> None:
        partition, offset = message.partition(), message.offset()
        assert error is None, error
        assert partition is not None
        assert offset is not None
        self._written.append((partition, offset, place))


class Reader(threading.Thread):
    """Reads the lake again and again: nothing that was there may go, nothing may be there twice."""

    def __init__(self, lake: Path, figures: Figures, pause_s: float) -> None:
        super().__init__(name="reader")
        self._pause_s = pause_s
        store = LocalStore.at(lake)
        self._lake = GrowingLake(lambda: open_manifest(store))
        self._figures = figures
        self.over = threading.Event()

    def run(self) -> None:
        """Until told to stop."""
        while not self.over.wait(self._pause_s):
            begin = time.thread_time()
            try:
                self._lake.read()
            except LakeError as error:
                if "There is no lake" not in str(error):
                    self._figures.trouble.append(f"reader: {error}")
                time.sleep(0.2)
                continue
            self._figures.reads = self._lake.reads
            self._figures.reading_s += time.thread_time() - begin
            self._figures.vanished, self._figures.doubled = self._lake.vanished, self._lake.doubled
            self._figures.trouble += self._lake.trouble
            self._lake.trouble.clear()


class Children:
    """Processes of one group over one lake."""

    def __init__(self, broker: Broker, topic: str, lake: Path, logs: Path) -> None:
        self._words = [",".join(broker.bootstrap), topic, f"g-{topic}", str(lake)]
        self._logs = logs
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._logged: dict[str, int] = {}
        """Bytes in the log of a process when it was started."""
        self.more: tuple[str, ...] = ()
        """Words that every process is started with from now on."""

    def start(self, name: str, *more: str) -> subprocess.Popen[bytes]:
        """One more; its log goes on where the one of its name ended."""
        with (self._logs / f"{name}.log").open("ab") as log:
            self._logged[name] = log.tell()
            child = fork_server.Popen(
                [sys.executable, str(CHILD), *self._words, name, *self.more, *more],
                stdout=log,
                stderr=log,
                cwd=REPOSITORY,
            )
        self._running[name] = child
        return child

    def keep(self, name: str) -> None:
        """Start it again if it found no broker, as a supervisor does."""
        if self._running[name].poll() == InputError.exit_code:
            self.start(name)

    @property
    def names(self) -> list[str]:
        return sorted(self._running)

    def is_at_work(self, name: str) -> bool:
        """Whether it is past its start."""
        with (self._logs / f"{name}.log").open("rb") as log:
            log.seek(self._logged[name])
            return b"running\n" in log.read()

    def send(self, name: str, number: signal.Signals) -> bool:
        """A signal, if the process is still there."""
        if self._running[name].poll() is not None:
            return False
        self._running[name].send_signal(number)
        return True

    def wait(self, name: str, timeout_s: float) -> int:
        """Its end. Raises subprocess.TimeoutExpired."""
        return self._running.pop(name).wait(timeout_s)

    def said(self, words: str) -> int:
        """How often any of them said something, since the beginning."""
        return sum(path.read_text().count(words) for path in self._logs.iterdir())

    def log_of(self, name: str) -> str:
        """What it said since it was started."""
        return (self._logs / f"{name}.log").read_bytes()[self._logged[name] :].decode()[-5000:]

    def log(self) -> str:
        return "\n".join(f"{path.name}: {path.read_text()[-1500:]}" for path in sorted(self._logs.iterdir()))


class Blows:
    """Something bad happens to a process, and it is there again afterwards; others are hit meanwhile."""

    def __init__(self, children: Children, names: list[str], figures: Figures) -> None:
        self._children = children
        self._figures = figures
        self._pool = ThreadPoolExecutor(len(names) + 1)
        self._hit: dict[str, Future[None]] = {name: _nothing() for name in names}
        self._broker = _nothing()

    def one(self, rng: random.Random) -> None:
        """At a process to which nothing happens just now, if there is one. Raises what failed before."""
        free = [name for name, blow in self._hit.items() if _is_over(blow)]
        for name in free:
            self._children.keep(name)
        # Any instant will do, but on a busy machine a start takes longer than such a life: nothing would run.
        at_work = [name for name in free if self._children.is_at_work(name)]
        aimed = at_work if rng.random() < AT_WORK_SHARE else free
        if not aimed:
            return
        name = rng.choice(aimed)
        what = rng.random()
        if what < 0.75:
            is_hit = self._children.send(name, signal.SIGKILL)
            self._figures.kills += is_hit
            self._figures.kills_at_work += is_hit and name in at_work
            after = self._start_again
        elif what < 0.9:  # a sleep past the session's end, then the zombie wakes
            self._figures.pauses += self._children.send(name, signal.SIGSTOP)
            asleep_s = rng.uniform(2, 5)
            after = partial(self._wake, asleep_s=asleep_s)
        else:
            self._children.send(name, signal.SIGTERM)
            after = self._start_again_stopped
        self._figures.rebalances += 1
        self._hit[name] = self._pool.submit(after, name)

    def break_broker(self, how: Callable[[random.Random], None], rng: random.Random) -> None:
        """Unless one is broken already."""
        if _is_over(self._broker):
            self._figures.broker_restarts += 1
            self._broker = self._pool.submit(how, random.Random(rng.getrandbits(32)))

    def wait(self) -> None:
        """Until everything is there again. Raises what failed."""
        for blow in (*self._hit.values(), self._broker):
            blow.result()

    def restart(self, *more: str) -> None:
        """As a person does who sets something: all stop, all start with it."""
        self.stop()
        self.start(*more)

    def start(self, *more: str) -> None:
        """All start, with words of their own."""
        self._children.more = more
        for name in self._hit:
            self._children.start(name)

    def stop(self) -> None:
        """All stop, and nobody is there."""
        self.wait()
        for name in self._hit:
            self._children.send(name, signal.SIGTERM)
        for name in self._hit:
            self._stopped(name)

    def _start_again(self, name: str) -> None:
        self._children.wait(name, 30)
        self._children.start(name)

    def _wake(self, name: str, asleep_s: float) -> None:
        time.sleep(asleep_s)
        self._children.send(name, signal.SIGCONT)

    def _start_again_stopped(self, name: str) -> None:
        self._stopped(name)
        self._children.start(name)

    def _stopped(self, name: str) -> None:
        # Not yet past its start, it has no handler and ends at once, or found no broker before.
        code = self._children.wait(name, 60)
        if code not in (0, -signal.SIGTERM, InputError.exit_code):
            self._figures.trouble.append(
                f"{name} did not stop as it should: {code}, {self._children.log_of(name)}"
            )


class Gaps:
    """Logs lose what was written: nobody goes on behind that until a person says so; the ledger has it."""

    def __init__(
        self,
        bench: KafkaBench,
        topic: str,
        lake: Path,
        sender: Sender,
        children: Children,
        blows: Blows,
        figures: Figures,
    ) -> None:
        self._bench = bench
        self._topic = topic
        self._store = LocalStore.at(lake)
        self._sender = sender
        self._children = children
        self._blows = blows
        self._figures = figures
        self.booked: list[tuple[int, int, int]] = []
        """(partition, first, until): what the ledger must have."""

    def one(self, rng: random.Random) -> None:
        """A log loses its end or its beginning; it grows on while processes die; a person decides."""
        partition = rng.randrange(PARTITIONS)
        words = f"lane {partition + 1} halted "
        self._blows.wait()
        self._wait(lambda: self._read_to(partition) > 0, f"lane {partition + 1} does not begin")
        said = self._children.said(words)
        if rng.random() < 0.5:
            self._cut_back(partition, rng)
            self._figures.cut_back += 1
        else:
            self._cut_off(partition, rng)
            self._figures.cut_off += 1
        position = self._read_to(partition)
        for _ in range(8):
            time.sleep(STEP_S)
            self._blows.one(rng)
        self._wait(lambda: self._children.said(words) > said, f"lane {partition + 1} did not halt")
        self._wait(lambda: self._end(partition) > self.booked[-1][2], "the log does not grow")
        self._blows.wait()
        if self._read_to(partition) != position:
            self._figures.trouble.append(f"lane {partition + 1} went on by itself behind {self.booked[-1]}")
        self._blows.restart("--accept-gaps")
        self._wait(lambda: self._read_to(partition) != position, f"lane {partition + 1} does not go on")
        self._blows.restart()

    def _cut_back(self, partition: int, rng: random.Random) -> None:
        """All of it was read, and nothing is lost but what the log had."""
        broker = self._bench.broker
        with self._sender.held():
            end = self._end(partition)
            self._wait(lambda: self._read_to(partition) == end, f"{partition} is not read to {end}")
            node = self._sender.leader(partition)
            broker.stop(node)
            cut_log(broker, self._topic, end - rng.randrange(1, MOST_CUT), partition, node)
            broker.up(node)
            assert self._end(partition) < end, "nothing was cut"
            self.booked.append((partition, self._end(partition), end))

    def _cut_off(self, partition: int, rng: random.Random) -> None:
        """While nobody reads, retention takes what was written last."""
        self._blows.stop()
        time.sleep(rng.uniform(1, 3))
        with self._sender.held():
            position, end = self._read_to(partition), self._end(partition)
            first = max(end - rng.randrange(MOST_CUT // 10), position + 1)
            self._delete(partition, first)
            self._sender.lose(partition, position, first)
            self.booked.append((partition, position, first))
        self._blows.start()

    def _delete(self, partition: int, first: int) -> None:
        """What the log has before an offset.

        A client of its own each time: one that learned of the brokers while one was dead does not know that
        one for minutes.
        """
        deadline = time.monotonic() + 60
        while True:
            with closing(KafkaAdminClient(bootstrap_servers=list(self._bench.broker.bootstrap))) as admin:
                try:
                    admin.delete_records({TopicPartition(self._topic, partition): first})
                    return
                except KafkaError as error:  # its broker was killed a moment ago, and is on its way back
                    if time.monotonic() > deadline:
                        end = self._end(partition)
                        raise TimeoutError(f"{partition} keeps what is before {first} of {end}") from error
            time.sleep(0.2)

    def _end(self, partition: int) -> int:
        return self._bench.end(StreamId(self._topic, partition))

    def _read_to(self, partition: int) -> int:
        """Position of the lane by its last commit; 0: it has none."""
        records = read_tail(self._store, partition + 1).records
        positions = records[-1].record.standing.positions if records else ()
        return positions[0].end if positions else 0

    def _wait(self, is_so: Callable[[], bool], else_: str) -> None:
        deadline = time.monotonic() + 60
        while not is_so():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{else_}\n{self._children.log()}")
            time.sleep(0.2)


def _nothing() -> Future[None]:
    done: Future[None] = Future()
    done.set_result(None)
    return done


def _is_over(blow: Future[None]) -> bool:
    """Raises what it failed with."""
    return blow.done() and blow.result() is None


def run_chaos(
    broker: Broker,
    bench: KafkaBench,
    folder: Path,
    *,
    seconds: float,
    seed: int,
    kills: int = 0,
    break_broker: Callable[[random.Random], None] | None = None,
    gap_every_s: float = float("inf"),
    read_pause_s: float = READ_PAUSE_S,
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
    sender, reader = Sender(",".join(broker.bootstrap), topic, seed), Reader(lake, figures, read_pause_s)
    names = [f"{'static' if n % 2 else 'member'}-{n}" for n in range(PROCESSES)]
    for name in names:
        children.start(name)
    blows = Blows(children, names, figures)
    gaps = Gaps(bench, topic, lake, sender, children, blows, figures)
    sender.start()
    reader.start()
    try:
        told = time.monotonic()
        until, gap_at = told + seconds, told + gap_every_s / 3
        while time.monotonic() < until or figures.kills < kills:
            time.sleep(STEP_S * rng.uniform(0.5, 1.5))
            blows.one(rng)
            if break_broker is not None and rng.random() < BROKER_SHARE:
                blows.break_broker(break_broker, rng)
            if time.monotonic() > gap_at:
                gaps.one(rng)
                gap_at = time.monotonic() + gap_every_s
            if time.monotonic() > told + 60:
                told = time.monotonic()
                tell(figures)
        sender.over.set()
        sender.join()
        blows.stop()
        last = children.start("last", "--drain", str(PARTITIONS))
        if last.wait(120) != 0:
            figures.trouble.append("the last process failed")
    finally:
        sender.over.set()
        reader.over.set()
        reader.join()
        for name in children.names:
            children.send(name, signal.SIGKILL)
    judge(lake, sender.kept(), figures)
    booked = [
        (gap.partition, gap.start, gap.end)
        for lane in range(1, PARTITIONS + 1)
        for link in read_chain(LocalStore.at(lake), lane)
        for gap in link.record.gaps
    ]
    if sorted(booked) != sorted(gaps.booked):
        figures.trouble.append(f"gaps in the ledger: {booked}, and were: {gaps.booked}")
    if not figures.sound:
        figures.trouble.append(children.log())
    return figures


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
            gap_every_s=GAP_EVERY_S,
            tell=lambda so_far: print(
                f"{so_far.kills} kills ({so_far.kills_at_work} at work), {so_far.rebalances} rebalances, "
                f"{so_far.broker_restarts} brokers killed, {so_far.cut_back} and {so_far.cut_off} logs cut, "
                f"{so_far.reads} reads "
                f"({so_far.reading_s:.0f} CPU seconds)",
                flush=True,
            ),
        )
    print(figures)
    return 0 if figures.sound else 1


if __name__ == "__main__":
    sys.exit(main())
