"""Lanes that log events in any order and at any time, and a builder beside them, over disks in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
import pyarrow as pa
from oracles.memory_disk import MemoryDisk

from ingest.codecs.port import Decoded
from ingest.source import Payloads, Place, StreamId
from schemas.commits import BuiltWindow
from schemas.events import concat_events
from schemas.windows import NS_PER_MINUTE, NS_PER_SECOND
from stitch.closing import NEVER, event_times
from stitch.drivers.build.build_settings import BuildSettings
from stitch.drivers.build.builder import Builder, Step
from stitch.drivers.live.live_lane import LiveLane
from stitch.drivers.live.live_settings import LiveSettings
from stitch.drivers.live.steady_clock import Moment
from stitch.lake.chain import lanes, read_chain
from stitch.lake.layout import ensure_lake
from stitch.lake.manifest import open_manifest
from stitch.lake.store import LocalStore, Store
from stitch.lake.upkeep.hidden import UPKEEP_LANE
from stitch.lake.upkeep.upkeep_lane import UpkeepRun
from stitch.scratch import Scratch

S = TypeVar("S", bound=Store)
LENGTH_NS = NS_PER_MINUTE
LIVE = LiveSettings(lateness_ns=10 * NS_PER_SECOND, keep_events_ns=1440 * NS_PER_MINUTE)


def made_lake(store: S) -> S:
    """A new lake of windows of a minute."""
    ensure_lake(store, LENGTH_NS, LENGTH_NS, "test")
    return store


def of_a_new_process(store: S) -> S:
    """A store that knows nothing of what was written before; that of a bucket never knows."""
    return type(store)(store._disk) if isinstance(store, LocalStore) else store


class Polled(Protocol):
    """Whoever is dealt polls: events and time of each."""

    polls: list[tuple[pa.Table, int]]


@dataclass
class LoggingLane:
    """A live lane whose clock is what its events say. Polls come in order, from the committed position."""

    store: Store
    number: int
    settings: LiveSettings = LIVE
    polls: list[tuple[pa.Table, int]] = field(default_factory=list)
    """Events and time of each."""
    keeps_for_builds: bool = True
    """False: its log ages whoever builds, as where an own builder is ahead of one that builds another
    lake.
    """

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Take the lane over: what was not committed is read again."""
        self.store = of_a_new_process(self.store)
        info = open_manifest(self.store).info
        self.lane = LiveLane(
            self.store, info, self.number, self.settings, owner="o", created_by="t", cluster_id=None
        )
        if not self.keeps_for_builds:
            self.lane._built_to = lambda: 2**60  # type: ignore[method-assign]
        self.stream = StreamId("topic", self.number - 1)
        place = self.lane.place(self.stream) or Place(0)
        self.sent, self.now_ns = place.offset, self.polls[place.offset - 1][1] if place.offset else 0
        self.lane.begin(self.stream, place, Moment.exactly(self.now_ns))

    def take(self) -> None:
        """Take all polls that were not taken."""
        for events, now_ns in self.polls[self.sent :]:
            self.now_ns = max(now_ns, self.now_ns)
            self.sent += 1
            payloads = Payloads(self.stream.name, None, [b""], [self.sent - 1], self.sent)
            now = Moment.exactly(self.now_ns)
            self.lane.take(self.stream, payloads, Decoded(events.combine_chunks(), []), now)
            self.lane.advance({}, now)

    def commit(self, *, whole: bool = False) -> None:
        """Commit what came, to a disk in memory at the lane's time."""
        if isinstance(self.store, LocalStore) and isinstance(self.store._disk, MemoryDisk):
            self.store._disk.now_ns = self.now_ns
        self.lane.commit(self.now_ns, whole=whole)


