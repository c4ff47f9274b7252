"""The command line as a user meets it: a process, its output, its exit code, its memory, its death."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from oracles import fork_server
from oracles.command_line import Ended, command
from oracles.lake_script import content
from oracles.traffic import write_native

from flowdiff.__main__ import main
from stitch.lake.fsck import check
from stitch.lake.store import LocalStore

MB = 2**20


def flowdiff(repository: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "flowdiff", *map(str, arguments)]
    return fork_server.run(command, cwd=repository, capture_output=True, text=True, check=False)


def here(*arguments: str | Path) -> Ended:
    """The same in this process, where it is not the process that is tested."""
    return command(*map(str, arguments))


def test_version_and_help(repository: Path) -> None:
    version = flowdiff(repository, "--version")
    assert (version.returncode, version.stdout.split()[0]) == (0, "flowdiff")
    shown = flowdiff(repository, "--help")
    assert shown.returncode == 0
    assert "import" in shown.stdout
    assert " lake " in shown.stdout


def test_import_prints_a_summary_and_fsck_agrees(repository: Path, tmp_path: Path) -> None:
    n_events = write_native(tmp_path / "a.ndjson", 30)
    lake = tmp_path / "lake"
    first = flowdiff(repository, "import", tmp_path / "*.ndjson", "--lake", lake)
    assert (first.returncode, first.stderr) == (0, "")
    assert f"{n_events:,}" in first.stdout
    again = here("import", tmp_path / "a.ndjson", "--lake", lake, "--json")
    summary = json.loads(again.out)
    assert summary["commit"] is None
    assert summary["files_known"] == [str(tmp_path / "a.ndjson")]
    assert here("fsck", lake).code == 0
    next(lake.glob("flows/*/*.parquet")).unlink()
    broken = here("fsck", lake)
    assert (broken.code, broken.out.split()[0]) == (1, "I3:")
    assert broken.out.endswith("\n1 error\n")
    nowhere = here("fsck", tmp_path / "nowhere")
    assert (nowhere.code, str(tmp_path / "nowhere") in nowhere.err) == (2, True)


def test_rejects_are_counted_and_can_be_read(tmp_path: Path) -> None:
    write_native(tmp_path / "a.ndjson", 3)
    with (tmp_path / "a.ndjson").open("ab") as file:
        file.write(b"{broken\n\xff\n")
    done = here("import", tmp_path / "a.ndjson", "--lake", tmp_path / "la ke")
    *_, line = done.out.splitlines()
    assert line.startswith("2 rejected: flowdiff sql ")
    words = shlex.split(line.removeprefix("2 rejected: flowdiff "))
    answer = here(*words, "--format", "json")
    letters = [(row["commit"], row["reason"], row["raw"]) for row in json.loads(answer.out)]
    assert letters == [(1, "bad-json", "{broken"), (1, "bad-json", "\\xFF")]


def test_a_lake_of_rejects_alone_can_be_queried(tmp_path: Path) -> None:
    (tmp_path / "rotated").touch()
    lake = tmp_path / "lake"
    assert here("import", tmp_path / "rotated", "--lake", lake).code == 0
    query = "select reason, (select count(*) from requests) as n from dead_letters"
    answer = here("sql", "--lake", lake, "-c", query, "--format", "json")
    assert json.loads(answer.out) == [{"reason": "empty", "n": 0}]


def test_a_bug_keeps_its_traceback_and_is_no_finding(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_names: list[str]) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("flowdiff.__main__.build_app", broken)
    with pytest.raises(SystemExit) as ended:
        main(["import"])
    assert ended.value.code == 2
    assert "Traceback" in (shown := capsys.readouterr().err)
    assert "RuntimeError: a bug" in shown


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["missing.ndjson"], "No file matches 'missing.ndjson'"),
        (["{file}", "--window", "7m"], "does not divide a day"),
        (["{file}", "--memory", "lots"], "--memory: 'lots' is not a size"),
        (["{file}", "--format", "no-such"], "no-such"),
        (["{file}", "--format", "zipkin"], "No event could be read as zipkin"),
        (["{file}", "--lake", "{file}"], "cannot be made"),
    ],
)
def test_expected_failures_are_one_line_and_a_code(
    tmp_path: Path, arguments: list[str], expected: str
) -> None:
    write_native(tmp_path / "a.ndjson", 1)
    given = [argument.format(file=tmp_path / "a.ndjson") for argument in arguments]
    result = here("import", "--lake", tmp_path / "lake", *given)
    assert result.code == 2
    assert result.out == ""
    assert expected in result.err
    assert result.err.startswith("flowdiff: ")
    assert result.err.count("\n") == 1


PEAK = """
import resource, sys
from flowdiff.__main__ import main
try:
    main(sys.argv[1:])
finally:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
"""


def peak_bytes(repository: Path, *arguments: str | Path) -> int:
    command = [sys.executable, "-c", PEAK, *map(str, arguments)]
    result = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=True)
    return int(result.stderr.split()[-1]) * 1024


@pytest.mark.slow
def test_memory_stays_within_the_budget_on_input_several_times_as_large(
    repository: Path, tmp_path: Path
) -> None:
    write_native(tmp_path / "small.ndjson", 20)
    base = peak_bytes(repository, "import", tmp_path / "small.ndjson", "--lake", tmp_path / "a")
    write_native(tmp_path / "part.ndjson", 4_000)
    part, budget = (tmp_path / "part.ndjson").read_bytes(), 64 * MB
    with (tmp_path / "large.ndjson").open("wb") as large:
        for number in range(4):  # of other requests
            large.write(part.replace(b"req-", b"req%d-" % number))
    # As tables and flows it takes three times that: 230 MB with a budget of 2 GB.
    assert (tmp_path / "large.ndjson").stat().st_size > budget
    peak = peak_bytes(
        repository, "import", tmp_path / "large.ndjson", "--lake", tmp_path / "b", "--memory", "64MB"
    )
    spare = 64 * MB  # what libraries allocate on their first real work
    assert peak < base + budget + spare
    assert check(LocalStore.at(tmp_path / "b")) == []


def test_a_process_that_is_killed_at_any_moment_is_completed_by_the_next(
    repository: Path, tmp_path: Path
) -> None:
    write_native(tmp_path / "a.ndjson", 800)
    assert flowdiff(repository, "import", tmp_path / "a.ndjson", "--lake", tmp_path / "whole").returncode == 0
    expected = content(LocalStore.at(tmp_path / "whole"))
    for changes in (3, 6, 9):
        lake = tmp_path / f"lake-{changes}"
        command = [
            sys.executable,
            "-m",
            "flowdiff",
            "import",
            str(tmp_path / "a.ndjson"),
            "--lake",
            str(lake),
        ]
        with fork_server.Popen(command, cwd=repository, stdout=subprocess.DEVNULL) as process:
            kill_after(process, lake, changes)
        assert not content(LocalStore.at(lake)) - expected
        assert flowdiff(repository, *command[3:]).returncode == 0
        assert check(LocalStore.at(lake)) == []
        assert content(LocalStore.at(lake)) == expected


def kill_after(process: subprocess.Popen[bytes], lake: Path, changes: int) -> None:
    """SIGKILL once the names in the lake were seen to change so often, or let the process end."""
    seen: set[str] = set()
    while process.poll() is None:
        names = {f"{folder}/{name}" for folder, _, files in os.walk(lake) for name in files}
        if names != seen:
            seen, changes = names, changes - 1
            if changes == 0:
                os.kill(process.pid, signal.SIGKILL)
                process.wait()
