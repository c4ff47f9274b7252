"""A lake of layout version 1, made by the code of commit 9f0f24d, becomes one of version 2."""

from __future__ import annotations

import random
import tarfile
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest
from oracles.lake_script import content
from oracles.memory_disk import CrashError, MemoryDisk
from typer.testing import CliRunner

from flowdiff.__main__ import COMMANDS, build_app
from schemas.errors import LakeError
from stitch.lake.chain import read_chain
from stitch.lake.encoding import decode
from stitch.lake.fsck import check
from stitch.lake.lane import Lane
from stitch.lake.layout import read_info
from stitch.lake.manifest import open_manifest
from stitch.lake.store import LocalStore
from stitch.lake.upgrade import ARCHIVE, PLAN, WORK, upgrade

FIXTURE = Path(__file__).resolve().parents[1] / "fixtures" / "lake-version-1.tar.gz"


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two imports: traces with errors at the root and inside, one with records beside its spans, plain
    records, one request that is really called `odd~records`; a dead letter and a late request."""
    folder = tmp_path_factory.mktemp("version-1")
    with tarfile.open(FIXTURE) as archive:
        archive.extractall(folder, filter="data")
    return folder / "lake"


def in_memory(folder: Path) -> MemoryDisk:
    """The same lake on a disk that can be stopped; all of it durable."""
    disk = MemoryDisk()
    paths = sorted(folder.rglob("*"))
    for path in paths:
        name = path.relative_to(folder).as_posix()
        if path.is_dir():
            disk.make_folder(name)
        else:
            disk.create(name, path.read_bytes())
            disk.sync_file(name)
    for path in paths:
        if path.is_dir():
            disk.sync_folder(path.relative_to(folder).as_posix())
    disk.sync_folder("")
    disk.steps = 0
    return disk


def rows(store: LocalStore, table: str, columns: list[str]) -> list[tuple[object, ...]]:
    files = open_manifest(store).files(table)  # type: ignore[arg-type]
    tables = [decode(table, store.read(file.name), columns) for file in files]
    return [tuple(row.values()) for each in tables for row in each.to_pylist()]


def trace(number: int) -> str:
    return f"{number:032x}"


def test_every_row_is_there_in_the_new_columns(old: Path) -> None:
    store = LocalStore(in_memory(old))
    assert upgrade(store, "L") == 10
    assert check(store) == []
    columns = ["request_id", "kind", "status", "inner_status", "n_nodes"]
    assert sorted(rows(store, "flows", columns), key=repr) == sorted(
        [
            (trace(1), "spans", "ok", None, 4),
            (trace(1), "records", "ok", None, 3),
            (trace(2), "spans", "ok", "error", 4),
            (trace(3), "spans", "ok", None, 4),
            (trace(4), "spans", "ok", "error", 4),
            (trace(5), "spans", "ok", None, 4),
            (trace(6), "spans", "ok", "error", 4),
            (trace(7), "spans", "error", None, 2),
            (trace(9), "spans", "ok", None, 2),
            ("plain", "records", "ok", None, 3),
            ("odd~records", "records", "ok", None, 3),
        ],
        key=repr,
    )
    errors = rows(store, "flows", ["request_id", "error_position", "error_class"])
    assert [row for row in errors if row[1]] == [
        (trace(7), [0], ["error"])
    ]  # of the others nobody knows where
    params = rows(store, "params", ["request_id", "kind", "position", "key"])
    assert (trace(1), "spans", 0, "user") in params
    assert (trace(1), "records", 0, "n") in params
    assert ("odd~records", "records", 2, "n") in params
    assert len(params) == 6 * 2 + 3 * 3 + 4  # the messages of errors
    assert len(rows(store, "late", ["request_id"])) == len(rows(store, "dead_letters", ["reason"])) == 1
    records = [link.record for link in read_chain(store, 0)]
    assert [(r.seq, r.generation, len(r.inputs)) for r in records] == [(1, 1, 2), (2, 1, 1)]
    assert store.names("stage") == []
    assert store.names("control") == ["commits", "lock"]


def test_the_command_converts_and_everything_else_names_it(old: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with tarfile.open(FIXTURE) as archive:
        archive.extractall(tmp_path, filter="data")
    app = build_app([*COMMANDS])
    for command in (["windows"], ["fsck"], ["sql", "-c", "select 1"], ["import", str(FIXTURE)]):
        error = CliRunner().invoke(app, [*command, "--lake", str(lake)]).exception
        assert isinstance(error, LakeError)
        assert f"Run `flowdiff fsck --upgrade {lake}` to convert it." in str(error)
    done = CliRunner().invoke(app, ["fsck", "--upgrade", "--lake", str(lake)])
    assert done.stdout.endswith("layout version 3 now: 10 files were written anew\n0 errors\n")
    query = ["sql", "--lake", str(lake), "-c", "select count(*) as n from requests", "--format", "csv"]
    assert CliRunner().invoke(app, query).stdout.split() == ["n", "11"]
    again = CliRunner().invoke(app, ["fsck", "--upgrade", str(lake)])
    assert (again.exit_code, again.stdout.endswith("3 already\n0 errors\n")) == (0, True)


def test_an_upgraded_lake_knows_its_files(old: Path) -> None:
    store = LocalStore(in_memory(old))
    upgrade(store, "L")
    info = read_info(store)
    assert info is not None
    known = Lane(store, info, owner="test", created_by="test").known_inputs()
    assert sorted(file.name for file in known.values()) == ["a.otlp.jsonl", "b.ndjson", "c.otlp.jsonl"]


ENDINGS: list[Callable[[MemoryDisk], None]] = [
    MemoryDisk.kill,
    MemoryDisk.lose_power,
    lambda disk: disk.lose_some(random.Random(disk.steps)),
]


def test_a_crash_at_any_operation_is_mended_by_repeating(old: Path) -> None:
    whole = in_memory(old)
    upgrade(LocalStore(whole), "L")
    expected = content(LocalStore(whole))
    for at in range(1, whole.steps + 1, 2):
        disk = in_memory(old)
        disk.crash_at = at
        with pytest.raises(CrashError):
            upgrade(LocalStore(disk), "L")
        ENDINGS[at // 2 % len(ENDINGS)](disk)
        upgrade(LocalStore(disk), "L")
        disk.lose_power()
        store = LocalStore(disk)
        assert check(store) == []
        assert content(store) == expected
        assert (store.names(ARCHIVE), store.size(PLAN), store.names(WORK)) == ([], None, [])


def test_an_interrupted_publishing_is_finished_first(old: Path) -> None:
    disk = in_memory(old)
    for folder in ("stage/lane=0", "stage/lane=0/000000000002"):
        disk.make_folder(folder)
    final = "flows/window=20231114T2220Z/0-000000000002-00000.parquet"
    disk.rename(final, "stage/lane=0/000000000002/flows-20231114T2220Z-00000.parquet")
    store = LocalStore(disk)
    upgrade(store, "L")
    assert (trace(9),) in rows(store, "flows", ["request_id"])


@pytest.mark.parametrize("harm", ["bit", "missing", "stray", "chain"])
def test_a_lake_that_is_not_whole_is_left_as_it_is(old: Path, harm: str) -> None:
    disk = in_memory(old)
    name = "flows/window=20231114T2220Z/0-000000000002-00000.parquet"
    data = bytearray(disk.read(name).to_pybytes())
    data[100] ^= 1
    if harm == "stray":
        disk.create("flows/window=20231114T2220Z/stray.parquet", bytes(data))
    elif harm == "chain":
        disk.remove("control/commits/lane=0/000000000001.json")
    else:
        disk.remove(name)
        if harm == "bit":
            disk.create(name, bytes(data))
    before = sorted(disk._seen)
    with pytest.raises(LakeError):
        upgrade(LocalStore(disk), "L")
    assert [name for name in sorted(disk._seen) if not name.startswith("stage")] == [
        name for name in before if not name.startswith("stage")
    ]


def test_a_full_disk_is_not_left_full(old: Path) -> None:
    disk = in_memory(old)
    created = 0
    create = disk.create

    def fills_up(name: str, data: object) -> None:
        nonlocal created
        created += 1
        if created == 5:
            raise OSError(28, "No space left on device")
        create(name, data)  # type: ignore[arg-type]

    with patch.object(disk, "create", fills_up), pytest.raises(OSError, match="No space left"):
        upgrade(LocalStore(disk), "L")
    assert disk.names("stage/upgrade") == []
    assert upgrade(LocalStore(disk), "L") == 10
