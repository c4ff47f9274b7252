"""What a session on a lake promises beyond its views: paths, rot, limits, and the same answer every time."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from oracles.kept_reports import kept
from oracles.robust_report import robust_outcome
from oracles.traffic import write_native

from analyze.report.drawing.swimlane import activities
from analyze.scope import LakePeriod, Lakes, resolve
from analyze.sql.browse import categories, find_flow, flagged
from analyze.sql.catalog import VIEWS
from analyze.sql.session import open_session
from analyze.sql.stored_tables import tables_behind
from flowdiff.__main__ import main
from schemas.errors import LakeError, QueryError
from schemas.periods import parse_period
from schemas.quality import Quality
from schemas.report.accounts import AccountSection

T0 = 1_790_000_000_000_000_000
"""Some time, ns since the epoch."""


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    code = ended.value.code
    assert code is None or isinstance(code, int)
    return code or 0


def period_of(lake: Path, text: str = "all") -> LakePeriod:
    return resolve(parse_period(text, now_ns=0), default_lake=str(lake))


@pytest.fixture(scope="module")
def lake(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("session") / "lake"
    file = sorted((shared_data / "online-boutique").glob("after-*.gz"))[0]
    assert run("import", str(file), "--lake", str(folder), "--window", "1m") == 0
    return folder


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of one file a table."""
    folder = tmp_path_factory.mktemp("small")
    write_native(folder / "a.ndjson", 30)
    assert run("import", str(folder / "a.ndjson"), "--lake", str(folder / "lake")) == 0
    return folder / "lake"


@pytest.mark.parametrize("above", ["root=x", "category=5", "window=20200101T0000Z", "a[1]*?"])
def test_a_lake_may_lie_under_any_folder(lake: Path, tmp_path: Path, above: str) -> None:
    (tmp_path / above).mkdir()
    moved = shutil.copytree(lake, tmp_path / above / "lake")
    query = "SELECT * FROM requests ORDER BY request_id"
    with open_session(period_of(lake)) as here, open_session(period_of(moved)) as there:
        assert there.query(query).equals(here.query(query))
        for view in ("windows", "categories", "params", "mutations", "dead_letters"):
            assert there.query(f"FROM {view} ORDER BY ALL").equals(here.query(f"FROM {view} ORDER BY ALL"))


def test_windows_are_those_of_the_folders(lake: Path) -> None:
    with open_session(period_of(lake)) as session:
        told = {
            f"window={start:%Y%m%dT%H%MZ}"
            for start in session.query("FROM windows")["window_start"].to_pylist()
        }
    assert told == {path.name for path in (lake / "flows").iterdir()}


def test_answers_are_those_of_all_windows(lake: Path) -> None:
    """Queries of some windows, one after another in a session: each lists what it can touch, and no less."""
    unlisted = Lakes(str(lake)).unlisted(parse_period("all", now_ns=0))
    first, *_, last = unlisted.starts_ns.tolist()
    middle_ns = (first + last) // 2
    values = {"n": middle_ns, "at": np.datetime64(middle_ns, "ns").astype("datetime64[us]").item()}
    conditions = (
        "started_at < :at",
        "started_at >= :at and status = 'ok'",
        "start_ns between :n - 20000000000 and :n + 20000000000",
        "date_trunc('minute', started_at) = date_trunc('minute', :at::timestamp)",
        ":at >= window_start or kind = 'records'",
        "window_start in (select max(window_start) from windows)",
    )
    with open_session(unlisted) as some, open_session(period_of(lake)) as whole:
        for condition in conditions:
            query = f"from requests where {condition} order by all"
            used = {name: value for name, value in values.items() if f":{name}" in condition}
            rows = some.query(query, used)
            assert rows.num_rows
            assert rows.equals(whole.query(query, used))
        for view in ("spans", "params", "call_sites", "call_patterns", "responses"):
            query = f"from {view} where window_start >= :at order by all"
            assert some.query(query, {"at": values["at"]}).equals(whole.query(query, {"at": values["at"]}))


