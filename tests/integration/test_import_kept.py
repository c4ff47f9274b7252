"""`flowdiff import --keep-events`: requests cut over imports, or an import and live lanes, are joined."""

from __future__ import annotations

import io
import json
import os
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from oracles.bucket_server import BucketServer
from oracles.every_death import Judged, deaths
from oracles.logged_lake import LENGTH_NS, LoggingLane, as_rows, made_lake
from oracles.memory_disk import MemoryDisk
from oracles.quiet_import import Quiet
from oracles.traffic import native_lines, otlp_messages
from oracles.whole_lake import check

import flowdiff
from flowdiff.__main__ import main
from ingest.formats import codec_for
from schemas.commits import BuiltWindow, CommitBody, CommitRecord
from schemas.config import DecodeConfig, StitchConfig
from schemas.errors import LakeError
from schemas.events import concat_events
from schemas.windows import NS_PER_MINUTE, NS_PER_SECOND
from stitch.drivers.batch import import_files, import_into
from stitch.drivers.build.build_settings import BuildSettings
from stitch.drivers.build.kept_events import KeptBuild, build_kept
from stitch.drivers.import_settings import ImportSettings, ImportSummary
from stitch.drivers.live.election import LEASE, LeaseElection, LockElection, NoElection
from stitch.kernel import stitch
from stitch.lake.chain import read_chain, read_tail
from stitch.lake.event_log import named_segments
from stitch.lake.lane import FILE_LANE, Lane
from stitch.lake.manifest import open_manifest
from stitch.lake.place import open_store
from stitch.lake.staging import Staging
from stitch.lake.store import LocalStore
from stitch.lake.upkeep.hidden import UPKEEP_LANE
from stitch.lake.upkeep.retention import retire
from stitch.lake.upkeep.upkeep_lane import UpkeepRun
from stitch.scratch import Scratch

SEEDS = int(os.environ.get("FLOWDIFF_TEST_SEEDS", "3"))
KEEPS = ImportSettings(keep_events=True, window_length_ns=LENGTH_NS)


def lines_of(kind: str, seed: int) -> list[bytes]:
    """Lines of a file: activity records, with or without the id of their request."""
    lines = [line.encode() for line in native_lines(40, seed=seed, seconds=240)]
    if kind == "named":
        return lines
    rng = np.random.default_rng(seed)
    nameless = np.ones(len(lines), bool) if kind == "loose" else rng.random(len(lines)) < 0.5
    told = [json.loads(line) for line in lines]
    for record, is_nameless in zip(told, nameless, strict=True):
        if is_nameless:
            record.pop("request_id", None)
    return [json.dumps(record).encode() for record in told]


