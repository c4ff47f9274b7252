"""Windows whose log is gone keep their version; what comes of them is late, and stored once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pytest
from oracles.bucket_server import BucketServer
from oracles.logged_lake import LIVE, BuiltLake, LoggingLane, as_rows, made_lake, of_a_new_process
from oracles.memory_disk import MemoryDisk
from oracles.quiet_import import Quiet
from oracles.span_events import T0, batch, span

from flowdiff.__main__ import main
from schemas.config import StitchConfig
from schemas.errors import LakeError
from schemas.events import concat_events
from schemas.quality import Quality
from schemas.windows import NS_PER_MINUTE, NS_PER_SECOND
from stitch.drivers.batch import import_files
from stitch.drivers.build.build_settings import BuildSettings
from stitch.drivers.build.segment_rows import SegmentRows
from stitch.drivers.import_settings import ImportSettings
from stitch.drivers.live.live_settings import LiveSettings
from stitch.kernel import stitch
from stitch.lake.chain import read_tail
from stitch.lake.fsck import check
from stitch.lake.layout import segment_folder
from stitch.lake.manifest import open_manifest
from stitch.lake.store import LocalStore
from stitch.lake.upkeep.compaction import compact
from stitch.lake.upkeep.hidden import UPKEEP_LANE
from stitch.lake.upkeep.retention import retire
from stitch.lake.upkeep.upkeep_lane import UpkeepRun

S = NS_PER_SECOND
START = T0 - T0 % NS_PER_MINUTE + NS_PER_MINUTE
KEEPS = LIVE.model_copy(update={"keep_events_ns": 5 * NS_PER_MINUTE})
AT_ONCE = BuildSettings(rebuild_ns=0)


def trace(name: str, at_s: float, *more: dict[str, object]) -> pa.Table:
    begin = START - T0 + int(at_s * S)
    return batch(span("a", at=(begin, begin + S), trace=name), *more)


def child(name: str, at_s: float, own: str = "b", of: str = "a") -> dict[str, object]:
    begin = START - T0 + int(at_s * S)
    return span(own, of, (begin, begin + S // 2), trace=name)


class Lakes:
    """A lake with one lane, and one that is built from it."""

    def __init__(self, scratch: Path, settings: LiveSettings = KEEPS) -> None:
        self.source = made_lake(LocalStore(MemoryDisk()))
        self.lane = LoggingLane(self.source, 1, settings, keeps_for_builds=False)
        self.built = BuiltLake(self.source, scratch, AT_ONCE)

    def log(self, events: pa.Table, at_s: float) -> None:
        self.lane.polls.append((events, START + int(at_s * S)))
        self.lane.take()
        self.lane.commit()

    def ids(self) -> list[str]:
        return sorted(self.built.table("flows")["request_id"].to_pylist())

    def late(self) -> list[str]:
        manifest = open_manifest(self.built.store)
        return [row for file in manifest.files("late") for row in as_rows(manifest.decoded(file))]


@pytest.fixture
def lakes(tmp_path: Path) -> Lakes:
    """Of the first window all segments but the last are gone."""
    made = Lakes(tmp_path)
    made.log(trace("one", 1), 2)
    made.log(trace("two", 90), 92)
    made.built.step()
    for minute in range(3, 9):
        made.log(trace(f"t{minute}", 60 * minute), 60 * minute + 2)
        made.built.step()
    return made


@pytest.mark.parametrize("restarts", [False, True])
def test_what_comes_of_a_frozen_window_is_late_once(lakes: Lakes, restarts: bool) -> None:
    before = as_rows(lakes.built.table("flows"))
    lakes.log(batch(child("one", 1.2)), 8 * 60 + 10)
    lakes.log(trace("new", 30), 8 * 60 + 12)  # a request that nobody knew, in the frozen window
    lakes.log(batch(child("t8", 480.2)), 8 * 60 + 14)  # of one that is not
    steps = []
    for _ in range(3):
        if restarts:
            lakes.built.start()
        steps.append(lakes.built.step())
    assert [step.late for step in steps] == [2, 0, 0]
    assert len(lakes.late()) == 2
    lakes.built.finish()
    assert set(before) <= set(as_rows(lakes.built.table("flows")))
    assert lakes.ids() == sorted(["one", "two", *(f"t{minute}" for minute in range(3, 9))])
    assert lakes.built.ledger()["late"] == 2
    assert check(lakes.built.store) == []


def test_a_request_of_a_frozen_window_does_not_begin_anew_in_a_later_one(lakes: Lakes) -> None:
    lakes.log(batch(child("one", 8 * 60 + 5)), 8 * 60 + 10)
    lakes.built.start()
    lakes.built.finish()
    assert lakes.ids().count("one") == 1
    assert len(lakes.late()) == 1


def test_a_log_that_went_before_it_was_built_is_missing_and_said(lakes: Lakes) -> None:
    fresh = BuiltLake(lakes.source, lakes.built.scratch / "fresh", AT_ONCE)
    fresh.finish()
    kept_from = read_tail(lakes.source, 1).standing.kept_from
    assert kept_from is not None
    assert fresh.ledger()["missing"] > 0
    assert fresh.ledger()["missing"] + fresh.ledger()["events"] == 8
    assert check(fresh.store) == []


@pytest.mark.parametrize("was_read", [False, True])
def test_a_damaged_segment_takes_no_other_one_with_it(was_read: bool, tmp_path: Path) -> None:
    lakes = Lakes(tmp_path, LIVE)
    for number in range(5):
        lakes.log(trace(f"r{number}", 1 + number), 2 + number)
    if was_read:
        lakes.built.step()
    folder = segment_folder(1)
    lakes.source.remove(f"{folder}/{sorted(lakes.source.names(folder))[2]}")
    lakes.log(trace("r5", 6), 7)
    lakes.built.finish()
    assert lakes.ids() == ["r0", "r1", "r3", "r4", "r5"]
    assert lakes.built.ledger()["missing"] == 1
    lakes.built.start()
    lakes.built.finish()
    assert (lakes.built.ledger()["missing"], lakes.built.ledger()["events"]) == (1, 5)
    assert lakes.late() == []
    assert check(lakes.built.store) == []


def test_a_log_that_was_read_but_went_before_it_was_built_is_missing_and_said(tmp_path: Path) -> None:
    """Another lane holds the watermark for longer than the log is kept."""
    lakes = Lakes(tmp_path)
    slow = LoggingLane(lakes.source, 2, KEEPS, keeps_for_builds=False)
    slow.polls.append((trace("slow", 1), START + 2 * S))
    slow.take()
    slow.commit()
    steps = []
    for minute in range(9):
        lakes.log(trace(f"t{minute}", 60 * minute + 1), 60 * minute + 2)
        steps.append(lakes.built.step())
    assert [step.did_anything for step in steps] == [False] * 5 + [True] * 4  # `--follow` says it
    lakes.built.finish()
    assert lakes.ids() == ["slow", "t4", "t5", "t6", "t7", "t8"]
    assert (lakes.built.ledger()["missing"], lakes.built.ledger()["events"]) == (4, 6)


def test_a_window_that_loses_its_only_request_to_an_earlier_one_is_emptied(tmp_path: Path) -> None:
    lakes = Lakes(tmp_path)
    lakes.log(batch(child("moves", 70)), 72)
    lakes.log(trace("other", 200), 210)
    lakes.built.step()
    assert lakes.ids() == ["moves"]
    lakes.log(trace("moves", 10), 220)
    for _ in range(3):
        lakes.built.step(urgent=True)
    flows = lakes.built.table("flows")
    assert flows.filter(pa.compute.equal(flows["request_id"], "moves"))["start_ns"].to_pylist() == [
        START + 10 * S
    ]
    assert check(lakes.built.store) == []
    lakes.built.start()
    lakes.built.finish()
    every = pa.concat_tables([events for events, _ in lakes.lane.polls]).unify_dictionaries()
    expected = stitch(every.combine_chunks(), LIVE.stitch)
    assert as_rows(lakes.built.table("flows"), "lane") == as_rows(expected.flows, "lane")


def test_a_version_as_before_is_not_published_again(tmp_path: Path) -> None:
    lakes = Lakes(tmp_path)
    lakes.log(trace("one", 1), 2)
    lakes.log(trace("two", 90), 92)
    assert lakes.built.step().built == 1
    lakes.log(trace("one", 1), 93)  # a copy of it
    assert lakes.built.step(urgent=True).again == 1
    last = read_tail(lakes.built.store, UPKEEP_LANE).records[-1].record
    assert last.publish == ()
    assert last.build is not None
    assert [(window.version, window.duplicates) for window in last.build.windows] == [(1, 1)]
    assert check(lakes.built.store) == []


def test_versions_compaction_and_retention_share_a_lake(lakes: Lakes) -> None:
    run = UpkeepRun(lakes.built.store, "built", lakes.built.now_ns, 0, "o", "t")
    before = as_rows(lakes.built.table("flows"))
    compact(run, least_files=1)
    assert as_rows(lakes.built.table("flows")) == before
    lakes.log(batch(child("t8", 480.2)), 8 * 60 + 14)
    lakes.built.start()
    lakes.built.finish()
    assert lakes.ids() == sorted(["one", "two", *(f"t{minute}" for minute in range(3, 9))])
    assert check(lakes.built.store) == []
    retire(replace(run, now_ns=START + 5 * NS_PER_MINUTE), keep_ns=3 * NS_PER_MINUTE)
    kept = lakes.ids()
    assert "one" not in kept
    lakes.log(batch(child("one", 1.3)), 8 * 60 + 16)
    lakes.built.start()
    lakes.built.finish()
    assert lakes.ids() == kept
    assert check(lakes.built.store) == []


@pytest.mark.parametrize("restarts", [False, True])
def test_a_flow_that_begins_in_another_window_than_its_events_is_there_once(
    restarts: bool, tmp_path: Path
) -> None:
    """The clock of a child is behind: its flow begins with the root, a window later."""
    lakes = Lakes(tmp_path, LIVE)
    lakes.log(trace("skewed", 65, child("skewed", 55)), 66)
    lakes.log(trace("one", 50, child("one", 52)), 67)
    for at_s in (100, 200, 300):
        lakes.log(trace(f"end{at_s}", at_s), at_s + 10)
        if restarts:
            lakes.built.start()
        lakes.built.step()
    lakes.log(batch(child("skewed", 68, "c")), 320)  # late
    lakes.log(trace("end", 400), 410)
    for _ in range(2):
        if restarts:
            lakes.built.start()
        lakes.built.step(urgent=True)
    lakes.built.start()
    lakes.built.finish()
    every = pa.concat_tables([events for events, _ in lakes.lane.polls]).unify_dictionaries()
    expected = stitch(every.combine_chunks(), LIVE.stitch)
    assert as_rows(lakes.built.table("flows"), "lane") == as_rows(expected.flows, "lane")
    assert lakes.built.ledger()["events"] == every.num_rows
    moved = {window.start_ns: window.moved for window in lakes.built.builder._versions.values()}
    assert moved[START], "the request is of the first window by its events"
    assert check(lakes.built.store) == []


def test_a_window_of_more_events_than_are_stitched_at_once_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = []
    for small in (False, True):
        lakes = Lakes(tmp_path / str(small), LIVE)
        if small:
            monkeypatch.setattr(BuildSettings, "rows_at_once", 3)
        lakes.log(
            pa.concat_tables([trace(f"r{n}", n, child(f"r{n}", n)) for n in range(20)]).unify_dictionaries(),
            30,
        )
        lakes.built.finish()
        flows, structures = (as_rows(lakes.built.table(name)) for name in ("flows", "structures"))
        rows.append((flows, {*structures}))  # each part has all of its flows
    assert rows[0] == rows[1]


def test_a_request_of_very_many_events_is_capped_and_all_of_them_are_accounted_for(tmp_path: Path) -> None:
    config = StitchConfig(max_events_per_flow=3)
    lakes = Lakes(tmp_path, LIVE.model_copy(update={"stitch": config}))
    events = trace("large", 1, *(child("large", 1 + n / 100, f"b{n:02d}") for n in range(30)))
    lakes.log(concat_events([events.slice(10), trace("small", 2)]), 30)
    lakes.log(concat_events([events.slice(0, 10)]), 40)
    lakes.built.finish()
    flows = sorted(lakes.built.table("flows").to_pylist(), key=lambda flow: flow["request_id"])
    assert [(flow["request_id"], flow["n_nodes"]) for flow in flows] == [("large", 6), ("small", 2)]
    assert [flow["quality"] for flow in flows] == [int(Quality.CAPPED), 0]
    expected = stitch(concat_events([events]), config).flows.to_pylist()[0]
    assert {name: flows[0][name] for name in ("category", "offset_ns", "start_ns")} == {
        name: expected[name] for name in ("category", "offset_ns", "start_ns")
    }
    build = read_tail(lakes.built.store, UPKEEP_LANE).records[-1].record.build
    assert build is not None
    assert [window.events for window in build.windows] == [events.num_rows + 1]
    assert check(lakes.source) == []


def test_a_lake_is_built_by_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("live", "built"):
        (tmp_path / name).mkdir()
    lane = LoggingLane(made_lake(LocalStore.at(tmp_path / "live")), 1)
    for at_s in (1, 30, 90, 200):
        lane.polls.append((trace(f"r{at_s}", at_s), START + (at_s + 1) * S))
        lane.take()
        lane.commit()
    arguments = ["build", str(tmp_path / "live"), "--into", str(tmp_path / "built")]
    assert run(arguments) == 0
    assert "2 windows built of 3 events" in capsys.readouterr().out
    assert run([*arguments, "--finished"]) == 0
    assert "1 windows built of 1 events" in capsys.readouterr().out
    assert run([*arguments, "--finished"]) == 0
    assert "0 windows built of 0 events" in capsys.readouterr().out
    for told in (["fsck"], ["windows"], ["sql", "-c", "select count(*) as n from requests"]):
        assert run([*told, "--lake", str(tmp_path / "built")]) == 0
    assert "4" in capsys.readouterr().out
    assert run(["build", str(tmp_path / "none"), "--into", str(tmp_path / "built")]) == 2


def test_two_builders_build_one_lake_in_a_bucket(
    tmp_path: Path,
    bucket_server: BucketServer,
    bucket_environ: dict[str, str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """No lock keeps them apart: one whose commit came second ends with 75, which supervisors try again."""
    (tmp_path / "live").mkdir()
    lane = LoggingLane(made_lake(LocalStore.at(tmp_path / "live")), 1)
    for at_s in range(0, 1_200, 20):
        lane.polls.append((trace(f"r{at_s}", at_s), START + (at_s + 1) * S))
        lane.take()
        lane.commit()
    built = bucket_server.new_lake()
    command = [
        sys.executable,
        "-m",
        "flowdiff",
        "build",
        str(tmp_path / "live"),
        "--into",
        built,
        "--finished",
    ]
    environ = {**os.environ, **bucket_environ}

    def supervised(_: int) -> int:
        tried = 0
        while (code := subprocess.run(command, env=environ, stdout=subprocess.DEVNULL).returncode) == 75:
            tried += 1
            assert tried < 20
        return code

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(supervised, range(2))) == [0, 0]
    assert run(["fsck", "--lake", built]) == 0
    capsys.readouterr()
    assert run(["sql", "--lake", built, "--format", "json", "-c", "select count(*) as n from requests"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"n": 60}]


def test_the_command_follows_the_log_until_it_is_stopped(tmp_path: Path) -> None:
    for name in ("live", "built"):
        (tmp_path / name).mkdir()
    lane = LoggingLane(made_lake(LocalStore.at(tmp_path / "live")), 1)
    arguments = ["build", str(tmp_path / "live"), "--into", str(tmp_path / "built")]
    assert run([*arguments, "--follow", "0s"]) == 2
    command = [sys.executable, "-m", "flowdiff", *arguments, "--follow", "100ms"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            for minute in range(3):
                lane.polls.append((trace(f"r{minute}", 60 * minute + 30), START + (60 * minute + 31) * S))
                lane.take()
                lane.commit()
                if minute:  # the watermark has passed the one before
                    assert process.stdout.readline() == "1 windows built of 1 events\n"
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()


def run(arguments: list[str]) -> int:
    """Exit code of a command."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


