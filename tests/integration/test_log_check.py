"""`flowdiff fsck` compares the logs of lanes with the windows built from them, by window and lane."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from oracles.logged_lake import LENGTH_NS, LIVE, BuiltLake, LoggingLane, dealt, made_lake
from oracles.traffic import otlp_messages

from flowdiff.__main__ import main
from ingest.formats import codec_for
from schemas.commits import BuiltWindow, Segment
from schemas.config import DecodeConfig
from schemas.events import concat_events
from stitch.drivers.build.build_settings import BuildSettings
from stitch.drivers.build.builder import Builder
from stitch.drivers.build.group_work import GroupBuilder
from stitch.drivers.build.log_check import check_log
from stitch.lake import event_log
from stitch.lake.chain import read_chain, read_tail
from stitch.lake.event_log import named_segments
from stitch.lake.fsck import Violation, check
from stitch.lake.store import LocalStore
from stitch.lake.upkeep.hidden import UPKEEP_LANE
from stitch.scratch import Scratch

LANES = (1, 2)


def some_events(seed: int) -> pa.Table:
    messages = otlp_messages(20, seed=seed, seconds=300, spans=10)
    return concat_events([codec_for("otlp-proto").decode([*messages], DecodeConfig()).events])


def a_lake(folder: Path, *, late: float = 0.0, steps: int = 4) -> LocalStore:
    """A lake of minutes: two lanes logged a few commits each, requests are cut over them, all is built."""
    store = made_lake(LocalStore.at(folder / "lake"))
    own = [LoggingLane(store, number) for number in LANES]
    built = BuiltLake(store, folder / "scratch", BuildSettings(rebuild_ns=0), store)
    _, parts = dealt(some_events(steps), np.random.default_rng(steps), own, late=late, twice=0.02)
    for number, _ in enumerate(parts):
        for lane in own:
            lane.take()
            lane.commit()
        if number % 2:
            built.step()
    built.finish()
    return store


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "lake"
    folder.mkdir()
    a_lake(folder.parent)
    return folder


@pytest.fixture
def lake(made: Path, tmp_path: Path) -> LocalStore:
    return LocalStore.at(shutil.copytree(made, tmp_path / "lake"))


def differences(store: LocalStore, folder: Path, settings: BuildSettings | None = None) -> list[Violation]:
    return check_log(LocalStore(store._disk), "LAKE", Scratch(folder), settings)


def segments(store: LocalStore, lane: int) -> list[Segment]:
    return [*named_segments(link.record for link in read_chain(store, lane)).values()]


def versions(store: LocalStore) -> dict[int, BuiltWindow]:
    found: dict[int, BuiltWindow] = {}
    for link in read_chain(store, UPKEEP_LANE):
        if link.record.build is not None:
            found |= {window.start_ns: window for window in link.record.build.windows}
    return found


def test_of_a_whole_lake_nothing_differs(lake: LocalStore, tmp_path: Path) -> None:
    assert check(lake) == differences(lake, tmp_path) == []
    assert all(dict(version.lanes or ()).keys() == {*LANES} for version in versions(lake).values())


def test_the_log_may_be_ahead_of_windows_and_behind_them_by_age(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    store = made_lake(LocalStore.at(tmp_path / "lake"))
    settings = LIVE.model_copy(update={"keep_events_ns": 60 * 10**9})
    own = [LoggingLane(store, number, settings) for number in LANES]
    built = BuiltLake(store, tmp_path / "scratch", BuildSettings(rebuild_ns=10**15, rebuild_share=10), store)
    _, parts = dealt(some_events(3), np.random.default_rng(3), own, late=0.05, twice=0.02)
    for _ in parts:
        for lane in own:
            lane.take()
            lane.commit()
        built.step()
        assert check(store) == differences(store, tmp_path) == []
    last = read_tail(store, 1).standing.kept_from
    assert last is not None
    assert last > 1, "nothing aged"
    assert built.builder.dirty() or versions(store), "nothing was built"


@pytest.mark.parametrize("lane", LANES)
def test_a_lost_segment_is_told_by_window_and_lane(lake: LocalStore, lane: int, tmp_path: Path) -> None:
    before = {start: dict(version.lanes or ())[lane] for start, version in versions(lake).items()}
    lost = max(segments(lake, lane), key=lambda one: one.rows)
    lake.remove(lost.name)
    told = differences(lake, tmp_path)
    assert any("is missing" in each.detail for each in check(lake))
    of_windows = [each.detail for each in told if each.detail.startswith("window")]
    assert of_windows
    assert all("\n" not in line and line.count("lane") == 1 for line in of_windows)
    assert any(
        f"built from {events} events of lane {lane}, whose log has" in line
        for events in before.values()
        for line in of_windows
    ), of_windows


def test_a_changed_segment_is_told(lake: LocalStore, tmp_path: Path) -> None:
    name = max(segments(lake, 1), key=lambda one: one.rows).name
    data = lake.read(name).to_pybytes()
    for other in (data[:-40] + b"x" * 40, data[: len(data) // 2], b"", data + b"."):
        lake.remove(name)
        lake._disk.create(name, other)
        assert check(lake) != []
        for each in differences(lake, tmp_path):
            assert "\n" not in each.detail


@pytest.mark.parametrize("more", [-1, 1], ids=["too few", "too many"])
@pytest.mark.parametrize("by_lane", [True, False])
def test_a_version_of_another_number_of_events_is_told(
    more: int, by_lane: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lake").mkdir()
    real = Builder._stage

    def stage(self: Builder, *given: Any) -> Any:
        version, letters = real(self, *given)
        lanes = version.lanes
        if by_lane and lanes:
            lanes = ((lanes[0][0], lanes[0][1] + more), *lanes[1:])
        return version.model_copy(update={"events": version.events + more, "lanes": lanes}), letters

    with monkeypatch.context() as patch:
        patch.setattr(Builder, "_stage", stage)
        # The ledger of the commit is of the kernel's own counts.
        store = a_lake(tmp_path)
    n_windows = len(versions(store))
    told = differences(store, tmp_path)
    if by_lane:
        of_windows = [each.detail for each in told if each.detail.startswith("window")]
        assert len(of_windows) == n_windows
        assert all(f"events of lane {LANES[0]}" in line for line in of_windows)
        assert any(each.detail.startswith(f"lane {LANES[0]} logged") for each in told)
        assert not any("names" in each.detail for each in check(store))
    else:
        assert sum("names" in each.detail for each in check(store)) >= n_windows
    assert any(each.detail.startswith("lanes logged") for each in told), told
    assert {each.invariant for each in told} <= {"I1"}


def test_a_builder_that_loses_events_on_the_way_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lake").mkdir()
    real = GroupBuilder._events

    def events_of(self: GroupBuilder, *given: Any) -> Iterator[pa.Table]:
        for events in real(self, *given):
            yield events.slice(1)

    with monkeypatch.context() as patch:
        patch.setattr(GroupBuilder, "_events", events_of)
        store = a_lake(tmp_path)
    assert any("names" in each.detail for each in check(store))


def hostile(change: Callable[[np.ndarray], np.ndarray]) -> Callable[..., np.ndarray]:
    real = event_log.index_requests

    def index(*given: Any) -> np.ndarray:
        return change(real(*given))

    return index


@pytest.mark.parametrize(
    ("change", "is_plausible"),
    [
        (lambda index: index[::-1].copy(), False),
        (lambda index: index[:-1], False),
        (lambda index: np.repeat(index, 2), False),
        (lambda index: _with(index, "rows", -(2**31)), False),
        (lambda index: np.frombuffer(index.tobytes()[:-3], np.uint8), False),
        (lambda index: _with(index, "first_ns", -(2**63) + 1), True),
        (lambda index: _with(index, "last_ns", 2**63 - 1), True),
        (lambda index: _with(index, "first_ns", 2**63 - 2), True),
    ],
    ids=["descending", "short", "twice", "negative", "cut", "before all", "after all", "never"],
)
def test_a_hostile_index_is_no_crash(
    change: Callable[[np.ndarray], np.ndarray],
    is_plausible: bool,
    lake: LocalStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lane = LoggingLane(lake, 3)
    lane.polls.append((some_events(9), max(versions(lake)) + 2 * LENGTH_NS))
    with monkeypatch.context() as patch:
        patch.setattr(event_log, "index_requests", hostile(change))
        lane.take()
        lane.commit()
    found = check(lake)
    for each in (*found, *differences(lake, tmp_path)):
        assert "\n" not in each.detail
    if not is_plausible:
        assert any("segment" in each.detail.lower() for each in found)


def _with(index: np.ndarray, name: str, value: int) -> np.ndarray:
    index[name][0] = value
    return index


class FewInMemory(BuildSettings):
    """Settings of which the plan has one request in memory."""

    @property
    def planned_in_memory(self) -> int:
        return 1


def test_the_plan_may_lie_on_disk(lake: LocalStore, tmp_path: Path) -> None:
    few = FewInMemory()
    assert differences(lake, tmp_path, few) == []
    lake.remove(segments(lake, 2)[-1].name)
    assert differences(lake, tmp_path, few) == differences(lake, tmp_path)


def test_the_command_ends_with_an_error(
    lake: LocalStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for lost in (False, True):
        if lost:
            lake.remove(max(segments(lake, 1), key=lambda one: one.rows).name)
        with pytest.raises(SystemExit) as ended:
            main(["fsck", str(tmp_path / "lake")])
        assert ended.value.code == int(lost)
        told = capsys.readouterr().out.splitlines()
        assert any(line.startswith("I1: window ") for line in told) == lost
        assert told[-1] == ("0 errors" if not lost else f"{len(told) - 1} errors")
