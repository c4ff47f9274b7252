"""Programs that are forked are, as far as they see and as far as is seen of them, those that are started."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from oracles import fork_server
from oracles.forked_command import forked_command

SEEN = """
import atexit, json, os, signal, sys, time
atexit.register(print, "the end", file=sys.stderr)
print(json.dumps({
    "argv": sys.argv, "path": sys.path, "cwd": os.getcwd(), "environ": dict(os.environ), "zone": time.tzname,
    "parent": os.getppid(), "main": sys.modules["__main__"].__dict__ is globals(), "name": __name__,
    "group": os.getpgid(0) == os.getpgid(os.getppid()), "session": os.getsid(0) == os.getpid(),
    "open": [n for n in range(600) if os.path.exists(f"/proc/self/fd/{n}") and os.get_inheritable(n)],
    "streams": [
        (s.encoding, s.errors, s.newlines, s.line_buffering, s.write_through, s.fileno(), s.isatty(), s.name,
         type(s.buffer).__name__, s.mode)
        for s in (sys.stdin, sys.stdout, sys.stderr)
    ],
    "signals": [str(signal.getsignal(n)) for n in sorted(signal.valid_signals())],
    "mask": [*signal.pthread_sigmask(signal.SIG_BLOCK, ())],
    "read": sys.stdin.read(),
}))
"""


@pytest.mark.parametrize(
    ("how", "in_new_session", "environ"),
    [
        ("-c", False, {}),
        ("-m", True, {"X": "1", "TZ": "Asia/Tokyo"}),
        ("file", False, {"PYTHONPATH": "/somewhere:/else"}),
        ("-m", False, {"PYTHONIOENCODING": "latin-1"}),
    ],
)
def test_a_program_sees_the_same(
    tmp_path: Path, how: str, in_new_session: bool, environ: dict[str, str]
) -> None:
    (tmp_path / "seen_here.py").write_text(SEEN)
    words = {"-c": ["-c", SEEN], "-m": ["-m", "seen_here"], "file": [str(tmp_path / "seen_here.py")]}[how]
    ours, theirs = os.pipe()
    try:
        found = [
            run(
                [sys.executable, *words, "--one", "ä"],
                cwd=tmp_path,
                env={**os.environ, **environ},
                input="given",
                capture_output=True,
                text=True,
                pass_fds=[theirs],
                start_new_session=in_new_session,
                check=True,
            )
            for run in (fork_server.run, subprocess.run)
        ]
    finally:
        os.close(ours)
        os.close(theirs)
    forked, started = (json.loads(done.stdout) for done in found)
    assert forked == started
    assert forked["parent"] == os.getpid()
    assert [done.stderr for done in found] == ["the end\n"] * 2


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("pass", 0),
        ("import sys; sys.exit(3)", 3),
        ("import sys; print('unsaid'); sys.exit(-2)", 254),
        ("import sys; sys.exit('a word')", 1),
        ("import threading; threading.Timer(0.1, print, ['still here']).start()", 0),
        ("import sys; sys.stdout = open('/dev/full', 'w'); print('never written')", 120),
        ("raise ValueError('no')", 1),
        ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL),
        ("import os; os.abort()", -signal.SIGABRT),
        ("import numpy, pyarrow; print(pyarrow.array(numpy.ones((9, 9)) @ numpy.ones(9)).sum())", 0),
        ("import duckdb; print(duckdb.sql('select count(*) from range(1e6::int)').fetchall())", 0),
    ],
)
def test_it_ends_the_same(text: str, code: int) -> None:
    words = [sys.executable, "-c", text]
    forked, started = (
        run(words, capture_output=True, text=True) for run in (fork_server.run, subprocess.run)
    )
    assert (forked.returncode, forked.stdout) == (started.returncode, started.stdout) == (code, forked.stdout)
    assert forked.stderr.splitlines()[-1:] == started.stderr.splitlines()[-1:]


def test_it_is_killed_interrupted_and_waited_for() -> None:
    # Whoever is started in the background of a shell ignores the keyboard.
    text = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
    words = [sys.executable, "-c", f"{text}print('here', flush=True); time.sleep(600)"]
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
        with fork_server.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            assert process.stdout.readline() == "here\n"
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.01)
            process.send_signal(number)
            assert process.wait(60) == -number
    assert not Path(f"/proc/{process.pid}").exists()


def test_a_shell_sees_the_same(tmp_path: Path) -> None:
    text = """
    flowdiff --version | cat
    flowdiff windows --lake nowhere "ä b" 2>&1 | cat; echo ${PIPESTATUS[0]}
    HERE=1 flowdiff sql --lake nowhere <&-; echo $?
    echo 'select 1' | flowdiff sql --lake <(echo nowhere) 2> >(sed 's/[0-9]//g')
    """
    started = f'flowdiff() {{ "{sys.executable}" -m flowdiff "$@"; }}\n{text}'
    with forked_command(tmp_path) as folder:
        path = f"{folder}:{os.environ['PATH']}"
        seen = [
            subprocess.run(["bash", "-c", script], env={**os.environ, "PATH": path}, capture_output=True)
            for script in (text, started)
        ]
    assert (seen[0].stdout, seen[0].stderr) == (seen[1].stdout, seen[1].stderr)
    assert seen[0].stdout.count(b"2\n") == 2


@pytest.mark.parametrize(
    ("words", "how"),
    [(["true"], {}), ([sys.executable, "-B", "-c", ""], {}), ([sys.executable, "-c", ""], {"umask": 0})],
)
def test_what_it_cannot_do_is_refused(words: Sequence[str], how: dict[str, Any]) -> None:
    with pytest.raises(NotImplementedError):
        fork_server.Popen(words, **how)


def test_workers_tell_what_cannot_be_collected(repository: Path, tmp_path: Path) -> None:
    """Which pytest leaves half imported, and forks would take for the whole."""
    broken = "def test_before(): pass\n\n\nimport nowhere_to_be_found\n\n\ndef test_after(): assert False\n"
    (tmp_path / "test_broken.py").write_text(broken)
    (tmp_path / "test_threads.py").write_text("import polars\n\n\ndef test_fine(): pass\n")
    told = subprocess.run(
        [
            sys.executable,
            *["-m", "pytest", "-q", "-n", "1", "-p", "no:cacheprovider", "-p", "conftest"],
            f"--basetemp={tmp_path / 'made'}",
            f"-c{repository}/pyproject.toml",
            tmp_path,
        ],
        cwd=repository,
        env=os.environ | {"PYTHONPATH": f"{repository}{os.pathsep}{repository / 'tests'}"},
        capture_output=True,
        text=True,
    )
    assert told.returncode == 1, told.stdout + told.stderr
    assert "1 passed, 1 error" in told.stdout


def test_a_worker_is_a_fork_of_who_has_collected() -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        pytest.skip("these tests have no workers")
    assert b"import serve" in Path("/proc/self/cmdline").read_bytes()
    assert sys.orig_argv[1] == "-c", "and sees itself as one that was started"


def test_a_thread_that_holds_signals_back_may_be_the_first_to_ask() -> None:
    """A pool of processes does: a program that another test started never heard of Ctrl-C."""

    def first() -> int:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        server = fork_server._Server()
        status = Path(f"/proc/{server.process.pid}/status").read_text()
        server.process.kill()  # it need not import all
        server.end()
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == {signal.SIGINT}
        return int(next(line for line in status.splitlines() if line.startswith("SigBlk")).split()[1], 16)

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(first).result() == 0
