"""A DataFrame of spans is imported; a CSV of them is answered with the line that would do it."""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from oracles import fork_server

from flowdiff.__main__ import main
from flowdiff.lake import Lake
from schemas.errors import InputError

COLUMNS = {
    "trace_id": "trace",
    "span_id": "span",
    "parent_id": "parent",
    "name": "what",
    "start": "at",
    "duration": "took",
    "service": "service",
    "time_unit": "ms",
}
ROWS = {
    "trace": ["a" * 32, "a" * 32, "b" * 32],
    "span": ["1a" * 8, "2b" * 8, "3c" * 8],
    "parent": ["", "1a" * 8, ""],
    "service": ["front", "db", "front"],
    "what": ["GET /", "SELECT", "GET /"],
    "at": [1763456400000, 1763456400002, 1763456401000],
    "took": [12, 8, 11],
}


@pytest.mark.parametrize("table", [pl.DataFrame(ROWS), pa.table(ROWS)], ids=["polars", "arrow"])
def test_a_frame_of_spans_is_imported_once(tmp_path: Path, table: object) -> None:
    lake = Lake(str(tmp_path / "lake"))
    assert lake.import_(table, columns=COLUMNS).flows == 2
    assert lake.import_(table, columns=COLUMNS).flows == 0
    rows = lake.sql("select root, response_us from requests order by response_us").arrow().to_pylist()
    assert rows == [{"root": "front/GET /", "response_us": us} for us in (11_000.0, 12_000.0)]


def test_a_polars_frame_with_attributes_and_categories_is_imported(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"))
    frame = pl.DataFrame(ROWS).with_columns(
        pl.col("service").cast(pl.Categorical),
        pl.Series("tags", [[{"key": "tenant", "value": name}] for name in ("free", "paid", "free")]),
    )
    assert lake.import_(frame, columns={**COLUMNS, "attributes": "tags"}).flows == 2
    rows = lake.sql("select distinct key, text from params where key = 'tenant'").arrow().to_pylist()
    assert sorted(row["text"] for row in rows) == ["free", "paid"]


def test_a_table_that_parquet_cannot_hold_is_refused(tmp_path: Path) -> None:
    table = pa.table({**ROWS, "odd": pa.array([pa.MonthDayNano([1, 2, 3])] * 3)})
    with pytest.raises(InputError, match="The table cannot be read"):
        Lake(str(tmp_path / "lake")).import_(table, columns=COLUMNS)


def test_a_csv_is_answered_with_the_line_that_reads_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pl.DataFrame(ROWS).write_csv("spans.csv")
    with pytest.raises(SystemExit) as ended:
        main(["import", "spans.csv", "--lake", "lake"])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    code = said.partition('python -c "')[2].partition('"')[0]
    fork_server.run([sys.executable, "-c", code], check=True)
    options = [word for pair in COLUMNS.items() for word in ("--column", "=".join(pair))]
    with pytest.raises(SystemExit) as ended:
        main(["import", "spans.parquet", "--lake", "lake", *options])
    assert ended.value.code == 0
