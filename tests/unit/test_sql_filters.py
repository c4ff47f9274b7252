"""Filters as DuckDB answers them, on two small files; the connection can do nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from oracles.refined import T0, event, table

from analyze.load import read_flows
from analyze.scope import LakePeriod
from analyze.sql.connection import locked_connection
from flowdiff.cli.options import WHERE_HELP
from schemas.config import StitchConfig
from schemas.errors import PeriodError
from schemas.lake import TABLES
from schemas.periods import FLOW_KEYS, Period, parse_filter
from stitch.kernel import stitch


def number(key: str, value: float) -> dict[str, object]:
    return {"key": key, "num": value, "text": None}


def text(key: str, value: str) -> dict[str, object]:
    return {"key": key, "num": None, "text": value}


REQUESTS = {
    "r1": ("a", "ok", [number("size", 4), text("version", "v1"), text("release", "1.0")]),
    "r2": ("b", "ok", [number("size", 16), text("version", "v2")]),
    "r3": ("c", "timeout", [text("size", "16"), text("it's; --", "x")]),
    "r4": (None, "ok", []),
}
INNER = {"r2": "refused", "r3": "late"}
"""Error class of the second node."""


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
            status=status if at == 0 else INNER.get(name, "ok"),
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
        ("size = 16.0", "r2"),
        ("release = 1.0", "r1"),
        ("release in (1.0, 2)", "r1"),
        ("release != 1.0", "r2 r3 r4"),
        ("release = 1", ""),
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
        ("status != 'ok'", "r3"),
        ("status in (ok, timeout)", "r1 r2 r3 r4"),
        ("inner_status = refused", "r2"),
        ("inner_status != 'ok'", "r2"),
        ("inner_status = ok", "r1 r3 r4"),
        ("inner_status != refused", "r1 r3 r4"),
        ("inner_status > 'p'", "r2"),
        ("inner_status like 'o_'", "r1 r3 r4"),
        ("error = refused", "r2"),
        ("error = late", "r3"),
        ("error in (timeout, refused)", "r2 r3"),
        ("error != late", "r1 r2 r4"),
        ("error < m", "r3"),
        ("error like '%'", "r2 r3"),
        ("kind = records", "r1 r2 r3 r4"),
        ("kind = spans", ""),
        ("kind != spans", "r1 r2 r3 r4"),
        ("kind like 'r%'", "r1 r2 r3 r4"),
        ("duration > 5ns", "r1 r2 r3 r4"),
        ("duration > 10ns", ""),
        ("duration >= 0.01us", "r1 r2 r3 r4"),
        ("duration < 1ms and version = v1", "r1"),
        ("duration <= 9ns", ""),
        ("duration = 10ns", "r1 r2 r3 r4"),
        ("duration != 10ns", ""),
        ("duration in (1s, 10ns)", "r1 r2 r3 r4"),
    ],
)
def test_filters(files: dict[str, Path], where: str, requests: str) -> None:
    assert kept(files, where) == requests


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("vershion = v1", "no.* parameter 'vershion'. There are: version, "),
        ("host = a and sise > 3", "'sise'. There are: size, "),
        ('"duration" > 3', "'duration'"),
        ("Version like 'v%'", "There are: version, "),
    ],
)
def test_a_key_that_is_not_there_is_told_with_those_that_are(
    files: dict[str, Path], where: str, told: str
) -> None:
    with pytest.raises(PeriodError, match=f"(?i){told}") as caught:
        kept(files, where)
    assert ", ".join(FLOW_KEYS) in str(caught.value)


def test_ok_is_no_error() -> None:
    with pytest.raises(PeriodError, match="where anything failed holds: error like"):
        parse_filter("error != 'ok'")
    assert parse_filter("\"error\" != 'ok'").conditions[0].is_parameter


@pytest.mark.parametrize("key", FLOW_KEYS)
def test_every_key_is_told(key: str) -> None:
    grammar = (Path(__file__).resolve().parents[2] / "docs" / "internals" / "concepts.md").read_text()
    (line,) = re.findall(r"^    KEY +=(.*)", grammar, re.MULTILINE)
    assert {*line.replace("|", " ").split()} == {*FLOW_KEYS, "PARAMETER"}
    assert re.search(rf"\b{key}\b", WHERE_HELP)
    assert re.search(rf"\| `{key} ", grammar)


def test_a_key_that_is_there_and_one_that_need_not_be_raise_nothing(files: dict[str, Path]) -> None:
    assert kept(files, "version = v9") == ""
    assert kept(files, "vershion != v1") == "r1 r2 r3 r4"


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
