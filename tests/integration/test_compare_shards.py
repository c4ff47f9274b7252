"""A comparison from statistics reports the same however they are read and tested: call sites by shards,
windows one by one or their kept sums."""

from __future__ import annotations

import gc
import json
import math
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from oracles import fork_server
from oracles.lake_script import flows_table, structures_table
from oracles.made_fleet import START_NS, Fleet, periods, write_fleet
from oracles.memory_disk import CrashError
from oracles.stored_lake import write_lake

from analyze.methods.robust import sites_seen
from analyze.profile import gathering, slot_votes, stored
from analyze.profile.profile import Column, Profile
from analyze.profile.shards import SiteShard, site_shards
from analyze.profile.slot_votes import SlotVotes
from flowdiff.__main__ import main
from schemas.windows import NS_PER_MINUTE
from stitch.lake.stats_files import StatsKey, read_stats
from stitch.lake.store import LocalStore, Store
from stitch.processes import worker_processes
from stitch.scratch import Scratch

FLEET = Fleet(110, requests=15_000)
SLOWER = FLEET.loaded_sites(2)
NS_PER_HOUR = 60 * NS_PER_MINUTE
N_COMPARED, N_HISTORY = 4, 6


def report(
    lake: Path, file: Path, workers: int, n_compared: int = N_COMPARED, n_history: int = N_HISTORY
) -> dict[str, Any]:
    words = ("--statistics", "all", "--no-save", "--json", str(file), "--workers", str(workers))
    with pytest.raises(SystemExit) as ended:
        main(["compare", "--lake", str(lake), *periods(n_compared, n_history), *words])
    assert ended.value.code in (1, 3)
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def differences(one: Any, other: Any, where: str = "") -> Iterator[str]:
    """Places of two reports that differ in more than the ninth digit; the id is made of all digits."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        for key in one.keys() - ({"id"} if where == "" else set()):
            yield from differences(one[key], other[key], f"{where}.{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, (mine, theirs) in enumerate(zip(one, other, strict=True)):
            yield from differences(mine, theirs, f"{where}[{number}]")
    elif isinstance(one, float) and isinstance(other, float):
        if not math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9):
            yield f"{where}: {one} {other}"
    elif one != other:
        yield f"{where}: {one} {other}"


def test_shards_report_what_one_table_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = tmp_path / "lake"
    write_fleet(lake, FLEET, N_COMPARED, N_HISTORY, SLOWER, times=3)
    whole = report(lake, tmp_path / "whole.json", workers=2)
    seen: list[SiteShard] = []
    started: list[int] = []

    def small_shards(profile: Profile, votes: SlotVotes) -> Iterator[SiteShard]:
        for shard in site_shards(profile, votes, most_votes=10_000):
            seen.append(shard)
            yield shard

    def watched(n: int) -> AbstractContextManager[Executor]:
        started.append(n)
        return worker_processes(n)

    for room in (stored, sites_seen):
        monkeypatch.setattr(room, "worker_processes", watched)
    monkeypatch.setattr(gathering, "MOST_VOTES", 0)
    monkeypatch.setattr(slot_votes, "MOST_HELD", 1000)
    written: list[Path] = []

    def noted(columns: Iterable[Column], folder: Path) -> tuple[object, ...]:
        written.append(folder)
        return write(columns, folder)

    write = slot_votes._written
    monkeypatch.setattr(slot_votes, "_written", noted)
    monkeypatch.setattr(sites_seen, "site_shards", small_shards)
    sharded = report(lake, tmp_path / "sharded.json", workers=1)
    assert len(seen) > 5
    assert started == []
    assert len(written) == 2 * N_COMPARED + N_HISTORY
    gc.collect()
    assert not [name for name in {*written} if name.exists()]
    monkeypatch.setattr(stored, "VOTES_A_WORKER", 1)
    monkeypatch.setattr(sites_seen, "n_shards", lambda *_: len(seen))
    monkeypatch.setattr(sites_seen, "SHARDS_A_WORKER", 1)
    shared = report(lake, tmp_path / "shared.json", workers=2)
    assert started == [2, 2, 2]  # for what is compared, the history, the shards
    named = [section for section in whole["sections"] if section["section"] == "findings"]
    operations = {finding["site"]["operation"] for finding in named[0]["findings"]}
    assert operations == {FLEET.operation(site).point for site in SLOWER}
    # Neither was saved: nothing in a report says when it was made.
    assert list(differences(sharded, whole)) == []
    assert list(differences(shared, whole)) == []


_KILLED = """
import os, signal, sys
from analyze.profile import gathering, slot_votes
from flowdiff.__main__ import main

