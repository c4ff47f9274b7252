"""The lake as Iceberg tables: read by pyiceberg, followed through upkeep, and killed at every step."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from oracles import fork_server
from oracles.bucket_server import KEYS, BucketServer
from oracles.encoded_once import Same
from oracles.lake_script import Acknowledged, Import, flows_table, make, open_lane, run, structures_table
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitStateUnknownException
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import TableUpdate, update_table_metadata

from flowdiff.__main__ import main
from ingest.formats import codec_for
from schemas.commits import CommitBody, Counters
from schemas.config import DecodeConfig
from schemas.errors import ConfigError, LakeError
from schemas.events import with_text_ids
from schemas.lake import PARAMS_SCHEMA
from schemas.windows import Window
from stitch.lake import iceberg
from stitch.lake.encoding import SCHEMAS
from stitch.lake.iceberg import CURSOR, CatalogError, publish
from stitch.lake.manifest import Manifest, open_manifest
from stitch.lake.place import open_store
from stitch.lake.store import LocalStore
from stitch.lake.upkeep.compaction import compact
from stitch.lake.upkeep.retention import retire
from stitch.lake.upkeep.upkeep_lane import UpkeepRun

HOUR_NS = 3600 * 10**9
NOW_NS = 10**18
NEVER = datetime(1970, 1, 1, tzinfo=UTC)
FIRST = (Import("one", {"a": 1, "b": 7}, garbage=1), Import("two", {"c": 2, "d": 12}))
RECORD = {
    "breadcrumb": "b",
    "request_id": "late",
    "ts": 1_700_000_000 * 10**9,
    "component": "shop",
    "point": "GET",
}


@lru_cache(maxsize=256)
def _metadata(base: Same[TableMetadata], updates: tuple[Same[TableUpdate], ...]) -> TableMetadata:
    return update_table_metadata(base.thing, tuple(update.thing for update in updates))


@pytest.fixture(autouse=True)
def _metadata_once(iceberg_threads: None) -> Iterator[None]:
    """pyiceberg copies all metadata whenever it looks at a transaction: here once for the same updates."""
    with patch("pyiceberg.table.update_table_metadata") as patched:
        patched.side_effect = lambda base, updates: _metadata(Same(base), tuple(map(Same, updates)))
        yield


def catalog_at(folder: Path, kind: type[SqlCatalog] = SqlCatalog, **settings: str) -> SqlCatalog:
    folder.mkdir(exist_ok=True)
    return kind("shop", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}", **settings)


def published(
    lake: Path, catalog: Catalog, namespace: str = "flowdiff", forget_before: datetime = NEVER
) -> dict[str, tuple[int, int, int]]:
    """Files added and removed, and rows, by table."""
    manifest = open_manifest(LocalStore.at(lake), str(lake))
    done = publish(manifest, f"file://{lake}", catalog, namespace, forget_before=forget_before)
    return {table.name: (table.added, table.removed, table.rows) for table in done}


def upkeep(lake: Path, hours: int = 0) -> UpkeepRun:
    return UpkeepRun(LocalStore.at(lake), str(lake), NOW_NS + hours * HOUR_NS, HOUR_NS, "test", "test")


def filled(lake: Path) -> None:
    """A row in every table of the lake."""
    lake.mkdir()
    run(LocalStore.at(lake), Acknowledged(), FIRST)
    line = json.dumps({**RECORD, "params": {"k": 1.5, "w": "x"}}).encode()
    events = with_text_ids(codec_for("native").decode([line], DecodeConfig()).events)
    param = {"request_id": "e", "kind": "spans", "position": 0, "key": "k", "num": 1.0, "text": None}
    lane = open_lane(LocalStore.at(lake))
    with lane.stage() as staging:
        window = Window.of(60 * 10**9, 300 * 10**9)
        staging.add_window("flows", window, 0, flows_table(["e"], [60 * 10**9]))
        staging.add_window("structures", window, 0, structures_table())
        staging.add_window("params", window, 0, pa.Table.from_pylist([param], schema=PARAMS_SCHEMA))
        staging.add_side("late", 0, events)
        staging.add_side("repaired", 0, events)
        lane.commit(staging, CommitBody(kind="import", counters=Counters(flows=1)))


def rows_of(table: pa.Table) -> Counter[str]:
    """Rows as text. Where a list of structs is null pyiceberg 0.12 reads an empty one: both count as that."""
    lists = [
        f.name for f in table.schema if pa.types.is_list(f.type) and pa.types.is_struct(f.type.value_type)
    ]
    rows = ({**row, **{name: row[name] or [] for name in lists}} for row in table.to_pylist())
    return Counter(map(repr, rows))


def stored_rows(manifest: Manifest, name: str) -> Counter[str]:
    """Rows of a table as plain Parquet has them, of the files that the lake shows."""
    files = [pq.read_table(pa.BufferReader(manifest.read(file))) for file in manifest.files(name)]
    return sum((rows_of(file) for file in files), Counter())


def agrees(lake: Path, catalog: Catalog, namespace: str = "flowdiff") -> None:
    """The tables show what the lake shows: every file once, every row with every column."""
    manifest = open_manifest(LocalStore.at(lake), str(lake))
    for name in iceberg.PUBLISHED:
        table = catalog.load_table(f"{namespace}.{name}")
        listed = [f"file://{lake}/{file.name}" for file in manifest.files(name)]
        assert sorted(files_of(table)) == sorted(listed), name
        assert rows_of(table.scan().to_arrow()) == stored_rows(manifest, name), name


def files_of(table: Table) -> list[str]:
    if table.current_snapshot() is None:
        return []
    paths: list[str] = table.inspect.files()["file_path"].to_pylist()
    return paths


def test_every_column_of_every_table_is_read(tmp_path: Path) -> None:
    lake, catalog = tmp_path / "lake", catalog_at(tmp_path / "catalog")
    filled(lake)
    done = published(lake, catalog)
    assert {name: rows for name, (*_, rows) in done.items()} == {
        **{"flows": 5, "structures": 5, "params": 1},
        **{"late": 1, "repaired": 1, "dead_letters": 1},
    }
    agrees(lake, catalog)
    assert {*iceberg.PUBLISHED} == {*SCHEMAS}
    for name, schema in SCHEMAS.items():
        table = catalog.load_table(f"flowdiff.{name}")
        assert [field.name for field in table.schema().fields] == schema.names
        assert all(field.doc for field in table.schema().fields)
    early = catalog.load_table("flowdiff.flows").scan("window_start < '1970-01-01T00:05:00+00:00'")
    assert sorted(early.to_arrow()["request_id"].to_pylist()) == ["a", "c", "e"]
    assert len([*early.plan_files()]) == 3, "the others are left out by what the manifest says of them"


def test_a_run_adds_what_was_committed_since_and_nothing_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake, catalog = tmp_path / "lake", catalog_at(tmp_path / "catalog")
    filled(lake)
    published(lake, catalog)
    assert {change[:2] for change in published(lake, catalog).values()} == {(0, 0)}
    assert len(catalog.load_table("flowdiff.flows").snapshots()) == 1
    make(open_lane(LocalStore.at(lake)), Import("three", {"f": 3}))
    with patch.object(iceberg, "_files_of", side_effect=AssertionError("all files are compared")):
        assert published(lake, catalog)["flows"] == (1, 0, 6)
    agrees(lake, catalog)
    with pytest.raises(SystemExit) as ended:
        main(["sql", "--lake", str(lake), "--format", "csv", "-c", "select count(*) from requests"])
    assert not ended.value.code
    assert capsys.readouterr().out.split()[-1] == "6"


def test_compaction_and_retention_take_files_away_in_one_snapshot(tmp_path: Path) -> None:
    lake, catalog = tmp_path / "lake", catalog_at(tmp_path / "catalog")
    filled(lake)
    published(lake, catalog)
    compact(upkeep(lake), least_files=2, dry_run=False)
    assert published(lake, catalog)["flows"] == (1, 3, 5)
    agrees(lake, catalog)
    make(open_lane(LocalStore.at(lake)), Import("three", {"f": 3}))
    retire(upkeep(lake), keep_ns=NOW_NS - 10 * 60 * 10**9, keep_late_ns=HOUR_NS, keep_reports_ns=None)
    done = published(lake, catalog)
    assert done["flows"] == (0, 2, 1)
    agrees(lake, catalog)
    assert len(catalog.load_table("flowdiff.flows").snapshots()) == 3


def test_side_tables_and_years_of_days_go(tmp_path: Path) -> None:
    """Tables without partitions, and more partitions at once than Python would nest."""
    lake, catalog = tmp_path / "lake", catalog_at(tmp_path / "catalog")
    filled(lake)
    make(open_lane(LocalStore.at(lake)), Import("days", {f"d{n}": 1440 * n for n in range(1, 400)}))
    published(lake, catalog)
    late = -(10**18)
    retire(upkeep(lake), keep_ns=HOUR_NS, keep_late_ns=late, keep_reports_ns=None)
    done = published(lake, catalog)
    assert done["flows"][1:] == (404, 0)
    assert [done[name][1:] for name in ("late", "repaired", "dead_letters")] == [(1, 0)] * 3
    agrees(lake, catalog)


class Steps:
    """Keeps what lies in a catalog's folder at every step of a run: what is left if it is killed there."""

    def __init__(self, home: Path, kept: Path) -> None:
        self._home = home
        self._kept = kept
        self._known: set[frozenset[tuple[str, bytes]]] = set()
        self._lock = Lock()
        self.done = 0
        self.left: list[Path] = []
        """Copies of the folder, of what is alike one."""

    def step(self) -> None:
        """Keep what lies there now. Threads that read and write files take turns."""
        with self._lock:
            self.done += 1
            files = [path for path in self._home.rglob("*") if path.is_file()]
            state = frozenset((str(path.relative_to(self._home)), path.read_bytes()) for path in files)
            if state not in self._known:
                self._known.add(state)
                self.left.append(self._kept / str(self.done))
                shutil.copytree(self._home, self.left[-1])

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Within, every call of the catalog is a step before and after it, every file before it is opened."""

        def around(call: Callable[..., Any]) -> Callable[..., Any]:
            def counted(*given: Any, **named: Any) -> Any:
                self.step()
                answer = call(*given, **named)
                self.step()
                return answer

            return counted

        with (
            patch.multiple(
                SqlCatalog,
                **{name: around(getattr(SqlCatalog, name)) for name in ("create_namespace", "create_table")},
                commit_table=around(SqlCatalog.commit_table),
            ),
            patch.multiple(
                PyArrowFileIO,
                new_input=around(PyArrowFileIO.new_input),
                new_output=around(PyArrowFileIO.new_output),
            ),
        ):
            yield


def first_run(_: Path) -> None:
    """Nothing is published yet."""


def after_an_import(lake: Path) -> None:
    make(open_lane(LocalStore.at(lake)), Import("three", {"f": 3}))


def after_compaction(lake: Path) -> None:
    after_an_import(lake)
    compact(upkeep(lake), least_files=2, dry_run=False)


@pytest.mark.parametrize("change", [first_run, after_an_import, after_compaction])
def test_a_run_that_is_killed_at_any_step_is_done_again(
    tmp_path: Path, change: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(iceberg, "PUBLISHED", ("structures", "flows"))
    lake, home, kept = tmp_path / "lake", tmp_path / "catalog", tmp_path / "kept"
    filled(lake)
    catalog_at(home).destroy_tables()
    if change is not first_run:
        published(lake, catalog_at(home))
    change(lake)
    steps = Steps(home, kept)
    with steps.kept():
        published(lake, catalog_at(home))
    assert steps.done > 20
    assert len(steps.left) > 5
    for left in steps.left:
        shutil.rmtree(home)
        shutil.copytree(left, home)
        published(lake, catalog_at(home))
        agrees(lake, catalog_at(home))


class Overtaken(SqlCatalog):
    """Another run publishes just before this one commits."""

    before_commit: Callable[[], object] | None = None

    def commit_table(self, *given: Any, **named: Any) -> Any:
        before, self.before_commit = self.before_commit, None
        if before is not None:
            before()
        return super().commit_table(*given, **named)


def test_of_two_runs_at_once_one_is_told_to_begin_again(tmp_path: Path) -> None:
    lake, home = tmp_path / "lake", tmp_path / "catalog"
    filled(lake)
    published(lake, catalog_at(home))
    after_an_import(lake)
    slow = catalog_at(home, Overtaken)
    assert isinstance(slow, Overtaken)
    slow.before_commit = lambda: published(lake, catalog_at(home))
    with pytest.raises(LakeError, match="changed by another process"):
        published(lake, slow)
    agrees(lake, catalog_at(home))
    assert {change[:2] for change in published(lake, catalog_at(home)).values()} == {(0, 0)}


def test_a_backup_that_is_put_back_replaces_what_came_after_it(tmp_path: Path) -> None:
    """The next import commits under the number of one that is gone, and its files have the same names."""
    lake, backup, catalog = tmp_path / "lake", tmp_path / "backup", catalog_at(tmp_path / "catalog")
    filled(lake)
    shutil.copytree(lake, backup)
    make(open_lane(LocalStore.at(lake)), Import("three", {"f": 3, "g": 1}))
    published(lake, catalog)
    shutil.rmtree(lake)
    shutil.copytree(backup, lake)
    assert published(lake, catalog)["flows"][2] == 5
    agrees(lake, catalog)
    make(open_lane(LocalStore.at(lake)), Import("three", {"f": 3, "g": 1}))
    published(lake, catalog)
    shutil.rmtree(lake)
    shutil.copytree(backup, lake)
    make(open_lane(LocalStore.at(lake)), Import("four", {"h": 3, "i": 1, "j": 22}))
    make(open_lane(LocalStore.at(lake)), Import("five", {"k": 3}))
    assert published(lake, catalog)["flows"][2] == 9
    agrees(lake, catalog)
    assert {change[:2] for change in published(lake, catalog).values()} == {(0, 0)}


def test_a_lake_made_anew_at_the_same_place_replaces_the_old(tmp_path: Path) -> None:
    """Also where it is only as far as the old one was, and names, sizes and rows are the same."""
    lake, catalog = tmp_path / "lake", catalog_at(tmp_path / "catalog")
    for first, second in (("a", "b"), ("c", "d")):
        shutil.rmtree(lake, ignore_errors=True)
        lake.mkdir()
        make(open_lane(LocalStore.at(lake)), Import("one", {first: 1, second: 7}))
        published(lake, catalog)
        agrees(lake, catalog)
    shutil.rmtree(lake)
    filled(lake)
    compact(upkeep(lake), least_files=2, dry_run=False)
    published(lake, catalog)
    agrees(lake, catalog)


@pytest.mark.parametrize("name", ["la#ke", "la?ke"])
def test_a_path_that_is_no_url_is_refused(tmp_path: Path, name: str) -> None:
    lake, catalog = tmp_path / name, catalog_at(tmp_path / "catalog")
    lake.mkdir()
    run(LocalStore.at(lake), Acknowledged(), FIRST)
    with pytest.raises(ConfigError, match="cannot be read"):
        published(lake, catalog)
    assert catalog.list_namespaces() == []


def test_a_snapshot_of_another_tool_is_replaced_and_costs_no_row(tmp_path: Path) -> None:
    lake, catalog = tmp_path / "lake", catalog_at(tmp_path / "catalog")
    filled(lake)
    published(lake, catalog)
    table = catalog.load_table("flowdiff.flows")
    table.delete("request_id = 'nobody'")
    with table.transaction() as transaction, transaction.update_snapshot().merge_append():
        pass
    assert CURSOR not in catalog.load_table("flowdiff.flows").current_snapshot().summary.additional_properties
    after_an_import(lake)
    assert published(lake, catalog)["flows"] == (6, 5, 6)
    agrees(lake, catalog)


def test_old_snapshots_are_forgotten(tmp_path: Path) -> None:
    lake, catalog = tmp_path / "lake", catalog_at(tmp_path / "catalog")
    filled(lake)
    published(lake, catalog)
    after_an_import(lake)
    published(lake, catalog, forget_before=datetime.now(UTC) + timedelta(hours=1))
    assert len(catalog.load_table("flowdiff.flows").snapshots()) == 1
    agrees(lake, catalog)


def metadata_of(table: Table) -> set[str]:
    """Manifests and their lists that a table's snapshots name."""
    named = {part.manifest_path for each in table.snapshots() for part in each.manifests(table.io)}
    return named | {each.manifest_list for each in table.snapshots()}


