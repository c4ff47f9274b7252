"""Waterfalls, and before and after on one line, of any numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analyze.report.bars import shift, waterfall
from schemas.report.findings import Interval

PARTS = st.lists(st.floats(-50.0, 50.0), max_size=12)


@given(before=st.floats(0.0, 1000.0), parts=PARTS, noise=st.floats(0.0, 20.0))
def test_bars_follow_each_other_within_the_axis(before: float, parts: list[float], noise: float):
    change = sum(parts)
    drawn = waterfall(before, parts, change - noise, change + noise)
    at = drawn.before.left + drawn.before.width
    for part, bar in zip(parts, drawn.parts, strict=True):
        ends = (bar.left, bar.left + bar.width)
        # The smallest bars are drawn wider than they are.
        assert (ends[0] if part >= 0 else ends[1]) == pytest.approx(at, abs=0.4)
        at = ends[1] if part >= 0 else ends[0]
    for bar in (drawn.before, *drawn.parts, drawn.after, drawn.interval):
        assert -0.4 <= bar.left <= 100.4
        assert 0 <= bar.left + bar.width <= 100.8


@given(st.floats(0, 1e9), st.floats(0, 1e9), st.floats(0, 1e6))
def test_a_line_keeps_its_order(before: float, after: float, noise: float):
    change = Interval(low=after - before - noise, high=after - before + noise)
    ends = {part.kind: part.left + part.width for part in shift("us", before, after, change).stretches}
    assert 0 <= min(ends.values()) <= max(ends.values()) <= 100.001
    if before and after and abs(ends["before"] - ends["after"]) > 0.4:
        assert (ends["before"] < ends["after"]) == (before < after)