def test_a_log_stays_until_its_windows_are_built(tmp_path: Path) -> None:
    """However old it is: another lane holds the watermark, or nobody builds."""
    source = made_lake(LocalStore(MemoryDisk()))
    fast, slow = (LoggingLane(source, number, KEEPS) for number in (1, 2))
    built = BuiltLake(source, tmp_path, AT_ONCE, source)

    def log(lane: LoggingLane, at_s: float) -> None:
        lane.polls.append((trace(f"{lane.number} {at_s}", at_s), START + int((at_s + 1) * S)))
        lane.take()
        lane.commit()

    log(slow, 1)
    for minute in range(30):
        log(fast, 60 * minute + 2)
        built.step()
    kept_from = [read_tail(source, lane).standing.kept_from for lane in (1, 2)]
    assert kept_from == [1, 1]
    log(slow, 60 * 29 + 3)
    assert built.step().built == 16
    built.step()
    for _ in range(2):
        log(fast, 60 * 30 + 4)
    assert (read_tail(source, 1).standing.kept_from or 0) > 20
    built.finish()
    assert len(built.table("flows")) == 33
    assert built.ledger()["missing"] == built.ledger()["late"] == 0
    assert check(built.store) == []


def test_a_folder_that_cannot_be_made_is_said_by_its_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made_lake(LocalStore.at(tmp_path))
    assert run(["build", "--lake", str(tmp_path), "--into", str(tmp_path / "no" / "folder")]) != 0
    assert "Check --into." in capsys.readouterr().err


