"""A lake of layout version 2, whose structures told what follows from them: read as it is, written to after
`fsck --upgrade`, and then of two kinds of files. The fixture is that of `test_upgrade`, upgraded by the code
of commit 326d74f.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flowdiff.__main__ import COMMANDS, build_app
from schemas.errors import LakeError
from schemas.lake import STRUCTURES_SCHEMA
from stitch.lake.encoding import decode
from stitch.lake.fsck import check
from stitch.lake.layout import LAKE_FILE
from stitch.lake.manifest import open_manifest
from stitch.lake.store import LocalStore
from stitch.readings import readings_of

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
CATEGORIES = "select category, root, requests, n_nodes, category_l1, canonical from categories order by all"
EDGES = "select request_id, src, dst, src_node, dst_side, latency_us from edges order by all"


def unpacked(version: int, folder: Path) -> Path:
    with tarfile.open(FIXTURES / f"lake-version-{version}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder / "lake"


def ran(*arguments: str) -> str:
    done = CliRunner().invoke(build_app([*COMMANDS]), [*arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


def told(lake: Path) -> tuple[str, ...]:
    """What views, a filter by component and an export say of a lake."""
    views = [ran("sql", "--lake", str(lake), "-c", q, "--format", "csv") for q in (CATEGORIES, EDGES)]
    return (*views, ran("windows", "--lake", str(lake)), ran("categories", "--lake", str(lake)))


def test_it_is_read_as_it_is(tmp_path: Path) -> None:
    old = unpacked(2, tmp_path / "2")
    new = unpacked(1, tmp_path / "1")
    ran("fsck", "--upgrade", str(new))
    assert told(old) == told(new)
    assert ran("fsck", str(old)) == "0 errors\n"
    tables = {}
    for lake in (old, new):
        store = LocalStore.at(lake)
        files = open_manifest(store).files("structures")
        tables[lake] = [decode("structures", store.read(file.name)) for file in files]
        assert all(table.schema.equals(STRUCTURES_SCHEMA) for table in tables[lake])
    assert tables[old] == tables[new]
    assert sum(readings_of(table).num_rows for table in tables[old]) == sum(t.num_rows for t in tables[new])


def test_it_is_written_to_after_the_upgrade(tmp_path: Path) -> None:
    lake = unpacked(2, tmp_path)
    traces = tmp_path / "more.ndjson"
    record = '{"request_id":"new","breadcrumb":"b","ts":%d,"component":"web","point":"%s","kind":"%s"}\n'
    start = 1_700_000_000_000_000_000
    traces.write_text(record % (start, "in", "event") + record % (start + 9, "out", "end"))
    with pytest.raises(LakeError, match=r"layout version 2; this flowdiff writes 3"):
        ran("import", str(traces), "--lake", str(lake))
    before = ran("sql", "--lake", str(lake), "-c", EDGES, "--format", "csv")
    assert "layout version 3 now: 0 files were written anew" in ran("fsck", "--upgrade", str(lake))
    assert '"layout_version": 3' in (lake / LAKE_FILE).read_text()
    assert "has layout version 3 already" in ran("fsck", "--upgrade", str(lake))
    ran("import", str(traces), "--lake", str(lake))
    after = ran("sql", "--lake", str(lake), "-c", EDGES, "--format", "csv")
    assert {*before.splitlines()} < {*after.splitlines()}
    both = ran("compact", str(lake), "--files", "2", "--grace", "0")
    assert not both.startswith("0 windows")
    assert ran("sql", "--lake", str(lake), "-c", EDGES, "--format", "csv") == after
    assert check(LocalStore.at(lake)) == []
