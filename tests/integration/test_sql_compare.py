"""`compare(...)` and `breakdown(...)` in SQL: what the command compares, as tables that join with others."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from fixtures.recipes_lake import fill
from oracles.fork_server import run

import flowdiff
from analyze.scope import resolve
from analyze.sql import session_process
from analyze.sql.asked_comparison import AskedComparison
from analyze.sql.comparisons import MOST_COMPARISONS, with_named_where
from analyze.sql.session import Session, open_session
from analyze.sql.session_process import SessionProcess
from schemas.errors import ConfigError, FlowdiffError, PeriodError, QueryError
from schemas.periods import parse_period
from schemas.report.report_tables import REPORT_TABLES

DAYS = "'2026-11-18', '2026-11-19'"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> flowdiff.Lake:
    """Two days of a storage service and of a shop, without statistics and without reports."""
    folder = tmp_path_factory.mktemp("compared")
    made = flowdiff.open(folder / "lake", create=True)
    fill(made, 300, folder)
    return made


@pytest.fixture(scope="module")
def found(lake: flowdiff.Lake) -> flowdiff.Analysis:
    return lake.compare("2026-11-18", "2026-11-19")


def test_findings_are_those_of_the_command(lake: flowdiff.Lake, found: flowdiff.Analysis) -> None:
    rows = lake.sql(f"select * from compare({DAYS})").rows()
    assert len(rows) > 1
    assert rows == found.tables["findings"].rows()
    assert [row["title"] for row in rows[: len(found.findings)]] == [one.title for one in found.findings]
    kinds = "select column_name, column_type from (describe from compare(:a, :b))"
    assert lake.sql(kinds, a="2026-11-18", b="2026-11-19")["column_name"] == REPORT_TABLES["findings"].names


def test_the_breakdown_adds_up(lake: flowdiff.Lake, found: flowdiff.Analysis) -> None:
    sums = lake.sql(f"select measure, sum(total) as total from breakdown({DAYS}) group by measure").rows()
    assert found.breakdown is not None
    told = {account.measure: account.after - account.before for account in found.breakdown.accounts}
    assert {row["measure"]: row["total"] for row in sums} == pytest.approx(told)


def test_named_arguments_are_options_of_the_command(lake: flowdiff.Lake) -> None:
    """`where` is a word of SQL, and is an argument all the same."""
    only = "root = 'shop/checkout'"
    rows = lake.sql(f"select title from compare({DAYS}, where := :only, method := 'robust')", only=only)
    narrow = lake.compare("2026-11-18", "2026-11-19", where=only)
    assert rows["title"] == [one.title for one in narrow.findings] != []
    versions = (
        "select title from compare('all', 'all', reference_where := 'service.version = v1',"
        " problem_where := 'service.version = v2')"
    )
    assert len(lake.sql(versions)) > 1


def test_it_joins_with_requests_and_with_tables_of_ones_own(lake: flowdiff.Lake) -> None:
    rows = lake.sql(
        f"""
        select c.rank, r.request_id, r.started_at
        from compare({DAYS}) as c, unnest(c.examples) as example(id)
        join requests as r on r.request_id = example.id
        """
    )
    assert {at.date().isoformat() for at in rows["started_at"]} == {"2026-11-19"}
    deployments = pa.table(
        {
            "version": ["v2", "v3"],
            "before": ["2026-11-18"] * 2,
            "after": ["2026-11-19", "2026-11-19T09:00/5m"],
        }
    )
    each = lake.sql(
        "select d.version, count(*) as n from deployments as d, compare(d.before, d.after)"
        " group by 1 order by 1",
        attach={"deployments": deployments},
    )
    assert each["version"] == ["v2", "v3"]
    kept = lake.sql(
        f"create temp table found as select * from compare({DAYS}); select count(*) as n from found, requests"
    )
    assert kept["n"][0] > len(lake.requests())


@pytest.mark.parametrize(
    ("arguments", "kind", "told"),
    [
        (
            "'2026-11-18', '1999-01-01'",
            PeriodError,
            "holds no window of the lake. Sealed windows: 2026-11-18",
        ),
        ("'x', '2026-11-19'", PeriodError, "'x' is not a period. Write START/END"),
        ("'2026-11-18', '2026-11-18'", PeriodError, "overlap.*Take periods apart"),
        (f"{DAYS}, where := 'root = none'", PeriodError, "holds no request.*There are"),
        (f"{DAYS}, where := 'root ='", PeriodError, "Write: key = 'value'"),
        (f"{DAYS}, history := '2026-11-18'", PeriodError, "Nothing of the history is left"),
        (
            "'elsewhere@2026-11-18', '2026-11-19'",
            PeriodError,
            "names a lake. A query compares periods of its own",
        ),
        (f"{DAYS}, method := 'paper'", ConfigError, "gives no findings.*Take 'robust'"),
        (f"{DAYS}, method := 'other'", ConfigError, "no method 'other'. Methods are"),
        ("'2026-11-18', null", QueryError, "has no problem: it is null. Write compare"),
        ("'2026-11-18'", QueryError, "does not take these arguments. Write compare"),
        (f"{DAYS}, other := 1", QueryError, "does not take these arguments. Write compare"),
    ],
)
def test_what_is_refused_is_one_line_of_the_query(
    lake: flowdiff.Lake, arguments: str, kind: type[FlowdiffError], told: str
) -> None:
    with pytest.raises(kind, match=told) as refused:
        lake.sql(f"from compare({arguments})")
    assert "\n" not in str(refused.value)


def test_statistics_change_nothing(lake: flowdiff.Lake) -> None:
    """A lake without them is compared from its requests."""
    asked = f"select rank, title, share, q from compare({DAYS})"
    without = lake.sql(asked).rows()
    assert run([sys.executable, "-m", "flowdiff", "summarize", "--lake", lake.name]).returncode == 0
    assert lake.sql(asked).rows() == without


def test_a_query_that_compares_reads_no_more_files(lake: flowdiff.Lake) -> None:
    for text in (
        f"select * from compare({DAYS}), read_text('{lake.name}/flowdiff.json')",
        f"select * from read_parquet('{lake.name}/flows/*/*.parquet'), compare({DAYS})",
    ):
        with pytest.raises(QueryError, match="file system operations are disabled"):
            lake.sql(text)


class Counting:
    """Gives empty tables, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked: list[AskedComparison] = []

    def __call__(self, asked: AskedComparison) -> Mapping[str, pa.Table]:
        self.asked.append(asked)
        return {name: schema.empty_table() for name, schema in REPORT_TABLES.items()}


