"""A session in a process of its own: whatever a statement does, it ends in time, in memory and on Ctrl-C.

Where its memory is not asked about, it is forked.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from oracles.traffic import write_native
from oracles.waiting import PATIENCE_S, wait_until

from analyze.sql import session_process
from analyze.sql.session_process import BESIDE, SessionProcess
from flowdiff.__main__ import main
from schemas.errors import LakeError, QueryError

SLOW_CALLS = (
    "select levenshtein(repeat('x', 200000), repeat('y', 200000))",
    "select sum(length(lpad('', 1000000 + (range % 3)::INT, 'x'))) from range(1000000)",
    "select sum(a.range * b.range % 7) from range(10000000) as a, range(10000000) as b",
)
LARGE_CALLS = (
    "select length(repeat('x', 4000000000))",
    "select list_reduce(range(1000000000), lambda a, b: a + b)",
    "select string_agg(repeat('x', 1000), '') from range(10000000)",
)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("process")
    write_native(folder / "a.ndjson", 30)
    assert run("import", str(folder / "a.ndjson"), "--lake", str(folder / "lake")) == 0
    return folder / "lake"


@pytest.fixture(scope="module")
def session(lake: Path) -> Iterator[SessionProcess]:
    with closing(SessionProcess(str(lake), now_ns=0)) as opened:
        yield opened


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


def peak_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))


@pytest.mark.parametrize("text", SLOW_CALLS)
def test_a_query_ends_at_its_time(lake: Path, text: str) -> None:
    with closing(SessionProcess(str(lake), now_ns=0, seconds=0.5)) as session:
        first = session._process
        assert first is not None
        with pytest.raises(QueryError, match=r"more than 0\.5 s"):
            session.query(text)
        assert first.poll() == -signal.SIGKILL
        session._seconds = 60.0  # what follows is quick, but this machine may be busy
        assert session.query("select count(*) as n from requests")["n"].to_pylist() == [30]


@pytest.mark.usefixtures("started_sessions")
def test_a_query_ends_at_its_memory(lake: Path) -> None:
    """The account of DuckDB, 64 MB, does not see what functions make; the system does."""
    with closing(SessionProcess(str(lake), now_ns=0, memory="64MB")) as session:
        for text in LARGE_CALLS:
            with pytest.raises(QueryError, match=r"Out of Memory.*\. Raise --memory\."):
                session.query(text)
            assert session.query("select 1 as one")["one"].to_pylist() == [1]
        assert session._process is not None
        process = session._process.pid
        assert session.query("select length(repeat('x', 30000000 + range)) from range(1)").num_rows == 1
        assert peak_bytes(process) < 64 * 1024**2 + BESIDE + 200 * 1024**2  # code


def test_ctrl_c_ends_a_query_at_once(lake: Path) -> None:
    command = [sys.executable, "-m", "flowdiff", "sql", "--lake", str(lake), "-c", SLOW_CALLS[0]]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        children: list[str] = []
        # Until DuckDB computes: a process that has used more CPU time than starting takes.
        while not children or _cpu_seconds(int(children[0])) < 2:
            time.sleep(0.05)
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, told) == (130, "flowdiff: interrupted.\n")
    assert not Path(f"/proc/{children[0]}").exists()


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_the_process_ends_with_its_parent(lake: Path) -> None:
    text = f"""
from analyze.sql.session_process import SessionProcess
session = SessionProcess({str(lake)!r}, now_ns=0)
print(session._process.pid, flush=True)
session.query({SLOW_CALLS[2]!r})
"""
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.kill()
    wait_until(lambda: not Path(f"/proc/{child}").exists(), lambda: "it computes on")


def test_an_answer_comes_as_it_is_and_batch_by_batch(session: SessionProcess) -> None:
    text = "select range as n, 'a'::enum('a', 'b') as kind, [range] as list from range(200000)"
    reader = session.stream(text)
    assert pa.types.is_dictionary(reader.schema.field("kind").type)
    assert reader.read_next_batch().num_rows == 65_536
    assert sum(batch.num_rows for batch in reader) == 200_000 - 65_536
    assert session.query("select ? + 1 as n", [41])["n"].to_pylist() == [42]


def test_who_reads_no_further_ends_the_query(session: SessionProcess) -> None:
    reader = session.stream("select range from range(1000000000000)")
    reader.read_next_batch()
    del reader
    assert session.query("select 1 as one")["one"].to_pylist() == [1]


def test_reading_slowly_is_not_computing(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(session_process, "monotonic", lambda: clock[0])
    with closing(SessionProcess(str(lake), now_ns=0, seconds=300)) as session:
        rows = 0
        for batch in session.stream("select * from range(1000000)"):
            clock[0] += 100
            rows += batch.num_rows
    assert rows == 1_000_000


def test_errors_come_over(session: SessionProcess, tmp_path: Path) -> None:
    with pytest.raises(QueryError, match="There is no table 'flows'"):
        session.query("select * from flows")
    with pytest.raises(QueryError, match="not UTF-8"):
        session.query("select '\udcff'")
    with pytest.raises(QueryError, match="x at 150000"):
        session.query(
            "select case when range = 150000 then error('x at 150000') else 1 end from range(200000)"
        )
    with pytest.raises(LakeError, match="There is no lake"):
        SessionProcess(str(tmp_path), now_ns=0)


def test_a_query_may_have_all_the_time_there_is(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with closing(SessionProcess(str(lake), now_ns=0, seconds=1e30)) as session:
        assert session.query("SELECT 1 AS one")["one"].to_pylist() == [1]
    assert run("sql", "-c", "SELECT 1", "--lake", str(lake), "--timeout", "15000w") == 0
    capsys.readouterr()
    for weeks in ("9" * 17, "9" * 4_000):
        assert run("sql", "-c", "SELECT 1", "--lake", str(lake), "--timeout", f"{weeks}w") == 2
        told = capsys.readouterr().err
        assert "292 years" in told
        assert told.count("\n") == 1


@pytest.mark.parametrize("form", ["table", "json", "csv"])
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("select 'infinity'::timestamp, '-infinity'::timestamptz, ['infinity'::date]", "-infinity"),
        ("select '2020-01-01 00:00:00.123456789'::timestamp_ns", "2020-01-01 00:00:00.123456789"),
        ("select * from test_all_types()", "290309-12-22 (BC) 00:00:00"),
    ],
)
def test_every_value_is_shown(
    lake: Path, capfdbinary: pytest.CaptureFixture[bytes], form: str, text: str, shown: str
) -> None:
    assert run("sql", "--lake", str(lake), "--format", form, "-c", text) == 0
    out, err = capfdbinary.readouterr()
    assert (shown in out.decode(), err) == (True, b"")


def test_what_is_not_utf_8_is_one_line(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (("sql", "-c", "select '\udcff'"), ("compare", "--where", "root=\udcff")):
        assert run(*arguments, "--lake", str(lake)) == 2
        told = capsys.readouterr().err
        assert "is not UTF-8" in told
        assert told.count("\n") == 1
