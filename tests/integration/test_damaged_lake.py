"""Readers of a lake with a file missing, cut or damaged, or with an import that was interrupted."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import pytest
from oracles.quiet_import import Quiet
from oracles.traffic import write_native
from typer.testing import CliRunner, Result

from analyze.scope import resolve
from analyze.sql.session import open_session
from flowdiff.__main__ import COMMANDS, build_app
from schemas.errors import ConfigError, LakeError
from schemas.periods import parse_period
from stitch.drivers.batch import ImportSettings, import_into
from stitch.lake.chain import read_chain
from stitch.lake.store import LocalStore

PERIODS = [
    *("--reference", "2025-11-20T00:50Z/2025-11-20T00:55Z"),
    *("--problem", "2025-11-20T00:55Z/2025-11-20T01:05Z"),
]
STATEMENT = "select count(*), sum(response_us) from requests join categories using (category)"
SESSION = "session"
"""What the process of `flowdiff sql` does, without one."""
READERS = {
    "windows": ["windows"],
    "categories": ["categories"],
    "flow": ["flow", "req-00000001"],
    "sql": ["sql", "-c", STATEMENT],
    "export": ["export", "--format", "native"],
    "compare": ["compare", *PERIODS, "--fail-on", "never"],
    "compare where": ["compare", *PERIODS, "--where", "host = 'nfs-1'"],
}


def put(lake: Path, file: Path) -> None:
    import_into(
        lake,
        [str(file)],
        ImportSettings(),
        owner="test",
        created_by="test",
        stdin=io.BytesIO(),
        progress=Quiet(),
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of two commits."""
    folder = tmp_path_factory.mktemp("damage")
    write_native(folder / "a.ndjson", 40)
    text = (folder / "a.ndjson").read_text()
    (folder / "b.ndjson").write_text(text.replace('"request_id":"', '"request_id":"again-'))
    put(folder / "lake", folder / "a.ndjson")
    put(folder / "lake", folder / "b.ndjson")
    return folder / "lake"


@pytest.fixture
def lake(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "lake"))


def run(lake: Path, reader: str) -> Result:
    arguments = [*READERS[reader], "--lake", str(lake)]
    return CliRunner().invoke(build_app([*COMMANDS]), arguments)


def failure(lake: Path, reader: str) -> BaseException | None:
    if reader != SESSION:
        return run(lake, reader).exception
    try:
        with open_session(resolve(parse_period("all", now_ns=0), default_lake=str(lake))) as session:
            session.query(STATEMENT)
    except LakeError as error:
        return error
    return None


def first_file(lake: Path, table: str, commit: int) -> Path:
    return sorted(lake.glob(f"{table}/*/0-{commit:012d}-*.parquet"))[0]


HARMS = [
    (reader, table, harm)
    for reader in (*READERS, SESSION)
    if reader != "windows"  # opens none
    for table in ("flows", "structures")
    for harm in ("cut", "empty", "missing", "footer", "pages")
    if reader != "sql" or harm == "cut"  # a process each
]


@pytest.mark.parametrize(("reader", "table", "harm"), HARMS)
def test_a_damaged_file_is_an_expected_failure(lake: Path, reader: str, table: str, harm: str) -> None:
    path = first_file(lake, table, 1)
    data = path.read_bytes()
    footer = int.from_bytes(data[-8:-4], "little") + 8
    if harm == "missing":
        path.unlink()
    else:
        harmed = {
            "cut": data[: len(data) // 2],
            "empty": b"",
            "footer": data[:-footer] + bytes(footer - 8) + data[-8:],
            "pages": data[:4] + bytes(len(data) - 4 - footer) + data[-footer:],
        }
        path.write_bytes(harmed[harm])
    error = failure(lake, reader)
    assert isinstance(error, LakeError), error
    assert str(path) in str(error)
    assert f"flowdiff fsck {lake}" in str(error)


@pytest.mark.parametrize("reader", READERS)
def test_a_file_that_the_last_commit_lost_is_not_hidden(lake: Path, reader: str) -> None:
    path = first_file(lake, "flows", 2)
    path.unlink()
    error = run(lake, reader).exception
    assert isinstance(error, LakeError)
    assert path.name in str(error)


@pytest.mark.parametrize("reader", ["windows", "sql", "export", "compare"])
def test_an_interrupted_import_is_told(lake: Path, reader: str) -> None:
    item = [*read_chain(LocalStore.at(lake), 0)][-1].record.publish[0]
    stage = lake / item.stage
    stage.parent.mkdir(parents=True)
    (lake / item.final).rename(stage)
    result = run(lake, reader)
    assert "1 commit is not published yet; the next import finishes it." in result.stderr
    assert result.exit_code == 0


def test_a_comparison_notes_an_interrupted_import(lake: Path) -> None:
    item = [*read_chain(LocalStore.at(lake), 0)][-1].record.publish[0]
    stage = lake / item.stage
    stage.parent.mkdir(parents=True)
    (lake / item.final).rename(stage)
    arguments = [*READERS["compare"], "--lake", str(lake), "--json", str(lake / "report.json")]
    assert CliRunner().invoke(build_app(["compare", "sql"]), arguments).exit_code == 0
    notes = json.loads((lake / "report.json").read_text())["notes"]
    assert any("1 commit is not published yet" in note for note in notes)


@pytest.mark.parametrize(("memory", "named"), [("lots", "lots"), ("1KB", "1024B")])
def test_a_memory_limit_that_is_none_is_an_expected_failure(lake: Path, memory: str, named: str) -> None:
    arguments = ["sql", "--lake", str(lake), "-c", "select 1", "--memory", memory]
    error = CliRunner().invoke(build_app([*COMMANDS]), arguments).exception
    assert isinstance(error, ConfigError)
    assert named in str(error)
