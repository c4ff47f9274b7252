"""Standard streams that are closed, full or left, and a system that refuses: one line each, no traceback.

What is closed, or unbuffered, or without the rights of root, is a new Python; the other commands are forked.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from oracles.forked_command import forked_command
from oracles.traffic import write_native

FLOWDIFF = f"{shlex.quote(sys.executable)} -m flowdiff"


def shell(command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A line of bash in which `flowdiff` is the command; its exit code is that of flowdiff."""
    script = f"{command}; exit ${{PIPESTATUS[0]}}"
    path = f"{cwd / 'bin'}:{os.environ['PATH']}"
    environment = {**os.environ, "FLOWDIFF_LAKE": str(cwd / "lake"), "PATH": path}
    return subprocess.run(
        ["bash", "-c", script], cwd=cwd, capture_output=True, text=True, env=environment, errors="replace"
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("streams")
    write_native(folder / "a.ndjson", 60)
    with forked_command(folder):
        done = shell("flowdiff import a.ndjson", folder)
        assert done.returncode == 0, done.stderr
        yield folder


def one_line(done: subprocess.CompletedProcess[str], told: str, code: int = 2) -> None:
    assert told in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.returncode == code


@pytest.mark.parametrize(
    "command",
    ["flowdiff windows", "PYTHONUNBUFFERED=1 flowdiff windows", "flowdiff windows --json", "flowdiff --help"],
)
def test_a_full_disk_behind_standard_output(place: Path, command: str) -> None:
    one_line(shell(f"{command} >/dev/full", place), "cannot be written: no space left on device")


@pytest.mark.parametrize(
    "command",
    [
        "sql -c 'select * from nodes' --format csv",
        "sql -c 'select * from range(2000000)' --format json",
        "export --format native",
        "windows --help",
    ],
)
def test_a_reader_that_leaves_is_no_error(place: Path, command: str) -> None:
    done = shell(f"flowdiff {command} | head -n 1", place)
    assert done.returncode == 0
    assert "rror" not in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("output", ["-o /dev/stdout", "-o -", "-o >(cat)"])
def test_a_pipe_in_place_of_a_file(place: Path, output: str) -> None:
    done = shell(f"flowdiff sql -c 'select count(*) n from requests' --format csv {output} | cat", place)
    assert (done.returncode, done.stdout, done.stderr) == (0, "n\n60\n", "")
    assert shell(f"flowdiff export --format native {output} | wc -l", place).stdout.strip() not in ("", "0")


def test_a_report_into_a_pipe(place: Path) -> None:
    halves = "--reference-where 'duration > 2ns' --problem-where 'duration > 3ns'"
    compare = f"flowdiff compare --reference all --problem all {halves} --no-save --fail-on never"
    done = shell(f"{compare} --json >(cat >&2) >/dev/null", place)
    assert done.stderr.startswith("{"), done.stderr
    page = shell(f"{compare} --html - | head -c 15", place)
    assert page.stdout == "<!doctype html>"
    one_line(shell(f"{compare} --html - --json -", place), "both want standard output")
    assert not (place / "-").exists()


def test_what_is_done_is_not_undone_by_a_full_disk(place: Path) -> None:
    done = shell("flowdiff import a.ndjson --lake full >/dev/full", place)
    one_line(done, "The import is committed; that could not be printed: no space left on device.", 0)
    assert shell("flowdiff windows --lake full", place).returncode == 0
    compare = "flowdiff compare --reference all --problem all --no-save --where 'duration > 1ns'"
    halves = "--reference-where 'duration > 2ns' --problem-where 'duration > 3ns'"
    quiet = shell(f"{compare} {halves} >/dev/null", place).returncode
    assert shell(f"{compare} {halves} | head -n 1", place).returncode == quiet
    one_line(
        shell(f"{compare} {halves} >/dev/full", place), "The comparison is done; that could not be", quiet
    )


def test_closed_streams(place: Path) -> None:
    assert shell("flowdiff windows <&-", place).returncode == 0
    one_line(shell("flowdiff sql <&-", place), "Standard input holds no query")
    one_line(shell("flowdiff windows >&-", place), "Standard output cannot be written: bad file descriptor")
    assert shell("flowdiff windows --lake nowhere 2>&-", place).returncode == 2


def test_names_that_are_not_utf8(place: Path) -> None:
    one_line(shell("flowdiff windows --lake $'no\\xff'", place), "no\\xff")
    done = shell("cp a.ndjson $'b\\xff.ndjson'; flowdiff import b*.ndjson --lake other", place)
    assert (done.returncode, done.stderr.count("\n")) == (0, 0), done.stderr
    one_line(shell("flowdiff sql < $'b\\xff.ndjson'", place), "[query]")


def test_a_closed_standard_input_is_no_empty_file(place: Path) -> None:
    one_line(shell("flowdiff import - --lake none <&-", place), "'-' cannot be read")


def test_a_dangling_link(place: Path) -> None:
    (place / "dangling").symlink_to("nowhere")
    one_line(shell("flowdiff windows --lake dangling", place), "There is no lake at 'dangling'")
    one_line(shell("flowdiff import dangling --lake other", place), "dangling")
    one_line(shell("flowdiff import a.ndjson --lake dangling", place), "dangling")


def test_permission_denied(place: Path) -> None:
    # root may read everything, unless it gives that right away.
    powerless = "setpriv --bounding-set=-dac_override,-dac_read_search " if os.geteuid() == 0 else ""
    shut = f"cp -r lake shut; chmod 000 shut/flows/*/*.parquet; {powerless}{FLOWDIFF}"
    one_line(shell(f"{shut} sql --lake shut -c 'select count(*) from requests'", place), "permission denied")
    one_line(shell(f"{powerless}{FLOWDIFF} export --format dot --lake shut", place), "permission denied")
    one_line(
        shell(f"mkdir ro; chmod 500 ro; {powerless}{FLOWDIFF} sql -c 'select 1' -o ro/x.csv", place),
        "ro/x.csv",
    )
    one_line(shell(f"{powerless}{FLOWDIFF} simulate --requests 9 --out ro/x.ndjson", place), "ro/x.ndjson")
