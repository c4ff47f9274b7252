"""`flowdiff.open(lake)` from Python: the same as the commands say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

import flowdiff
from flowdiff.__main__ import main
from flowdiff.lake import Lake
from schemas.errors import ConfigError, LakeError, PeriodError, QueryError

BEFORE, AFTER = "2022-08-23T16:55/10m", "2022-08-23T15:10/5m"


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


@pytest.fixture(scope="module")
def lake(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    folder = tmp_path_factory.mktemp("door") / "lake"
    names = ("before", "after-recommendation-delay")
    traces = [str(shared_data / "online-boutique" / f"{name}.otlp.jsonl.gz") for name in names]
    assert run("import", *traces, "--lake", str(folder)) == 0
    return flowdiff.open(str(folder))


def test_windows_requests_and_sql_are_tables_of_the_same_requests(lake: Lake) -> None:
    n = sum(lake.windows()["requests"].to_pylist())
    assert lake.requests().num_rows == n == lake.sql("select count(*) as n from requests")["n"][0].as_py()
    assert lake.requests(BEFORE).num_rows == lake.sql("select * from requests", BEFORE).num_rows < n


def test_a_comparison_is_the_one_of_the_command(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    found = lake.compare(BEFORE, AFTER, settings={"paths": False})
    periods = ("--reference", BEFORE, "--problem", AFTER)
    run("compare", "--lake", lake.name, *periods, "--no-paths", "--no-save", "--json", "-")
    told = json.loads(capsys.readouterr().out)
    assert found.report.id == told["id"]
    assert found.verdict.outcome == told["methods"][0]["verdict"]["outcome"]
    assert found.findings[0].title in found.html()
    assert found.account is not None
    assert json.loads(found.json())["id"] == found.report.id
    assert found.tables["findings"].num_rows == len(found.findings)


def test_a_method_of_one_sample(lake: Lake) -> None:
    found = lake.analyse("variance", [BEFORE, AFTER], where="status = 'ok'")
    assert (found.findings, found.account) == ((), None)
    assert found.report.methods[0].name == "variance"


def test_what_cannot_be_asked_is_refused(lake: Lake, tmp_path: Path) -> None:
    with pytest.raises(LakeError):
        flowdiff.open(str(tmp_path))
    with pytest.raises(PeriodError):
        lake.compare("1999-01-01", AFTER)
    with pytest.raises(ConfigError, match="no method 'robuts'"):
        lake.compare(BEFORE, AFTER, method="robuts")
    with pytest.raises(ValidationError):
        lake.compare(BEFORE, AFTER, settings={"min_z": -1})
    with pytest.raises(QueryError):
        lake.sql("drop table requests")