def test_answers_are_the_same_to_the_last_digit(lake: Path) -> None:
    answers = set()
    for threads in (1, 2, 3, 4, 4, 4):
        with open_session(period_of(lake), threads=threads) as session:
            rows, _ = categories(session, "c2", top=100, root=None)
            answers.add(
                json.dumps(
                    [session.query("FROM windows ORDER BY ALL").to_pylist(), rows.to_pylist()], default=str
                )
            )
    assert len(answers) == 1


def test_spread_is_what_duckdb_computes(lake: Path) -> None:
    with open_session(period_of(lake)) as session:
        (worst,) = session.query(
            "SELECT max(abs(c.stddev_us / r.s - 1)) AS stddev, max(abs(c.mean_us / r.m - 1)) AS mean,"
            " max(abs(c.c2 / (r.s / r.m) ** 2 - 1)) AS c2, count(*) AS n,"
            " count(*) FILTER ((c.stddev_us IS NULL) <> (r.s IS NULL)) AS nulls FROM categories AS c"
            " JOIN (SELECT category, stddev_samp(response_us) AS s, avg(response_us) AS m FROM requests"
            " GROUP BY category) AS r ON r.category = c.category"
        ).to_pylist()
    assert worst["n"] > 10
    assert worst["nulls"] == 0
    assert max(worst["stddev"], worst["mean"], worst["c2"]) < 1e-9


def by_ns(bars: list[tuple[float, ...]]) -> list[tuple[float, ...]]:
    """In order of what they are when rounded to whole nanoseconds."""
    return sorted(bars, key=lambda bar: [round(part, 3) for part in bar])


def own_us(span: dict[str, float], spans: list[dict[str, float]]) -> float:
    """Time of a span in which none of its awaited children runs, piece by piece between starts and ends."""
    low, high = span["start_us"], span["start_us"] + span["duration_us"]
    inside = [
        (child["start_us"], child["start_us"] + child["duration_us"])
        for child in spans
        if child["parent"] == span["position"] and not child["deferred"]
    ]
    cuts = sorted({low, high, *(min(max(at, low), high) for child in inside for at in child)})
    return sum(
        after - before
        for before, after in pairwise(cuts)
        if not any(begin <= before and after <= end for begin, end in inside)
    )


def waited_ns(spans: list[dict[str, float]]) -> dict[float, int]:
    """Position of a span on the critical path -> ns of its own work: from its end back to the child that
    ended last, on from that child's start to the sibling that had ended by then, and so on."""
    ends = {s["position"]: round((s["start_us"] + s["duration_us"]) * 1e3) for s in spans}
    starts = {s["position"]: round(s["start_us"] * 1e3) for s in spans}
    found, waiting = (
        dict[float, int](),
        [(s["position"], ends[s["position"]]) for s in spans if s["parent"] is None],
    )
    while waiting:
        span, until = waiting.pop()
        found[span] = 0
        children = [s["position"] for s in spans if s["parent"] == span and not s["deferred"]]
        for child in sorted(children, key=lambda at: (ends[at], at), reverse=True):
            if ends[child] <= until and starts[child] >= starts[span]:
                found[span] += until - ends[child]
                waiting.append((child, ends[child]))
                until = starts[child]
        found[span] += max(until - starts[span], 0)
    return found


def test_spans_are_the_bars_of_the_swim_lane(lake: Path) -> None:
    with open_session(period_of(lake)) as session:
        ids = session.query("SELECT request_id FROM requests ORDER BY request_id LIMIT 25")["request_id"]
        spans = session.query("FROM spans ORDER BY request_id, position").to_pylist()
        for request_id in ids.to_pylist():
            found = find_flow(session, request_id)
            own = [span for span in spans if span["request_id"] == request_id]
            told = [(s["start_us"], s["duration_us"], s["critical_us"], s["deferred"]) for s in own]
            # Every flow here is one of spans. The lane draws siblings by time, a view has no order.
            bars = [
                (bar.start_us, bar.duration_us, bar.critical_us, bar.deferred)
                for bar in activities(found.flow, found.structure)
            ]
            assert by_ns(told) == [pytest.approx(bar) for bar in by_ns(bars)]
            assert [s["own_us"] for s in own] == pytest.approx([own_us(s, own) for s in own])
            waited = waited_ns(own)
            assert [s["critical_us"] * 1e3 for s in own] == pytest.approx(
                [waited.get(s["position"], 0) for s in own]
            )
            assert [s["critical"] for s in own] == [s["position"] in waited for s in own]
            parents = {s["position"] for s in own} | {None}
            assert all(s["parent"] in parents and (s["critical_us"] == 0 or s["critical"]) for s in own)


