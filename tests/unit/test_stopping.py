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
    while not stop.asked:
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
        while not stop.asked:
            pass
    assert signal.getsignal(signal.SIGTERM) is before


INTERRUPTED = """
import os, signal, sys
from flowdiff.cli.stopping import stopped_by_signal

def interrupted_at(call):
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    signal.alarm(20)
    calls = iter(range(1, call + 1))

    def trace(*_):
        if next(calls, None) == call:
            signal.raise_signal(signal.SIGTERM)

    with stopped_by_signal(60):
        sys.settrace(trace)
        signal.raise_signal(signal.SIGTERM)
        sys.settrace(None)
        os._exit(0)

ends = [interrupted_at(1)]
while ends[-1] == -signal.SIGTERM:
    ends.append(interrupted_at(len(ends) + 1))
print(len(ends), ends[-1])
"""


def test_a_second_signal_may_come_anywhere_in_the_handler_of_the_first() -> None:
    """At each call that the handler makes."""
    program = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, text=True, check=True
    )
    tried, end = map(int, program.stdout.split())
    assert tried > 2
    assert end == 0, "the last one came after the handler"
