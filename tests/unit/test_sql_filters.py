"""Filters as DuckDB answers them, on two small files; the connection can do nothing else."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from oracles.refined import T0, event, table

from analyze.load import read_flows
from analyze.scope import LakePeriod
from analyze.sql.connection import locked_connection
from schemas.config import StitchConfig
from schemas.errors import PeriodError
from schemas.lake import TABLES
from schemas.periods import Period, parse_filter
from stitch.kernel import stitch


def number(key: str, value: float) -> dict[str, object]:
    return {"key": key, "num": value, "text": None}


def text(key: str, value: str) -> dict[str, object]:
    return {"key": key, "num": None, "text": value}


REQUESTS = {
    "r1": ("a", "ok", [number("size", 4), text("version", "v1")]),
    "r2": ("b", "ok", [number("size", 16), text("version", "v2")]),
    "r3": ("c", "timeout", [text("size", "16"), text("it's; --", "x")]),
    "r4": (None, "ok", []),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    rows = [
        event(
            kind=kind,
            request_id=name,
            breadcrumb="b",
            ts_ns=T0 + at * 10,
            component="app" if at == 0 else "db",
            point="p",
            host=host,
            status=status if at == 0 else "ok",
            params=params if at == 1 else None,
        )
        for name, (host, status, params) in REQUESTS.items()
        for at, kind in enumerate((0, 3))
    ]
    stitched = stitch(table(rows), StitchConfig())
    folder = tmp_path_factory.mktemp("filters")
    paths = {}
    for name in TABLES:
        paths[name] = folder / f"{name}.parquet"
        pq.write_table(getattr(stitched, name), paths[name])
    return paths


def kept(files: dict[str, Path], where: str) -> str:
    found = LakePeriod(
        Period(None, T0, T0 + 1_000, parse_filter(where)),
        files["flows"].parent,
        1_000,
        (files["flows"],),
        (files["structures"],),
        (files["params"],),
    )
    return " ".join(sorted(read_flows(found)["request_id"].to_pylist()))


@pytest.mark.parametrize(
    ("where", "requests"),
    [
        ("version = v2", "r2"),
        ("version != 'v2'", "r1 r3 r4"),
        ("version in (v1, v2)", "r1 r2"),
        ("version like 'v%'", "r1 r2"),
        ("version >= 'v2'", "r2"),
        ("size = 16", "r2 r3"),
        ("size = '16'", "r3"),
        ("size > 4", "r2"),
        ("size >= 4", "r1 r2"),
        ("size < 16.5", "r1 r2"),
        ("size <= 4", "r1"),
        ("size in (4, 16)", "r1 r2 r3"),
        ("size != 16", "r1 r4"),
        ("version = v1 and size = 4", "r1"),
        ("version = v1 and size = 5", ""),
        ('"it\'s; --" = x', "r3"),
        ("host = a", "r1"),
        ("host != a", "r2 r3 r4"),
        ("host in (a, b)", "r1 r2"),
        ("host > a", "r2 r3"),
        ("host <= 'b'", "r1 r2"),
        ("host like '_'", "r1 r2 r3"),
        ("component = db", "r1 r2 r3 r4"),
        ("component < b", "r1 r2 r3 r4"),
        ("component != app", ""),
        ("component like 'x%'", ""),
        ("status = timeout", "r3"),
        ("status < 'p'", "r1 r2 r4"),
        ("status like 't%'", "r3"),
        ("root = 'app/p'", "r1 r2 r3 r4"),
        ("root >= 'b'", ""),
    ],
)
def test_filters(files: dict[str, Path], where: str, requests: str) -> None:
    assert kept(files, where) == requests


def test_a_parameter_filter_without_parameters_is_refused(files: dict[str, Path]) -> None:
    found = LakePeriod(
        Period(None, T0, T0 + 1_000, parse_filter("version = v2")),
        files["flows"].parent,
        1_000,
        (files["flows"],),
        (files["structures"],),
        (),
    )
    with pytest.raises(PeriodError, match="no request of these windows has any"):
        read_flows(found)


@pytest.mark.parametrize(
    "statement",
    [
        "COPY (SELECT 1) TO '{flows}'",
        "COPY (SELECT 1) TO '{folder}/new.parquet'",
        "SELECT * FROM read_parquet('{folder}/*.parquet')",
        "SELECT * FROM read_csv('/etc/hostname')",
        "SET enable_external_access = true",
        "INSTALL httpfs",
        "ATTACH '{folder}/x.db'",
    ],
)
def test_the_connection_does_nothing_but_read(files: dict[str, Path], statement: str) -> None:
    before = files["flows"].read_bytes()
    with locked_connection([files["flows"]]) as connection, pytest.raises(duckdb.Error):
        connection.execute(statement.format(flows=files["flows"], folder=files["flows"].parent))
    assert files["flows"].read_bytes() == before
    assert sorted(path.name for path in files["flows"].parent.iterdir()) == [
        "flows.parquet",
        "params.parquet",
        "structures.parquet",
    ]


def test_a_listed_file_is_read(files: dict[str, Path]) -> None:
    with locked_connection([files["flows"]]) as connection:
        rows = connection.execute("SELECT count(*) FROM read_parquet(?)", [[str(files["flows"])]]).fetchall()
    assert rows == [(len(REQUESTS),)]
