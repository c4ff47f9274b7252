"""The event loop and what contends in it, against obvious re-implementations."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.engine import Gather, Lock, Loop, Lru, Process, Server, newest_first


def test_processes_touch_shared_state_in_order_of_time() -> None:
    loop, seen = Loop(), []

    def walker(name: str, steps: list[float]) -> Process:
        for t in steps:
            yield t
            seen.append((t, name))

    loop.start(0.0, walker("a", [1.0, 4.0, 4.5, 9.0]))
    loop.start(0.5, walker("b", [0.7, 4.2, 8.0]))
    loop.run()
    assert seen == sorted(seen)
    assert len(seen) == 7


def test_server_serves_first_come_first_served() -> None:
    rng = np.random.default_rng(1)
    arrivals = np.cumsum(rng.exponential(1.0, 500))
    services = rng.exponential(0.9, 500)
    server = Server()
    ends = [server.serve(a, s) for a, s in zip(arrivals, services, strict=True)]
    free, expected = 0.0, []
    for a, s in zip(arrivals, services, strict=True):
        free = max(free, a) + s
        expected.append(free)
    assert ends == expected
    assert max(np.array(ends) - arrivals - services) > 1.0  # somebody had to wait


def test_lock_is_exclusive_and_handed_over_in_order() -> None:
    loop, lock = Loop(), Lock()
    holds: list[tuple[float, float, str]] = []

    def holder(name: str, at: float, hold: float) -> Process:
        yield at
        t = at
        if lock.held:
            assert loop.current is not None
            lock.waiters.append(loop.current)
            yield None
            t = lock.granted_ns
        lock.held = True
        begin = t
        yield t + hold
        lock.release(t + hold, loop)
        holds.append((begin, t + hold, name))

    for i, (at, hold) in enumerate([(0.0, 5.0), (1.0, 2.0), (2.0, 1.0), (20.0, 1.0)]):
        loop.start(0.0, holder(str(i), at, hold))
    loop.run()
    assert holds == [(0.0, 5.0, "0"), (5.0, 7.0, "1"), (7.0, 8.0, "2"), (20.0, 21.0, "3")]
    assert not lock.held


def test_gather_wakes_with_the_last() -> None:
    loop, woken = Loop(), []
    gather = Gather(loop, 3)

    def child(t: float) -> Process:
        yield t
        gather.done(t)

    def parent() -> Process:
        yield 0.5
        yield from gather.wait()
        woken.append(True)
        yield 9.0

    ends = [3.0, 1.0, 2.0]
    for t in ends:
        loop.start(0.0, child(t))
    loop.start(0.0, parent())
    loop.run()
    assert woken == [True]
    assert gather.left == 0


@pytest.mark.parametrize("filled", [0, 12, 30])
def test_lru_against_a_list(filled: int) -> None:
    """The keys that it is filled with come from both ends of what is touched: often and seldom."""
    rng = np.random.default_rng(2)
    warm = np.arange(filled) * 2
    cache, naive = Lru(20), warm[:20][::-1].tolist()
    cache.fill(warm)
    assert len(cache) == len(naive)
    for number, key in enumerate((rng.random(5_000) ** 2 * 60).astype(int).tolist()):
        hit = key in naive
        if hit:
            naive.remove(key)
        if number % 10 == 3:
            cache.drop(key)
            continue
        naive.append(key)
        naive = naive[-20:]
        assert cache.touch(key) is hit
        assert len(cache) == len(naive)
    cache.drop(naive[-1])
    assert len(cache) == 19
    assert not cache.touch(naive[-1])


def test_the_newest_keys_are_named_once() -> None:
    keys = np.random.default_rng(3).integers(0, 50, 400)
    every = list(dict.fromkeys(keys[::-1].tolist()))
    for most in (1, 7, 49, 50, 1_000):
        assert newest_first(keys, most).tolist() == every[:most]
    assert len(newest_first(keys[:0], 5)) == 0
