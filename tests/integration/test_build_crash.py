"""A lake built from a log while lanes and builders die at random disk operations, and two builders race."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from oracles.logged_lake import BuiltLake, LoggingLane, as_rows, dealt, made_lake, some_settings
from oracles.memory_disk import CrashError, MemoryDisk
from oracles.traffic import native_lines, otlp_messages

from ingest.formats import codec_for
from schemas.config import DecodeConfig, StitchConfig
from schemas.errors import LakeError
from schemas.events import concat_events
from stitch.kernel import stitch
from stitch.lake.chain import CommitTakenError
from stitch.lake.fsck import check
from stitch.lake.manifest import open_manifest
from stitch.lake.store import LocalStore

SEEDS = int(os.environ.get("FLOWDIFF_TEST_SEEDS", "5"))
OPERATIONS = 120
"""Until the next death, in the mean: exponentially distributed, so that each commit comes through at last."""


def some_events(seed: int) -> pa.Table:
    decode = codec_for("otlp-proto").decode
    spans = decode([*otlp_messages(10, seed=seed, seconds=400, spans=12)], DecodeConfig()).events
    lines = [line.encode() for line in native_lines(12, seed=seed, seconds=400)]
    return concat_events([codec_for("native").decode(lines, DecodeConfig()).events, spans])


def is_fenced(error: LakeError) -> bool:
    """True where another builder came first. On a disk a lock keeps builders apart; here it does not, and a
    stage may be swept while its owner publishes.
    """
    return isinstance(error, CommitTakenError) or "neither there nor on the stage" in str(error)


class Deaths:
    """Let somebody act on a disk; they die now and then, by a kill or with the power."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self.counts: Counter[str] = Counter()

    def act(self, disk: MemoryDisk, act: Callable[[], object], starts: list[Callable[[], object]]) -> None:
        """Act until it is done. `starts` brings back whoever the end of power stops, the actor first."""
        before: list[Callable[[], object]] = []
        while True:
            disk.crash_at = disk.steps + 1 + int(self._rng.exponential(OPERATIONS))
            try:
                for start in before:
                    start()
                act()
            except CrashError:
                disk.dead = False
                without_power = self._rng.random() < 0.3
                if without_power:
                    disk.lose_power()
                self.counts["power" if without_power else "kill"] += 1
                before = starts if without_power else starts[:1]
            except LakeError as error:
                if not is_fenced(error):
                    raise
                self.counts["taken"] += 1
                before = starts[:1]
            else:
                disk.crash_at = 0
                return


def lived(seed: int, scratch: Path) -> Counter[str]:
    rng = np.random.default_rng(seed)
    deaths = Deaths(rng)
    source, target = MemoryDisk(), MemoryDisk()
    lake = made_lake(LocalStore(source))
    lanes = [LoggingLane(lake, number + 1) for number in range(2)]
    settings = some_settings(rng)
    store = made_lake(LocalStore(target))
    builders = [BuiltLake(lake, scratch / str(number), settings, store) for number in range(2)]
    every, parts = dealt(some_events(seed), rng, lanes, late=0.02, twice=0.05)

    def work(lane: LoggingLane) -> None:
        lane.take()
        lane.commit()

    def build(own: BuiltLake, other: BuiltLake, *, finished: bool = False) -> None:
        if rng.random() < 0.3:  # the other one acts meanwhile
            target.at_step(target.steps + int(rng.integers(1, 40)), lambda: raced(other))
        try:
            own.step(finished=finished)
        finally:
            target.stalls.clear()

    def raced(other: BuiltLake) -> None:
        try:
            other.start()
            other.step()
        except LakeError as error:
            if not is_fenced(error):
                raise
        deaths.counts["races"] += 1

    for _ in parts:
        for place, lane in enumerate(lanes):
            others = [lane.start, lanes[1 - place].start]
            deaths.act(source, lambda lane=lane: work(lane), others)  # type: ignore[misc]
        if rng.random() < 0.7:
            own, other = rng.permutation(np.array(builders, object))
            deaths.act(target, lambda own=own, other=other: build(own, other), [own.start, other.start])  # type: ignore[misc]
    last = builders[0]
    for _ in range(8):
        deaths.act(target, lambda: build(last, builders[1], finished=True), [last.start, builders[1].start])
    last.start()
    last.finish()
    assert open_manifest(store).pending == 0
    expected = stitch(every, StitchConfig())
    assert as_rows(last.table("flows"), "lane") == as_rows(expected.flows, "lane")
    assert as_rows(last.table("params")) == as_rows(expected.params)
    assert last.ledger() == {
        "events": every.num_rows,
        "duplicates": expected.counts["duplicates"],
        "rejected": expected.counts["rejected"],
        "late": 0,
        "missing": 0,
    }
    assert check(lake) == []
    assert check(store) == []
    return deaths.counts


@pytest.mark.usefixtures("encoded_once")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_is_lost_or_doubled_whoever_dies(seed: int, tmp_path: Path) -> None:
    counts = lived(seed, tmp_path)
    assert counts["kill"] + counts["power"] > 5