def test_metadata_of_what_is_forgotten_goes_and_all_else_stays(tmp_path: Path) -> None:
    lake, catalog = tmp_path / "lake", catalog_at(tmp_path / "catalog")
    filled(lake)
    times: list[datetime] = []
    for turn in range(5):
        if turn == 3:
            compact(upkeep(lake), least_files=2, dry_run=False)
        after_an_import(lake)
        # The second to last that was made stays, and those after it.
        forget = NEVER if len(times) < 2 else times[-2] - timedelta(milliseconds=1)
        published(lake, catalog, forget_before=forget)
        agrees(lake, catalog)
        table = catalog.load_table("flowdiff.flows")
        times.append(datetime.fromtimestamp(table.snapshots()[-1].timestamp_ms / 1000, UTC))
        assert metadata_of(table) == stored_metadata(tmp_path / "catalog")
    assert 2 <= len(table.snapshots()) < 5


def stored_metadata(folder: Path) -> set[str]:
    return {path.as_uri() for path in folder.rglob("flows/metadata/*.avro")}


def test_metadata_stays_that_only_a_later_branch_uses(tmp_path: Path) -> None:
    """Another tool emptied the table, and somebody put it back to the snapshot before."""
    lake, catalog = tmp_path / "lake", catalog_at(tmp_path / "catalog")
    filled(lake)
    published(lake, catalog)
    table = catalog.load_table("flowdiff.flows")
    (first,) = table.snapshots()
    table.delete("true")
    emptied = table.current_snapshot()
    assert emptied is not None
    table.manage_snapshots().set_current_snapshot(first.snapshot_id).commit()
    after_an_import(lake)
    forget = datetime.fromtimestamp((first.timestamp_ms + 1) / 1000, UTC)
    published(lake, catalog, forget_before=forget)
    table = catalog.load_table("flowdiff.flows")
    kept = [each.snapshot_id for each in table.snapshots()]
    assert len(kept) == 2
    assert kept[0] == emptied.snapshot_id
    agrees(lake, catalog)
    assert metadata_of(table) == stored_metadata(tmp_path / "catalog")


