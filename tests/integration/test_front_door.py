"""`flowdiff.open(lake)` from Python: the same as the commands say, for whatever reads Arrow, in one line."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from fixtures import typed_program

import flowdiff
from flowdiff.__main__ import main
from flowdiff.times import period_texts
from schemas.errors import ConfigError, InputError, LakeError, PeriodError, QueryError

BEFORE, AFTER = "2022-08-23T16:55/10m", "2022-08-23T15:10/5m"


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


@pytest.fixture(scope="module")
def lake(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> flowdiff.Lake:
    lake = flowdiff.open(tmp_path_factory.mktemp("door") / "lake", create=True)
    names = ("before", "after-recommendation-delay")
    files = [shared_data / "online-boutique" / f"{name}.otlp.jsonl.gz" for name in names]
    done = lake.import_(files)
    assert done.flows == len(lake.requests())
    assert done.rejected == {}
    assert "events: " in repr(done)
    assert lake.import_(str(files[0]), format="otlp-json").flows == 0
    return lake


def test_windows_requests_and_sql_are_tables_of_the_same_requests(lake: flowdiff.Lake) -> None:
    n = sum(lake.windows()["requests"])
    assert len(lake.requests()) == n == lake.sql("select count(*) as n from requests")["n"][0]
    assert len(lake.requests(BEFORE)) == len(lake.sql("select * from requests", BEFORE)) < n
    assert len(lake.requests(where="component = 'frontend'")) <= n
    kept = lake.requests(BEFORE, where="duration > 100ms")
    assert 0 < len(kept) < len(lake.requests(BEFORE))
    assert min(kept["response_us"]) > 100_000


def test_a_table_goes_to_whatever_reads_arrow(lake: flowdiff.Lake) -> None:
    table = lake.sql("select root, count(*) as n from requests group by root order by n desc, root")
    assert pl.DataFrame(table).equals(table.pl())
    assert pa.table(table).equals(table.arrow())
    assert [row["root"] for row in table.rows()] == table["root"]
    assert table.columns == ["root", "n"]
    assert table._repr_html_().count("<tr>") == min(len(table), 20) + 1
    assert table["root"][0] in repr(table)
    back = lake.sql("select sum(n) as n from mine", attach={"mine": table.pl()})
    assert back["n"][0] == len(lake.requests())


def test_parameters_are_bound_and_never_text(lake: flowdiff.Lake) -> None:
    query = "select count(*) as n from requests where root = :root and started_at >= :since -- :root"
    root, since = lake.requests()["root"][0], datetime(2022, 8, 23)
    assert lake.sql(query, root=root, since=since)["n"][0] > 0
    assert lake.sql(query, root="' or 1=1 --", since=since)["n"][0] == 0
    with pytest.raises(QueryError, match="no value"):
        lake.sql("select $x")


def test_a_flow_is_one_request(lake: flowdiff.Lake) -> None:
    slowest = lake.sql("select request_id from requests order by response_us desc limit 1")["request_id"][0]
    flow = lake.flow(slowest)
    assert flow.request_id == slowest
    assert len(flow.nodes) == 2 * len(flow.spans) > 0
    assert flow.spans["status"].count("ok") <= len(flow.spans)
    assert all({"position", "key"} <= row.keys() for row in flow.params)
    assert "critical path" in repr(flow)
    assert flow._repr_html_().startswith("<pre")


def test_a_comparison_is_the_one_of_the_command(
    lake: flowdiff.Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = lake.compare(BEFORE, AFTER, settings={"paths": False})
    assert capsys.readouterr() == ("", "")
    periods = ("--reference", BEFORE, "--problem", AFTER)
    run("compare", "--lake", lake.name, *periods, "--set", "paths=false", "--no-save", "--json", "-")
    reported = json.loads(capsys.readouterr().out)
    assert found.report.id == reported["id"]
    assert found.verdict.outcome == reported["methods"][0]["verdict"]["outcome"]
    assert [*found.sections] == [section["section"] for section in reported["sections"]]
    assert found.findings[0].title in found.html()
    assert " ".join(found.findings[0].title.split()) in " ".join(repr(found).split())
    assert found.breakdown is found.sections["account"]
    assert json.loads(found.json())["id"] == found.report.id
    assert len(found.tables["findings"]) == len(found.findings)
    found.save(html=tmp_path / "page.html", json=str(tmp_path / "report.json"))
    assert (tmp_path / "page.html").read_text() == found.html()
    found.save(html=tmp_path / "linked.html", trace_url="https://jaeger.example/trace/{trace_id}")
    assert found.report.trace_url == ""
    assert 'href="https://jaeger.example/trace/' not in found.html()
    assert 'href="https://jaeger.example/trace/' in (tmp_path / "linked.html").read_text()
    with pytest.raises(ConfigError, match="not the address of a trace"):
        found.html(trace_url="https://jaeger.example/")
    assert 'sandbox="allow-scripts"' in found._repr_html_()
    assert "<script" not in found._repr_html_()
    assert lake.sql("select * from findings").rows() == []
    assert found.keep()
    assert len(lake.sql("select * from findings")) == len(found.findings)


def test_methods_of_one_sample_and_of_two(lake: flowdiff.Lake) -> None:
    found = lake.variance([BEFORE, AFTER], where="status = ok")
    assert (found.findings, found.breakdown) == ((), None)
    assert found.report.methods[0].name == "variance"
    assert found.report.id == lake.analyse("variance", [BEFORE, AFTER], where="status = ok").report.id


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("yesterday", ["yesterday"]),
        (["a", "b"], ["a", "b"]),
        (date(2026, 11, 18), ["2026-11-18"]),
        ((date(2026, 11, 18), timedelta(hours=1)), ["2026-11-18T00:00:00Z/2026-11-18T01:00:00Z"]),
        (
            (datetime(2026, 11, 18, 9), datetime(2026, 11, 18, 11, tzinfo=UTC)),
            ["2026-11-18T09:00:00Z/2026-11-18T11:00:00Z"],
        ),
        (
            [(datetime(2026, 1, 1), timedelta(days=1)), "last 1h"],
            ["2026-01-01T00:00:00Z/2026-01-02T00:00:00Z", "last 1h"],
        ),
        (
            (pl.Series([datetime(2026, 1, 1)])[0], pl.Series([timedelta(milliseconds=5)])[0]),
            ["2026-01-01T00:00:00Z/2026-01-01T00:00:00.005000Z"],
        ),
    ],
)
def test_periods_are_texts_days_and_ranges(given: flowdiff.Periods, text: list[str]) -> None:
    assert period_texts(given) == text


def test_what_cannot_be_asked_is_refused_in_one_line(lake: flowdiff.Lake, tmp_path: Path) -> None:
    with pytest.raises(LakeError):
        flowdiff.open(str(tmp_path))
    with pytest.raises(PeriodError):
        lake.compare("1999-01-01", AFTER)
    with pytest.raises(PeriodError):
        lake.windows([BEFORE, AFTER])  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="no method 'robuts'"):
        lake.compare(BEFORE, AFTER, method="robuts")
    with pytest.raises(ConfigError, match="min_z: "):
        lake.compare(BEFORE, AFTER, settings={"min_z": -1})
    with pytest.raises(ConfigError, match="speaks Arrow"):
        lake.sql("select 1", attach={"x": 3})
    with pytest.raises(InputError, match="no file"):
        lake.sql("select 1", attach={"x": "nope.csv"})
    with pytest.raises(QueryError) as refused:
        lake.sql("drop table requests")
    assert isinstance(refused.value, flowdiff.FlowdiffError)
    assert "\n" not in str(refused.value)
    with pytest.raises(AttributeError):
        flowdiff.nothing  # noqa: B018


def test_the_typed_program_uses_every_public_name() -> None:
    """mypy reads it with the product (pyproject.toml)."""
    text = Path(typed_program.__file__).read_text()
    assert {name for name in flowdiff.__all__ if name not in text} == set()


def test_import_costs_little() -> None:
    code = "import time; a = time.process_time(); import {}; print(time.process_time() - a)"
    for module, most_s in (("flowdiff", 0.15), ("flowdiff.lake", 0.5), ("analyze.compare", 1.0)):
        took = (
            float(subprocess.run([sys.executable, "-c", code.format(module)], capture_output=True).stdout)
            for _ in range(3)
        )
        assert any(seconds < most_s for seconds in took), module
    # A fifth of a second of what a comparison takes to be imported; it is used later, if at all.
    code = "import sys, analyze.compare; print('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).stdout == b"False\n"
