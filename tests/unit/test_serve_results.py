"""Results of jobs, in files."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

from flowdiff.serve.jobs.results import REPORT, Results, write_result

TABLES = {"changes": pa.table({"x": [1]}), "requests": pa.table({"y": ["a", "b"]})}
KEYS = ["a" * 32, "b" * 32, "c" * 32]


@pytest.fixture
def results(tmp_path: Path) -> Results:
    return Results(tmp_path, 2, 2**30, 60.0)


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
def test_the_longest_unread_gives_way(results: Results, by: str, tmp_path: Path) -> None:
    for at, key in enumerate(KEYS, 1):
        written(results, key, at)
    assert getattr(results, by)(KEYS[0])  # by a page, or by SQL
    results.forget_oldest()
    assert sorted(one.name for one in tmp_path.iterdir()) == [KEYS[0], KEYS[2]]
