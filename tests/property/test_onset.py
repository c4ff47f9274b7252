"""When something began: against a search through all segments, and its interval by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyze.report.when import when_slots
from analyze.stats.onset import segment_of
from schemas.arrays import B1


def searched(hit: B1, share: float, usual: float) -> float:
    """The largest log ratio of likelihoods of any segment, by trying all."""
    gain = np.where(hit, np.log(share / usual), np.log((1 - share) / (1 - usual)))
    return max(float(gain[a:b].sum()) for a in range(len(hit)) for b in range(a + 1, len(hit) + 1))


@given(st.lists(st.booleans(), min_size=1, max_size=40), st.floats(0.05, 0.95))
def test_no_segment_is_likelier(values: list[bool], usual: float) -> None:
    hit = np.array(values)
    found = segment_of(hit, usual)
    if found is None:
        return
    assert 0 <= found.first_low <= found.first <= found.first_high < found.past
    assert found.first < found.past_low <= found.past <= found.past_high <= len(hit)
    least = 0.5 / (len(hit) + 1)
    share = min(max(float(hit[found.first : found.past].mean()), least), 1 - least)
    gain = np.where(hit, np.log(share / usual), np.log((1 - share) / (1 - usual)))
    assert gain[found.first : found.past].sum() == pytest.approx(searched(hit, share, usual), abs=0.5)


@pytest.mark.parametrize(("usual", "share"), [(0.0, 0.2), (0.02, 0.3), (0.1, 0.9), (0.9, 0.1)])
@pytest.mark.parametrize("past", [300, 220], ids=["to the end", "ended"])
def test_the_interval_holds_the_begin_nineteen_times_of_twenty(usual: float, share: float, past: int) -> None:
    rng = np.random.default_rng(7)
    n, first, rounds = 300, 120, 300
    held = ended = at_end = 0
    for _ in range(rounds):
        of = np.where((np.arange(n) >= first) & (np.arange(n) < past), share, usual)
        found = segment_of(rng.random(n) < of, usual)
        assert found is not None
        held += found.first_low <= first <= found.first_high
        ended += found.past_low <= past <= found.past_high
        at_end += found.past_high == n
    assert held >= 0.95 * rounds
    assert ended >= 0.95 * rounds
    assert at_end >= 0.95 * rounds if past == n else at_end <= 0.05 * rounds


@pytest.mark.parametrize("share", [0.05, 0.3, 1.0])
def test_what_was_so_all_the_time_did_not_begin(share: float) -> None:
    rng = np.random.default_rng(3)
    later = 0
    for _ in range(300):
        found = segment_of(rng.random(300) < share, 0.0)
        later += found is not None and not found.from_start
    assert later <= 15


def test_nothing_is_no_segment() -> None:
    assert segment_of(np.zeros(0, np.bool_), 0.1) is None
    assert segment_of(np.zeros(100, np.bool_), 0.0) is None


@pytest.mark.parametrize("first", [95, 120, 187])
def test_of_slots_the_interval_holds_the_begin_too(first: int) -> None:
    """Thirty windows of ten requests each, and a begin that may lie inside of one."""
    rng = np.random.default_rng(5)
    held, rounds = 0, 200
    for _ in range(rounds):
        hit = rng.random(300) < np.where(np.arange(300) >= first, 0.6, 0.05)
        times = np.arange(30)
        found = when_slots(
            times, times + 1, hit.reshape(30, 10).sum(axis=1).astype(float), np.full(30, 10.0), 0.05
        )
        assert found is not None
        assert found.ended is None
        assert found.began is not None
        held += found.began.low_ns <= first / 10 <= found.began.high_ns
    assert held >= 0.95 * rounds