def test_a_span_and_a_node_have_a_status_of_their_own(tmp_path: Path) -> None:
    """The root is ok, `pay` failed inside; of the second request the root failed and `pay` did not."""
    spans = [
        {
            "traceId": str(trace) * 32,
            "spanId": f"{trace}{at}" * 8,
            **({"parentSpanId": f"{trace}0" * 8} if at else {}),
            "name": name,
            "startTimeUnixNano": str(T0 + at * 1_000),
            "endTimeUnixNano": str(T0 + 9_000 - at * 1_000),
            "status": {"code": 2 if failed else 1},
        }
        for trace, fails in ((1, "pay"), (2, "buy"))
        for at, name in enumerate(("buy", "pay"))
        for failed in (name == fails,)
    ]
    service = [{"key": "service.name", "value": {"stringValue": "shop"}}]
    message = {"resourceSpans": [{"resource": {"attributes": service}, "scopeSpans": [{"spans": spans}]}]}
    (tmp_path / "a.json").write_text(json.dumps(message))
    assert run("import", str(tmp_path / "a.json"), "--lake", str(tmp_path / "lake")) == 0
    with open_session(period_of(tmp_path / "lake")) as session:
        requests = session.query("SELECT status, inner_status FROM requests ORDER BY request_id").to_pylist()
        told = session.query(
            "SELECT component, operation, status FROM spans ORDER BY request_id, position"
        ).to_pylist()
        nodes = session.query(
            "SELECT operation, side FROM nodes WHERE status <> 'ok' ORDER BY request_id"
        ).to_pylist()
        ok = session.query("SELECT count(*) AS n FROM nodes WHERE status = 'ok'")["n"][0].as_py()
    assert [tuple(row.values()) for row in requests] == [("ok", "error"), ("error", None)]
    assert [tuple(row.values()) for row in told] == [
        ("shop", "buy", "ok"),
        ("shop", "pay", "error"),
        ("shop", "buy", "error"),
        ("shop", "pay", "ok"),
    ]
    assert [tuple(row.values()) for row in nodes] == [("pay", "start"), ("buy", "start")]
    assert ok == 6


def test_versions_are_those_of_the_nodes(tmp_path: Path) -> None:
    """Of three requests the first names the versions of both services, the second of one."""
    versions = (("1.4", 2), (None, 3), (None, None))
    resources = [
        {
            "resource": {
                "attributes": [
                    {"key": "service.name", "value": {"stringValue": ("shop", "cart")[at]}},
                    *(
                        [{"key": "service.version", "value": {kind: version}}]
                        if version and (kind := "intValue" if at else "stringValue")
                        else []
                    ),
                ]
            },
            "scopeSpans": [
                {
                    "spans": [
                        {
                            "traceId": str(trace + 1) * 32,
                            "spanId": f"{trace + 1}{at}" * 8,
                            **({"parentSpanId": f"{trace + 1}0" * 8} if at else {}),
                            "name": ("buy", "GET /cart")[at],
                            "startTimeUnixNano": str(T0 + at * 1_000),
                            "endTimeUnixNano": str(T0 + 9_000 - at * 1_000),
                        }
                    ]
                }
            ],
        }
        for trace, told in enumerate(versions)
        for at, version in enumerate(told)
    ]
    (tmp_path / "a.json").write_text(json.dumps({"resourceSpans": resources}))
    assert run("import", str(tmp_path / "a.json"), "--lake", str(tmp_path / "lake")) == 0
    with open_session(period_of(tmp_path / "lake")) as session:
        requests = session.query("SELECT component, operation, version FROM requests ORDER BY request_id")
        spans = session.query("SELECT component, operation, version FROM spans ORDER BY request_id, position")
        nodes = session.query(
            "SELECT position, version FROM nodes WHERE request_id LIKE '1%' ORDER BY position"
        )
        edges = session.query(
            "SELECT src_operation, src_version, dst_operation, dst_version FROM edges"
            " WHERE request_id LIKE '1%' AND src_side = dst_side"
        )
    assert [tuple(row.values()) for row in requests.to_pylist()] == [
        ("shop", "buy", "1.4"),
        ("shop", "buy", None),
        ("shop", "buy", None),
    ]
    assert [tuple(row.values()) for row in spans.to_pylist()] == [
        (("shop", "cart")[at], ("buy", "GET /cart")[at], version and str(version))
        for told in versions
        for at, version in enumerate(told)
    ]
    assert nodes["version"].to_pylist() == ["1.4", "2", "2", "1.4"]
    assert {tuple(row.values()) for row in edges.to_pylist()} == {
        ("buy", "1.4", "GET /cart", "2"),
        ("GET /cart", "2", "buy", "1.4"),
    }