def test_a_lake_with_more_than_what_is_built_is_refused(tmp_path: Path) -> None:
    lakes = Lakes(tmp_path)
    with pytest.raises(LakeError, match="has commits of lane 1"):
        BuiltLake(lakes.source, tmp_path, AT_ONCE, of_a_new_process(lakes.source))


def test_versions_count_in_the_order_of_commits_whatever_clocks_say(tmp_path: Path) -> None:
    lakes = Lakes(tmp_path, LIVE)
    for number, now_ns in enumerate((50, 20, 90, 10, 30, 95)):
        lakes.log(trace(f"r{number}", 1 + number), 2 + number)
        lakes.built.now_ns = now_ns * S
        lakes.built.start()
        assert lakes.built.step(finished=True).did_anything
    assert lakes.ids() == [f"r{number}" for number in range(6)]
    assert check(lakes.built.store) == []
    built = read_tail(lakes.built.store, UPKEEP_LANE).standing.upkeep.built  # type: ignore[union-attr]
    assert len(built) <= 3


@pytest.mark.parametrize("waits", [False, True])
def test_what_left_the_log_while_no_builder_ran_is_missing_and_said(waits: bool, tmp_path: Path) -> None:
    """A builder read it and was gone before it could build it."""
    lakes = Lakes(tmp_path)
    lakes.log(trace("one", 1), 2)
    lakes.log(trace("two", 90), 92)
    assert lakes.built.step().built == 1
    if waits:
        lakes.log(batch(child("one", 1.2)), 93)  # late: rebuilt another time
        lakes.log(trace("three", 95), 96)
        lakes.built.builder._settings = BuildSettings(rebuild_share=10)
        assert not lakes.built.step().did_anything
    for minute in range(3, 12):
        lakes.log(trace(f"t{minute}", 60 * minute), 60 * minute + 2)
    for _ in range(2):
        lakes.built.start()
        lakes.built.finish()
    every = sum(events.num_rows for events, _ in lakes.lane.polls)
    ledger = lakes.built.ledger()
    assert ledger["missing"] > 0
    assert ledger["missing"] + ledger["events"] + ledger["late"] == every
    assert check(lakes.built.store) == []


