"""What is remembered of closed requests, and what goes where there are too many."""

from __future__ import annotations

import numpy as np
import pytest

from schemas.windows import NS_PER_MINUTE
from stitch.drivers.live.closed_memory import MEMORY_SHARE, ClosedMemory, KeySet

RNG = np.random.default_rng(7)


def keys(n: int) -> np.ndarray:
    return RNG.integers(0, 2**64, n, dtype=np.uint64)


def ends(n: int, minute: int) -> np.ndarray:
    return np.full(n, minute * NS_PER_MINUTE)


@pytest.mark.parametrize("at_once", [1, 7, 200])
def test_a_window_that_is_too_large_keeps_most_of_what_was_remembered(at_once: int) -> None:
    known, added = KeySet(100), keys(400)
    for start in range(0, len(added), at_once):
        part = added[start : start + at_once]
        known.add(part, ends(len(part), 5))
        if start + at_once > 100:
            assert 100 - 100 // 8 <= len(known) <= 100
    assert known.has(added).sum() == len(known)


def test_the_oldest_windows_go_first_and_whole_ones_before_parts() -> None:
    known = KeySet(100)
    old, middle, new = keys(20), keys(50), keys(31)
    for minute, part in ((5, old), (10, middle), (15, new)):
        known.add(part, ends(len(part), minute))
    assert known.has(new).all()
    assert known.has(middle).all()
    assert known.has(old).sum() == 88 - 81


def test_of_the_window_that_does_not_fit_what_came_last_stays() -> None:
    known, first, last = KeySet(100), keys(80), keys(21)
    known.add(first, ends(80, 5))
    known.add(last, ends(21, 5))
    assert known.has(last).all()
    assert known.has(first).sum() == 88 - 21


def test_what_is_forgotten_is_gone_and_the_rest_is_found() -> None:
    known, old, new = KeySet(1_000), keys(300), keys(300)
    known.add(np.concatenate((old, new)), np.concatenate((ends(300, 5), ends(300, 6))))
    known.forget(5 * NS_PER_MINUTE)
    assert not known.has(old).any()
    assert known.has(new).all()
    assert known.bytes == 12 * 300


def test_lanes_share_a_quarter_of_the_budget() -> None:
    lanes, budget = 4, 4000 * MEMORY_SHARE
    memories = [ClosedMemory() for _ in range(lanes)]
    for number in range(lanes):  # each that comes takes of those that are there
        for memory in memories[: number + 1]:
            memory.share(budget, number + 1)
            for known in (memory.requests, memory.words, memory.events):
                known.add(keys(10_000), ends(10_000, 5))
    assert budget // 5 < sum(memory.bytes for memory in memories) <= budget // 4
