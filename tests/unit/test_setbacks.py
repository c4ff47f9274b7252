"""What follows from what went wrong with a lane."""

from __future__ import annotations

import errno

import pytest

from ingest.source import StreamId
from stitch.drivers.live.setbacks import (
    MAX_FAILURES,
    MAX_LOSSES,
    RETRY_NS,
    SETTLED_COMMITS,
    Setbacks,
    passes_by_itself,
)

STREAMS = (StreamId("spans", 0),)
BROKEN = OSError(errno.EIO, "Input/output error")
FULL = OSError(errno.ENOSPC, "No space left on device")


class Clock:
    now_ns = 0

    def __call__(self) -> int:
        return self.now_ns


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def setbacks(clock: Clock) -> Setbacks:
    return Setbacks(clock)


def test_a_commit_is_tried_again_after_a_while(clock: Clock, setbacks: Setbacks) -> None:
    assert setbacks.may_retry(1)
    assert setbacks.failed(1, BROKEN)
    assert setbacks.may_retry(2)
    clock.now_ns = RETRY_NS - 1
    assert not setbacks.may_retry(1)
    clock.now_ns = RETRY_NS
    assert setbacks.may_retry(1)


def test_an_error_that_stays_halts_the_third_time_in_a_row(setbacks: Setbacks) -> None:
    assert [setbacks.failed(1, BROKEN) for _ in range(MAX_FAILURES)] == [True] * (MAX_FAILURES - 1) + [False]
    setbacks.committed(1)
    assert setbacks.failed(1, BROKEN)


def test_an_error_that_passes_never_halts(setbacks: Setbacks) -> None:
    assert all(setbacks.failed(1, FULL) for _ in range(10 * MAX_FAILURES))
    for error in (TimeoutError(), ConnectionResetError(), OSError(errno.EDQUOT, ""), FULL):
        assert passes_by_itself(error)
    for code in (errno.EIO, errno.EROFS, errno.EACCES):
        assert not passes_by_itself(OSError(code, ""))


def test_a_lane_that_was_lost_is_taken_back_once_and_later(clock: Clock, setbacks: Setbacks) -> None:
    assert setbacks.lost(3, STREAMS)
    assert [*setbacks.to_take_back()] == []
    clock.now_ns = RETRY_NS
    assert [*setbacks.to_take_back()] == [(3, STREAMS)]
    assert [*setbacks.to_take_back()] == []


def test_who_loses_a_lane_again_and_again_gives_in(setbacks: Setbacks) -> None:
    assert [setbacks.lost(3, STREAMS) for _ in range(MAX_LOSSES)] == [True] * (MAX_LOSSES - 1) + [False]


def test_losses_count_until_enough_commits_stand(setbacks: Setbacks) -> None:
    for commits, is_settled in ((SETTLED_COMMITS - 1, False), (SETTLED_COMMITS, True)):
        setbacks.reassigned(3)
        for _ in range(MAX_LOSSES - 1):
            assert setbacks.lost(3, STREAMS)
        for _ in range(commits):
            setbacks.committed(3)
        assert setbacks.lost(3, STREAMS) == is_settled


def test_what_the_log_gives_anew_is_not_taken_back(clock: Clock, setbacks: Setbacks) -> None:
    setbacks.lost(3, STREAMS)
    setbacks.put_off(4, STREAMS)
    setbacks.reassigned(3)
    clock.now_ns = RETRY_NS
    assert [*setbacks.to_take_back()] == [(4, STREAMS)]