def test_edges_tell_their_sides(lake: Path) -> None:
    with open_session(period_of(lake)) as session:
        wrong = session.query(
            "SELECT count(*) AS n FROM edges AS e"
            " JOIN nodes AS s ON s.request_id = e.request_id AND s.position = e.src"
            " JOIN nodes AS d ON d.request_id = e.request_id AND d.position = e.dst"
            " WHERE (s.side, d.side) IS DISTINCT FROM (e.src_side, e.dst_side)"
        )["n"][0].as_py()
        sides = session.query("SELECT DISTINCT src_side, dst_side FROM edges ORDER BY ALL").to_pylist()
    assert wrong == 0
    assert {"src_side": "start", "dst_side": "start"} in sides


def test_a_broken_report_costs_only_who_asks_for_it(lake: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(lake, tmp_path / "lake")
    report = moved / "reports" / "broken"
    report.mkdir(parents=True)
    (report / "mutations.parquet").touch()
    (report / "categories.parquet").touch()
    (report / "report.json").touch()
    assert run("windows", "--lake", str(moved)) == 0
    assert run("categories", "--lake", str(moved)) == 0
    assert (
        run("sql", "--lake", str(moved), "-c", "select count(*) from requests join nodes using (request_id)")
        == 0
    )
    with (
        open_session(period_of(moved)) as session,
        pytest.raises(LakeError, match=r"broken/mutations\.parquet"),
    ):
        session.query("SELECT * FROM mutations")


def test_views_have_what_a_report_found(small: Path) -> None:
    outcome = robust_outcome()
    kept(small, outcome, "")
    with open_session(period_of(small)) as session:
        findings = session.query("SELECT * FROM findings ORDER BY rank").to_pylist()
        evidence = session.query("SELECT consequence_of FROM evidence ORDER BY rank, place")
        sums = session.query("SELECT measure, sum(total) AS total FROM account GROUP BY measure").to_pylist()
    assert {row["report"] for row in findings} == {outcome.report.id}
    assert [(row["kind"], row["component"]) for row in findings] == [
        ("slower", "recommendationservice"),
        ("errors", "productcatalogservice"),
        ("new-path", "cartservice"),
    ]
    assert findings[1]["examples"] == ["a3ce929d0e0e47364bf92f3577b34da6"]
    assert evidence["consequence_of"].to_pylist() == [None, 1, None, 1, 2, None]
    accounts = outcome.report.section(AccountSection).accounts
    assert {row["measure"]: row["total"] for row in sums} == pytest.approx(
        {account.measure: account.after - account.before for account in accounts}
    )


def test_only_tables_that_are_asked_for_are_opened(lake: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(lake, tmp_path / "lake")
    for path in moved.glob("structures/*/*.parquet"):
        # Size and footer stay: those are looked at when the period is resolved.
        path.write_bytes(flip(path.read_bytes(), 8, 0))
    with open_session(period_of(moved)) as session:
        assert session.query("SELECT count(*) AS n FROM windows")["n"][0].as_py() > 0
        assert session.query("DESCRIBE requests").num_rows > 0
        for query in (
            "FROM nodes",
            "SELECT * FROM requests JOIN nodes USING (request_id)",
            "SELECT (SELECT max(n_nodes) FROM Categories)",
            "FROM query_table('no' || 'des')",
            "SELECT count(*) FROM requests JOIN query_table('no' || 'des') USING (request_id)",
        ):
            with pytest.raises((LakeError, QueryError)):
                session.query(query)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT name FROM (SHOW TABLES), (SELECT count(*) FROM windows)",
        "SELECT view_name FROM duckdb_views(), (SELECT count(*) FROM windows)",
        "SELECT table_name FROM information_schema.tables, (SELECT count(*) FROM windows)",
    ],
)
def test_views_are_made_as_they_are_named_and_all_are_seen(small: Path, text: str) -> None:
    with open_session(period_of(small)) as session:
        assert session.query("SELECT count(*) AS n FROM windows")["n"].to_pylist() == [3]
        assert {*VIEWS} <= {*session.query(text)[0].to_pylist()}


