"""Values that the server reads again in the background."""

from __future__ import annotations

import threading
import time

import pytest

from flowdiff.serve.fresh import Fresh
from schemas.errors import LakeError


def test_readers_wait_for_the_first_reading_only() -> None:
    going, read = threading.Event(), []

    def slow() -> int:
        read.append(len(read))
        if len(read) > 1:
            going.wait(10)
        return read[-1]

    fresh = Fresh(slow, 0.0, 60.0, most_share=1.0)
    assert fresh() == 0
    while len(read) < 2:  # the second reading goes on in the background
        assert fresh() == 0
    assert [fresh() for _ in range(50)] == [0] * 50
    assert len(read) == 2
    going.set()
    while fresh() == 0:
        pass


def test_a_reading_that_began_before_all_was_forgotten_does_not_replace_a_later_one() -> None:
    going, reading = threading.Event(), threading.Event()
    state = ["old"]
    n_read = 0

    def read() -> str:
        nonlocal n_read
        n_read += 1
        found = state[0]
        if n_read == 2:  # in the background
            reading.set()
            going.wait(10)
        return found

    fresh = Fresh(read, 0.0, 60.0, most_share=1.0)
    assert fresh() == fresh() == "old"
    assert reading.wait(10)
    state[0] = "new"
    fresh.forget()
    assert fresh() == "new"
    going.set()
    with fresh._reading:  # until it has ended
        assert fresh._kept is not None
        assert fresh._kept[2] == "new"


def test_an_error_of_the_first_reading_is_raised_and_not_kept() -> None:
    answers = iter([LakeError("gone"), 7])

    def read() -> int:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    fresh = Fresh(read, 60.0, 60.0)
    with pytest.raises(LakeError):
        fresh()
    assert fresh() == 7


def test_an_error_later_leaves_the_last_result() -> None:
    failed = threading.Event()

    def read() -> int:
        if fresh_once:
            failed.set()
            raise LakeError("gone")
        fresh_once.append(1)
        return 7

    fresh_once: list[int] = []
    fresh = Fresh(read, 0.0, 60.0, most_share=1.0)
    assert fresh() == 7
    while not failed.is_set():
        assert fresh() == 7
    assert fresh() == 7


def test_what_takes_long_is_read_less_often() -> None:
    reads = []

    def read() -> int:
        reads.append(1)
        threading.Event().wait(0.05)
        return len(reads)

    fresh = Fresh(read, 0.0, 60.0, most_share=1e-6)
    assert {fresh() for _ in range(1000)} == {1}


def test_forgotten_is_read_again() -> None:
    values = iter(range(9))
    fresh = Fresh(lambda: next(values), 60.0, 60.0)
    assert [fresh(), fresh()] == [0, 0]
    fresh.forget()
    assert fresh() == 1


def test_who_comes_after_a_long_time_waits_for_a_new_result() -> None:
    """A page that nobody had opened for five minutes said "no incident" beside one."""
    values = iter(range(9))

    def read() -> int:
        threading.Event().wait(0.02)
        return next(values)

    fresh = Fresh(read, 0.0, 0.1, most_share=1.0)
    assert fresh() == 0
    threading.Event().wait(0.3)
    assert fresh() == 1


def test_who_comes_after_a_long_time_gets_the_last_result_where_reading_fails() -> None:
    answers = iter([7])

    def read() -> int:
        answer = next(answers, None)
        if answer is None:
            raise LakeError("gone")
        return answer

    fresh = Fresh(read, 0.0, 0.0, most_share=1.0)
    assert fresh() == 7
    threading.Event().wait(0.05)
    assert fresh() == 7


def test_nobody_waits_without_end_for_a_reading_that_hangs() -> None:
    going, reads = threading.Event(), []

    def read() -> int:
        reads.append(1)
        if len(reads) > 1:
            going.wait(30)
        return len(reads)

    fresh = Fresh(read, 0.0, 0.05, most_share=1.0)
    assert fresh() == 1
    threading.Event().wait(0.2)
    began = time.monotonic()
    assert fresh() == 1
    assert time.monotonic() - began < 10
    going.set()
