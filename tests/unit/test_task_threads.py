"""Threads that an import works in, and none where it only reads: a signal is heeded there at once."""

from __future__ import annotations

import io
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from stitch.drivers.inputs import open_sources
from stitch.drivers.threads import SWITCH_SECONDS, task_threads


@pytest.mark.parametrize(("n", "within"), [(1, 0.004), (2, SWITCH_SECONDS)])
def test_several_threads_hand_on_the_lock_sooner_as_long_as_they_are_there(n: int, within: float) -> None:
    usual = sys.getswitchinterval()
    sys.setswitchinterval(0.004)
    try:
        with suppress(KeyError), task_threads(n) as pool:
            assert sys.getswitchinterval() == pytest.approx(within)
            assert pool.submit(abs, -1).result() == 1
            raise KeyError
        assert sys.getswitchinterval() == pytest.approx(0.004)
    finally:
        sys.setswitchinterval(usual)


def test_hashing_is_interrupted_at_once(tmp_path: Path) -> None:
    files = [tmp_path / "a", tmp_path / "b"]
    for file in files:
        with file.open("wb") as sparse:
            sparse.truncate(8 * 2**30)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    start = time.process_time()
    try:
        with pytest.raises(KeyboardInterrupt):
            open_sources([*map(str, files)], tmp_path / "scratch", io.BytesIO())
    finally:
        signal.signal(signal.SIGALRM, before)
    assert time.process_time() - start < 2
