"""Every query of docs/internals/recipes.md runs as it stands and has an answer."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from analyze.scope import LakePeriod, resolve
from analyze.sql.session import open_session
from flowdiff.__main__ import main
from flowdiff.query_comparisons import QueryComparisons
from schemas.periods import parse_period

RECIPES = (Path(__file__).resolve().parents[2] / "docs" / "internals" / "recipes.md").read_text(
    encoding="utf-8"
)
BLOCKS = re.findall(r"^## (\d+)\. .*?^```(\w+)\n(.*?)^```", RECIPES, re.MULTILINE | re.DOTALL)
QUERIES = [(number, text) for number, language, text in BLOCKS if language == "sql"]


def run(*arguments: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo, in a folder."""
    folder = tmp_path_factory.mktemp("recipes")
    run("demo", str(folder / "demo"))
    return folder


@pytest.fixture(scope="module")
def everything(place: Path) -> LakePeriod:
    return resolve(parse_period("all", now_ns=0), default_lake=str(place / "demo" / "lake"))


def test_there_are_at_least_ten_recipes_of_every_kind() -> None:
    assert len(BLOCKS) >= 10
    assert {language for _, language, _ in BLOCKS} == {"sql", "duckdb", "python"}
    assert [int(number) for number, _, _ in BLOCKS] == [*range(1, len(BLOCKS) + 1)]


@pytest.mark.parametrize(("number", "text"), QUERIES, ids=[number for number, _ in QUERIES])
def test_a_query_for_flowdiff_sql_runs(everything: LakePeriod, number: str, text: str) -> None:
    at = [datetime(2026, 11, 18, 20, 20), datetime(2026, 11, 18, 20, 38)]
    deployments = pa.table({"at": at, "version": ["1.8.1", "1.8.2"]})
    comparing = QueryComparisons(everything.lake, 0)
    with open_session(everything, attached={"deployments": deployments}, comparing=comparing) as session:
        rows = session.query(text, {"component": "frontend"} if ":component" in text else ())
    assert rows.num_rows > 0
    if "version" in rows.column_names:
        assert "1.8.2" in rows["version"].to_pylist()
    if number == "3":
        assert max(rows["errors_inside"].to_pylist()) > 0
    if number == "17":
        assert "SELECT warehouses" in rows["dst_operation"].to_pylist()


def test_requests_with_a_parameter_are_counted_once(everything: LakePeriod) -> None:
    text = next(text for number, text in QUERIES if number == "10")
    held = (
        "SELECT count(*) AS n, avg(slow::INTEGER) AS share FROM (SELECT request_id, kind, response_us >"
        " quantile_cont(response_us, 0.95) OVER () AS slow FROM requests) WHERE (request_id, kind) IN"
        " (SELECT (request_id, kind) FROM params WHERE key = ? AND coalesce(text, num::VARCHAR) = ?)"
    )
    with open_session(everything) as session:
        for row in session.query(text).to_pylist():
            (found,) = session.query(held, [row["key"], row["value"]]).to_pylist()
            assert row["requests"] == found["n"]
            assert row["share_slow"] == pytest.approx(found["share"])


def test_the_parts_of_the_response_add_up_to_it(everything: LakePeriod) -> None:
    text = next(text for number, text in QUERIES if number == "5").replace("LIMIT 10", "")
    with open_session(everything) as session:
        parts = sum(session.query(text)["critical_s"].to_pylist())
        whole = session.query("SELECT sum(response_us) / 1e6 AS s FROM requests WHERE kind = 'spans'")["s"]
    assert parts == pytest.approx(whole[0].as_py(), rel=1e-6)


@pytest.mark.parametrize("text", [text for _, language, text in BLOCKS if language == "duckdb"])
def test_a_query_for_plain_duckdb_runs(place: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    run("summarize", "--lake", "demo/lake")
    assert duckdb.connect().execute(text).fetchall()


def test_the_script_for_polars_runs(place: Path) -> None:
    (text,) = [text for _, language, text in BLOCKS if language == "python"]
    done = subprocess.run([sys.executable, "-c", text], cwd=place, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "p95_ms" in done.stdout