def test_a_lane_that_sweeps_while_a_window_is_built_ends_no_builder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lakes = Lakes(tmp_path)
    for at_s in (1, 2, 90):
        lakes.log(trace(f"r{at_s}", at_s), at_s + 1)
    real = SegmentRows.of

    def rows(self: SegmentRows, *given: object) -> object:
        monkeypatch.setattr(SegmentRows, "of", real)
        for minute in range(3, 10):
            lakes.log(trace(f"t{minute}", 60 * minute), 60 * minute + 2)
        return real(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(SegmentRows, "of", rows)
    lakes.built.step()
    lakes.built.finish()
    ledger = lakes.built.ledger()
    kept_from = read_tail(lakes.source, 1).standing.kept_from
    assert kept_from is not None
    assert kept_from > 3
    assert ledger["missing"] == kept_from - 1
    assert ledger["missing"] + ledger["events"] == 10
    assert check(lakes.built.store) == []


def test_a_request_that_moves_into_an_earlier_window_is_there_once_at_any_time(tmp_path: Path) -> None:
    """Both windows are built in one commit, whatever else waits."""
    lakes = Lakes(tmp_path, LIVE)
    lakes.built.settings = BuildSettings(rebuild_share=10)
    lakes.built.start()
    for minute in range(6):
        lakes.log(trace(f"r{minute}", 60 * minute + 1), 60 * minute + 2)
        lakes.built.step()
    lakes.log(batch(child("r3", 61)), 310)  # its clock is behind: the flow begins with its root
    lakes.built.step()
    assert lakes.ids() == [f"r{minute}" for minute in range(4)]
    lakes.log(batch(span("c", at=(START - T0 + 61 * S, START - T0 + 62 * S), trace="r3")), 311)
    for restarts in (False, True):
        if restarts:
            lakes.built.start()
        lakes.built.step()
        assert lakes.ids() == [f"r{minute}" for minute in range(4)]
    flows = lakes.built.table("flows")
    assert flows.filter(pa.compute.equal(flows["request_id"], "r3"))["start_ns"].to_pylist() == [
        START + 61 * S
    ]
    assert check(lakes.built.store) == []


def letters_of(store: LocalStore) -> list[tuple[str, str]]:
    """(Reason, span) of each dead letter."""
    manifest = open_manifest(store)
    rows = [row for file in manifest.files("dead_letters") for row in manifest.decoded(file).to_pylist()]
    return sorted((row["reason"], json.loads(row["raw"])["point"]) for row in rows)


@pytest.mark.parametrize("restarts", [False, True])
def test_what_contradicts_is_a_dead_letter_once_however_often_its_window_is_built(
    restarts: bool, tmp_path: Path
) -> None:
    lakes = Lakes(tmp_path)

    def expected() -> list[tuple[str, str]]:
        every = pa.concat_tables([events for events, _ in lakes.lane.polls]).unify_dictionaries()
        rejects = stitch(every.combine_chunks(), LIVE.stitch).rejects
        return sorted((each.reason, json.loads(each.raw or b"")["point"]) for each in rejects)

    lakes.log(trace("one", 1, child("one", 1.1), child("one", 1.1, own="c")), 2)
    other = child("one", 1.1) | {"point": "zz"}  # the id of b, and other content
    lakes.log(batch(other), 3)
    lakes.log(trace("two", 90), 92)
    lakes.built.step()
    assert len(expected()) == 1
    assert letters_of(lakes.built.store) == expected()
    for events in (
        batch(child("one", 1.3, own="d")),
        batch(other),  # a copy
        batch(child("one", 1.1, own="c") | {"point": "yy"}),
    ):
        lakes.log(events, 95)
        if restarts:
            lakes.built.start()
        assert lakes.built.step().again == 1
        assert letters_of(lakes.built.store) == expected()
    last = read_tail(lakes.built.store, UPKEEP_LANE).records[-1].record.counters
    assert (last.rejects, last.rejects_not_kept) == ({"conflict": 2}, 1)
    assert check(lakes.built.store) == []


def test_a_commit_keeps_so_many_dead_letters_and_counts_the_others(tmp_path: Path) -> None:
    lakes = Lakes(tmp_path)
    lakes.built.settings = BuildSettings(rebuild_ns=0, max_dead_letters_per_commit=3)
    lakes.built.start()
    for start in (1, 61):
        names = [f"n{number}" for number in range(2)]
        lakes.log(
            trace(
                "one" if start == 1 else "two",
                start,
                *(child("one" if start == 1 else "two", start, own=n) for n in names),
            ),
            start,
        )
        lakes.log(
            batch(*(child("one" if start == 1 else "two", start, own=n) | {"point": f"z{n}"} for n in names)),
            start,
        )
    lakes.built.finish()
    record = read_tail(lakes.built.store, UPKEEP_LANE).records[-1].record
    assert len(letters_of(lakes.built.store)) == 3
    assert (record.counters.rejects, record.counters.rejects_not_kept) == ({"conflict": 4}, 1)
    assert check(lakes.built.store) == []


def qualities(built: BuiltLake) -> dict[str, int]:
    flows = built.table("flows")
    return dict(zip(flows["request_id"].to_pylist(), flows["quality"].to_pylist(), strict=True))


@pytest.mark.parametrize("ends", ["quietly", "with more", "at the end"])
def test_a_request_that_runs_when_its_window_is_built_is_incomplete_until_it_ended(
    ends: str, tmp_path: Path
) -> None:
    lakes = Lakes(tmp_path)
    if ends == "at the end":
        lakes.built.settings = BuildSettings()
        lakes.built.start()
    lakes.log(trace("done", 2), 4)
    lakes.log(batch(child("long", 50)), 51)
    lakes.log(batch(child("long", 87, "c", "b")), 88)  # the watermark is at 77.5, patience ended at 75
    assert lakes.built.step().built == 1
    assert qualities(lakes.built) == {"done": 0, "long": Quality.ORPHAN | Quality.INCOMPLETE}
    upkeep = read_tail(lakes.built.store, UPKEEP_LANE).standing.upkeep
    assert upkeep is not None
    assert dict(upkeep.built_to)[1] < 2  # the log stays for when it has ended
    lakes.built.start()
    assert not lakes.built.step().did_anything  # it may go on
    if ends == "with more":
        lakes.log(batch(child("long", 96, "d", "c")), 97)
        assert lakes.built.step().again == 1
        assert qualities(lakes.built)["long"] == Quality.ORPHAN | Quality.INCOMPLETE
    lakes.log(trace("next", 125), 127)
    if ends == "at the end":
        assert not lakes.built.step().again
        lakes.built.finish()
    else:
        assert lakes.built.step().again == 1
    assert qualities(lakes.built)["long"] == Quality.ORPHAN
    lakes.built.finish()
    every = pa.concat_tables([events for events, _ in lakes.lane.polls]).unify_dictionaries()
    expected = stitch(every.combine_chunks(), LIVE.stitch)
    assert as_rows(lakes.built.table("flows"), "lane") == as_rows(expected.flows, "lane")
    assert check(lakes.built.store) == []


def test_a_complete_request_is_not_incomplete_however_late_its_last_event(tmp_path: Path) -> None:
    lakes = Lakes(tmp_path)
    lakes.log(trace("long", 59, child("long", 84)), 85)
    lakes.log(trace("next", 86), 87)
    assert lakes.built.step().built == 1
    assert qualities(lakes.built) == {"long": 0}


def imported(store: LocalStore, scratch: Path, name: str, at_s: float) -> None:
    """Import one record."""
    file = scratch / f"{name}.ndjson"
    told = {"breadcrumb": name, "request_id": name, "ts": START + int(at_s * S), "kind": "end"}
    file.write_text(json.dumps({**told, "component": "web", "point": "p"}))
    settings = ImportSettings(window_length_ns=NS_PER_MINUTE)
    import_files(
        store,
        scratch / f"scratch-{name}",
        [str(file)],
        settings,
        owner="i",
        created_by="t",
        stdin=BytesIO(),
        progress=Quiet(),
    )


def test_what_was_imported_stays_where_a_window_is_built_again_and_compacted(tmp_path: Path) -> None:
    lakes = Lakes(tmp_path)
    lakes.built = BuiltLake(lakes.source, tmp_path / "inside", AT_ONCE, lakes.source)
    lakes.log(trace("one", 1), 2)
    lakes.log(trace("two", 90), 92)
    assert lakes.built.step().built == 1
    store = lakes.built.store
    for name in "ij":
        imported(store, tmp_path, name, 5)
    run = UpkeepRun(store, "built", lakes.built.now_ns, 0, "o", "t")
    for at_s in (1.2, 1.3, 1.4):
        lakes.log(batch(child("one", at_s, f"c{at_s}")), 93)
        lakes.built.start()
        assert lakes.built.step().again == 1
        assert lakes.ids() == ["i", "j", "one"]
        assert check(lakes.built.store) == []
        compacted = compact(run, least_files=2)  # it may be built again: what else is in it stays apart
        assert compacted.windows == 0
    for minute in range(3, 9):
        lakes.log(trace(f"t{minute}", 60 * minute), 60 * minute + 2)
        lakes.built.start()
        lakes.built.step()
    assert compact(run, least_files=2).windows == 1  # its log is gone
    lakes.log(batch(child("one", 1.5, "e")), 8 * 60 + 5)
    lakes.built.start()
    lakes.built.finish()
    assert lakes.ids() == sorted(["i", "j", "one", "two", *(f"t{minute}" for minute in range(3, 9))])
    assert len(lakes.late()) == 1
    assert check(lakes.built.store) == []


def test_a_window_that_waits_for_more_late_events_is_no_backlog(tmp_path: Path) -> None:
    lakes = Lakes(tmp_path, LIVE)
    lakes.built.settings = BuildSettings(rebuild_share=10)
    lakes.built.start()
    for minute in range(2):
        lakes.log(trace(f"r{minute}", 60 * minute + 1), 60 * minute + 2)
    lakes.log(trace("r2", 149), 150)
    assert lakes.built.step().built == 2
    lakes.log(batch(child("r0", 1.6, "c")), 151)
    lakes.built.step()
    assert lakes.built.builder.n_waiting == 0
    lakes.log(trace("later", 800), 801)  # ten minutes
    lakes.built.step()
    assert lakes.built.builder.n_waiting == 2  # that one, and that of r2
    lakes.built.step()
    assert lakes.built.builder.n_waiting == 0
    for minute in range(15, 20):
        lakes.log(trace(f"r{minute}", 60 * minute + 1), 60 * minute + 2)
    lakes.built.step()
    assert lakes.built.builder.n_waiting > 3
