"""A builder at work for long: what it remembers is bounded, and what comes very late is accounted for."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from integration.test_build_windows import START, S, child, trace
from integration.test_build_windows import run as run_command
from oracles.logged_lake import LIVE, BuiltLake, LoggingLane, made_lake
from oracles.memory_disk import MemoryDisk
from oracles.span_events import batch

from schemas.windows import NS_PER_MINUTE
from stitch.drivers.build.build_settings import BuildSettings
from stitch.drivers.build.provisional import write_provisional
from stitch.drivers.repair.repairing import repair
from stitch.lake.fsck import check
from stitch.lake.layout import segment_folder
from stitch.lake.manifest import open_manifest
from stitch.lake.store import LocalStore
from stitch.lake.upkeep.retention import retire
from stitch.lake.upkeep.upkeep_lane import UpkeepRun
from stitch.scratch import Scratch


class LiveLake:
    """A lake whose windows are built into it."""

    def __init__(self, scratch: Path, keep_minutes: int = 5) -> None:
        self.source = made_lake(LocalStore(MemoryDisk()))
        settings = LIVE.model_copy(update={"keep_events_ns": keep_minutes * NS_PER_MINUTE})
        self.lanes = [LoggingLane(self.source, number, settings) for number in (1, 2)]
        self.built = BuiltLake(self.source, scratch, BuildSettings(), self.source)

    def log(self, number: int, events: pa.Table, at_s: float) -> None:
        lane = self.lanes[number - 1]
        lane.polls.append((events, START + int(at_s * S)))
        lane.take()
        lane.commit()


@pytest.fixture
def lake(tmp_path: Path) -> LiveLake:
    """Half an hour of windows, a request each."""
    made = LiveLake(tmp_path)
    for minute in range(30):
        made.log(1, trace(f"t{minute}", 60 * minute), 60 * minute + 2)
        made.built.step()
    return made


def test_what_is_known_of_windows_and_segments_does_not_grow(lake: LiveLake) -> None:
    """The log has 5 minutes, a request lasts 15 at most."""
    builder = lake.built.builder
    assert len(builder._log._lanes[1].lost) <= 1
    assert len(builder._versions) < 25
    assert len(builder._built_at_ns) == len(builder._said_in) == len(builder._versions)


@pytest.mark.parametrize("restarts", [False, True])
def test_very_late_events_leave_the_ledger_of_their_window_as_it_is(lake: LiveLake, restarts: bool) -> None:
    if restarts:
        lake.built.start()
    for number, at_s in enumerate((1.5, 61.5, 62)):
        lake.log(1, batch(child(f"t{int(at_s // 60)}", at_s, own=f"c{number}")), 1800 + number)
        assert [lake.built.step().late for _ in range(2)] == [1, 0]
    assert lake.built.ledger() == {"events": 28, "duplicates": 0, "rejected": 0, "late": 3, "missing": 0}
    assert check(lake.built.store) == []
    lake.log(1, trace("end", 1900), 1902)
    lake.built.step()
    assert check(lake.built.store) == []


def test_a_late_event_stays_in_the_log_until_its_window_is_built_again(tmp_path: Path) -> None:
    """By a lane that had none of the window before; the log is kept for less than live.rebuild."""
    lake = LiveLake(tmp_path, keep_minutes=4)
    lake.log(1, trace("many", 1, *(child("many", 1 + n / 1000, own=f"c{n}") for n in range(300))), 2)
    for number in (1, 2):
        lake.log(number, trace(f"first{number}", 80), 81)
    assert lake.built.step().built == 1
    lake.log(2, batch(child("many", 1.2, own="late")), 90)
    again = 0
    for minute in range(2, 14):
        for number in (1, 2):
            lake.log(number, trace(f"{minute} {number}", 60 * minute + 20), 60 * minute + 21)
        again += lake.built.step().again
    assert again == 1
    assert lake.built.ledger()["missing"] == lake.built.ledger()["late"] == 0
    assert check(lake.built.store) == []


def test_what_comes_of_a_retired_window_is_not_shown_before_it_is_late(tmp_path: Path) -> None:
    lake = LiveLake(tmp_path)
    for minute in (1, *range(20, 30)):
        lake.log(1, trace(f"t{minute}", 60 * minute), 60 * minute + 2)
        lake.built.step()
    retire(
        UpkeepRun(lake.built.store, "lake", START + 30 * NS_PER_MINUTE, 0, "o", "t"),
        keep_ns=5 * NS_PER_MINUTE,
    )
    lake.log(1, trace("retired", 600), 1800)
    written = write_provisional(open_manifest(lake.built.store), tmp_path / "provisional")
    assert {file.window.start_ns for file in written} == {START + at * NS_PER_MINUTE for at in (28, 29)}
    lake.built.start()
    assert lake.built.step().late == 1


def test_a_sweep_looks_through_windows_once(lake: LiveLake, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a bucket each look is a request."""
    store, looks = lake.built.store, []
    names = store.names

    def counted(folder: str, **how: str) -> list[str]:
        looks.append(folder)
        return names(folder, **how)

    monkeypatch.setattr(store, "names", counted)
    lake.log(1, batch(child("t29", 1741, own="late")), 1800)
    lake.log(1, trace("end", 1900), 1902)
    lake.built.step(urgent=True)
    lake.log(1, batch(child("t29", 1742, own="later")), 1903)
    lake.built.step(urgent=True)
    assert lake.built.builder.sweep(lake.built.now_ns + 1) == 2
    looks.clear()
    assert lake.built.builder.sweep(lake.built.now_ns + 1) == 0
    assert len(looks) < 20
    lake.log(1, batch(child("t29", 1743, own="latest")), 1904)
    lake.built.step(urgent=True)
    assert lake.built.builder.sweep(lake.built.now_ns + 1) > 0
    assert check(store) == []


def test_a_repair_waits_as_long_as_ingestion_for_requests_that_run(tmp_path: Path) -> None:
    source = made_lake(LocalStore(MemoryDisk()))
    lane = LoggingLane(source, 1, LIVE.model_copy(update={"patience_ns": 10 * NS_PER_MINUTE}))
    for at_s, events in ((59, batch(child("runs", 59))), (89, batch(child("runs", 89, own="on")))):
        lane.polls.append((events, START + at_s * S))
    lane.take()
    lane.commit()
    run = UpkeepRun(source, "lake", START + 100 * S, 0, "o", "t")
    repair(run, Scratch(tmp_path))
    assert open_manifest(source).windows() == []


def test_a_lake_that_receives_goes_on_without_a_segment_that_is_lost(tmp_path: Path) -> None:
    (lake := tmp_path / "lake").mkdir()
    lane = LoggingLane(source := made_lake(LocalStore.at(lake)), 1)
    for minute in range(4):
        lane.polls.append((trace(f"t{minute}", 60 * minute), START + (60 * minute + 2) * S))
        lane.take()
        lane.commit()
    folder = segment_folder(1)
    source.remove(f"{folder}/{sorted(source.names(folder))[0]}")
    (config := tmp_path / "ingest.toml").write_text('otlp = "127.0.0.1:0"')
    command = ["repair", str(lake), "--lane", "1", "--config", str(config)]
    assert run_command(command) == 2
    assert run_command([*command, "--accept-gaps"]) == 0
    assert run_command(["repair", str(lake)]) == 0
    assert [window.flows for window in open_manifest(LocalStore.at(lake)).windows()] == [1]
