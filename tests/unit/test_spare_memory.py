"""Freed memory goes back to the system, whatever the process does meanwhile."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import pytest

from flowdiff.live import memory
from flowdiff.live.memory import give_back, giving_back

MANY = 2**40
"""More memory than a process of tests takes."""


def resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the GNU C library's")
@pytest.mark.parametrize(
    ("kept_bytes", "kept_s"), [(1, 3600.0), (MANY, 0.01)], ids=["under pressure", "at rest"]
)
def test_what_threads_freed_in_pieces_goes_back(kept_bytes: int, kept_s: float) -> None:
    kept: list[bytes] = []

    def work() -> None:
        pieces = [bytes(1_000 + number % 3_000) for number in range(30_000)]
        kept.extend(pieces[::1_000])

    give_back()  # what earlier tests freed would be taken again, and nothing seen
    before = resident_mb()
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    held = resident_mb() - before
    assert held > 100
    with giving_back(kept_bytes, kept_s, 0.01):
        deadline = time.monotonic() + 30
        while resident_mb() - before > 0.3 * held:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert len(kept) == 120
    assert not any(thread.name == "spare memory" for thread in threading.enumerate())


def test_with_room_left_free_memory_is_kept_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    returned = threading.Event()
    looked: list[int] = []
    resident = 700_000

    def look() -> int:
        looked.append(resident + len(looked) // 50)  # it grows over that at the 50th look
        return looked[-1]

    monkeypatch.setattr(memory, "resident_bytes", look)
    monkeypatch.setattr(memory, "give_back", returned.set)
    with giving_back(resident, 3600.0, 0.001):
        assert returned.wait(30)
    assert len(looked) >= 51
