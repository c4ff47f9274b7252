"""`compare --memory` bounds the process: requests that do not fit are read as statistics, slice by slice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fixtures.timed_command import timed
from oracles.stored_flows import stored_spans
from oracles.stored_lake import write_lake

from analyze.profile.history import read_samples
from analyze.profile.needed_memory import BYTES_A_NODE, needed_memory
from analyze.refine.settings import RefineSettings
from analyze.scope import LakePeriod, Lakes
from flowdiff.__main__ import main
from schemas.errors import ConfigError
from schemas.ranges import parse_ranges

REQUESTS, NODES = 100_000, 30
SIDES = ("1970-01-01T00:00/5m", "1970-01-01T00:05/5m")
PERIODS = ("--reference", SIDES[0], "--problem", SIDES[1])


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two windows of many requests of 30 nodes."""
    folder = tmp_path_factory.mktemp("memory") / "lake"
    write_lake(folder, *stored_spans(1, REQUESTS, 60, NODES // 2))
    return folder


def samples_of(lake: Path) -> list[tuple[str, tuple[LakePeriod, ...]]]:
    lakes = Lakes(str(lake))
    return [
        (name, lakes.ranges(parse_ranges([side], now_ns=0)))
        for name, side in zip(("reference", "problem"), SIDES, strict=True)
    ]


def test_memory_is_estimated_by_nodes(lake: Path) -> None:
    needed = needed_memory(part for _, parts in samples_of(lake) for part in parts)
    assert needed == (REQUESTS * NODES * BYTES_A_NODE, 0)


def test_of_a_window_that_is_cut_what_is_within_counts(lake: Path) -> None:
    """Ten seconds of a window of 165 MB are read as requests where 40 MB are left for them."""
    lakes = Lakes(str(lake))
    sides = ("1970-01-01T00:00/10s", "1970-01-01T00:05/10s")
    samples = [
        (name, lakes.ranges(parse_ranges([side], now_ns=0)))
        for name, side in zip(("reference", "problem"), sides, strict=True)
    ]
    read = read_samples(samples, (), RefineSettings(), most_bytes=40 << 20).compared
    assert read.kept is None
    assert 3_000 < sum(one.requests for one in read.summaries()) < 3_700
    needed = needed_memory(part for _, parts in samples for part in parts)
    n = sum(one.requests for one in read.summaries())
    assert needed.requests == pytest.approx(n * NODES * BYTES_A_NODE, rel=1e-6)


def test_a_filter_may_leave_nothing_of_a_window_that_does_not_fit(lake: Path) -> None:
    lakes = Lakes(str(lake))
    found = [lakes.ranges(parse_ranges([side], now_ns=0)) for side in SIDES]
    none = lakes.ranges(parse_ranges([SIDES[1]], now_ns=0, where="root = 'nowhere'"))
    for problem in (none, (*found[0], *none)):
        samples = [("reference", found[0]), ("problem", problem)]
        read = read_samples(samples, (), RefineSettings(), most_bytes=40 << 20).compared
        here, there = (one.requests for one in read.summaries())
        assert here > REQUESTS * 0.49
        assert there == (0 if problem is none else here)


def test_the_process_stays_within_it(lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a limit it takes more (0.39, 0.28 GB); no folder of votes is left."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    words = ("compare", "--lake", str(lake), "--no-save", *PERIODS)
    free = timed(*words, codes=(0, 1, 3))
    bound = timed(*words, "--memory", "448MB", codes=(0, 1, 3))
    assert bound.peak_gb < 0.33 < free.peak_gb
    assert [*tmp_path.iterdir()] == []
    assert not (lake / "stats").exists()  # of slices none is kept


def test_slices_hold_what_their_window_does(lake: Path) -> None:
    samples = samples_of(lake)
    whole = read_samples(samples, (), RefineSettings(), use="all").compared
    sliced = read_samples(samples, (), RefineSettings(), most_bytes=40 << 20).compared
    assert any("compared from the statistics" in note for note in sliced.population.notes)
    for one, other in zip(whole.summaries(), sliced.summaries(), strict=True):
        assert (one.requests, one.failed) == (other.requests, other.failed)
        assert other.mean_us == pytest.approx(one.mean_us, rel=1e-12)
    assert whole.kept is not None
    assert sliced.kept is not None
    for name in ("visits", "responses"):
        mine, theirs = whole.kept.tables()[name], sliced.kept.tables()[name]
        assert sum(mine["n"].to_pylist()) == sum(theirs["n"].to_pylist())
    for path in (lake / "stats").rglob("*.parquet"):
        path.unlink()


def test_requests_that_are_asked_for_must_fit(lake: Path) -> None:
    samples = samples_of(lake)
    for options in ({"use": "never"}, {"can_use": False}):
        options_: dict[str, Any] = options
        with pytest.raises(ConfigError, match="take about 314 MB, and 40 MB of --memory are left") as refused:
            read_samples(samples, (), RefineSettings(), most_bytes=40 << 20, **options_)
        assert "more memory" in str(refused.value)


@pytest.mark.parametrize(
    ("memory", "says"), [("300MB", "beside requests. Set it to"), ("much", "is not a size")]
)
def test_a_memory_that_is_too_small_or_none_is_one_line(
    lake: Path, capsys: pytest.CaptureFixture[str], memory: str, says: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["compare", "--lake", str(lake), "--no-save", *PERIODS, "--memory", memory])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert says in said
    assert len(said.splitlines()) == 1
