"""Looking around in a lake of real traces: views, queries, one flow, exports and their way back."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from oracles.command_line import command
from oracles.dot_reader import read_dot
from oracles.traffic import write_native

from analyze.scope import LakePeriod, resolve
from analyze.sql.browse import categories, find_flow
from analyze.sql.catalog import VIEWS, relation
from analyze.sql.session import open_session
from schemas.errors import ConfigError, NotFoundError, QueryError
from schemas.periods import parse_period

SHOP_FLOWS = 502 + 1071 + 509
SHOP_SPANS = 22_969 + 25_122 + 23_282


def run(*arguments: str, code: int = 0, text: bytes | None = None) -> str:
    done = command(*arguments, stdin=text or b"")
    assert done.code == code, done.err
    return done.out if code == 0 else done.err


@pytest.fixture(scope="module")
def lake(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shop") / "lake"
    run("import", str(shared_data / "online-boutique" / "*.gz"), "--lake", str(folder), "--window", "1m")
    return folder


@pytest.fixture(scope="module")
def all_of(lake: Path) -> LakePeriod:
    return resolve(parse_period("all", now_ns=0), default_lake=str(lake))


@pytest.fixture(scope="module")
def imported(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A lake of the files of a pattern, made once."""

    @cache
    def lake_of(pattern: str) -> Path:
        folder = tmp_path_factory.mktemp("imported") / "lake"
        run("import", str(shared_data / pattern), "--lake", str(folder))
        return folder

    return lake_of


@pytest.mark.parametrize("name", VIEWS)
def test_the_header_of_a_view_is_what_duckdb_says(imported: Callable[[str], Path], name: str) -> None:
    lake = str(imported("xtrace/gc.json.gz"))
    with open_session(resolve(parse_period("all", now_ns=0), default_lake=lake)) as session:
        described = session.query(f"DESCRIBE {name}")
    said = list(zip(described["column_name"].to_pylist(), described["column_type"].to_pylist(), strict=True))
    assert said == [(column.name, column.type) for column in relation(name).columns]


def test_views_agree_with_the_files(all_of: LakePeriod) -> None:
    with open_session(all_of) as session:
        counts = session.query(
            "SELECT (SELECT count(*) FROM requests) AS requests,"
            " (SELECT sum(n_nodes) FROM requests) AS nodes,"
            " (SELECT count(*) FROM nodes) AS unnested,"
            " (SELECT sum(requests) FROM windows) AS by_window,"
            " (SELECT sum(requests) FROM categories) AS by_category"
        ).to_pylist()[0]
        edges = session.query(
            "SELECT count(*) AS n FROM edges JOIN requests USING (request_id)"
            " WHERE requests.category <> edges.category"
        )
    assert counts["requests"] == counts["by_window"] == counts["by_category"] == SHOP_FLOWS
    assert counts["nodes"] == counts["unnested"] == 2 * SHOP_SPANS
    assert edges["n"][0].as_py() == 0


def test_a_period_limits_every_view(lake: Path) -> None:
    some_seconds = resolve(parse_period("2022-08-23T17:00:05Z/10s", now_ns=0), default_lake=str(lake))
    with open_session(some_seconds) as session:
        rows = session.query("FROM windows").to_pylist()
        bounds = session.query("SELECT min(started_at) a, max(started_at) b FROM requests").to_pylist()[0]
    assert len(rows) == 1
    assert f"{bounds['a']:%H:%M:%S}" >= "17:00:05"
    assert f"{bounds['b']:%H:%M:%S}" < "17:00:15"


@pytest.mark.parametrize(
    "text",
    [
        "COPY (SELECT 1) TO 'stolen.csv'",
        "ATTACH 'other.db'",
        "SET threads = 8",
        "CREATE TABLE t AS SELECT 1",
        "SELECT 1; SELECT 2",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/etc/hostname')",
        "SELEC 1",
        "INSTALL httpfs",
        "",
    ],
)
def test_a_query_can_only_read_the_lake(all_of: LakePeriod, text: str) -> None:
    with open_session(all_of) as session, pytest.raises(QueryError):
        session.query(text)


def test_categories_are_sorted_and_cut(all_of: LakePeriod) -> None:
    with open_session(all_of) as session:
        rows, total = categories(session, "requests", top=3, root=None)
        none, nothing = categories(session, "c2", top=3, root="no/such")
    assert rows["requests"].to_pylist() == sorted(rows["requests"].to_pylist(), reverse=True)
    assert rows.num_rows == 3 < total
    assert (none.num_rows, nothing) == (0, 0)


