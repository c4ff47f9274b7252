"""Of several processes one holds a lease, until it lets go or gives no sign of life."""

from __future__ import annotations

import threading
from pathlib import Path

from oracles.waiting import wait_until

from stitch.lake.lease import Lease
from stitch.lake.store import LocalStore


class Counter:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.s = 0.0

    def __call__(self) -> float:
        return self.s


def lease(folder: Path, owner: str, counter: Counter, lasts_s: float = 60) -> Lease:
    return Lease(LocalStore.at(folder), "watch/lease", owner, lasts_s, counter)


def test_one_holds_it_as_long_as_it_writes(tmp_path: Path) -> None:
    time = Counter()
    one, other = lease(tmp_path, "one", time), lease(tmp_path, "other", time)
    assert one.take()
    for _ in range(10):
        assert not other.take()
        time.s += 20
        assert one.take()  # a sign of life
    assert other.holder_lives is True


def test_another_takes_it_when_its_holder_is_silent_and_the_holder_hears_of_it(tmp_path: Path) -> None:
    time = Counter()
    one, other = lease(tmp_path, "one", time, lasts_s=0.05), lease(tmp_path, "other", time)
    assert one.take()
    assert not other.take()
    time.s += 59
    assert not other.take()
    assert other.holder_lives is False
    time.s += 1
    assert other.take()
    with one.held():  # it comes to itself
        wait_until(lambda: one.is_lost)
    assert other.take()  # what is another's stays there
    assert not one.take()


def test_who_ends_in_order_is_replaced_at_once(tmp_path: Path) -> None:
    time = Counter()
    one, other = lease(tmp_path, "one", time, lasts_s=0.05), lease(tmp_path, "other", time)
    assert one.take()
    before = (tmp_path / "watch/lease").read_bytes()
    with one.held():
        wait_until(lambda: (tmp_path / "watch/lease").read_bytes() != before)
        assert not other.take()
    assert other.take()
    assert threading.active_count() == 1 or not any(t.name == "lease" for t in threading.enumerate())
    assert not [*(tmp_path / "stage").iterdir()]