def test_tables_of_another_lake_and_other_columns_are_refused(tmp_path: Path) -> None:
    lake, other, catalog = tmp_path / "lake", tmp_path / "other", catalog_at(tmp_path / "catalog")
    filled(lake)
    filled(other)
    published(lake, catalog)
    with pytest.raises(CatalogError, match="shows another lake"):
        published(other, catalog)
    published(other, catalog, "second")
    agrees(other, catalog, "second")
    with catalog.load_table("flowdiff.params").update_schema() as update:
        update.rename_column("num", "number")
    with pytest.raises(CatalogError, match="other columns"):
        published(lake, catalog)


def test_the_command_takes_a_catalog_of_pyiceberg_by_name(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    filled(lake)
    (tmp_path / "warehouse").mkdir()
    told = {
        **os.environ,
        "HOME": str(tmp_path),
        "PYICEBERG_CATALOG__SHOP__URI": f"sqlite:///{tmp_path}/catalog.db",
        "PYICEBERG_CATALOG__SHOP__WAREHOUSE": f"file://{tmp_path}/warehouse",
    }

    def command(catalog: str) -> subprocess.CompletedProcess[str]:
        asked = [sys.executable, "-m", "flowdiff", "publish", str(lake), "--iceberg", catalog]
        return fork_server.run(asked, env=told, capture_output=True, text=True, check=False)

    done = command("shop")
    assert (done.returncode, done.stderr) == (0, "")
    assert "flowdiff.flows: 5 rows; 5 files added, 0 removed" in done.stdout.splitlines()
    unknown = command("nowhere")
    assert unknown.returncode == 2
    assert "The catalog 'nowhere' failed: URI missing" in unknown.stderr
    assert unknown.stderr.count("\n") == 1


MISTAKES = {
    "unplaced": ({"URI": "sqlite:///:memory:"}, "failed: No default path is set"),
    "hive": ({"TYPE": "hive", "URI": "thrift://127.0.0.1:9"}, ""),
    "glue": ({"TYPE": "glue", "WAREHOUSE": "s3://nowhere"}, ""),
    "abacus": ({"TYPE": "abacus"}, "failed: 'abacus' is not a valid CatalogType"),
    "nobody": ({"URI": "http://127.0.0.1:9"}, "failed: "),
}
"""Settings of catalogs by name, and what is said of each."""
PUBLISH_TO_EACH = """
import sys
from flowdiff.__main__ import main

for catalog in sys.argv[2:]:
    try:
        main(["publish", sys.argv[1], "--iceberg", catalog])
    except SystemExit as ended:
        print(ended.code)
"""


def test_mistakes_with_catalogs_are_one_line(tmp_path: Path) -> None:
    """Clients of Hive and Glue are asked only where they are installed; their absence is a line too."""
    lake = tmp_path / "lake"
    filled(lake)
    mistaken = {
        f"PYICEBERG_CATALOG__{catalog.upper()}__{key}": text
        for catalog, (settings, _) in MISTAKES.items()
        for key, text in settings.items()
    }
    asked = [sys.executable, "-c", PUBLISH_TO_EACH, str(lake), *MISTAKES]
    nothing = {key: text for key, text in os.environ.items() if not key.startswith("AWS_")}
    env = {**nothing, "HOME": str(tmp_path), "AWS_EC2_METADATA_DISABLED": "true", **mistaken}
    ended = fork_server.run(asked, env=env, capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["2"] * len(MISTAKES)
    for line, (catalog, (_, told)) in zip(ended.stderr.splitlines(), MISTAKES.items(), strict=True):
        assert f"The catalog '{catalog}' {told}" in line
        assert "[catalog]" in line


class Silent(SqlCatalog):
    """Takes a commit, and does not say so."""

    def commit_table(self, *given: Any, **named: Any) -> Any:
        super().commit_table(*given, **named)
        raise CommitStateUnknownException("gateway timeout")


def test_a_commit_without_an_answer_is_looked_at_by_the_next_run(tmp_path: Path) -> None:
    lake, home = tmp_path / "lake", tmp_path / "catalog"
    filled(lake)
    with pytest.raises(CatalogError, match="did not say") as refused:
        published(lake, catalog_at(home, Silent))
    assert refused.value.remedy.startswith("Run the same command again")
    assert published(lake, catalog_at(home))["structures"] == (0, 0, 5)
    agrees(lake, catalog_at(home))


def test_a_lake_in_a_bucket_is_read_where_it_is(
    bucket_server: BucketServer, bucket_environ: dict[str, str], tmp_path: Path
) -> None:
    name = bucket_server.new_lake()
    run(open_store(name), Acknowledged(), FIRST)
    catalog = catalog_at(
        tmp_path / "catalog",
        **{
            "s3.endpoint": bucket_server.endpoint,
            "s3.region": "us-east-1",
            "s3.access-key-id": KEYS["AWS_ACCESS_KEY_ID"],
            "s3.secret-access-key": KEYS["AWS_SECRET_ACCESS_KEY"],
        },
    )
    manifest = open_manifest(open_store(name), name)
    rows = {table.name: table.rows for table in publish(manifest, name, catalog, "shop", forget_before=NEVER)}
    assert (rows["flows"], rows["dead_letters"]) == (4, 1)
    found = catalog.load_table("shop.flows").scan().to_arrow()
    assert sorted(found["request_id"].to_pylist()) == ["a", "b", "c", "d"]