@pytest.fixture
def counting() -> Counting:
    return Counting()


@pytest.fixture
def session(lake: flowdiff.Lake, counting: Counting) -> Iterator[Session]:
    everything = resolve(parse_period("all", now_ns=0), default_lake=lake.name)
    with open_session(everything, comparing=counting) as opened:
        yield opened


def test_a_comparison_is_made_once(session: Session, counting: Counting) -> None:
    both = "select (select count(*) from compare('a', 'b')), (select count(*) from breakdown('a', 'b')), n"
    assert session.query(f"{both} from (select count(*) as n from requests)").num_rows == 1
    session.query("explain from compare('a', 'b', 'c')")
    session.query("from compare(date '2026-11-18', timestamp '2026-11-19 10:00')")
    assert [(one.reference, one.problem, one.history) for one in counting.asked] == [
        ("a", "b", None),
        ("a", "b", "c"),
        ("2026-11-18", "2026-11-19 10:00:00", None),
    ]


def test_rows_that_ask_for_too_many_are_refused(session: Session, counting: Counting) -> None:
    with pytest.raises(QueryError, match=f"more than {MOST_COMPARISONS} comparisons. Filter the rows"):
        session.query("select c.* from range(1000) as r(n), compare('a', r.n::varchar) as c")
    assert len(counting.asked) == MOST_COMPARISONS


def test_the_time_of_a_comparison_is_not_the_query_s(
    lake: flowdiff.Lake, counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(session_process, "monotonic", lambda: clock[0])

    def slow(asked: AskedComparison) -> Mapping[str, pa.Table]:
        clock[0] += 1_000
        return counting(asked)

    with closing(SessionProcess(lake.name, now_ns=0, seconds=300, comparing=slow)) as process:
        assert process.query("select 1 as n, * from compare('a', 'b')").num_rows == 0
    assert len(counting.asked) == 1


def test_a_comparison_learns_that_its_query_was_killed(lake: flowdiff.Lake, counting: Counting) -> None:
    waited: list[bool] = []

    def killing(asked: AskedComparison) -> Mapping[str, pa.Table]:
        waited.append(asked.is_wanted())
        assert process._process is not None
        process._process.kill()
        while asked.is_wanted():
            time.sleep(0.01)
        waited.append(asked.is_wanted())
        return counting(asked)

    with closing(SessionProcess(lake.name, now_ns=0, comparing=killing)) as process:
        with pytest.raises(QueryError, match="process of the query died"):
            process.query("from compare('a', 'b')")
        assert waited == [True, False]
        assert process.query("select 1 as n")["n"].to_pylist() == [1]


def test_a_bug_of_a_comparison_ends_the_session_and_is_raised(lake: flowdiff.Lake) -> None:
    def broken(_: AskedComparison) -> Mapping[str, pa.Table]:
        raise ZeroDivisionError

    with closing(SessionProcess(lake.name, now_ns=0, comparing=broken)) as process:
        with pytest.raises(ZeroDivisionError):
            process.query("from compare('a', 'b')")
        assert process.query("select 1 as n")["n"].to_pylist() == [1]


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("compare('a', 'b', where := 'x')", "compare('a', 'b', \"where\" := 'x')"),
        ("compare('a', 'b', WHERE=>'x') where a = 1", "compare('a', 'b', \"WHERE\"=>'x') where a = 1"),
        ("select 'where := 1' -- where := 2", "select 'where := 1' -- where := 2"),
        (
            'select $$where := 1$$, "where :=" /* where := */',
            'select $$where := 1$$, "where :=" /* where := */',
        ),
        ("select nowhere := 1", "select nowhere := 1"),
    ],
)
def test_the_argument_where_is_put_in_quotes(text: str, quoted: str) -> None:
    assert with_named_where(text) == quoted


def test_it_finds_the_planted_fault_of_a_recording(shared_data: Path, tmp_path: Path) -> None:
    """A web shop whose recommendations somebody slowed down at 15:12:49."""
    lake = flowdiff.open(tmp_path / "lake", create=True)
    lake.import_(shared_data / "faults" / "online-boutique.otlp.jsonl.zst")
    first = lake.sql(
        "select component, operation, kind, share from compare(:before, :after) where rank = 1",
        before="2022-08-23T15:11:00/2022-08-23T15:12:44",
        after="2022-08-23T15:12:59/2022-08-23T15:15:00",
    )
    assert first["kind"] == ["slower"]
    assert "Recommendation" in first["operation"][0]
    assert first["share"][0] > 0.5
