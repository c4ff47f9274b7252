"""How far event time is along a lane."""

from __future__ import annotations

from ingest.source import StreamId
from stitch.drivers.live.steady_clock import Moment
from stitch.drivers.live.streams import StreamTimes, Watermark

A, B = StreamId("spans", 0), StreamId("logs", 0)
LATENESS, IDLE = 5, 30
READ = {A: 10, B: 10}
"""Positions, and ends where nothing is left."""
MORE = {A: 11, B: 11}
"""Ends where something is."""

at = Moment.exactly


def times(*streams: StreamId, reached: int | None = None) -> StreamTimes:
    made = StreamTimes(LATENESS, IDLE, reached)
    for stream in streams:
        made.begin(stream, at(100))
    return made


def test_a_lane_is_as_far_as_the_last_of_its_streams() -> None:
    lane = times(A, B)
    lane.heard(A, 90, None, at(100))
    assert lane.watermark(at(100), READ, MORE) == Watermark(None, ())  # nobody knows about the other
    lane.heard(B, 70, None, at(100))
    assert lane.watermark(at(100), READ, MORE).ns == 70 - LATENESS
    lane.heard(B, 95, None, at(101))
    assert lane.watermark(at(101), READ, MORE).ns == 90 - LATENESS
    lane.end(A)
    assert lane.watermark(at(101), READ, MORE).ns == 95 - LATENESS


def test_nothing_goes_back() -> None:
    lane = times(A, reached=80)
    assert lane.watermark(at(100), READ, MORE).ns == 80  # of the owner before
    lane.heard(A, 60, None, at(100))
    assert lane.watermark(at(100), READ, MORE).ns == 80
    lane.heard(A, 95, None, at(100))
    lane.heard(A, 50, None, at(100))
    assert lane.watermark(at(100), READ, MORE).ns == 90
    lane.begin(B, at(100))  # a stream of which nothing came holds it where it is
    assert lane.watermark(at(101), READ, MORE).ns == 90
    lane.begin(A, at(500))  # again: it is known
    assert lane.watermark(at(101), READ, MORE).ns == 90


def test_no_clock_that_is_ahead_moves_it_past_the_log_or_ours() -> None:
    lane = times(A)
    lane.heard(A, 10**9, 97, at(100))
    assert lane.watermark(at(100), READ, MORE).ns == 97 - LATENESS
    lane.heard(A, 10**9, None, at(101))  # a log without times of its own
    assert lane.watermark(at(101), READ, MORE).ns == 101 - LATENESS
    lane.heard(A, 10**9, 10**9, at(102))  # the log's clock is ahead, too
    assert lane.watermark(at(102), READ, MORE).ns == 102 - LATENESS


def test_messages_without_events_are_heard_and_tell_no_time() -> None:
    lane = times(A)
    lane.heard(A, None, 99, at(100))
    assert lane.watermark(at(100), READ, MORE).ns is None
    lane.heard(A, 90, None, at(100))
    lane.heard(A, None, 120, at(120))
    assert lane.watermark(at(100 + IDLE), READ, READ) == Watermark(90 - LATENESS, ())


def test_who_was_read_to_the_end_and_is_silent_goes_by_the_clock() -> None:
    lane = times(A, B)
    lane.heard(A, 90, None, at(100))
    lane.heard(B, 95, None, at(105))
    assert lane.watermark(at(100 + IDLE - 1), READ, READ) == Watermark(90 - LATENESS, ())
    assert lane.watermark(at(100 + IDLE), READ, READ) == Watermark(95 - LATENESS, (A,))
    both = lane.watermark(at(105 + IDLE), READ, READ)
    assert both == Watermark(105 + IDLE - LATENESS, (B, A))
    lane.heard(A, 92, None, at(140))  # late: time stays where it is
    assert lane.watermark(at(140), READ, READ) == Watermark(105 + IDLE - LATENESS, (B,))


def test_who_has_messages_left_or_an_end_that_nobody_knows_is_not_idle() -> None:
    lane = times(A)
    lane.heard(A, 90, None, at(100))
    for ends in (MORE, {}):
        assert lane.watermark(at(1_000), READ, ends) == Watermark(90 - LATENESS, ())
    assert lane.watermark(at(1_000), {}, READ) == Watermark(90 - LATENESS, ())


def test_a_lane_without_streams_stays() -> None:
    assert times().watermark(at(1_000), {}, {}) == Watermark(None, ())
    assert times(reached=7).watermark(at(1_000), {}, {}) == Watermark(7, ())
