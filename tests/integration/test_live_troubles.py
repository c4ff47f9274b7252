"""Many troubles at once, by chance: whatever happened, the lake is what one quiet process would have made."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from oracles.live_process import flow_rows
from oracles.troubled_life import TroubledLife
from oracles.whole_lake import check

from stitch.drivers.repair.repairing import repair
from stitch.lake.chain import lanes, read_chain
from stitch.lake.upkeep.upkeep_lane import UpkeepRun
from stitch.scratch import Scratch

pytestmark = pytest.mark.usefixtures("encoded_once")

FIRST, LIVES = (int(n) for n in os.environ.get("FLOWDIFF_LIVES", "1:12").split(":"))
"""Seeds: from which, and how many."""


@pytest.mark.parametrize("part", range(4))
def test_nothing_is_lost_doubled_or_different(part: int, tmp_path: Path) -> None:
    for seed in range(FIRST + part, FIRST + LIVES, 4):
        judge(seed, tmp_path)


def judge(seed: int, scratch: Path) -> None:
    """One life. Raises AssertionError with what happened in it."""
    life = TroubledLife(seed)
    life.lead()
    world = life.world
    told = f"seed {seed}: {'; '.join(life.told)}"
    world.disk.lose_power()  # everything was acknowledged
    assert check(world.store) == [], told
    records = [link.record for lane in lanes(world.store) for link in read_chain(world.store, lane)]
    read_and_cut_off = sum(gap.end - gap.start for record in records for gap in record.gaps)
    messages = sum(record.counters.messages for record in records)
    assert messages == len(world.sent) + read_and_cut_off, told
    if life.is_late:
        upkeep = UpkeepRun(world.store, "lake", world.now_ns, 0, "repair", "test")
        repaired = repair(upkeep, Scratch(scratch))
        told += f"; {repaired}"
        assert check(world.store) == [], told
    else:
        assert sum(record.counters.events_late for record in records) == 0, told
    assert world.published() == {row[0]: row for row in flow_rows(world.expected().flows)}, told
