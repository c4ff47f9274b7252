"""The suite itself: it names who leaves something behind, ends what it started, tells where its time went."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from fixtures.session_end import TOKENS, processes_of
from oracles.waiting import wait_until

LEAVE = """
import os, resource, socket, subprocess, sys, tempfile, threading
from pathlib import Path

held = []

def test_thread():
    threading.Thread(target=threading.Event().wait, name="lost thread", daemon=True).start()

def test_child():
    held.append(subprocess.Popen(["sleep", "611"]))

def test_orphan():
    subprocess.run(["sh", "-c", "setsid sleep 612 > /dev/null 2>&1 &"], check=True)

def test_socket():
    held.append(socket.create_server(("127.0.0.1", 0)))

def test_open_file(tmp_path):
    held.append(open(tmp_path / "lost open file", "w"))

def test_temporary_file():
    Path(tempfile.gettempdir(), "lost file").write_text("")

def test_limit():
    resource.setrlimit(resource.RLIMIT_CORE, resource.getrlimit(resource.RLIMIT_CORE))

def test_nothing(tmp_path):
    threading.Timer(0.2, int).start()  # ends by itself
    with socket.create_server(("127.0.0.1", 0)), subprocess.Popen(["true"]), (tmp_path / "x").open("w"):
        number, name = tempfile.mkstemp()
        os.close(number)
        Path(name).unlink()
        limit = "import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))"
        subprocess.run([sys.executable, "-S", "-c", limit], check=True)
"""

HANG = """
import subprocess, time
from pathlib import Path

def test_hangs():
    subprocess.run(["sh", "-c", "setsid sleep 613 > /dev/null 2>&1 & setsid sleep 614 &"], check=True)
    Path("hangs").touch()
    time.sleep(600)
"""


@pytest.fixture
def suite(repository: Path, tmp_path: Path) -> list[str]:
    """The words that run tests of `tmp_path / "tests"` as those of this repository are."""
    (tmp_path / "tests" / "some").mkdir(parents=True)
    (tmp_path / "tests" / "other").mkdir()
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "conftest"]
    places = [f"--rootdir={tmp_path}", f"--basetemp={tmp_path / 'made'}", str(tmp_path / "tests")]
    return [*words, f"-c{repository}/pyproject.toml", *places]


@pytest.fixture(name="environ")
def _environ(repository: Path) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": f"{repository}{os.pathsep}{repository / 'tests'}"}


def test_who_leaves_something_behind_is_named(
    suite: list[str], environ: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "tests" / "some" / "test_leave.py").write_text(LEAVE)
    words = [*suite, "-o", "patience_s=1", "-o", "leaves_nothing=tests/some"]
    imports = LEAVE.partition("def ")[0]
    lists = f"{imports}def test_lists():\n    held.append(subprocess.Popen(['sleep', '615']))\n"
    (tmp_path / "tests" / "other" / "test_lists.py").write_text(lists)
    done = subprocess.run(words, env=environ, cwd=tmp_path, capture_output=True, text=True)
    listed = r"^=+ left behind =+\ntests/other/test_lists.py::test_lists left behind: process \d+, sleep 615$"
    assert re.search(listed, done.stdout, re.MULTILINE)
    named = re.findall(r"test_leave\.py::(\w+) left behind: (.*)$", done.stdout, re.MULTILINE)
    found = dict(named)
    assert {test: re.sub(r"(?<=[ \[])\d+", "N", words) for test, words in found.items()} == {
        "test_thread": "the thread 'lost thread'",
        "test_child": "process N, sleep N",
        "test_orphan": "process N, sleep N",
        "test_socket": "open: socket:[N]",
        "test_open_file": f"open: {tmp_path}/made/test_open_file0/lost open file (deleted)",
        "test_temporary_file": f"{tmp_path}/made/temporary0/lost file",
    }, done.stdout
    assert "PermissionError: resource limits are for processes that a test starts" in done.stdout
    assert re.findall(r"^FAILED .*::(\w+) - PermissionError", done.stdout, re.MULTILINE) == ["test_limit"]
    assert "1 failed, 8 passed, 6 errors" in done.stdout


def test_the_time_of_each_folder_is_told_also_into_a_file(
    suite: list[str], environ: dict[str, str], tmp_path: Path
) -> None:
    for folder, n in (("some", 3), ("other", 2)):
        text = "".join(f"def test_{i}(): pass\n" for i in range(n))
        for name in ("one", "two"):
            (tmp_path / "tests" / folder / f"test_{folder}_{name}.py").write_text(text)
    with (tmp_path / "log").open("w") as out:
        words = [*suite, "-n", "2", "--dist", "loadfile"]
        subprocess.run(words, env=environ, cwd=tmp_path, stdout=out, stderr=out, check=True)
    told = (tmp_path / "log").read_text()
    counts = re.findall(r"^tests/(\w+) +(\d+) +[\d.]+ s +[\d.]+ s$", told, re.MULTILINE)
    assert dict(counts) == {"some": "6", "other": "4"}, told


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_what_tests_started_ends_with_them(
    suite: list[str], environ: dict[str, str], tmp_path: Path, number: signal.Signals
) -> None:
    """Brokers and servers are in sessions of their own, so that they do not hear what the tests hear."""
    (tmp_path / "tests" / "some" / "test_hang.py").write_text(HANG)
    token = f"tokenof{tmp_path.name}{number}"
    words = [*suite, "-n", "2"]
    with (
        (tmp_path / "log").open("w") as out,
        subprocess.Popen(
            words, env=environ | {TOKENS: token}, cwd=tmp_path, stdout=out, stderr=out
        ) as session,
    ):
        try:
            wait_until((tmp_path / "hangs").exists, every_s=0.1)
            assert len([*processes_of(token)]) >= 4
            session.send_signal(number)
            session.wait(60)
            wait_until(lambda: not [*processes_of(token)], every_s=0.1)
        finally:
            session.kill()
            for process in processes_of(token):
                os.kill(process, signal.SIGKILL)