@dataclass
class BuiltLake:
    """A second lake, and who builds it."""

    source: Store
    scratch: Path
    settings: BuildSettings = field(default_factory=BuildSettings)
    store: Store = field(default_factory=lambda: made_lake(LocalStore(MemoryDisk())))
    now_ns: int = 0
    grace_ns: int = 0

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Open a builder anew: nothing is left of the one before but what it committed."""
        self.scratch.mkdir(parents=True, exist_ok=True)
        is_inside = self.store is self.source
        self.store = of_a_new_process(self.store)
        self.source = source = self.store if is_inside else of_a_new_process(self.source)
        run = UpkeepRun(self.store, "built", self.now_ns, self.grace_ns, "builder", "test")
        self.builder = Builder(source, run, Scratch(self.scratch), self.settings)

    def step(self, **how: bool) -> Step:
        """Take one step of the builder, a second later."""
        self.now_ns += NS_PER_SECOND
        return self.builder.step(self.now_ns, **how)

    def finish(self) -> None:
        """Build all there is."""
        while self.step(finished=True).did_anything:
            pass

    def table(self, name: str) -> pa.Table:
        """All rows of a table of windows."""
        manifest = open_manifest(self.store)
        tables = [manifest.decoded(file) for file in manifest.files(name)]  # type: ignore[arg-type]
        for file in manifest.files("flows"):
            starts = manifest.decoded(file, ["start_ns"])["start_ns"].to_numpy()
            assert file.window is not None
            assert ((starts >= file.window.start_ns) & (starts < file.window.end_ns)).all()
        return pa.concat_tables(tables).unify_dictionaries()

    def ledger(self) -> dict[str, int]:
        """Events, duplicates and refused ones of the last version of each window; late and missing ones."""
        last: dict[int, BuiltWindow] = {}
        missing = 0
        for link in read_chain(self.store, UPKEEP_LANE) if UPKEEP_LANE in lanes(self.store) else ():
            if link.record.build is not None:
                last |= {window.start_ns: window for window in link.record.build.windows}
                missing += link.record.build.missing
        names = ("events", "duplicates", "rejected", "late")
        found = {name: sum(getattr(window, name) for window in last.values()) for name in names}
        return {**found, "missing": missing}


def arrivals(
    events: pa.Table, rng: np.random.Generator, *, late: float, twice: float
) -> tuple[np.ndarray, np.ndarray]:
    """`(rows in the order in which they arrive, when)`: shortly after they end, some late, some twice."""
    first, last = event_times(events)
    known = np.where(first == NEVER, first[first != NEVER].min(initial=NEVER), first)
    when = np.maximum(known, np.where(last == -NEVER, known, last)).astype(np.float64)
    when += rng.exponential(2e9, len(when))
    is_late = rng.random(len(when)) < late
    when[is_late] += rng.uniform(60e9, 600e9, int(is_late.sum()))
    again = np.flatnonzero(rng.random(len(when)) < twice)
    rows = np.concatenate((np.arange(len(when)), again))
    when = np.concatenate((when, when[again] + rng.exponential(60e9, len(again))))
    order = np.argsort(when, kind="stable")
    return rows[order], when[order].astype(np.int64)


def dealt(
    events: pa.Table, rng: np.random.Generator, own: Sequence[Polled], *, late: float, twice: float
) -> tuple[pa.Table, Iterator[None]]:
    """(All events that come, an iterator that lets lanes have the next part of them): rows are dealt at
    random, so that requests are cut over lanes.
    """
    rows, when = arrivals(events, rng, late=late, twice=twice)
    lane_of = rng.integers(0, len(own), len(rows))

    def parts() -> Iterator[None]:
        for part in np.array_split(np.arange(len(rows)), int(rng.integers(3, 25))):
            for number, lane in enumerate(own):
                mine = part[lane_of[part] == number]
                lane.polls.append((events.take(pa.array(rows[mine])), int(when[part].max(initial=0))))
            yield

    return concat_events([events.take(pa.array(rows))]), parts()


def some_settings(rng: np.random.Generator) -> BuildSettings:
    """Settings of a builder, at random."""
    return BuildSettings(
        memory_bytes=int(rng.choice([64 * 2**20, 2**30])),
        rebuild_ns=int(rng.choice([0, 120])) * NS_PER_SECOND,
        rebuild_share=float(rng.choice([0.01, 10])),
        windows_per_commit=int(rng.choice([1, 3, 16])),
    )


def logged(
    events: pa.Table, rng: np.random.Generator, scratch: Path, *, late: float, twice: float
) -> tuple[BuiltLake, pa.Table]:
    """(A lake built from what one to three lanes logged, all events that came)."""
    source = made_lake(LocalStore(MemoryDisk()))
    own = [LoggingLane(source, number + 1) for number in range(int(rng.integers(1, 4)))]
    settings = some_settings(rng)
    built = (
        BuiltLake(source, scratch, settings, source)
        if rng.random() < 0.5
        else BuiltLake(source, scratch, settings)
    )
    every, parts = dealt(events, rng, own, late=late, twice=twice)
    for _ in parts:
        for lane in own:
            lane.take()
            if rng.random() < 0.7:
                lane.commit()
            if rng.random() < 0.05:
                lane.start()
        if rng.random() < 0.6:
            built.step()
        if rng.random() < 0.1:
            built.start()
    for lane in own:
        lane.take()
        lane.commit()
    built.finish()
    return built, every


def as_rows(table: pa.Table, *without: str) -> list[str]:
    """Rows, sorted, of some columns."""
    return sorted(repr(row) for row in table.drop_columns([*without]).to_pylist())
