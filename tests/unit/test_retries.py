"""What follows from what went wrong with a lane."""

from __future__ import annotations

import errno

import pytest

from stitch.drivers.live.lane_work import (
    MAX_FAILURES,
    MAX_LOSSES,
    RETRY_NS,
    SETTLED_COMMITS,
    RetryStates,
    passes_by_itself,
)
from stitch.lake.bucket.bucket_store import failure_of

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
def retries(clock: Clock) -> RetryStates:
    return RetryStates(clock)


def test_a_commit_is_tried_again_after_a_while(clock: Clock, retries: RetryStates) -> None:
    assert retries.may_retry(1)
    assert retries.failed(1, BROKEN)
    assert retries.may_retry(2)
    clock.now_ns = RETRY_NS - 1
    assert not retries.may_retry(1)
    clock.now_ns = RETRY_NS
    assert retries.may_retry(1)


def test_an_error_that_stays_halts_the_third_time_in_a_row(retries: RetryStates) -> None:
    assert [retries.failed(1, BROKEN) for _ in range(MAX_FAILURES)] == [True] * (MAX_FAILURES - 1) + [False]
    retries.committed(1)
    assert retries.failed(1, BROKEN)


def test_an_error_that_passes_never_halts(retries: RetryStates) -> None:
    assert all(retries.failed(1, FULL) for _ in range(10 * MAX_FAILURES))
    for error in (TimeoutError(), ConnectionResetError(), OSError(errno.EDQUOT, ""), FULL):
        assert passes_by_itself(error)
    for code in (errno.EIO, errno.EROFS, errno.EACCES):
        assert not passes_by_itself(OSError(code, ""))


@pytest.mark.parametrize("kind", ["Connect", "Timeout", "Request", "Unknown"])
def test_a_bucket_that_cannot_be_reached_is_waited_for(kind: str) -> None:
    assert passes_by_itself(failure_of(Exception(f"HttpError {{ kind: {kind}, "), "s3://lakes/p").error)


@pytest.mark.parametrize(
    ("status", "passes"), [(500, True), (503, True), (429, True), (400, False), (403, False)]
)
def test_of_what_a_bucket_answers_the_server_s_trouble_is_waited_for(status: int, passes: bool) -> None:
    told = failure_of(Exception(f"non-2xx status code: {status} X: <Code>Y</Code>"), "s3://lakes/p")
    assert passes_by_itself(told.error) == passes


def test_a_lane_that_was_lost_is_taken_back_later(clock: Clock, retries: RetryStates) -> None:
    assert retries.lost(3)
    assert retries.to_take_over() == []
    clock.now_ns = RETRY_NS
    assert retries.to_take_over() == [3]
    retries.tried(3)
    assert retries.to_take_over() == []


def test_who_loses_a_lane_again_and_again_gives_in(retries: RetryStates) -> None:
    assert [retries.lost(3) for _ in range(MAX_LOSSES)] == [True] * (MAX_LOSSES - 1) + [False]


def test_losses_count_until_enough_commits_stand(retries: RetryStates) -> None:
    for commits, is_settled in ((SETTLED_COMMITS - 1, False), (SETTLED_COMMITS, True)):
        retries.forget(3)
        for _ in range(MAX_LOSSES - 1):
            assert retries.lost(3)
        for _ in range(commits):
            retries.committed(3)
        assert retries.lost(3) == is_settled


def test_what_is_no_longer_ours_is_not_taken_back(clock: Clock, retries: RetryStates) -> None:
    retries.lost(3)
    retries.put_off(4)
    retries.forget(3)
    clock.now_ns = RETRY_NS
    assert retries.to_take_over() == [4]