def test_a_flow_is_found_by_the_beginning_of_its_id(all_of: LakePeriod) -> None:
    with open_session(all_of) as session:
        some = session.query("SELECT request_id FROM requests ORDER BY request_id LIMIT 1")["request_id"][
            0
        ].as_py()
        found = find_flow(session, some[:14])
        with pytest.raises(NotFoundError, match="No request"):
            find_flow(session, "no-such-request")
        with pytest.raises(NotFoundError, match=f"several ids: {some}, .* and others"):
            find_flow(session, some[:1])
        with pytest.raises(ConfigError, match="empty"):
            find_flow(session, "")
    assert found.flow["request_id"] == some
    assert len(found.structure["nodes"]) == found.flow["n_nodes"]


def test_commands_print_tables_and_json(
    lake: Path, all_of: LakePeriod, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    table = run("windows", "--lake", str(lake))
    assert all(len(line) <= 80 for line in table.splitlines())
    assert (
        sum(row["requests"] for row in json.loads(run("windows", "--lake", str(lake), "--json")))
        == SHOP_FLOWS
    )
    assert "nodes" in run("categories", "--lake", str(lake), "--top", "2")
    assert run("categories", "--lake", str(lake), "--top", "2", "--sort", "c2").startswith(
        "By C², most first"
    )
    assert run("categories", "--lake", str(lake)).startswith("By time in sum (requests × mean")
    assert len(json.loads(run("categories", "--lake", str(lake), "--top", "2", "--json"))) == 2
    with open_session(all_of) as session:
        some = session.query("SELECT request_id FROM requests ORDER BY n_nodes DESC LIMIT 1")["request_id"][
            0
        ].as_py()
    drawn = run("flow", some, "--lake", str(lake))
    assert "critical path" in drawn
    assert all(len(line) <= 120 for line in drawn.splitlines())
    assert json.loads(run("flow", some, "--lake", str(lake), "--json"))["flow"]["request_id"] == some


def test_sql_writes_csv_json_and_parquet(lake: Path, tmp_path: Path) -> None:
    query = "SELECT '=1+1' AS formula, [1, 2] AS list, 'NaN'::DOUBLE AS nan, count(*) AS n FROM requests"
    rows = list(csv.DictReader(io.StringIO(run("sql", "--lake", str(lake), "-c", query, "--format", "csv"))))
    assert rows == [{"formula": "'=1+1", "list": "[1, 2]", "nan": "nan", "n": str(SHOP_FLOWS)}]
    assert json.loads(run("sql", "--lake", str(lake), "-c", query, "--format", "json")) == [
        {"formula": "=1+1", "list": [1, 2], "nan": None, "n": SHOP_FLOWS}
    ]
    run("sql", "--lake", str(lake), "-c", query, "-o", str(tmp_path / "out.parquet"))
    assert (tmp_path / "out.parquet").read_bytes()[:4] == b"PAR1"
    assert str(SHOP_FLOWS) in run("sql", "--lake", str(lake), text=b"SELECT count(*) FROM requests")
    plan = run("sql", "--lake", str(lake), "-c", "EXPLAIN SELECT count(*) FROM requests")
    assert len(plan.splitlines()) > 3
    assert "\u240a" not in plan
    assert "[query]" in run("sql", "--lake", str(lake), "-c", "DROP VIEW requests", code=2)


def stored(lake: Path) -> list[tuple[str, ...]]:
    """What a lake says of its requests. Not quality: an export has no edges to what was missing."""
    found = resolve(parse_period("all", now_ns=0), default_lake=str(lake))
    with open_session(found) as session:
        # OTLP ids have 32 digits.
        rows = session.query(
            "SELECT lpad(request_id, 32, '0') AS id, category, start_ns, offset_ns, host, response_ns,"
            " status, inner_status, error_position, error_class FROM _flows ORDER BY id"
        ).to_pylist()
        params = session.query(
            "SELECT * REPLACE (lpad(request_id, 32, '0') AS request_id) FROM params ORDER BY ALL"
        ).to_pylist()
    assert rows
    return [tuple(map(str, row.values())) for row in [*rows, *params]]


@pytest.mark.parametrize(
    ("pattern", "form"),
    [
        ("online-boutique/after-r*.gz", "otlp"),
        ("zipkin/messaging*.gz", "otlp"),
        ("xtrace/gc.json.gz", "native"),
        ("xtrace/upload.json.gz", "native"),
    ],
)
def test_an_export_imported_again_is_the_same(
    imported: Callable[[str], Path], tmp_path: Path, pattern: str, form: str
) -> None:
    before, after, file = imported(pattern), tmp_path / "after", tmp_path / f"flows.{form}"
    run("export", "--lake", str(before), "--format", form, "-o", str(file))
    run("import", str(file), "--lake", str(after))
    assert stored(after) == stored(before)


def outline(lake: Path) -> list[tuple[str, int, float, int]]:
    """Of each request: id, start, response time, and the first request that shares its category."""
    found = resolve(parse_period("all", now_ns=0), default_lake=str(lake))
    with open_session(found) as session:
        rows = session.query(
            "WITH r AS (SELECT *, lpad(request_id, 32, '0') AS id FROM requests)"
            " SELECT id, start_ns, response_us, min(id) OVER (PARTITION BY category) AS first"
            " FROM r ORDER BY id"
        ).to_pylist()
    assert rows
    return [tuple(row.values()) for row in rows]


@pytest.mark.parametrize(
    ("pattern", "form"),
    [
        ("online-boutique/after-r*.gz", "native"),
        ("zipkin/messaging*.gz", "native"),
        ("xtrace/gc.json.gz", "otlp"),
        ("xtrace/upload.json.gz", "otlp"),
    ],
)
def test_an_export_in_the_other_form_keeps_requests_times_and_partition(
    imported: Callable[[str], Path], tmp_path: Path, pattern: str, form: str
) -> None:
    before, after, file = imported(pattern), tmp_path / "after", tmp_path / f"flows.{form}"
    run("export", "--lake", str(before), "--format", form, "-o", str(file))
    run("import", str(file), "--lake", str(after))
    assert outline(after) == outline(before)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--category", ""), "The category is empty"),
        (("--category", "zz"), "No category 'zz'"),
        (("--where", "root = 'no/such'"), "has root = 'no/such'. There are: "),
    ],
)
def test_an_export_of_nothing_leaves_the_file_as_it_was(
    lake: Path, tmp_path: Path, options: tuple[str, ...], told: str
) -> None:
    file = tmp_path / "kept.dot"
    file.write_text("precious")
    error = run("export", "--lake", str(lake), "--format", "dot", "-o", str(file), *options, code=2)
    assert told in error
    assert error.count("\n") == 1
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("kept.dot", "precious")]


