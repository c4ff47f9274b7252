"""`flowdiff windows` says what the commits say: the same as the rows, without reading one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from unittest.mock import patch

import pytest
from oracles.command_line import command
from oracles.traffic import write_native

import flowdiff
from schemas.commits import FlowCounts
from stitch.lake import staging
from stitch.lake.flow_counts import count_flows
from stitch.lake.fsck import check
from stitch.lake.store import LocalStore

VIEW = "FROM windows ORDER BY window_start"
DATA = ("flows", "structures", "params")


def run(*arguments: str) -> str:
    done = command(*arguments)
    assert done.code == 0, done.err
    return done.out


@pytest.fixture(scope="module")
def lake(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Windows of spans, and of records that three imports brought, in a file each."""
    folder = tmp_path_factory.mktemp("windows")
    for file in sorted((shared_data / "online-boutique").glob("*.gz")):
        run("import", str(file), "--lake", str(folder / "lake"), "--window", "1m")
    for place, name in enumerate(("a", "b", "c")):
        write_native(folder / name, 60, seed=place, seconds=180, id_base=1000 * place)
        run("import", str(folder / name), "--lake", str(folder / "lake"))
    return folder / "lake"


def as_rows(lake: Path) -> list[dict[str, object]]:
    return flowdiff.open(str(lake)).sql(VIEW).arrow().to_pylist()


def agree(lake: Path) -> list[dict[str, object]]:
    rows = as_rows(lake)
    listed = flowdiff.open(str(lake)).windows().arrow().to_pylist()
    assert [row.pop("categories_estimated") for row in listed] == [False] * len(rows)
    assert listed == [
        {**row, "mean_us": pytest.approx(row["mean_us"]), "error_rate": pytest.approx(row["error_rate"])}
        for row in rows
    ]
    return listed


def test_the_listing_is_what_the_rows_say_whatever_their_files(lake: Path, tmp_path: Path) -> None:
    before = agree(lake)
    flags = run("windows", "--lake", str(lake))
    compact = shutil.copytree(lake, tmp_path / "lake")
    n_files = len([*compact.rglob("flows/*/*.parquet")])
    run("compact", str(compact), "--files", "2")
    assert len([*compact.rglob("flows/*/*.parquet")]) < n_files
    assert agree(compact) == [
        {**row, "mean_us": pytest.approx(row["mean_us"]), "error_rate": pytest.approx(row["error_rate"])}
        for row in before
    ]
    assert run("windows", "--lake", str(compact)) == flags
    assert check(LocalStore.at(compact)) == []


def test_an_estimate_of_categories_looks_like_one(tmp_path: Path) -> None:
    """From 64 on a number in two digits, and marked."""
    line = {"ts": 1_700_000_000 * 10**9, "component": "c", "kind": "end"}
    lines = [
        json.dumps({**line, "breadcrumb": f"b{n}", "request_id": f"r{n}", "point": f"p{n}"})
        for n in range(640)
    ]
    for name, some in (("few", lines[:63]), ("many", lines)):
        (tmp_path / name).write_text("\n".join(some))
        run("import", str(tmp_path / name), "--lake", str(tmp_path / f"{name}.lake"))
    (shown,) = (word for word in run("windows", "--lake", str(tmp_path / "many.lake")).split() if "~" in word)
    (row,) = json.loads(run("windows", "--lake", str(tmp_path / "many.lake"), "--json"))
    assert row["categories_estimated"]
    assert shown == f"~{round(row['categories'], -1)}"
    assert abs(row["categories"] / 640 - 1) < 3 / 8
    assert "~" not in run("windows", "--lake", str(tmp_path / "few.lake"))


def test_the_listing_reads_no_data_file(lake: Path, tmp_path: Path) -> None:
    empty = shutil.copytree(lake, tmp_path / "lake")
    said = [run("windows", "--lake", str(lake), "--period", "all", *more) for more in ((), ("--json",))]
    for path in [path for table in DATA for path in (empty / table).rglob("*.parquet")]:
        path.write_bytes(b"")
    assert said == [
        run("windows", "--lake", str(empty), "--period", "all", *more) for more in ((), ("--json",))
    ]
    assert len(json.loads(said[1])) == len(as_rows(lake)) > 5


def test_fsck_finds_counts_that_are_not_those_of_the_file(tmp_path: Path) -> None:
    write_native(tmp_path / "a", 40)

    def wrong(flows: object) -> FlowCounts:
        counts = count_flows(flows)  # type: ignore[arg-type]
        return counts.model_copy(update={"errors": counts.errors + 1})

    with patch.object(staging, "count_flows", wrong):
        run("import", str(tmp_path / "a"), "--lake", str(tmp_path / "lake"))
    found = check(LocalStore.at(tmp_path / "lake"))
    assert {each.invariant for each in found} == {"I1"}
    assert all("has other counts than its commit says" in each.detail for each in found)
