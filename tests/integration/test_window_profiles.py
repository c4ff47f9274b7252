"""Statistics of windows in a real lake: made once, read afterwards, never believed blindly."""

from __future__ import annotations

import shutil
from collections import Counter
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from oracles.made_fleet import Fleet, periods, write_fleet
from oracles.quiet_import import Quiet
from oracles.sample_profiles import sample_profile
from oracles.traffic import START_NS, write_native

from analyze.profile import stored
from analyze.profile.history import cut_history, read_samples
from analyze.profile.numbering import RunNames
from analyze.profile.profile import Profile
from analyze.profile.stored import ProfileTally, gathered
from analyze.refine.settings import RefineSettings
from analyze.scope import LakePeriod, Lakes
from flowdiff.__main__ import main
from schemas.errors import PeriodError
from schemas.periods import format_instant
from schemas.ranges import parse_ranges
from schemas.windows import NS_PER_MINUTE, Window
from stitch.drivers.batch import ImportSettings, import_into
from stitch.lake.fsck import check
from stitch.lake.manifest import open_manifest
from stitch.lake.store import LocalStore
from stitch.processes import worker_processes

FIRST = Window.of(START_NS, 5 * NS_PER_MINUTE)
SETTINGS = RefineSettings()
WINDOWS = 4


def bring(lake: Path, file: Path, window_ns: int = FIRST.length_ns) -> None:
    import_into(
        lake,
        [str(file)],
        ImportSettings(window_length_ns=window_ns),
        owner="test",
        created_by="test",
        stdin=BytesIO(),
        progress=Quiet(),
    )


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stats")
    write_native(folder / "in.ndjson", 60, seconds=1000)
    bring(folder / "lake", folder / "in.ndjson")
    return folder / "lake"


@pytest.fixture
def lake(imported: Path, tmp_path: Path) -> Path:
    return shutil.copytree(imported, tmp_path / "lake")


def found(lake: Path, text: str = "all", where: str | None = None) -> tuple[LakePeriod, ...]:
    return Lakes(str(lake)).ranges(parse_ranges([text], now_ns=0, where=where))


def profiled(lake: Path, text: str = "all", where: str | None = None) -> tuple[Profile, ProfileTally]:
    tally = ProfileTally()
    return sample_profile([found(lake, text, where)], SETTINGS, tally=tally), tally


def kept(lake: Path) -> list[Path]:
    return sorted((lake / "stats").glob("*/*.parquet"))


def requests(profile: Profile) -> float:
    return float(sum(profile.responses["n"].to_pylist()))


def test_a_profile_is_made_once(lake: Path) -> None:
    first, made = profiled(lake)
    assert (made.read, made.made, made.kept) == (0, WINDOWS, WINDOWS)
    again, read = profiled(lake)
    assert (read.read, read.made, read.kept) == (WINDOWS, 0, 0)
    assert again == first
    assert requests(first) == 60
    assert [slot.start_ns for slot in first.slots] == [
        FIRST.start_ns + at * FIRST.length_ns for at in range(WINDOWS)
    ]
    assert check(LocalStore.at(lake)) == []
    # Readers look at what was committed only.
    assert len(open_manifest(LocalStore.at(lake)).windows()) == WINDOWS


def test_other_settings_have_profiles_of_their_own(lake: Path) -> None:
    profiled(lake)
    tally = ProfileTally()
    settings = SETTINGS.model_copy(update={"host_policy": "full"})
    sample_profile([found(lake)], settings, tally=tally)
    assert (tally.read, tally.made) == (0, WINDOWS)
    assert len(kept(lake)) == 2 * WINDOWS


def test_a_window_that_grew_is_worked_out_again(lake: Path, tmp_path: Path) -> None:
    profiled(lake)
    before = kept(lake)
    write_native(tmp_path / "more.ndjson", 10, seconds=100, seed=2, id_base=10**6)
    bring(lake, tmp_path / "more.ndjson")
    profile, tally = profiled(lake)
    assert requests(profile) == 70
    assert (tally.read, tally.made) == (WINDOWS - 1, 1)
    assert len(kept(lake)) == WINDOWS
    assert len(set(kept(lake)) & set(before)) == WINDOWS - 1


def test_a_damaged_file_is_told_and_made_anew(lake: Path) -> None:
    whole, _ = profiled(lake)
    path = kept(lake)[1]
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)
    (finding,) = check(LocalStore.at(lake))
    assert finding.invariant == "stats"
    assert path.name in finding.detail
    profile, tally = profiled(lake)
    assert profile == whole
    assert (tally.read, tally.made, tally.kept) == (WINDOWS - 1, 1, 1)
    assert check(LocalStore.at(lake)) == []


def test_a_lake_that_cannot_be_written_to_is_read_all_the_same(lake: Path) -> None:
    (lake / "stats").write_bytes(b"in the way")
    profile, tally = profiled(lake)
    assert requests(profile) == 60
    assert (tally.made, tally.kept) == (WINDOWS, 0)
    assert tally.refusals


def test_part_of_a_window_and_a_filter_are_not_kept(lake: Path) -> None:
    start = format_instant(FIRST.start_ns + 60 * 10**9)
    whole, _ = profiled(lake)
    profile, tally = profiled(lake, f"{start}/10m")
    assert (tally.read, tally.made, tally.kept) == (1, 2, 0)
    assert [slot.seconds for slot in profile.slots] == [240, 300, 60]
    assert 0 < requests(profile) < requests(whole)
    some, tally = profiled(lake, where="status = ok")
    assert requests(some) == requests(whole)
    assert (tally.read, tally.made, tally.kept) == (0, WINDOWS, 0)
    with pytest.raises(PeriodError, match="holds no request"):
        profiled(lake, where="status = no")


