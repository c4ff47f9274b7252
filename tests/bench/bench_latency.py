"""How far readers are behind, and how soon a killed process is replaced: `flowdiff ingest` beside a broker.

Run: `python tests/bench/bench_latency.py [SECONDS]`. Requests come in the time of today, 20 a second, for
SECONDS (200); windows of 1 minute, lateness 10 s, a commit every 5 s. Every second the lake is looked at:
when is a window sealed, how old is the latest request that a reader finds (`--unsealed`). After two thirds
the process is killed and started again at once.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.extend(str(parent) for parent in Path(__file__).resolve().parents[1:3])

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Producer
from fixtures.ingest_process import IngestProcess, records
from fixtures.kafka_bench import KafkaBench
from fixtures.kafka_broker import started

from schemas.errors import LakeError
from schemas.windows import NS_PER_SECOND
from stitch.drivers.build.provisional import write_provisional
from stitch.lake.chain import read_chain
from stitch.lake.encoding import read_rows
from stitch.lake.manifest import open_manifest
from stitch.lake.store import LocalStore

A_SECOND = 20
LATENESS_S = 10
COMMIT_S = 5
LANE = 1


class Watcher:
    """Looks at the lake."""

    def __init__(self, lake: Path, scratch: Path) -> None:
        self._lake, self._scratch = lake, scratch
        self._sealed: set[int] = set()
        self.seals: list[float] = []
        """Seconds from the end of a window until it was seen sealed."""
        self.behind: list[float] = []
        """Age in seconds of the latest request that a reader finds."""

    def look(self, number: int) -> None:
        """Once; a lake that is not there yet, or goes on meanwhile, is looked at the next time."""
        try:
            manifest = open_manifest(LocalStore.at(self._lake))
            files = write_provisional(manifest, self._scratch / f"{number:d}")
        except LakeError:
            return
        now_ns = time.time_ns()
        for entry in manifest.windows():
            if entry.sealed and entry.window.start_ns not in self._sealed:
                self._sealed.add(entry.window.start_ns)
                self.seals.append((now_ns - entry.window.end_ns) / NS_PER_SECOND)
        flows = [
            read_rows(file.path, ["start_ns"], lake=self._lake) for file in files if file.table == "flows"
        ]
        if flows:
            latest = pc.max(pa.concat_tables(flows)["start_ns"]).as_py()
            self.behind.append((now_ns - latest) / NS_PER_SECOND)

    @property
    def position(self) -> int:
        """Of the last commit, in messages."""
        return [*read_chain(LocalStore.at(self._lake), LANE)][-1].record.standing.positions[0].end


def produce(bootstrap: str, topic: str, until_s: float, written: list[int]) -> None:
    """A tenth of a second's requests, ten times a second."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    number = 0
    while time.time() < until_s:
        messages = records(
            A_SECOND // 10, time.time_ns(), apart_ns=NS_PER_SECOND // A_SECOND, name=f"{number}-"
        )
        for message in messages:
            producer.produce(topic, message)
        producer.flush(10)
        written.append(len(messages))
        number += 1
        time.sleep(0.1)


def main(seconds: int = 200) -> None:
    """Broker, producer, process, watcher, figures."""
    with (
        tempfile.TemporaryDirectory() as name,
        started(Path(name) / "kafka") as broker,
        KafkaBench(broker) as bench,
    ):
        folder, topic = Path(name), bench.topic()
        told: tuple[object, ...] = ("--bootstrap", broker.bootstrap[0], "--topics", topic)
        told += ("--lake", folder / "lake")
        told += ("--group", "g", "--default-format", "native", "--window-length", "1m", "--serve-address", "")
        told += ("--lateness", f"{LATENESS_S}s", "--commit-interval", f"{COMMIT_S}s")
        written: list[int] = []
        began = time.time()
        producer = threading.Thread(
            target=produce, args=(broker.bootstrap[0], topic, began + seconds, written), daemon=True
        )
        producer.start()
        watcher = Watcher(folder / "lake", folder)
        process, kill_at = IngestProcess(folder / "first", *told), began + seconds * 2 / 3
        number = 0
        while time.time() < kill_at:
            watcher.look(number)
            number += 1
            time.sleep(1)
        calm = list(watcher.behind)
        process.process.kill()
        process.process.wait()
        committed, killed, lost = watcher.position, time.time(), sum(written)
        with IngestProcess(folder / "second", *told):
            while watcher.position <= lost:
                time.sleep(0.2)
            recovered = time.time() - killed
            while time.time() < began + seconds:
                watcher.look(number)
                number += 1
                time.sleep(1)
        producer.join()
    rate = 3 * A_SECOND
    print(
        f"window sealed {max(watcher.seals):.1f} s after its end at most, of {len(watcher.seals)} "
        f"(lateness {LATENESS_S} s, commit {COMMIT_S} s); open window readable "
        f"{sorted(calm)[len(calm) // 2]:.1f} s behind, at most {max(calm[5:]):.1f} s; after kill -9 what was "
        f"written by then was committed {recovered:.1f} s later, {(lost - committed) / rate:.1f} s of "
        f"messages were read again",
        flush=True,
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
