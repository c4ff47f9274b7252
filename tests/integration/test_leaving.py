"""The end of a process: its exit code stands, whatever threads of libraries still hold."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TAKEN_APART = """
import atexit, sys, tempfile
from pathlib import Path
from flowdiff.cli.outcome import Leaving

class Held:
    def __del__(self):
        print("taken apart")  # what a thread of Arrow would be in the middle of

leaving = Leaving()
held, folder = Held(), tempfile.TemporaryDirectory()
atexit.register(lambda: print("handlers ran", Path(folder.name).exists()))
print(folder.name)
leaving.code = 3
sys.exit(3)
"""


def test_handlers_run_and_nothing_is_taken_apart_after_them() -> None:
    ended = subprocess.run([sys.executable, "-c", TAKEN_APART], capture_output=True, text=True, check=False)
    folder, *told = ended.stdout.splitlines()
    assert (ended.returncode, told, ended.stderr) == (3, ["handlers ran True"], "")
    assert not Path(folder).exists()


def test_a_crash_before_the_command_said_how_it_ended_is_a_failure() -> None:
    text = "from flowdiff.cli.outcome import Leaving; Leaving()"
    assert subprocess.run([sys.executable, "-c", text], check=False).returncode == 2