class Kept:
    """A lake in a folder, of imports that keep their events."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.lake, self.store = folder, folder / "lake", LocalStore.at(folder / "lake")
        self.lake.mkdir()
        self.n_files = 0
        self.now_ns = 10**18

    def import_(
        self, lines: list[bytes], settings: ImportSettings = KEEPS, *, format: str = "native"
    ) -> ImportSummary:
        path = self.folder / f"{self.n_files}.ndjson"
        self.n_files += 1
        path.write_bytes(b"\n".join(lines))
        return self.of_file(path, settings, format=format)

    def of_file(
        self, path: Path, settings: ImportSettings = KEEPS, *, format: str = "native"
    ) -> ImportSummary:
        settings = settings.model_copy(update={"format": format})
        return import_into(
            self.lake,
            [str(path)],
            settings,
            owner="test",
            created_by="test",
            stdin=io.BytesIO(),
            progress=Quiet(),
        )

    @property
    def run(self) -> UpkeepRun:
        return UpkeepRun(LocalStore.at(self.lake), str(self.lake), self.now_ns, 0, "builder", "test")

    def build(self, settings: BuildSettings | None = None) -> KeptBuild:
        with Scratch(self.folder) as scratch:
            return build_kept(self.run, scratch, settings or BuildSettings(), NoElection())

    def table(self, name: str) -> pa.Table:
        manifest = open_manifest(LocalStore.at(self.lake))
        tables = [manifest.decoded(file) for file in manifest.files(name)]  # type: ignore[arg-type]
        return pa.concat_tables(tables).unify_dictionaries()

    def is_whole(self) -> bool:
        assert check(LocalStore.at(self.lake)) == []
        return True

    def versions(self) -> dict[int, BuiltWindow]:
        found: dict[int, BuiltWindow] = {}
        for link in read_chain(self.store, UPKEEP_LANE):
            if link.record.build is not None:
                found |= {window.start_ns: window for window in link.record.build.windows}
        return found


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


def events_of(lines: list[bytes], format: str = "native") -> pa.Table:
    return concat_events([codec_for(format).decode(lines, DecodeConfig()).events])


def is_one_batch(kept: Kept, every: pa.Table) -> None:
    expected = stitch(every, StitchConfig())
    assert as_rows(kept.table("flows"), "lane") == as_rows(expected.flows, "lane")
    assert as_rows(kept.table("params")) == as_rows(expected.params)
    versions = kept.versions().values()
    assert sum(version.events for version in versions) == every.num_rows
    assert sum(version.duplicates for version in versions) == expected.counts["duplicates"]
    assert kept.is_whole()


@pytest.mark.parametrize("kind", ["named", "loose", "mixed"])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_any_split_of_events_over_imports_is_one_batch(kind: str, seed: int, kept: Kept) -> None:
    rng = np.random.default_rng([seed, len(kind)])
    lines = lines_of(kind, seed)
    n_imports = 2 + seed % 3
    of = rng.integers(0, n_imports, len(lines))
    again = np.flatnonzero(rng.random(len(lines)) < rng.choice([0, 0.05]))
    parts = [[lines[at] for at in np.flatnonzero(of == number)] for number in range(n_imports)]
    parts[-1] += [lines[at] for at in again]
    for part in parts:
        rng.shuffle(part)
        assert kept.import_(part).counters.events_logged == len(part)
        if rng.random() < 0.6:
            kept.build()
            assert kept.is_whole()
    kept.build()
    is_one_batch(kept, events_of([line for part in parts for line in part]))


def test_spans_of_two_files_are_one_trace(kept: Kept) -> None:
    messages = [*otlp_messages(30, seed=3, seconds=300, spans=10)]
    every = events_of(messages, "otlp-proto")
    lane = LoggingLane(made_lake(kept.store), 1)
    cut = np.random.default_rng(3).random(every.num_rows) < 0.5
    lane.polls.append((every.filter(pa.array(cut)), int(every["end_ns"].to_numpy().max())))
    assert not is_complete(every.filter(pa.array(cut)), every)
    lane.take()
    lane.commit(whole=True)
    path = kept.folder / "all.bin"
    path.write_bytes(b"".join(messages))
    assert kept.of_file(path, format="otlp-proto").counters.events_logged == every.num_rows
    kept.build()
    # What came by both is there once.
    expected = stitch(every, StitchConfig())
    assert as_rows(kept.table("flows"), "lane") == as_rows(expected.flows, "lane")
    assert sum(version.duplicates for version in kept.versions().values()) == int(cut.sum())
    assert kept.is_whole()


def is_complete(some: pa.Table, every: pa.Table) -> bool:
    return as_rows(stitch(some, StitchConfig()).flows) == as_rows(stitch(every, StitchConfig()).flows)


@pytest.mark.parametrize("import_first", [True, False])
def test_an_import_and_a_live_topic_are_joined(import_first: bool, kept: Kept) -> None:
    lines = lines_of("named", 5)
    every = events_of(lines)
    store = made_lake(kept.store)
    lane = LoggingLane(store, 1)
    last = int(every["ts_ns"].to_numpy().max())
    lane.polls.append((every.take(pa.array(range(0, every.num_rows, 2))), last + 10 * NS_PER_MINUTE))

    def live() -> None:
        lane.take()
        lane.commit(whole=True)

    def imported() -> None:
        kept.import_(lines[1::2])

    for step in (imported, live) if import_first else (live, imported):
        step()
        kept.build()
    is_one_batch(kept, every)
    through = {lane for version in kept.versions().values() for lane, _ in version.lanes or ()}
    assert through == {FILE_LANE, 1}


def test_a_window_waits_for_live_lanes_and_is_built_again_once_they_pass(kept: Kept) -> None:
    every = events_of(lines_of("named", 6))
    lane = LoggingLane(made_lake(kept.store), 1)
    first = int(every["ts_ns"].to_numpy().min())
    early = every.filter(pa.array(every["ts_ns"].to_numpy() < first + NS_PER_MINUTE))
    lane.polls.append((early, first + NS_PER_MINUTE))
    lane.take()
    lane.commit()
    kept.import_(lines_of("named", 6))
    built = kept.build()
    assert built.flows == kept.table("flows").num_rows
    assert built.waiting > built.windows
    assert kept.is_whole()
    lane.lane.commit(lane.now_ns, whole=True, latest_ns=int(every["ts_ns"].to_numpy().max()))
    assert kept.build().waiting == 0
    is_one_batch(kept, concat_events([every, early]))


def test_the_same_file_again_changes_nothing(kept: Kept) -> None:
    lines = lines_of("named", 1)
    assert kept.import_(lines).commit == 1
    kept.build()
    before = read_tail(kept.store, UPKEEP_LANE).head
    files = sorted(str(path) for path in kept.lake.rglob("*"))
    for settings in (KEEPS, KEEPS.model_copy(update={"keep_events": False})):
        assert kept.import_(lines, settings).commit is None
    assert kept.build() == KeptBuild(0, 0, 0, 0, 0, is_elsewhere=False)
    assert read_tail(kept.store, UPKEEP_LANE).head == before
    assert sorted(str(path) for path in kept.lake.rglob("*")) == files


def test_what_an_import_logged_is_built_by_the_next_one_where_it_was_killed_before(kept: Kept) -> None:
    lines = lines_of("named", 2)
    kept.import_(lines)  # killed here
    assert open_manifest(LocalStore.at(kept.lake)).files("flows") == []
    assert kept.import_(lines).commit is None
    assert kept.build().windows > 0
    is_one_batch(kept, events_of(lines))


def test_a_plain_import_beside_kept_ones_stays_as_it_is(kept: Kept) -> None:
    plain = KEEPS.model_copy(update={"keep_events": False})
    lines = lines_of("named", 4)
    kept.import_(lines[::2])
    kept.build()
    others = [line.replace(b'"request_id":"', b'"request_id":"other-') for line in lines]
    assert kept.import_(others, plain).counters.flows > 0
    n_plain = Counter(kept.table("flows")["lane"].to_pylist())[FILE_LANE]
    kept.import_(lines[1::2])
    kept.build()
    lanes = Counter(kept.table("flows")["lane"].to_pylist())
    assert lanes[FILE_LANE] == n_plain
    expected = stitch(events_of(lines), StitchConfig()).flows
    flows = kept.table("flows").filter(pc.equal(kept.table("flows")["lane"], UPKEEP_LANE))
    assert as_rows(flows, "lane") == as_rows(expected, "lane")
    assert all(entry.sealed for entry in open_manifest(LocalStore.at(kept.lake)).windows())
    assert kept.is_whole()


def test_little_memory_makes_more_segments_and_the_same_windows(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ImportSettings, "segment_bytes", 20_000)
    lines = lines_of("mixed", 7)
    kept.import_(lines)
    n_segments = len(named_segments(link.record for link in read_chain(kept.store, FILE_LANE)))
    assert n_segments > 3
    kept.build()
    is_one_batch(kept, events_of(lines))


def test_replaced_files_are_set_aside_where_a_later_import_adds_to_a_window(kept: Kept) -> None:
    lines = lines_of("named", 8)
    kept.import_(lines[::2])
    kept.build()
    first = {path.name for path in kept.lake.glob("flows/*/*.parquet")}
    kept.import_(lines[1::2])
    kept.build()
    there = {path.name for path in kept.lake.glob("flows/*/*.parquet")}
    named = {Path(file.name).name for file in open_manifest(LocalStore.at(kept.lake)).files("flows")}
    assert there == named
    assert not first & there


def test_absurd_and_timeless_events_are_dead_letters(kept: Kept) -> None:
    lines = lines_of("named", 9)
    bad = lines[0].replace(b'"ts":1', b'"ts":2', 1)
    assert bad != lines[0]
    done = kept.import_([*lines, bad])
    assert done.counters.rejects == {"absurd-time": 1}
    assert done.counters.events_logged == len(lines)
    kept.build()
    is_one_batch(kept, events_of(lines))


def test_a_span_without_a_time_is_in_no_window_of_the_most(kept: Kept) -> None:
    spans = [
        {"traceId": trace * 32, "spanId": "1" * 16, "name": "a", **times}
        for trace, times in (
            ("1", {"startTimeUnixNano": f"{10**18}", "endTimeUnixNano": f"{10**18}"}),
            ("2", {}),
        )
    ]
    line = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()
    done = kept.import_([line], KEEPS.model_copy(update={"max_windows": 1}), format="otlp-json")
    assert done.counters.events_logged == 2


def test_a_lost_segment_holds_the_build_until_its_loss_is_accepted(kept: Kept) -> None:
    kept.import_(lines_of("named", 1))
    kept.import_(lines_of("named", 2))
    lost = next(iter(named_segments(link.record for link in read_chain(kept.store, FILE_LANE))))
    kept.store.remove(lost)
    with pytest.raises(LakeError, match="The segment of commit 1 of lane 0 is missing or damaged"):
        kept.build()
    assert any("is missing" in each.detail for each in check(LocalStore.at(kept.lake)))
    for words, code in (((), 2), (("--accept-gaps",), 0)):
        with pytest.raises(SystemExit) as ended:
            main(["repair", str(kept.lake), "--lane", "0", *words])
        assert ended.value.code == code
    kept.build()
    expected = stitch(events_of(lines_of("named", 2)), StitchConfig())
    assert as_rows(kept.table("flows"), "lane") == as_rows(expected.flows, "lane")
    assert kept.is_whole()


def test_kept_events_go_with_their_windows(kept: Kept) -> None:
    early, late = lines_of("named", 1), lines_of("named", 2)
    shifted = [shift(line, 3 * 3600 * 10**9) for line in late]
    kept.import_(early)
    kept.import_(shifted)
    kept.build()
    folder = kept.lake / "control" / "segments" / "lane=0"
    assert len([*folder.iterdir()]) == 2
    kept.now_ns = int(events_of(shifted)["ts_ns"].to_numpy().max()) + 60 * NS_PER_MINUTE
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for keep_ns, left in ((10 * 3600 * 10**9, 2), (2 * 3600 * 10**9, 1), (1, 0)):
        retire(kept.run, keep_ns=keep_ns)
        assert len([*folder.iterdir()]) == left
        assert kept.is_whole()
        for name, data in before.items():  # as where the process ended between commit and sweep
            (folder / name).write_bytes(data)
        retire(kept.run, keep_ns=keep_ns)
        assert len([*folder.iterdir()]) == left
    assert kept.import_(early).commit is None
    assert kept.build().windows == 0


def test_a_retention_goes_on_where_an_import_commits_first(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a bucket no lock holds one of them back."""
    kept.import_(lines_of("named", 1))
    kept.build()
    commit, others = Lane.commit, [lines_of("named", 2), lines_of("named", 3)]

    def after_an_import(self: Lane, staging: Staging, body: CommitBody) -> CommitRecord:
        if body.standing.kept_from is not None and others:
            kept.import_(others.pop())
        return commit(self, staging, body)

    monkeypatch.setattr(Lane, "commit", after_an_import)
    kept.now_ns = time.time_ns()
    retire(kept.run, keep_ns=1)
    assert not others
    folder = kept.lake / "control" / "segments" / "lane=0"
    assert {path.name.partition("-")[0] for path in folder.iterdir()} == {f"{2:012d}", f"{3:012d}"}
    assert kept.is_whole()


