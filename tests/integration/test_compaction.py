"""Compaction: the same rows in fewer files, under a crash at every operation."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import pyarrow as pa
import pytest
from oracles.every_death import Judged, deaths, deaths_in_bucket
from oracles.lake_script import (
    WINDOW_NS,
    Acknowledged,
    Content,
    Import,
    content,
    flows_table,
    open_lane,
    run,
    structures_table,
)
from oracles.memory_disk import ENDINGS, MemoryDisk
from oracles.object_store import ObjectStore

from analyze.scope import resolve
from analyze.sql.session import open_session
from flowdiff.__main__ import main
from schemas.commits import CommitBody, Counters, PartitionRange, Standing
from schemas.errors import LakeError
from schemas.lake import PARAMS_SCHEMA
from schemas.periods import parse_period
from schemas.windows import Window
from stitch.lake.chain import CommitTakenError
from stitch.lake.encoding import decode, read_rows
from stitch.lake.fsck import check
from stitch.lake.lane import Lane
from stitch.lake.layout import read_info
from stitch.lake.manifest import open_manifest
from stitch.lake.store import LocalStore, Store
from stitch.lake.upkeep import compaction
from stitch.lake.upkeep.compaction import Compacted, compact, rewrite
from stitch.lake.upkeep.retention import retire
from stitch.lake.upkeep.upkeep_lane import UpkeepLane, UpkeepRun

pytestmark = pytest.mark.usefixtures("encoded_once")

HOUR_NS = 3600 * 10**9
NOW_NS = 10**18

IMPORTS = tuple(Import(f"hour-{n}", {f"a{n}": n, f"b{n}": 7}) for n in range(3))
"""Three files in the first window, three in the second."""
SMALL = (Import("one", {"a": 1}), Import("two", {"b": 2}))


def compacted(store: Store, hours: int = 0, *, dry_run: bool = False, least_files: int = 2) -> Compacted:
    run = UpkeepRun(store, "L", NOW_NS + hours * HOUR_NS, HOUR_NS, "test", "test")
    return compact(run, least_files=least_files, dry_run=dry_run)


def parameters(request: str) -> pa.Table:
    rows = [
        {"request_id": request, "kind": "spans", "position": place, "key": key, "num": 1.0, "text": None}
        for place in (0, 1)
        for key in ("x", "y")
    ]
    return pa.Table.from_pylist(rows, schema=PARAMS_SCHEMA)


def filled(store: Store) -> None:
    """Imports, and two live lanes with a window in two parts each, the last one not sealed."""
    run(store, Acknowledged(), IMPORTS)
    info = read_info(store)
    assert info is not None
    for number in (1, 2):
        lane = Lane(store, info, owner="test", created_by="test", lane=number)
        for part in range(3):
            start_ns = WINDOW_NS * (2 if part < 2 else 3) + 3 - part
            positions = (PartitionRange(topic="t", partition=number - 1, start=part, end=part + 1),)
            request = f"live-{number}-{part}"
            flows = flows_table([request], [start_ns])
            at = flows.schema.get_field_index("lane")
            flows = flows.set_column(at, flows.schema.field(at), pa.array([number], pa.int32()))
            with lane.stage() as staging:
                window = Window.of(start_ns, WINDOW_NS)
                staging.add_window("flows", window, 0, flows)
                staging.add_window("structures", window, 0, structures_table())
                staging.add_window("params", window, 0, parameters(request))
                standing = Standing(positions=positions, sealed_to_ns=(3 if part else 2) * WINDOW_NS)
                counters = Counters(events_read=1, events_published=1, flows=1)
                lane.commit(staging, CommitBody(kind="live", counters=counters, standing=standing))


def both(store: Store) -> None:
    compacted(store)
    compacted(store, hours=2)


@cache
def at_rest() -> MemoryDisk:
    disk = MemoryDisk()
    filled(LocalStore(disk))
    disk.lose_power()
    return disk


def made(disk: MemoryDisk) -> LocalStore:
    """The lake of `filled`, at rest, on a new disk."""
    disk.__dict__.update(deepcopy(at_rest().__dict__))
    return LocalStore(disk)


def small() -> tuple[MemoryDisk, LocalStore]:
    """One window in two files, for what is done at every operation."""
    disk = MemoryDisk()
    run(LocalStore(disk), Acknowledged(), SMALL)
    disk.lose_power()
    disk.steps = 0
    return disk, LocalStore(disk)


def rows_of(told: Content) -> Content:
    """Structures once a window: how often one comes is told by the number of files."""
    return Content({key: 1 if key[0] == "structures" else n for key, n in told.items()})


@cache
def expected() -> Content:
    return rows_of(content(made(MemoryDisk())))


def files_a_window(store: Store) -> list[int]:
    return [entry.files for entry in open_manifest(store).windows()]


def test_sealed_windows_become_one_file_a_table() -> None:
    store = made(MemoryDisk())
    reader = open_manifest(store)
    files = [file for table in ("flows", "structures", "params") for file in reader.files(table)]  # type: ignore[arg-type]
    assert files_a_window(store) == [6, 6, 12, 6]
    assert compacted(store, dry_run=True) == Compacted(
        3, 24, 0, sum(e.size for e in reader.windows()[:3]), 0, 0
    )
    done = compacted(store)
    assert (done.windows, done.files_before, done.files_after, done.removed) == (3, 24, 7, 0)
    assert files_a_window(store) == [2, 2, 3, 6]  # the last is not sealed
    assert rows_of(content(store)) == expected()
    assert check(store) == []
    assert [reader.read(file) for file in files]  # of a reader that had begun
    assert compacted(store).windows == 0
    assert compacted(store, hours=2).removed == 24
    assert rows_of(content(store)) == expected()
    assert check(store) == []
    for number in (1, 2):  # their last commits are there, those before were swept
        Lane(store, open_manifest(store).info, owner="test", created_by="test", lane=number)
    open_lane(store)
    assert check(store) == []


def test_rows_are_in_the_order_of_the_contract_and_keep_their_lane() -> None:
    store = made(MemoryDisk())
    compacted(store)
    manifest = open_manifest(store)
    third = Window(2 * WINDOW_NS, WINDOW_NS)
    files = sorted(manifest.by_window([third])[third], key=lambda file: file.table)
    assert [file.table for file in files] == ["flows", "params", "structures"]
    flows = decode("flows", manifest.read(files[0]))
    assert flows["request_id"].to_pylist() == ["live-1-1", "live-2-1", "live-1-0", "live-2-0"]
    assert flows["lane"].to_pylist() == [1, 2, 1, 2]
    params = decode("params", manifest.read(files[1]))
    assert params["request_id"].to_pylist()[::4] == flows["request_id"].to_pylist()
    assert params["position"].to_pylist() == [0, 0, 1, 1] * 4
    assert params["key"].to_pylist() == ["x", "y"] * 8


def test_a_window_is_written_anew_again_and_retired_at_last() -> None:
    store = made(MemoryDisk())
    compacted(store)
    more = Import("late", {"z": 1})
    run(store, Acknowledged(), (more,))
    with_more = rows_of(content(store))
    assert sum(with_more.values()) == sum(expected().values()) + 1
    assert compacted(store).windows == 1
    assert rows_of(content(store)) == with_more
    assert check(store) == []
    both(store)
    assert rows_of(content(store)) == with_more
    for hours in (3, 5):
        now_ns = NOW_NS + hours * HOUR_NS
        retire(UpkeepRun(store, "L", now_ns, HOUR_NS, "test", "test"), keep_ns=now_ns - 2 * WINDOW_NS)
    assert files_a_window(store) == [3, 6]
    assert check(store) == []


def test_a_crash_at_any_operation_of_compaction() -> None:
    """One ending each, in turn."""
    disk, store = small()
    expected, judged = rows_of(content(store)), Judged()
    crashes = deaths(disk, lambda watched: both(LocalStore(watched)), None)
    assert files_a_window(store) == [2]
    for at, (crashed, _) in enumerate(crashes, 1):
        [*ENDINGS.values()][at % len(ENDINGS)](crashed)
        if not judged.is_new(crashed):
            continue
        store = LocalStore(crashed)
        assert rows_of(content(store)) == expected
        open_lane(store)
        compacted(store)
        crashed.lose_power()
        store = LocalStore(crashed)
        assert rows_of(content(store)) == expected
        assert files_a_window(store) == [2]
        compacted(store, hours=4)
        assert check(store) == []


def test_a_crash_at_any_request_of_compaction_in_a_bucket() -> None:
    """Whether or not the last one was carried out."""
    whole = ObjectStore()
    run(whole, Acknowledged(), SMALL)
    expected = rows_of(content(whole))
    for store, _ in deaths_in_bucket(whole, both, None):
        assert rows_of(content(store)) == expected
        compacted(store)
        compacted(store, hours=4)
        assert rows_of(content(store)) == expected
        assert check(store) == []


def test_a_lost_row_is_told_before_the_commit() -> None:
    store = made(MemoryDisk())
    told = content(store)
    with (
        patch.object(compaction, "merged_flows", lambda tables: tables[0]),
        pytest.raises(LakeError, match="would change rows"),
    ):
        compacted(store)
    assert content(store) == told
    assert check(store) == []


def test_fsck_tells_a_generation_that_lost_rows() -> None:
    store = made(MemoryDisk())
    with (
        patch.object(compaction, "merged_flows", lambda tables: tables[0]),
        patch.object(compaction, "same_rows", lambda *_, **__: True),
    ):
        compacted(store)
    assert {finding.invariant for finding in check(store)} == {"I1"}


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    filled(LocalStore.at(tmp_path))
    lake = str(tmp_path)

    def said(*arguments: str) -> list[str]:
        with pytest.raises(SystemExit) as ended:
            main([*arguments])
        assert not ended.value.code
        return capsys.readouterr().out.splitlines()

    compact_all = ("compact", lake, "--files", "2")
    assert said(*compact_all, "--dry-run")[0].startswith("3 windows would be written anew (24 files, ")
    first, second = said(*compact_all, "--grace", "0")
    assert first.startswith("3 windows written anew: 24 files of ")
    assert second.startswith("24 files and folders removed")
    assert said("retain", lake, "--keep", "1d", "--dry-run")[0].startswith(
        "3 windows would be retired: 19700101T0000Z to 19700101T0010Z (10 flows, "
    )
    retained = said("retain", lake, "--keep", "1d", "--grace", "0")
    assert retained[1].startswith("7 files and folders removed")
    assert retained[2] == "past their age, but not sealed by live ingestion, so kept: 1"
    assert said("fsck", lake) == ["0 errors"]
    assert files_a_window(LocalStore.at(tmp_path)) == [6]


def on_a_folder(root: Path) -> LocalStore:
    """The lake of `filled` on a real disk."""
    store = LocalStore.at(root)
    filled(store)
    return store


def test_a_plain_glob_is_right_after_a_compaction_and_readers_that_had_begun_go_on(tmp_path: Path) -> None:
    store = on_a_folder(tmp_path)
    glob = f"SELECT count(*), count(DISTINCT request_id) FROM read_parquet('{tmp_path}/flows/*/*.parquet')"
    plain = duckdb.sql(glob).fetchall()
    assert plain == [(12, 12)]
    found = resolve(parse_period("all", now_ns=0), default_lake=str(tmp_path))
    query = "SELECT count(*) AS n FROM requests"
    with open_session(found) as bound, open_session(found) as unread:
        assert bound.query(query)["n"].to_pylist() == [10]
        assert compacted(store).windows == 3
        assert bound.query(query)["n"].to_pylist() == [10]
        assert unread.query(query)["n"].to_pylist() == [10]
        assert len(unread.query("SELECT * FROM params")) == 16
    flows = [read_rows(path, ["request_id"], lake=tmp_path) for path in found.flows]
    assert sum(part.num_rows for part in flows) == 10
    assert duckdb.sql(glob).fetchall() == plain
    assert len([*tmp_path.glob("flows/*/*.replaced")]) == 10
    assert check(store) == []
    compacted(store, hours=2)
    assert duckdb.sql(glob).fetchall() == plain
    assert [*tmp_path.rglob("*.replaced")] == []
    assert check(store) == []


class Unaware(ObjectStore):
    """A reader that listed the lanes before the first upkeep committed, and looks at files after it."""

    def names(self, folder: str, after: str = "") -> list[str]:
        found = super().names(folder, after)
        return [name for name in found if folder != "control/commits" or name != f"lane={2**31 - 1}"]


def test_a_snapshot_opened_while_files_are_set_aside_is_whole() -> None:
    store = ObjectStore()
    filled(store)
    expected = rows_of(content(store))
    compacted(store)
    reader = open_manifest(Unaware(objects=store.objects))
    flows = [decode("flows", reader.read(file)) for file in reader.files("flows")]
    assert sum(table.num_rows for table in flows) == 12
    assert rows_of(content(store)) == expected


class CompactedMeanwhile(LocalStore):
    """Another process compacts the lake between a look at a file and its reading."""

    def read(self, name: str) -> pa.Buffer:
        self._meanwhile(name)
        return super().read(name)

    def read_end(self, name: str, n_bytes: int) -> pa.Buffer:
        self._meanwhile(name)
        return super().read_end(name, n_bytes)

    def _meanwhile(self, name: str) -> None:
        other = LocalStore(self._disk)
        if name.startswith("flows/") and not other.names(f"control/commits/lane={2**31 - 1}"):
            assert compacted(other).windows == 3
            assert other.size(name) is None


def test_a_file_that_is_set_aside_between_a_look_at_it_and_its_reading_is_there() -> None:
    disk = MemoryDisk()
    made(disk)
    reader = open_manifest(CompactedMeanwhile(disk), "L")
    files = reader.files("flows")
    assert sum(decode("flows", reader.read(file)).num_rows for file in files) == 12


def test_a_lane_is_taken_over_while_files_of_its_last_commit_are_set_aside() -> None:
    disk = MemoryDisk()
    made(disk)
    open_lane(CompactedMeanwhile(disk))
    assert rows_of(content(LocalStore(disk))) == expected()
    assert check(LocalStore(disk)) == []


def test_what_was_set_aside_and_is_not_replaced_is_found(tmp_path: Path) -> None:
    store = on_a_folder(tmp_path)
    path = sorted(tmp_path.glob("flows/*/*.parquet"))[0]
    path.rename(path.with_name(f"{path.name}.replaced"))
    assert [finding.invariant for finding in check(store)] == ["I2", "I3"]


def test_live_lanes_go_on_beside_a_compaction() -> None:
    store = made(MemoryDisk())
    info = open_manifest(store).info
    live = Lane(store, info, owner="test", created_by="test", lane=1)
    compacted(store)
    positions = (PartitionRange(topic="t", partition=0, start=3, end=4),)
    with live.stage() as staging:
        standing = Standing(positions=positions, sealed_to_ns=4 * WINDOW_NS)
        live.commit(staging, CommitBody(kind="live", standing=standing))
    assert rows_of(content(store)) == expected()
    assert check(store) == []


def commit_of_another(store: Store) -> None:
    """Commit to the upkeep lane, as a builder does."""
    run = UpkeepRun(store, "lake", 0, 0, "another", "t")
    lane = UpkeepLane(run, open_manifest(store, "lake").info)
    with lane.stage() as staging:
        lane.commit(staging)


@pytest.mark.parametrize("times", [1, 5, 8])
def test_a_compaction_goes_on_where_another_writer_commits_first(
    times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a builder beside it does; groups become smaller each time."""
    store = made(MemoryDisk())
    left, expected_of_all = [times], compacted(made(MemoryDisk()))

    def rewritten(*args: Any, **kwargs: Any) -> int:
        if left[0]:
            left[0] -= 1
            commit_of_another(store)
        return rewrite(*args, **kwargs)

    monkeypatch.setattr(compaction, "rewrite", rewritten)
    done = compacted(store)
    assert (done.windows, done.files_before, done.files_after) == (
        expected_of_all.windows,
        expected_of_all.files_before,
        expected_of_all.files_after,
    )
    assert left == [0]
    assert compacted(store).windows == 0
    assert check(store) == []


def test_a_compaction_ends_where_others_always_commit_first(monkeypatch: pytest.MonkeyPatch) -> None:
    _, store = small()
    before = files_a_window(store)

    def rewritten(*args: Any, **kwargs: Any) -> int:
        commit_of_another(store)
        return rewrite(*args, **kwargs)

    monkeypatch.setattr(compaction, "rewrite", rewritten)
    with pytest.raises(CommitTakenError):
        compacted(store)
    assert files_a_window(store) == before
    assert check(store) == []