@pytest.mark.parametrize("where", ["/nonexist/x.csv", "folder.csv"])
@pytest.mark.parametrize("command", [("sql", "-c", "SELECT 1"), ("export", "--format", "dot")])
def test_output_that_cannot_be_written_is_one_line(
    lake: Path, tmp_path: Path, where: str, command: tuple[str, ...]
) -> None:
    (tmp_path / "folder.csv").mkdir()
    error = run(*command, "--lake", str(lake), "-o", str(tmp_path / where), code=2)
    assert "cannot be written" in error
    assert error.endswith("[input]\n")
    assert error.count("\n") == 1


def test_sql_says_what_it_misses(lake: Path, tmp_path: Path) -> None:
    assert ".csv" in run("sql", "--lake", str(lake), "-c", "SELECT 1", "-o", str(tmp_path / "w.xls"), code=2)
    assert "no query" in run("sql", "--lake", str(lake), text=b" \n", code=2)
    assert list(tmp_path.iterdir()) == []


def test_nothing_to_list_is_said_in_a_sentence(lake: Path, all_of: LakePeriod) -> None:
    assert run("categories", "--lake", str(lake), "--root", "nope").startswith(
        "This period holds no category"
    )
    assert json.loads(run("categories", "--lake", str(lake), "--root", "nope", "--json")) == []
    with open_session(all_of) as session:
        bare = session.query(
            "SELECT request_id FROM requests WHERE request_id NOT IN (SELECT request_id FROM params) LIMIT 1"
        ).to_pylist()
    assert "No parameters" in run("flow", bare[0]["request_id"], "--params", "--lake", str(lake))


def test_dot_is_what_spectroscope_reads(lake: Path, all_of: LakePeriod) -> None:
    with open_session(all_of) as session:
        rows, _ = categories(session, "requests", top=1, root=None)
    key, requests = rows["category"][0].as_py(), rows["requests"][0].as_py()
    text = run("export", "--lake", str(lake), "--format", "dot", "--category", key[:8])
    graphs = read_dot(text.encode())
    assert [graph.number for graph in graphs] == list(range(1, requests + 1))
    run("export", "--lake", str(lake), "--format", "dot", "--category", "zz", code=2)


def test_windows_lists_the_last_ones_and_counts_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A year has 100,000."""
    monkeypatch.setattr("flowdiff.commands.windows.LISTED", 28)
    write_native(tmp_path / "a.ndjson", 30, seconds=30 * 300)
    lake = str(tmp_path / "lake")
    run("import", str(tmp_path / "a.ndjson"), "--lake", lake)
    last, every = (command("windows", "--lake", lake, "--json", *more) for more in ((), ("--period", "all")))
    assert (last.code, every.code, every.err) == (0, 0, "")
    n_before = len(json.loads(every.out)) - 28
    assert n_before > 0
    assert f"{n_before} before them: --period all lists all" in last.err
    assert json.loads(last.out) == json.loads(every.out)[-28:]
