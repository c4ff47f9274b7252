"""What a live process takes for the time."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from schemas.windows import NS_PER_MINUTE, NS_PER_SECOND
from stitch.drivers.live.steady_clock import BELIEVED_NS, Moment, SteadyClock, counted_ns

START_NS = 1_700_000_000 * NS_PER_SECOND
DAY_NS = 1_440 * NS_PER_MINUTE


class Host:
    """Tells the time, and what it counts."""

    def __init__(self) -> None:
        self.passed_ns = 0
        self.ahead_ns = 0
        self.clock = SteadyClock(
            lambda: START_NS + self.passed_ns + self.ahead_ns, lambda: 77 + self.passed_ns
        )

    def at(self, passed_ns: int, ahead_ns: int) -> Moment:
        self.passed_ns, self.ahead_ns = passed_ns, ahead_ns
        return self.clock()


def test_a_clock_that_goes_on_is_the_time() -> None:
    host = Host()
    for passed_ns in range(0, DAY_NS, NS_PER_MINUTE):
        drift_ns = passed_ns // 1_000  # 90 s a day: much, and never a jump
        assert host.at(passed_ns, drift_ns) == Moment(
            START_NS + passed_ns, *(START_NS + passed_ns + drift_ns,) * 2
        )


def test_a_clock_that_jumps_and_comes_back_is_in_doubt_the_while() -> None:
    host = Host()
    for ahead_ns in (DAY_NS, -DAY_NS):
        wrong = host.at(NS_PER_MINUTE, ahead_ns)
        true_ns = START_NS + NS_PER_MINUTE
        assert (wrong.now_ns, {wrong.earliest_ns, wrong.latest_ns}) == (
            true_ns,
            {true_ns, true_ns + ahead_ns},
        )
        assert host.at(NS_PER_MINUTE, 0) == Moment.exactly(true_ns)


def test_a_clock_that_was_set_is_believed_after_ten_minutes_and_another_jump_begins_anew() -> None:
    host = Host()
    for ahead_ns in (DAY_NS, -DAY_NS):
        began_ns = host.passed_ns
        host.at(began_ns, ahead_ns + 5 * NS_PER_SECOND)
        host.at(began_ns + NS_PER_MINUTE, ahead_ns)  # not yet set for good
        almost = host.at(began_ns + NS_PER_MINUTE + BELIEVED_NS - 1, ahead_ns)
        assert almost.earliest_ns < almost.latest_ns
        set_ns = began_ns + NS_PER_MINUTE + BELIEVED_NS
        moment = host.at(set_ns, ahead_ns)
        assert moment == Moment(START_NS + set_ns, *(START_NS + set_ns + ahead_ns,) * 2)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 4 * NS_PER_MINUTE),
            st.sampled_from((0, 0, 10**8, DAY_NS, -DAY_NS, 3 * NS_PER_SECOND)),
        ),
        max_size=60,
    )
)
def test_lasting_never_goes_back_and_the_truth_is_within_while_no_jump_lasts(
    steps: list[tuple[int, int]],
) -> None:
    host = Host()
    passed_ns = wrong_ns = 0
    before = host.clock()
    for lasts_ns, ahead_ns in steps:
        wrong_ns = wrong_ns + lasts_ns if abs(ahead_ns) >= NS_PER_SECOND else 0
        if wrong_ns >= BELIEVED_NS:
            ahead_ns = 0
        passed_ns += lasts_ns
        moment = host.at(passed_ns, ahead_ns)
        assert moment.now_ns - before.now_ns == lasts_ns
        assert moment.earliest_ns <= START_NS + passed_ns + 10**8
        assert moment.latest_ns >= START_NS + passed_ns
        before = moment


def test_the_clock_of_this_host() -> None:
    before_ns = counted_ns()
    assert counted_ns() >= before_ns
    moment = SteadyClock()()
    assert abs(moment.now_ns - time.time_ns()) < 10 * NS_PER_SECOND
    assert moment.earliest_ns <= moment.latest_ns
