"""Several processes that build a backlog: the same bytes, and one that dies is a build that failed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from integration.test_build_crash import some_events
from integration.test_builder_troubles import Worker
from oracles.dying_builds import killed, without_memory
from oracles.logged_lake import LIVE, BuiltLake, LoggingLane, as_rows, dealt, made_lake

from schemas.config import StitchConfig
from schemas.errors import LakeError
from stitch.drivers.build import builder
from stitch.drivers.build.build_settings import BuildSettings
from stitch.kernel import stitch
from stitch.lake.fsck import check
from stitch.lake.layout import segment_folder
from stitch.lake.manifest import open_manifest
from stitch.lake.store import LocalStore
from stitch.lake.upkeep.compaction import compact
from stitch.lake.upkeep.upkeep_lane import UpkeepRun
from stitch.processes import shared_processes

SMALL = BuildSettings(workers_from_rows=0, most_at_once=25, rebuild_ns=0)


@pytest.fixture
def _two_processes() -> Iterator[None]:
    """Every commit of a test otherwise starts its own, for a second of CPU."""
    with shared_processes(2):
        yield


def built(source: LocalStore, lake: Path, scratch: Path, settings: BuildSettings) -> BuiltLake:
    """A second lake that is built of a lake in a folder."""
    made = BuiltLake(source, scratch, settings)
    made.builder._log_lake = str(lake)
    return made


def logged(lake: Path, seed: int) -> tuple[LocalStore, pa.Table]:
    """(A lake with two lanes that have logged all they will, all events)."""
    source, lanes = two_lanes(lake)
    every, parts = dealt(some_events(seed), np.random.default_rng(seed), lanes, late=0, twice=0)
    for _ in parts:
        for lane in lanes:
            lane.take()
            lane.commit()
    return source, every


def two_lanes(lake: Path) -> tuple[LocalStore, list[LoggingLane]]:
    lake.mkdir()
    source = made_lake(LocalStore.at(lake))
    return source, [LoggingLane(source, number + 1) for number in range(2)]


@pytest.mark.usefixtures("_two_processes")
@pytest.mark.parametrize("seed", range(3))
def test_files_have_the_same_bytes_whoever_builds(seed: int, tmp_path: Path) -> None:
    """Requests cut over lanes, late, repeated, without an id, and larger than a flow may be."""
    rng = np.random.default_rng(seed)
    lake = tmp_path / "lake"
    source, lanes = two_lanes(lake)
    every, parts = dealt(some_events(seed), rng, lanes, late=0.05, twice=0.05)
    at_once = int(rng.choice([5, 25, 250_000]))
    settings = [SMALL.model_copy(update={"workers": n, "most_at_once": at_once}) for n in (1, 2, 3)]
    lakes = [built(source, lake, tmp_path / str(n), own) for n, own in enumerate(settings)]
    for _ in parts:
        for lane in lanes:
            lane.take()
            lane.commit()
        if rng.random() < 0.3:
            steps = [one.step() for one in lakes]
            assert steps[1:] == steps[:-1]
    for one in lakes:
        one.finish()
    assert lakes[0].hashes() == lakes[1].hashes() == lakes[2].hashes()
    assert lakes[0].ledger() == lakes[1].ledger() == lakes[2].ledger()
    expected = stitch(every, StitchConfig())
    assert as_rows(lakes[1].table("flows"), "lane") == as_rows(expected.flows, "lane")
    assert check(lakes[1].store) == []


@pytest.mark.usefixtures("_two_processes")
def test_a_segment_that_is_gone_when_another_process_reads_it_is_planned_without(tmp_path: Path) -> None:
    source, every = logged(tmp_path / "lake", 1)
    own = built(source, tmp_path / "lake", tmp_path, SMALL.model_copy(update={"workers": 2}))
    own.builder._follow()
    folder = segment_folder(1)
    source.remove(f"{folder}/{sorted(source.names(folder))[1]}")
    own.finish()
    ledger = own.ledger()
    assert ledger["missing"] > 0
    assert ledger["missing"] + ledger["events"] == every.num_rows
    assert check(own.store) == []


@pytest.mark.parametrize(
    ("task", "why"),
    [(killed, "A worker process ended before"), (without_memory, "enough memory")],
)
def test_a_process_that_dies_is_a_failed_build_that_is_tried_again_alone(
    task: Callable[..., object], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = tmp_path / "lake"
    source, _ = logged(lake, 2)
    monkeypatch.setattr(builder, "build_groups", task)
    own = Worker(lake, "one")
    own.work._settings = SMALL.model_copy(update={"workers": 2})
    told = str(own.turn())
    assert told.startswith("Windows cannot be built: ")
    assert why in told
    assert not open_manifest(source).files("flows")
    assert not [*own.work._scratch.folder.iterdir()]
    assert own.turn() is None
    assert open_manifest(source).files("flows")
    own.work.close()
    assert check(source) == []


def test_processes_share_the_memory_and_change_no_group() -> None:
    for memory in (2**26, 2**28, 2**30, 2**32):
        alone = BuildSettings(memory_bytes=memory)
        many = BuildSettings(memory_bytes=memory, workers=64)
        assert alone.at_once == 1
        assert many.rows_at_once == alone.rows_at_once
        assert 2 <= many.at_once < 64
        assert many.at_once * many.rows_at_once * 1365 <= memory
    assert LIVE.build_workers == 1


def test_without_a_backlog_no_process_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(n: int) -> object:
        raise LakeError("a process")

    source, _ = logged(tmp_path / "lake", 3)
    monkeypatch.setattr(builder, "worker_processes", refused)
    built(source, tmp_path / "lake", tmp_path / "a", BuildSettings(workers=2)).finish()
    with pytest.raises(LakeError, match="a process"):
        built(source, tmp_path / "lake", tmp_path / "b", SMALL.model_copy(update={"workers": 2})).finish()


def test_compaction_joins_the_parts_in_which_a_window_was_built(tmp_path: Path) -> None:
    source, every = logged(tmp_path / "lake", 4)
    own = built(source, tmp_path / "lake", tmp_path / "scratch", SMALL.model_copy(update={"most_at_once": 5}))
    own.finish()
    before = as_rows(own.table("flows"))
    assert max(map(len, own.hashes().values())) > 2
    compact(UpkeepRun(own.store, "built", own.now_ns, 0, "o", "t"), least_files=2)
    own.start()
    own.finish()
    assert max(map(len, own.hashes().values())) == 1
    assert as_rows(own.table("flows")) == before
    assert own.ledger()["events"] == every.num_rows
    assert check(own.store) == []
