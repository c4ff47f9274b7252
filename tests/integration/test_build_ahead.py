"""A window is stitched while it is open: little is left for its end, and the result is that of one batch."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest
from oracles.logged_lake import LENGTH_NS, LIVE, BuiltLake, LoggingLane, as_rows, made_lake
from oracles.memory_disk import MemoryDisk
from oracles.span_events import T0, batch, span

from schemas.windows import NS_PER_SECOND
from stitch.drivers.build import group_work as building
from stitch.drivers.build.build_settings import BuildSettings
from stitch.kernel import stitch
from stitch.lake.fsck import check
from stitch.lake.store import LocalStore
from stitch.scratch import Scratch

S = NS_PER_SECOND
START = T0 - T0 % LENGTH_NS + LENGTH_NS
SETTINGS = BuildSettings(lateness_ns=LIVE.lateness_ns, most_at_once=40, rebuild_ns=0)


def trace(name: str, at_s: float) -> pa.Table:
    begin = START - T0 + int(at_s * S)
    rows = [span("a", at=(begin, begin + S), trace=name)]
    rows += [span(f"{n}", "a", (begin, begin + S // 2), trace=name) for n in range(3)]
    return batch(*rows)


@dataclass
class OpenWindows:
    """A lane that logs two traces a second, and a builder that steps each five seconds."""

    scratch: Path
    late: list[tuple[float, pa.Table]] = field(default_factory=list)
    """Events that come at another time than that of their traces, s."""

    def __post_init__(self) -> None:
        self.lane = LoggingLane(made_lake(LocalStore(MemoryDisk())), 1)
        self.built = BuiltLake(self.lane.store, self.scratch, SETTINGS)
        self.ahead: list[int] = []

    def go_on(self, begin_s: int, end_s: int) -> None:
        """Log what begins between two times; build ahead, and what can be built."""
        for second in range(begin_s, end_s):
            self.log(
                pa.concat_tables([trace(f"r{second}", second), trace(f"s{second}", second + 0.5)]), second + 1
            )
            for _, events in [one for one in self.late if second <= one[0] < second + 1]:
                self.log(events, second + 1)
            if second % 5 == 4:
                self.lane.commit()
                while (step := self.built.step()).did_anything:
                    self.ahead.append(step.ahead)

    def log(self, events: pa.Table, at_s: float) -> None:
        self.lane.polls.append((events.unify_dictionaries(), START + int(at_s * S)))
        self.lane.take()

    def is_one_batch(self) -> None:
        """All that came is in the lake as one batch of it."""
        self.lane.commit()
        self.built.finish()
        every = pa.concat_tables([events for events, _ in self.lane.polls]).unify_dictionaries()
        expected = stitch(every.combine_chunks(), LIVE.stitch)
        assert as_rows(self.built.table("flows"), "lane") == as_rows(expected.flows, "lane")
        assert self.built.ledger()["events"] == every.num_rows
        assert check(self.built.store) == []
        at_once = BuiltLake(self.built.source, self.scratch / "at once", SETTINGS)
        at_once.finish()
        assert at_once.hashes() == self.built.hashes()


@pytest.fixture
def stitched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Number of events of each call of the kernel by a builder."""
    rows: list[int] = []

    def counted(events: pa.Table, *args: object, **how: object) -> object:
        rows.append(events.num_rows)
        return stitch(events, *args, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(building, "stitch", counted)
    return rows


def test_most_of_a_window_is_stitched_before_it_is_over(tmp_path: Path, stitched: list[int]) -> None:
    open_ = OpenWindows(tmp_path)
    open_.go_on(0, 70)
    assert not open_.built.builder._versions
    before = sum(stitched)
    assert before >= 0.7 * 60 * 8, "of eight spans a second"
    open_.go_on(70, 80)
    assert [*open_.built.builder._versions] == [START]
    assert sum(stitched) - before <= 0.5 * 60 * 8
    open_.is_one_batch()


def test_no_event_is_stitched_twice_where_none_is_late(tmp_path: Path, stitched: list[int]) -> None:
    open_ = OpenWindows(tmp_path)
    open_.go_on(0, 180)
    open_.lane.commit()
    open_.built.finish()
    assert sum(stitched) == 180 * 8


def test_a_builder_that_starts_builds_anew_what_was_built_ahead(tmp_path: Path) -> None:
    open_ = OpenWindows(tmp_path)
    open_.go_on(0, 50)
    assert sum(open_.ahead) > 0
    open_.built.start()
    open_.go_on(50, 90)
    open_.is_one_batch()


def test_what_changes_after_it_was_built_ahead_is_built_again(tmp_path: Path, stitched: list[int]) -> None:
    late = [(50.0, trace(f"r{second}", second).slice(0, 2)) for second in range(2, 30, 3)]
    late += [(50.0, trace(f"late{second}", second)) for second in range(2, 30, 3)]
    open_ = OpenWindows(tmp_path, late)
    open_.go_on(0, 80)
    ahead = open_.built.builder._ahead
    assert ahead.pauses, "half of what was built ahead changed"
    before = sum(stitched)
    open_.go_on(80, 125)
    assert sum(stitched) == before, "nothing is built ahead in the next window"
    open_.go_on(125, 140)
    assert not ahead.pauses, "of that window nothing changed"
    open_.is_one_batch()


def test_without_room_for_groups_windows_are_built_at_their_end(tmp_path: Path, stitched: list[int]) -> None:
    open_ = OpenWindows(tmp_path)
    open_.built.builder._ahead._scratch = Scratch(tmp_path / "missing")
    open_.go_on(0, 70)
    assert sum(stitched) == next(filter(None, open_.ahead)), "one step was in vain"
    open_.go_on(70, 80)
    assert [*open_.built.builder._versions] == [START]
    (tmp_path / "missing").mkdir()
    open_.go_on(80, 190)
    assert any(known.built for known in open_.built.builder._ahead._groups.values()), "of a later window"
    open_.is_one_batch()


def test_nothing_is_built_ahead_by_a_process_that_ends(tmp_path: Path, stitched: list[int]) -> None:
    open_ = OpenWindows(tmp_path)
    for second in range(58):
        open_.log(trace(f"r{second}", second), second + 1)
    open_.lane.commit()
    assert not open_.built.step(urgent=True).did_anything
    assert not stitched
    open_.built.builder._is_stopping = lambda: bool(stitched)
    assert open_.built.step().ahead > 0
    assert len(stitched) == 1, "it was told to stop while it built the first group"
    open_.built.builder._is_stopping = lambda: False
    open_.is_one_batch()