def test_samples_are_told_apart_by_their_slots(lake: Path) -> None:
    starts = [format_instant(FIRST.start_ns + at * FIRST.length_ns) for at in range(3)]
    samples = [found(lake, f"{starts[2]}/5m"), found(lake, f"{starts[0]}/10m")]
    profile = sample_profile(samples, SETTINGS)
    assert [slot.sample for slot in profile.slots] == [0, 1, 1]
    assert [slot.start_ns for slot in profile.slots] == [
        FIRST.start_ns + at * FIRST.length_ns for at in (2, 0, 1)
    ]


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


def test_the_command_works_ahead(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start = format_instant(FIRST.start_ns)
    assert run("summarize", "--lake", str(lake), "--period", f"{start}/5m") == 0
    assert capsys.readouterr().out == "1 window: 1 worked out, 0 there already\n"
    assert run("summarize", "--lake", str(lake), "--json") == 0
    assert capsys.readouterr().out == '{"windows": 4, "made": 3, "kept": 1, "sums": 0}\n'
    assert profiled(lake)[1].made == 0
    assert run("summarize", "--lake", str(lake / "nowhere")) == 2
    assert run("summarize", "--lake", str(lake), "--period", "2020-01-01") == 2
    shutil.rmtree(lake / "stats")
    (lake / "stats").write_bytes(b"in the way")
    capsys.readouterr()
    assert run("summarize", "--lake", str(lake)) == 2
    told = capsys.readouterr().err
    assert "4 of 4 window statistics could not be written" in told
    assert "Traceback" not in told


def test_neighbouring_windows_may_share_a_slot(lake: Path) -> None:
    each, pairs = (gathered([found(lake)], SETTINGS, RunNames(), a_slot=n).profile() for n in (1, 2))
    starts = range(0, WINDOWS, 2)
    assert [(slot.start_ns, slot.end_ns) for slot in pairs.slots] == [
        (each.slots[at].start_ns, each.slots[min(at + 1, WINDOWS - 1)].end_ns) for at in starts
    ]
    n = [np.bincount(of.visits["slot"], of.visits["calls"]) for of in (each, pairs)]
    assert n[1].tolist() == np.add.reduceat(n[0], starts).tolist()


def test_a_slot_that_two_ranges_share_is_watched_for_its_windows_once(tmp_path: Path) -> None:
    write_native(tmp_path / "in.ndjson", 120, seconds=720)
    bring(tmp_path / "lake", tmp_path / "in.ndjson", NS_PER_MINUTE)
    first = START_NS // NS_PER_MINUTE * NS_PER_MINUTE
    starts = [first + minute * NS_PER_MINUTE for minute in (1, 2, 3, 6, 7, 8)]
    ranges = [f"{format_instant(start)}/3m" for start in (starts[0], starts[3])]
    sample = Lakes(str(tmp_path / "lake")).ranges(parse_ranges(ranges, now_ns=0))
    assert len(sample) == 2
    for with_silent in (False, True):
        read = gathered([sample], SETTINGS, RunNames(), with_silent=with_silent, a_slot=2)
        assert [[one.start_ns for one in slot.watched] for slot in read.slots] == [
            starts[at : at + 2] for at in range(0, 6, 2)
        ]
        assert [slot.seconds for slot in read.slots] == [120, 120, 120]


def test_processes_read_what_is_kept_and_the_rest_is_made_here(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []

    def watched(n: int) -> AbstractContextManager[Executor]:
        started.append(n)
        return worker_processes(n)

    monkeypatch.setattr(stored, "worker_processes", watched)
    monkeypatch.setattr(stored, "VOTES_A_WORKER", 1)
    profiled(lake)
    assert started == []
    for text, a_slot, n_read in (("all", 1, 3), ("all", 2, 3), ("2025-11-20T00:52/10m", 1, 1)):
        samples = [found(lake, text)]
        alone = gathered(samples, SETTINGS, RunNames(), a_slot=a_slot).profile()
        kept(lake)[2].unlink()
        tally = ProfileTally()
        shared = gathered(samples, SETTINGS, RunNames(), tally=tally, a_slot=a_slot, workers=2).profile()
        assert shared == alone
        assert tally.read == n_read, text
        assert started.pop() == 2


def test_beside_a_history_slots_are_as_long_as_its_blocks_at_most(tmp_path: Path) -> None:
    """25 windows a sample: 12 slots of each are left; beside 12 blocks of 3 windows."""
    write_fleet(tmp_path / "lake", Fleet(6, requests=300, sites_a_root=3), 25, 36, (), 1.0)
    lakes, options = Lakes(str(tmp_path / "lake")), periods(25, 36)
    reference, problem, past = (parse_ranges([text], now_ns=0) for text in options[1::2])
    samples = [(name, lakes.ranges(of)) for name, of in (("reference", reference), ("problem", problem))]
    history = cut_history(past, [of for _, of in samples], lakes).samples
    alone, beside = (read_samples(samples, of, SETTINGS, use="all").compared for of in ((), history))
    assert alone.kept is not None
    assert beside.kept is not None
    assert Counter(slot.sample for slot in alone.kept.slots) == {0: 25, 1: 25}
    assert Counter(slot.sample for slot in beside.kept.slots) == {0: 13, 1: 13}
    assert max(len(slot.watched) for slot in beside.kept.slots) == 2
    for one, other in zip(beside.summaries(), alone.summaries(), strict=True):
        assert (one.requests, one.median_us) == (other.requests, other.median_us)
        assert one.mean_us == pytest.approx(other.mean_us, rel=1e-12)
