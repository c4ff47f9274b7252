"""How `flowdiff sql` begins: nothing is printed but rows, and no file is looked at that no query names."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from oracles.many_windows import WINDOW_NS, make

from analyze.scope import LakePeriod, Lakes, UnlistedPeriod
from analyze.sql.catalog import VIEWS
from analyze.sql.session import open_session
from schemas.arrays import I8
from schemas.periods import parse_period

WINDOWS = 1_000
"""More than three days."""


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


def test_thousands_of_windows_are_rows_and_nothing_else(tmp_path: Path) -> None:
    lake = make(tmp_path / "lake", 4_000)
    command = ("-m", "flowdiff", "sql", "--lake", str(lake), "--format", "json")
    assert json.loads(printed(*command, "-c", "select count(*) as n from requests")) == [{"n": 4_000}]


def listing(lake: Path, text: str = "all") -> tuple[UnlistedPeriod, list[int]]:
    """A period, and a list that gets the number of windows of each listing of its files."""
    unlisted = Lakes(str(lake)).unlisted(parse_period(text, now_ns=0))
    asked: list[int] = []

    def listed(starts_ns: I8) -> LakePeriod:
        asked.append(len(starts_ns))
        return unlisted.listed(starts_ns)

    return replace(unlisted, listed=listed), asked


ALLOWED = "select len(current_setting('allowed_paths')) as n"


def test_files_are_listed_by_the_first_query_that_names_them(lake: Path) -> None:
    unlisted, asked = listing(lake)
    with open_session(unlisted) as session:
        session.query("select 1")
        assert session.query("show tables;")["name"].to_pylist() == sorted(VIEWS)
        session.query("create temp table mine as select 42 as n; select n from mine")
        assert "mine" in session.query(" SHOW  TABLES")["name"].to_pylist()
        assert not asked
        assert session.query(ALLOWED)["n"].to_pylist() == [0]
        assert session.query("select count(*) as n from findings")["n"].to_pylist() == [0]
        assert asked == [0]
        assert session.query(ALLOWED)["n"].to_pylist() == [0]
        assert session.query("select count(*) as n from requests")["n"].to_pylist() == [WINDOWS]
        assert session.query(ALLOWED)["n"].to_pylist() == [WINDOWS]
        # What was made before goes along, and is asked together with what came later.
        both = session.query("select n, (select count(*) from params) as p from mine, requests limit 1")
        assert both.to_pylist() == [{"n": 42, "p": 0}]
    assert asked == [0, WINDOWS]


def test_windows_outside_of_the_period_cost_nothing(lake: Path) -> None:
    unlisted, _ = listing(lake, f"1970-01-01/{WINDOW_NS // 10**9}s")
    with open_session(unlisted) as session:
        assert session.query("from requests").num_rows == 1
        assert session.query("select current_setting('allowed_paths') as p")["p"].to_pylist() == [
            [str(lake / "flows/window=19700101T0000Z/0-000000000001-00000.parquet")]
        ]


@pytest.mark.parametrize(
    ("query", "windows"),
    [
        ("from requests where started_at >= '1970-01-02' and started_at < '1970-01-02 01:00'", 14),
        ("from requests where started_at::date = '1970-01-02'", 290),
        ("from requests where date_trunc('hour', started_at) = '1970-01-02 07:00'", 14),
        ("from requests where started_at > now()::timestamp - interval 1 day and root = 'x'", 0),
        ("from requests where window_start in ('1970-01-02', '1970-01-03')", 2),
        ("from requests where window_start = '1970-01-02' or start_ns between 5 and 7", 2),
        ("from requests where window_start = '1970-01-02' and status <> 'a'' or true'", 1),
        ("from requests where window_start = '1970-01-02' or status = 'x'", WINDOWS),
        ("from requests where not (window_start = '1970-01-02')", WINDOWS),
        ("from windows where window_start between '1970-01-02' and '1970-01-02 00:07'", 2),
        ("from windows join requests using (window_start) where window_start = '1970-01-02'", 1),
        ("with w as (from windows) from w as a, w as b where a.window_start = '1970-01-02'", WINDOWS),
        ("from spans where window_start = '1970-01-02'", 1),
        ("from nodes where window_start = '1970-01-02'", 1),
        ("from edges where window_start = '1970-01-02'", 1),
        ("from params where window_start = '1970-01-02'", 1),
        ("from call_sites where window_start = '1970-01-02'", 1),
        ("from call_patterns where window_start = '1970-01-02'", 1),
        ("from responses where window_start = '1970-01-02'", 1),
        ("from segments where window_start = '1970-01-02'", 1),
        ("from requests where started_at > '2020-01-01'", 0),
        ("from requests where false", 0),
    ],
)
def test_windows_that_a_query_cannot_touch_are_not_listed(lake: Path, query: str, windows: int) -> None:
    unlisted, asked = listing(lake)
    with open_session(unlisted) as session:
        session.query(f"explain {query}")
    assert sum(asked[-1:]) == windows