def test_views_that_an_interruption_left_are_made_again(small: Path) -> None:
    with open_session(period_of(small)) as session:
        session.query("SHOW TABLES")
        session._made.clear()  # as if Ctrl-C had come behind the last, before it was noted
        assert session.query("SELECT count(*) AS n FROM windows")["n"].to_pylist() == [3]


def test_a_view_that_cannot_be_made_leaves_the_others(small: Path) -> None:
    with open_session(period_of(small)) as session:
        session.query("CREATE TEMP TABLE requests AS SELECT 1 AS one")
        with pytest.raises(QueryError):
            session.query("FROM categories")
        assert session.query("SELECT count(*) AS n FROM nodes")["n"][0].as_py() > 0


def test_what_stands_behind_a_view() -> None:
    assert tables_behind("categories") == {"flows", "structures", "readings"}
    assert tables_behind("windows") == {"flows"}
    assert tables_behind("spans") == {"flows", "structures"}
    assert tables_behind("_params") == {"params"}
    assert tables_behind("select") == frozenset()


@pytest.mark.parametrize(
    "text",
    [
        "EXPLAIN ANALYZE CREATE TABLE t AS SELECT 1",
        "EXPLAIN CREATE TABLE t AS SELECT 1",
        "EXPLAIN ANALYZE SET VARIABLE flows_files = []",
        "EXPLAIN COPY (SELECT 1) TO 'x.csv'",
        "explain /* c */ analyze create view v as select 1",
        "SET VARIABLE flows_files = []",
        "RESET threads",
        "USE memory",
        "CALL pragma_version()",
        "PRAGMA version",
        "CREATE MACRO m(x) AS x",
    ],
)
def test_nothing_but_a_select_runs(lake: Path, text: str) -> None:
    with open_session(period_of(lake)) as session:
        before = session.query("SELECT count(*) AS n FROM requests")
        with pytest.raises(QueryError):
            session.query(text)
        assert session.query("SELECT count(*) AS n FROM requests").equals(before)


def test_who_asks_for_a_table_that_is_not_there_is_told_which_there_are(small: Path) -> None:
    """And not that `_flows` is near: that is no table for users."""
    with (
        open_session(period_of(small)) as session,
        pytest.raises(QueryError, match=r"no table 'flows'\. There are requests, categories, spans"),
    ):
        session.query("select count(*) from flows")


