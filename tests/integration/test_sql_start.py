"""How `flowdiff sql` begins: nothing is printed but rows, and no file is looked at that no query names."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from oracles.many_windows import WINDOW_NS, make

from analyze.scope import LakePeriod, Lakes
from analyze.sql.session import open_session
from schemas.periods import parse_period

WINDOWS = 10_000


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("windows") / "lake", WINDOWS)


def printed(*words: str) -> str:
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_list_of_files_that_takes_seconds_draws_no_bar() -> None:
    """DuckDB draws one for a program without a file, as a session's process and a notebook's kernel are."""
    text = (
        "from pathlib import Path; from analyze.sql.connection import locked_connection\n"
        "with locked_connection([Path(f'/x/{i}') for i in range(300_000)]) as c:\n"
        "    print(c.sql('select 1').fetchall())"
    )
    assert printed("-c", text) == "[(1,)]\n"


def test_ten_thousand_windows_are_rows_and_nothing_else(lake: Path) -> None:
    command = ("-m", "flowdiff", "sql", "--lake", str(lake), "--format", "json")
    assert json.loads(printed(*command, "-c", "select count(*) as n from requests")) == [{"n": WINDOWS}]


def test_files_are_listed_by_the_first_query_that_names_them(lake: Path) -> None:
    lakes, period = Lakes(str(lake)), parse_period("all", now_ns=0)
    asked: list[LakePeriod] = []

    def listed() -> LakePeriod:
        asked.append(lakes.find(period))
        return asked[-1]

    with open_session(lakes.bounds(period), listed=listed) as session:
        session.query("select 1")
        session.query("show tables")
        session.query("create temp table mine as select 42 as n; select n from mine")
        assert not asked
        allowed = "select len(current_setting('allowed_paths')) as n"
        assert session.query(allowed)["n"].to_pylist() == [0]
        assert session.query("select count(*) as n from findings")["n"].to_pylist() == [0]
        assert session.query(allowed)["n"].to_pylist() == [0]
        assert session.query("select count(*) as n from requests")["n"].to_pylist() == [WINDOWS]
        assert session.query(allowed)["n"].to_pylist() == [WINDOWS]
        # What was made before goes along, and is asked together with what came later.
        both = session.query("select n, (select count(*) from params) as p from mine, requests limit 1")
        assert both.to_pylist() == [{"n": 42, "p": 0}]
    assert len(asked) == 1


def test_windows_outside_of_the_period_cost_nothing(lake: Path) -> None:
    one = parse_period(f"1970-01-01/{WINDOW_NS // 10**9}s", now_ns=0)
    lakes = Lakes(str(lake))
    with open_session(lakes.bounds(one), listed=lambda: lakes.find(one)) as session:
        assert session.query("from requests").num_rows == 1
        assert session.query("select current_setting('allowed_paths') as p")["p"].to_pylist() == [
            [str(lake / "flows/window=19700101T0000Z/0-000000000001-00000.parquet")]
        ]