def killed(columns, folder):
    write(columns, folder)
    os.kill(os.getpid(), signal.SIGKILL)

gathering.MOST_VOTES, slot_votes.MOST_HELD = 0, 1000
write, slot_votes._written = slot_votes._written, killed
main(sys.argv[1:])
"""
"""A comparison that is killed when it has written votes to a file."""


def test_the_next_comparison_removes_what_a_killed_one_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, scratch = tmp_path / "lake", tmp_path / "tmp"
    write_fleet(lake, FLEET, N_COMPARED, N_HISTORY, SLOWER, times=3, most_drawn=4)
    scratch.mkdir()
    words = ["compare", "--lake", str(lake), *periods(N_COMPARED, N_HISTORY), "--statistics", "all"]
    killed = fork_server.run(
        [sys.executable, "-c", _KILLED, *words, "--workers", "1"], env={**os.environ, "TMPDIR": str(scratch)}
    )
    assert killed.returncode == -signal.SIGKILL
    (left,) = scratch.iterdir()
    assert [*left.iterdir()]
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    alive = Scratch()
    at_work = alive.folder
    assert [*scratch.iterdir()] == [at_work]
    monkeypatch.setattr(gathering, "MOST_VOTES", 0)
    monkeypatch.setattr(slot_votes, "MOST_HELD", 1000)
    report(lake, tmp_path / "report.json", workers=1)
    gc.collect()
    assert [*scratch.iterdir()] == [at_work]
    del alive
    gc.collect()
    assert [*scratch.iterdir()] == []


DAYS = (6, 72)
"""Windows compared, of each period, and of the history."""


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of three days, of which every window has its statistics."""
    lake = tmp_path_factory.mktemp("days") / "lake"
    write_fleet(lake, FLEET, *DAYS, SLOWER, times=3, most_drawn=4)
    return lake