@pytest.mark.parametrize(
    "text", ["EXPLAIN SELECT 1", "explain analyze select * from windows", "EXPLAIN FROM nodes"]
)
def test_a_select_is_explained(lake: Path, text: str) -> None:
    with open_session(period_of(lake)) as session:
        assert session.query(text).num_rows > 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("flowdiff", "sql", "-c", "select * from requests"),
        ("flowdiff", "windows"),
        ("flowdiff", "categories"),
        ("pytest", "-q", "-p", "no:cacheprovider", "tests/unit/test_sql_filters.py", "-k", "duration"),
    ],
    ids=" ".join,
)
def test_nothing_is_said_at_the_end_of_a_process(
    small: Path, repository: Path, arguments: tuple[str, ...], tmp_path: Path
) -> None:
    """DuckDB complains of what outlives it: a thread, a connection, a cache."""
    environment = {**os.environ, "FLOWDIFF_LAKE": str(small), "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=repository, env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_flags_are_counted(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open_session(period_of(lake)) as session:
        flags, requests = flagged(session)
        nothing, none = flagged(session, root="no/such")
    assert (nothing, none) == ({}, 0)
    assert 0 < flags[Quality.NEGATIVE] <= requests
    capsys.readouterr()
    run("windows", "--lake", str(lake))
    out = " ".join(capsys.readouterr().out.split())
    assert "none of them keeps a request out of tests" in out
    assert "harmless as long as it is small" in out


def flip(data: bytes, at: int, bit: int) -> bytes:
    return data[:at] + bytes([data[at] ^ (1 << bit)]) + data[at + 1 :]


STATEMENTS = (
    "select * from requests join categories using (category) order by all",
    "select sum(critical_us), count(*) from spans",
)
READERS = (
    ("categories", "--json"),
    ("sql", "--format", "json", "-c", STATEMENTS[0]),
    ("export", "--format", "native"),
    ("export", "--format", "dot", "--where", "duration > 1ms"),
    (
        *("compare", "--reference", "all", "--problem", "all", "--problem-where", "duration > 0ns"),
        *("--no-save", "--json", "-", "--fail-on", "never"),
    ),
)


def flipped(lake: Path, each: int) -> Iterator[Path]:
    """A file of the lake at a time with one bit that is another, which is mended after it.

    Of six places in every file one in `each`: the next file has others.
    """
    for turn, path in enumerate(sorted(lake.glob("*/window=*/*.parquet"))):
        data = path.read_bytes()
        footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
        places = (2, 40, footer // 2, footer + 5, (footer + len(data)) // 2, len(data) - 6)
        for at in places[turn % each :: each]:
            path.write_bytes(flip(data, at, at % 8))
            yield path
        path.write_bytes(data)


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: " ".join(reader)[:30])
def test_a_flipped_bit_is_found_or_changes_nothing(
    small: Path, tmp_path: Path, reader: tuple[str, ...], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    moved = shutil.copytree(small, tmp_path / "lake")
    capfdbinary.readouterr()
    code = run(*reader, "--lake", str(moved))
    right = (code, capfdbinary.readouterr().out)
    assert code in (0, 1)
    found = 0
    each = 6 if reader[0] == "sql" else 3  # a process of its own, which takes a second
    for path in flipped(moved, each):
        code = run(*reader, "--lake", str(moved))
        out, error = capfdbinary.readouterr()
        if code == 2:
            found += 1
            assert error.count(b"\n") == 1, error.decode()
            assert path.name in error.decode()
        else:
            assert (code, out) == right
    assert found * each >= 6
    assert pq.ParquetFile(sorted(moved.glob("flows/*/*.parquet"))[0]).metadata.num_rows > 0


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_flipped_bit_is_found_by_a_statement_or_changes_nothing(
    small: Path, tmp_path: Path, statement: str
) -> None:
    """As the process of `flowdiff sql` asks it."""
    moved = shutil.copytree(small, tmp_path / "lake")

    def answer() -> pa.Table | LakeError:
        try:
            with open_session(period_of(moved)) as session:
                return session.query(statement)
        except LakeError as error:
            return error

    right, found = answer(), 0
    assert isinstance(right, pa.Table)
    for path in flipped(moved, 3):
        said = answer()
        if isinstance(said, LakeError):
            found += 1
            assert path.name in str(said)
            assert "\n" not in str(said)
        else:
            assert said.equals(right)
    assert found >= 2


def test_local_times_are_utc(lake: Path) -> None:
    """A query's `now()` is compared with a lake's times, whatever the time zone of the machine."""
    text = (
        "select current_setting('TimeZone'), (select count(*) from requests) = (select count(*) from requests"
        " where started_at between timestamptz '2000-01-01 00:00:00+00' and now()),"
        " timestamp '2026-07-01 12:00:00' = timestamptz '2026-07-01 12:00:00+00'"
    )
    asked = [sys.executable, "-m", "flowdiff", "sql", "--lake", str(lake), "--format", "csv", "-c", text]
    done = subprocess.run(asked, env={**os.environ, "TZ": "Asia/Tokyo"}, capture_output=True, text=True)
    assert done.stdout.splitlines()[1:] == ["UTC,true,true"], done.stderr
