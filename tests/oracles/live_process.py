"""Live ingestion in one thread under a clock of our own: processes, a log, a disk, and their ends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache

import pyarrow as pa
from oracles.in_place import InPlace
from oracles.memory_disk import MemoryDisk
from oracles.memory_log import Member, MemoryLog
from oracles.object_store import ObjectStore

from ingest.formats import codec_for
from schemas.config import DecodeConfig, StitchConfig
from schemas.windows import NS_PER_MINUTE, NS_PER_SECOND
from stitch.drivers.live.decoders import Decoders
from stitch.drivers.live.live_run import LiveIdentity, LiveRun
from stitch.drivers.live.live_settings import LiveSettings
from stitch.drivers.live.steady_clock import SteadyClock
from stitch.drivers.live.watch import Watch
from stitch.kernel import Stitched, stitch
from stitch.lake.encoding import decode
from stitch.lake.layout import ensure_lake
from stitch.lake.manifest import open_manifest
from stitch.lake.store import LocalStore, Store

START_NS = 1_800_000_035 * NS_PER_SECOND
"""So that requests of half a minute lie in two windows."""
SETTINGS = LiveSettings(
    window_length_ns=NS_PER_MINUTE,
    commit_interval_ns=10 * NS_PER_SECOND,
    lateness_ns=8 * NS_PER_SECOND,
    idle_ns=12 * NS_PER_SECOND,
    keep_events_ns=20 * NS_PER_SECOND,
)


@dataclass(frozen=True)
class Sent:
    """One message: when it reaches the log, where, and what is in it."""

    at_ns: int
    partition: int
    value: bytes
    topic: str = "spans"


def requests(n: int, partitions: int, spread_s: int) -> list[Sent]:
    """`n` requests over some seconds, each three records in three messages, in order of arrival."""
    sent = []
    for i in range(n):
        began = START_NS + i * spread_s * NS_PER_SECOND // n
        for step, (kind, after) in enumerate((("event", 0), ("event", 2), ("end", 3 + i % 4))):
            at = began + after * NS_PER_SECOND + i
            record = {
                "breadcrumb": f"b{i}",
                "request_id": f"r{i}",
                "ts": at,
                "component": "web",
                "point": f"p{step}",
                "kind": kind,
            }
            sent.append(Sent(at + (i % 3) * NS_PER_SECOND, i % partitions, json.dumps(record).encode()))
    return sorted(sent, key=lambda message: message.at_ns)


@dataclass
class World:
    """A log that fills as time goes by, a disk, and at most so many processes at work."""

    sent: list[Sent]
    disk: MemoryDisk = field(default_factory=MemoryDisk)
    bucket: ObjectStore | None = None
    """Where the lake is, if not on the disk."""
    settings: LiveSettings = SETTINGS
    partitions: int = 2
    now_ns: int = START_NS
    step_s: float = 4
    """Between two turns."""
    lanes_at_once: int = 0
    """Threads; 0: lanes work in that of the run."""
    drains: bool = True
    """Whether every turn waits for what is being decoded, so that a schedule repeats exactly."""
    log: MemoryLog = field(default_factory=MemoryLog)
    watch: Watch = field(default_factory=Watch)
    processes: dict[str, LiveRun] = field(default_factory=dict)
    members: dict[str, Member] = field(default_factory=dict)
    clock_ahead_ns: dict[str, int] = field(default_factory=dict)
    """By process: how wrong the clock of its host is."""
    _written: int = 0

    def __post_init__(self) -> None:
        self.log.create("spans", self.partitions)
        self.pass_time(0)

    @property
    def store(self) -> Store:
        return LocalStore(self.disk) if self.bucket is None else self.bucket

    def start(self, name: str) -> LiveRun:
        """A process begins. Raises what its first steps raise."""
        store = self.store
        info = ensure_lake(store, self.settings.window_length_ns, NS_PER_MINUTE, "test")
        member = self.members[name] = self.log.join()
        identity = LiveIdentity(owner=name, created_by="test")
        clock = SteadyClock(lambda: self.now_ns + self.clock_ahead_ns.get(name, 0), lambda: self.now_ns)
        pool = ThreadPoolExecutor(self.lanes_at_once) if self.lanes_at_once else InPlace()
        building = ThreadPoolExecutor(1) if self.lanes_at_once else InPlace()
        run = LiveRun(member, store, info, self.settings, identity, clock, self.watch, pool, building)
        if self.drains:
            decoders = run._decoders
            decoders.take = lambda now_ns, **_: Decoders.take(decoders, now_ns, drain=True)  # type: ignore[method-assign]
        self.processes[name] = run
        return run

    def bury(self, name: str) -> None:
        """A process is gone, and the log notices."""
        self.processes.pop(name, None)
        member = self.members.pop(name, None)
        if member is not None and member in self.log.members:
            self.log.declare_dead(member)

    def pass_time(self, seconds: float) -> None:
        self.now_ns += int(seconds * NS_PER_SECOND)
        (self.disk if self.bucket is None else self.bucket).now_ns = self.now_ns
        while self._written < len(self.sent) and self.sent[self._written].at_ns <= self.now_ns:
            message = self.sent[self._written]
            self.log.write(message.topic, message.partition, message.value, message.at_ns)
            self._written += 1

    @property
    def over(self) -> bool:
        """Whether everything was sent, and every window had time to be sealed."""
        last = self.sent[-1].at_ns if self.sent else START_NS
        grace = self.settings.idle_ns + self.settings.lateness_ns + 2 * self.settings.commit_interval_ns
        return self.now_ns > last + grace + NS_PER_MINUTE

    def turns(self, name: str) -> Iterator[int]:
        """Turns of one process until the end of the world."""
        n = 0
        while not self.over:
            self.pass_time(self.step_s)
            self.processes[name].turn(0.0)
            n += 1
            yield n

    def expected(self) -> Stitched:
        return _stitched(self.log.format, tuple(each.value for each in self.sent), self.settings.stitch)

    def published(self) -> dict[str, tuple[object, ...]]:
        """Request id to what the lake says of it; fails where one is there twice."""
        manifest = open_manifest(self.store)
        found: dict[str, tuple[object, ...]] = {}
        for file in manifest.files("flows"):
            for row in flow_rows(decode("flows", self.store.read(file.name))):
                assert row[0] not in found, f"{row[0]} is in the lake twice"
                found[str(row[0])] = row
        return found


@lru_cache
def _stitched(as_format: str, payloads: tuple[bytes, ...], config: StitchConfig) -> Stitched:
    """What one batch of all events gives."""
    return stitch(codec_for(as_format).decode(payloads, DecodeConfig()).events, config)


def flow_rows(flows: pa.Table) -> list[tuple[object, ...]]:
    """What a flow is, but for the lane."""
    columns = ("request_id", "category", "start_ns", "response_ns", "offset_ns", "status", "quality")
    return [tuple(map(_plain, row.values())) for row in flows.select(columns).to_pylist()]


def _plain(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value