def test_a_trace_without_a_time_waits_for_one_and_goes_with_its_import(kept: Kept) -> None:
    def line(trace: str, span: str, at_ns: int | None) -> bytes:
        ids = {"traceId": trace * 32, "spanId": span * 16, "name": "a"}
        times = {} if at_ns is None else {"startTimeUnixNano": f"{at_ns}", "endTimeUnixNano": f"{at_ns + 1}"}
        return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [ids | times]}]}]}).encode()

    lines = [line("1", "1", None), line("2", "1", None), line("3", "1", 10**18), line("1", "2", 10**18)]
    for number, one in enumerate(lines):
        done = kept.import_([one], format="otlp-json")
        assert (done.counters.events_logged, done.counters.rejects) == (1, {})
        kept.build()
        if number == 2:
            assert kept.table("flows")["request_id"].to_pylist() == ["3" * 32]
    expected = stitch(events_of([lines[0], *lines[2:]], "otlp-json"), StitchConfig())
    assert as_rows(kept.table("flows"), "lane") == as_rows(expected.flows, "lane")
    assert kept.is_whole()
    kept.now_ns = 10**18 + 10**15
    retire(kept.run, keep_ns=1)
    assert not [*(kept.lake / "control" / "segments" / "lane=0").iterdir()]
    assert kept.is_whole()


