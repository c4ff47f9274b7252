"""How signals end a live run: in order, in time, or at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from flowdiff.cli.stopping import stopped_by_signal

PROGRAM = """
import os, sys, time
from flowdiff.cli.stopping import stopped_by_signal

with stopped_by_signal(float(sys.argv[1]), lambda: os._exit(7)) as stop:
    print("running", flush=True)
    while not stop.is_set():
        time.sleep(0.01)
    print("stopping", flush=True)
    if sys.argv[2] == "hangs":
        while True:
            time.sleep(0.01)
print("ended", flush=True)
"""


def started(budget_s: float, how: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(budget_s), how], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "running\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_ends_it_in_order(number: signal.Signals) -> None:
    with started(60, "ends") as process:
        process.send_signal(number)
        assert process.communicate(timeout=60)[0] == "stopping\nended\n"
        assert process.returncode == 0


def test_the_second_signal_ends_it_at_once() -> None:
    with started(60, "hangs") as process:
        process.send_signal(signal.SIGTERM)
        assert process.stdout is not None
        assert process.stdout.readline() == "stopping\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == -signal.SIGTERM


def test_an_end_that_hangs_has_its_budget() -> None:
    with started(0.1, "hangs") as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 7


def test_signals_are_as_they_were_afterwards() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with stopped_by_signal(60, lambda: None) as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        while not stop.is_set():
            pass
    assert signal.getsignal(signal.SIGTERM) is before