def test_kept_sums_of_windows_report_what_the_windows_do(
    days: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lake, (n_compared, n_history) = Path(shutil.copytree(days, tmp_path / "lake")), DAYS
    read: Counter[str] = Counter()

    def counted(store: Store, key: StatsKey) -> pa.Buffer | None:
        read[key.span] += 1
        return read_stats(store, key)

    monkeypatch.setattr(stored, "read_stats", counted)
    whole = report(lake, tmp_path / "whole.json", 1, n_compared, n_history)
    assert read == {"window": 84}
    with pytest.raises(SystemExit):
        main(["summarize", "--lake", str(lake), "--sums"])
    quarters = sorted((lake / "stats").glob("quarter=*/*.parquet"))
    assert len(quarters) == 14
    told = "84 windows: 0 worked out, 84 there already\n14 quarters of a day with several windows"
    assert told in capsys.readouterr().out
    read.clear()
    summed = report(lake, tmp_path / "summed.json", 1, n_compared, n_history)
    assert read == {"quarter": 12, "window": 12}
    assert list(differences(summed, whole)) == []
    monkeypatch.setattr(stored, "VOTES_A_WORKER", 1)
    content = [file.read_bytes() for file in quarters]
    for file in quarters[:3]:
        file.write_bytes(b"damaged")
    damaged = report(lake, tmp_path / "damaged.json", 2, n_compared, n_history)
    assert list(differences(damaged, whole)) == []
    with pytest.raises(SystemExit):
        main(["summarize", "--lake", str(lake), "--sums"])
    assert [file.read_bytes() for file in quarters] == content


@pytest.mark.parametrize(("hours", "n_sums"), [(2, 2), (4, 0), (6, 0)])
def test_sums_are_of_windows_that_fill_six_hours(
    hours: int, n_sums: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a window that lies in two quarters no sum could be read."""
    starts = [START_NS + n * NS_PER_HOUR + 10**9 for n in range(12)]
    flows = flows_table([f"r{n}" for n in range(12)], starts)
    write_lake(tmp_path / "lake", flows, structures_table(), hours * NS_PER_HOUR)
    with pytest.raises(SystemExit):
        main(["summarize", "--lake", str(tmp_path / "lake"), "--sums"])
    assert len([*tmp_path.glob("lake/stats/quarter=*/*")]) == n_sums
    assert f"\n{n_sums} quarters of a day" in capsys.readouterr().out


def test_old_statistics_are_kept_by_quarter_of_a_day(
    days: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A history says the same of both, whenever the run that coarsens it dies."""
    lake, (n_compared, n_history) = Path(shutil.copytree(days, tmp_path / "lake")), DAYS
    whole = report(lake, tmp_path / "whole.json", 1, n_compared, n_history)
    size = sum(file.stat().st_size for file in lake.glob("stats/window=*/*"))
    # Half an hour into the quarter that has the last hours of the history: it stays.
    age_s = int(time.time()) - START_NS // 10**9 - 66 * 3600 - 1800

    def retained(*more: str) -> str:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(["retain", str(lake), "--keep", "99999d", "--fine-statistics", f"{age_s}s", *more])
        assert ended.value.code == 0
        return capsys.readouterr().out

    # What is retired is kept by no quarter: two days of the history's windows go, and their statistics.
    keep_s = int(time.time()) - START_NS // 10**9 - 48 * 3600 - 1800
    both = retained("--dry-run", "--keep", f"{keep_s}s")
    assert both.startswith("48 windows would be retired")
    assert "statistics of 18 windows would be kept by quarter of a day (3 quarters)" in both
    first = min(lake.glob("stats/window=*/*"))
    window, name, of_first = first.parent.name, first.name, first.read_bytes()
    told = retained("--dry-run")
    assert "statistics of 66 windows would be kept by quarter of a day (11 quarters)" in told
    assert sum(file.stat().st_size for file in lake.glob("stats/*/*")) == size
    done = 0

    def dying(self: LocalStore, name: str) -> None:
        nonlocal done
        done += 1
        if done % 25 == 0:
            raise CrashError
        remove(self, name)

    remove = LocalStore.remove
    with monkeypatch.context() as patched:
        patched.setattr(LocalStore, "remove", dying)
        left = 66
        while left > 36:
            with pytest.raises(SystemExit) as ended:
                main(["retain", str(lake), "--keep", "99999d", "--fine-statistics", f"{age_s}s"])
            assert ended.value.code == 2
            assert "CrashError" in capsys.readouterr().err
            before, left = left, len([*lake.glob("stats/window=*/*")]) - 18
            assert left < before
        between = report(lake, tmp_path / "between.json", 1, n_compared, n_history)
        assert list(differences(between, whole)) == []
    assert f"statistics of {left} windows kept by quarter of a day" in retained()
    assert "statistics of 0 windows kept" in retained()
    assert len([*lake.glob("stats/quarter=*/*")]) == 11
    read: Counter[str] = Counter()

    def counted(store: Store, key: StatsKey) -> pa.Buffer | None:
        read[key.span] += 1
        return read_stats(store, key)

    monkeypatch.setattr(stored, "read_stats", counted)
    coarse = report(lake, tmp_path / "coarse.json", 1, n_compared, n_history)
    assert list(differences(coarse, whole)) == []
    assert read == {"quarter": 11, "window": 18}
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(["summarize", "--lake", str(lake)])
    assert "84 windows: 0 worked out, 84 there already" in capsys.readouterr().out
    # Statistics of one window of a quarter, made by who looked at it, do not bring back those of the others.
    kept = lake / "stats" / window
    kept.mkdir(exist_ok=True)
    (kept / name).write_bytes(of_first)
    with pytest.raises(SystemExit):
        main(["summarize", "--lake", str(lake)])
    assert "84 windows: 0 worked out, 84 there already" in capsys.readouterr().out


def test_a_sum_that_cannot_be_written_hides_no_retirement(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = tmp_path / "lake"
    write_fleet(lake, FLEET, 6, 24, SLOWER, times=3, most_drawn=4)
    with pytest.raises(SystemExit):
        main(["summarize", "--lake", str(lake)])
    for n in range(6, 36, 6):  # a file where the folder of a quarter would be
        start = datetime.fromtimestamp(START_NS / 10**9, UTC) + timedelta(hours=n)
        (lake / "stats" / f"quarter={start:%Y%m%dT%H%MZ}").write_bytes(b"")
    capsys.readouterr()
    keep_s = int(time.time()) - START_NS // 10**9 - 6 * 3600 - 1800
    with pytest.raises(SystemExit) as ended:
        main(["retain", str(lake), "--keep", f"{keep_s}s", "--fine-statistics", "1d"])
    out, err = capsys.readouterr()
    assert ended.value.code == 2
    assert out.startswith("6 windows retired")
    assert "Sums of statistics could not be written" in err