def shift(line: bytes, ns: int) -> bytes:
    told = json.loads(line)
    told["ts"] += ns
    told["breadcrumb"] = f"late-{told['breadcrumb']}"
    told["request_id"] = f"late-{told['request_id']}"
    if "links" in told:
        told["links"] = [f"late-{link}" for link in told["links"]]
    return json.dumps(told).encode()


def test_another_process_that_builds_is_left_to_it(kept: Kept) -> None:
    kept.import_(lines_of("named", 1))
    with ExitStack() as held, Scratch(kept.folder) as scratch:
        assert LockElection(kept.lake).take(held)
        assert build_kept(kept.run, scratch, BuildSettings(), LockElection(kept.lake)).is_elsewhere
    assert kept.build().windows > 0


def test_a_builder_that_was_killed_is_not_waited_for(kept: Kept) -> None:
    kept.import_(lines_of("named", 1))
    dead = LeaseElection(kept.store, "dead", lease_ns=NS_PER_SECOND // 2)
    with ExitStack() as held:
        assert dead.take(held)
        with Scratch(kept.folder) as scratch:
            alive = LeaseElection(kept.store, "alive", lease_ns=NS_PER_SECOND // 2)
            assert build_kept(kept.run, scratch, BuildSettings(), alive).is_elsewhere
        left = kept.store.read(LEASE)
    kept.store.put(LEASE, left)  # as of a process that was killed
    with Scratch(kept.folder) as scratch:
        other = LeaseElection(kept.store, "other", lease_ns=NS_PER_SECOND // 2)
        assert build_kept(kept.run, scratch, BuildSettings(), other).windows > 0


def test_the_command_joins_what_two_runs_bring(kept: Kept, capsys: pytest.CaptureFixture[str]) -> None:
    lines = lines_of("named", 3)
    for number, part in enumerate((lines[::2], lines[1::2])):
        (kept.folder / f"{number}.ndjson").write_bytes(b"\n".join(part))
        for _ in range(2):
            words = ["import", str(kept.folder / f"{number}.ndjson"), "--keep-events", "--window", "1m"]
            with pytest.raises(SystemExit) as ended:
                main([*words, "--lake", str(kept.lake)])
            assert ended.value.code in (0, None)
    assert "nothing new: the lake is unchanged" in capsys.readouterr().out
    (kept.folder / "again.ndjson").write_bytes(b"\n".join(lines[:50]))
    kept.of_file(kept.folder / "again.ndjson")  # and nothing is built: it was killed
    with pytest.raises(SystemExit):
        main(["import", str(kept.folder / "again.ndjson"), "--keep-events", "--lake", str(kept.lake)])
    assert "nothing new in these files" in capsys.readouterr().out
    assert kept.build().windows == 0
    is_one_batch(kept, events_of([*lines, *lines[:50]]))
    from_python = flowdiff.open(kept.folder / "python", create=True)
    for number in range(2):
        done = from_python.import_(kept.folder / f"{number}.ndjson", keep_events=True)
    assert done.flows == kept.table("flows").num_rows
    with pytest.raises(SystemExit) as ended:
        main([*words, "--lake", str(kept.lake), "--worker", "0/2", "--job", "j"])
    assert ended.value.code == 2
    assert "logs events in one process" in capsys.readouterr().err


def test_a_crash_anywhere_in_a_kept_import_and_its_build_is_mended_by_the_next(tmp_path: Path) -> None:
    lines = lines_of("named", 11)[:60]
    halves = []
    for number, part in enumerate((lines[::2], lines[1::2])):
        halves.append(tmp_path / f"{number}.ndjson")
        halves[-1].write_bytes(b"\n".join(part))

    def run(disk: MemoryDisk, names: list[Path]) -> None:
        for name in names:
            import_files(
                LocalStore(disk),
                tmp_path / "scratch",
                [str(name)],
                KEEPS,
                owner="test",
                created_by="test",
                stdin=io.BytesIO(),
                progress=Quiet(),
            )
            with Scratch(tmp_path) as scratch:
                upkeep = UpkeepRun(LocalStore(disk), "LAKE", 10**18, 0, "test", "test")
                build_kept(upkeep, scratch, BuildSettings(), NoElection())

    def flows(disk: MemoryDisk) -> list[str]:
        manifest = open_manifest(LocalStore(disk))
        return as_rows(pa.concat_tables([manifest.decoded(file) for file in manifest.files("flows")]), "lane")

    disk, judged = MemoryDisk(), Judged()
    run(disk, halves[:1])
    crashes = deaths(disk, lambda watched: run(watched, halves[1:]), None)
    expected = as_rows(stitch(events_of(lines), StitchConfig()).flows, "lane")
    assert flows(disk) == expected
    for left, _ in crashes:
        left.lose_power()
        if not judged.is_new(left):
            continue
        run(left, halves)
        left.lose_power()
        assert flows(left) == expected
        assert check(LocalStore(left)) == []
    assert len(judged) > 5


@pytest.mark.usefixtures("bucket_environ")
def test_two_imports_into_a_bucket_are_joined(bucket_server: BucketServer, tmp_path: Path) -> None:
    lake, lines = bucket_server.new_lake(), lines_of("mixed", 12)
    for number, part in enumerate((lines[::2], lines[1::2])):
        (tmp_path / f"{number}.ndjson").write_bytes(b"\n".join(part))
        opened = flowdiff.open(lake, create=True)
        opened.import_(tmp_path / f"{number}.ndjson", keep_events=True)
    store = open_store(lake)
    manifest = open_manifest(store, lake)
    flows = pa.concat_tables([manifest.decoded(file) for file in manifest.files("flows")])
    expected = stitch(events_of(lines), StitchConfig()).flows
    assert as_rows(flows.unify_dictionaries(), "lane") == as_rows(expected, "lane")
    assert check(store) == []
    assert store.size(LEASE) is None, "the lease is not given back"
