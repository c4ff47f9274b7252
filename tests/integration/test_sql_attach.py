"""`flowdiff sql` with tables and values of one's own; the session stays locked."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from oracles.traffic import write_native

from analyze.sql.session import bound_names
from flowdiff.__main__ import main


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("attach")
    write_native(folder / "a.ndjson", 30)
    with pytest.raises(SystemExit):
        main(["import", str(folder / "a.ndjson"), "--lake", str(folder / "lake")])
    return folder / "lake"


def run(lake: Path, *arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["sql", "--lake", str(lake), "--format", "csv", *arguments])
    return int(ended.value.code or 0)


def test_files_of_any_kind_are_joined(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = pl.DataFrame({"version": ["v1", "v2"], "at": ["2020-01-01T00:00:00Z", "2090-01-01T00:00:00Z"]})
    odd = tmp_path / "a[1]*"
    odd.mkdir()
    mine.write_csv(odd / "c.csv")
    mine.write_parquet(odd / "p.PARQUET")
    mine.write_ndjson(odd / "j.jsonl")
    query = """
        create temp table old as select c.version from c join p using (version) join j using (version)
        where c.at < timestamp '2021-01-01';
        select old.version, :what as what, count(*) as n from requests, old
        where n_nodes >= :least group by all
    """
    attached = [f"--attach={path.stem}={path}" for path in odd.iterdir()]
    assert run(lake, *attached, "--param", "least=1", "--param", "what=a ':b", "-c", query) == 0
    assert capsys.readouterr().out == "version,what,n\nv1,a ':b,30\n"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--attach", "requests={file}", "-c", "select 1"], "No table can be attached as 'requests'"),
        (["--attach", "_flows={file}", "-c", "select 1"], "No table can be attached as '_flows'"),
        (["--attach", "{file}", "-c", "select 1"], "write NAME=VALUE"),
        (["--attach", "T={file}", "--attach", "t={file}", "-c", "select 1"], "in SQL T and t are the same"),
        (["--attach", "t={file}", "--attach", "t={file}", "-c", "select 1"], "--attach t=… is given twice"),
        (["--attach", "a=", "-c", "select 1"], "--attach a=: write NAME=VALUE"),
        (["--attach", "a=nowhere.csv", "-c", "select 1"], "There is no file 'nowhere.csv'"),
        (["--attach", "a=https://a.example/b.csv", "-c", "select 1"], "There is no file"),
        (["--attach", "a={file}.txt", "-c", "select 1"], "does not tell by its name"),
        (["--attach", "a={file}", "-c", "from read_csv('{file}')"], "Permission Error"),
        (["-c", "select :a"], "syntax error"),
        (["-c", "select $a"], "The parameter a has no value"),
        (["-c", "create table a as select 1"], "Only statements that read"),
        (["-c", "create temp table a as select 1; drop table a"], "Only statements that read"),
        (["-c", "create temp table a(b int); select 1"], "That is 2 statements"),
        (["-c", "create temp table a as from read_csv('{file}')"], "Permission Error"),
    ],
)
def test_nothing_else_is_opened(
    lake: Path, tmp_path: Path, arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("a\n1\n")
    assert run(lake, *(argument.replace("{file}", str(file)) for argument in arguments)) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1


def test_a_colon_is_a_parameter_only_where_it_names_one() -> None:
    text = "select ':a', \":a\", x::a, :a, l[1:a], l[b:c] /* :a */ -- :a\n, :ab, :a"
    assert bound_names(text, ["a"]) == text.replace(" :a,", " $a,").replace("1:a", "1$a")[:-2] + "$a"
