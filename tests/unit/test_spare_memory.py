"""Freed memory goes back to the system, and not too often."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from flowdiff.live.memory import EVERY_S, SpareMemory


def resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the GNU C library's")
def test_what_threads_freed_in_pieces_goes_back_once_a_minute() -> None:
    kept: list[bytes] = []

    def work() -> None:
        pieces = [bytes(1_000 + number % 3_000) for number in range(30_000)]
        kept.extend(pieces[::1_000])

    spare = SpareMemory(0.0)
    spare.turn(EVERY_S)  # what earlier tests freed would be taken again, and nothing seen
    before = resident_mb()
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    held = resident_mb() - before
    assert held > 100
    spare.turn(2 * EVERY_S - 1)
    assert resident_mb() - before > 0.9 * held
    spare.turn(2 * EVERY_S)
    assert resident_mb() - before < 0.3 * held
    assert len(kept) == 120
