"""Results of jobs, in files."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from analyze.report.store import write_report_table
from flowdiff.serve.jobs.results import REPORT, Results, write_result
from flowdiff.serve.links import Links
from flowdiff.serve.pages.findings import affected_by
from flowdiff.serve.report_pages import Stored, requests_link

TABLES = {"changes": pa.table({"x": [1]}), "requests": pa.table({"y": ["a", "b"]})}
KEYS = ["a" * 32, "b" * 32, "c" * 32]


@pytest.fixture
def results(tmp_path: Path) -> Results:
    return Results(tmp_path, 2**30, 100, 60.0)


def written(results: Results, key: str, at: int) -> None:
    write_result(results.path(key), "{}", TABLES)
    os.utime(results.path(key), (at, at))


def test_a_result_is_read_as_it_was_written(results: Results) -> None:
    written(results, KEYS[0], 1)
    assert results.read(KEYS[0]) == b"{}"
    assert results.tables(KEYS[0]) == TABLES
    assert results.tables("../" + KEYS[0]) == {}


@pytest.mark.parametrize("left", [REPORT, "requests.parquet"])
def test_half_of_a_result_is_none_and_is_written_again(results: Results, left: str) -> None:
    written(results, KEYS[0], 1)
    for file in results.path(KEYS[0]).iterdir():
        if file.name != left:
            file.write_bytes(b"") if file.name != REPORT else file.unlink()
    assert results.read(KEYS[0]) is None or results.tables(KEYS[0]) == {}
    if left != REPORT:
        written(results, KEYS[0], 1)
        assert results.read(KEYS[0]) == b"{}"
        assert results.tables(KEYS[0]) == TABLES


@pytest.mark.parametrize("by", ["read", "tables"])
@pytest.mark.parametrize("limit", ["bytes", "number"])
def test_the_longest_unread_gives_way(results: Results, by: str, limit: str, tmp_path: Path) -> None:
    for at, key in enumerate(KEYS, 1):
        written(results, key, at)
    assert getattr(results, by)(KEYS[0])  # by a page, or by SQL
    n_bytes = sum(one.stat().st_size for one in results.path(KEYS[0]).iterdir())
    most_bytes, most = (2 * n_bytes, 100) if limit == "bytes" else (2**30, 2)
    Results(tmp_path, most_bytes, most, 60.0).forget_oldest()
    assert sorted(one.name for one in tmp_path.iterdir()) == [KEYS[0], KEYS[2]]


def test_a_result_is_durable_before_it_has_its_name(
    results: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a crash of the machine leaves a report with a name and without content."""
    synced: list[str] = []
    at_rename: list[str] = []
    fsync, rename = os.fsync, Path.rename

    def recorded(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink().name.partition(".")[0])
        fsync(descriptor)

    def renamed(path: Path, to: Path) -> Path:
        at_rename.extend(synced)
        return rename(path, to)

    monkeypatch.setattr(os, "fsync", recorded)
    monkeypatch.setattr(Path, "rename", renamed)
    path = results.path(KEYS[0])
    write_result(path, "{}", TABLES)
    assert {*TABLES, "report", path.name} == {*at_rename}
    assert synced[-1] == path.parent.name


@pytest.mark.parametrize("as_file", [True, False])
def test_requests_of_one_finding_are_read_alone(tmp_path: Path, as_file: bool) -> None:
    n, ranks = 50_000, 8
    rank = np.repeat(np.arange(1, ranks + 1), n)
    table = pa.table(
        {
            "rank": rank,
            "role": pa.repeat("affected", len(rank)),
            "sample": pa.repeat("problem", len(rank)),
            "request_id": pa.array([f"{number:032x}" for number in range(len(rank))]),
            "kind": pa.repeat("spans", len(rank)),
            "response_us": np.arange(len(rank), dtype=np.float64),
        }
    )
    path = tmp_path / "requests.parquet"
    write_report_table(table, path)
    before = pa.total_allocated_bytes()
    found = affected_by(path if as_file else pa.memory_map(str(path)), 3)
    assert found.num_rows == n
    assert found["request_id"][0].as_py() == f"{2 * n:032x}"
    assert found.equals(table.filter(pc.field("rank") == 3).select(found.column_names))
    assert pa.total_allocated_bytes() - before < table.nbytes / 3
    groups = pq.ParquetFile(path).metadata
    assert groups.num_row_groups >= ranks


def test_a_table_of_an_older_version_has_no_response_times(tmp_path: Path) -> None:
    old = pa.table(
        {"rank": [1, 2], "role": ["affected"] * 2, "sample": ["problem"] * 2, "request_id": ["a", "b"]}
    )
    path = tmp_path / "requests.parquet"
    pq.write_table(old.append_column("kind", pa.array(["spans"] * 2)), path)
    assert affected_by(path, 2).to_pylist() == [
        {"sample": "problem", "request_id": "b", "kind": "spans", "response_us": None}
    ]


@pytest.mark.parametrize("base", ["", "/IDs", "/ID", "/requests", "/a/requests/ID"])
def test_the_address_of_a_request_keeps_the_base_path(base: str) -> None:
    link = requests_link(Links(base), Stored(b"", {"report": "0123456789abcdef"}))
    assert link == f"{base}/requests/{{trace_id}}?report=0123456789abcdef"
