"""Waterfalls, and before and after on one line."""

from __future__ import annotations

from itertools import pairwise

import pytest

from analyze.report import measures
from analyze.report.bars import shift, waterfall
from schemas.report.findings import Interval, Unit


def test_a_bar_is_as_long_as_its_part():
    drawn = waterfall(100.0, [50.0, -30.0], 15.0, 25.0)
    widths = [bar.width for bar in (drawn.before, *drawn.parts, drawn.after)]
    assert [width / widths[0] for width in widths] == pytest.approx([1.0, 0.5, 0.3, 1.2])
    assert drawn.start == 0


def test_a_small_change_of_a_large_value_is_seen():
    drawn = waterfall(1000.0, [4.0], 3.0, 5.0)
    assert drawn.start > 900
    assert drawn.parts[0].width > 30


def test_an_interval_below_zero_or_beyond_all_that_moved_is_cut():
    drawn = waterfall(187.0, [-143.5], -511.0, 223.0)
    assert drawn.start == 0
    assert drawn.before.left == 0
    assert drawn.interval.left == 0
    assert drawn.before.width > 50
    assert drawn.interval.left + drawn.interval.width <= 100.001


def test_sums_below_zero_in_between_have_room():
    drawn = waterfall(10.0, [-30.0, 25.0], -6.0, -4.0)
    assert drawn.start == -20
    assert drawn.parts[0].left == 0
    assert drawn.before.left == drawn.after.left > 0


def test_nothing_at_all_is_drawn():
    drawn = waterfall(0.0, [], 0.0, 0.0)
    assert drawn.parts == ()


@pytest.mark.parametrize(
    ("unit", "before", "after", "change", "text"),
    [
        ("us", 12_100.0, 263_700.0, (238_200.0, 266_900.0), "12.1 ms → 264 ms, +238 to +267 ms"),
        ("us", 100.0, 2_000.0, (900.0, 2_100.0), "100 µs → 2 ms, +900 µs to +2.1 ms"),
        ("us", 2_000.0, 1_000.0, (-1_200.0, -800.0), "2 ms → 1 ms, −1.2 ms to −800 µs"),
        ("us", 2_000.0, 2_000.0, (-3_000.0, 4_000.0), "2 ms → 2 ms, −3 to +4 ms"),
        ("share", 0.0, 0.171, (0.149, 0.194), "0 % → 17 %, +15 to +19 points"),
        ("share", 0.01, 0.012, (-0.001, 0.005), "1.0 % → 1.2 %, −0.1 to +0.5 points"),
        ("calls", 5.2, 6.9, (1.5, 1.9), "5.2 → 6.9 calls, +1.5 to +1.9 calls"),
        ("calls", 0.5, 1.0, (0.4, 0.6), "0.5 → 1 call, +0.4 to +0.6 calls"),
        ("us", 1.0, 2.0, (-1.7e308, 1.7e308), "1 µs → 2 µs, interval not known"),
        ("share", 0.01, 0.02, (-1e300, 1e300), "1.0 % → 2.0 %, interval not known"),
        ("ratio", 1.0, 2.2, (1.0, 1.4), "×1 → ×2.2, +1 to +1.4"),
    ],
)
def test_values_of_a_unit(unit: Unit, before: float, after: float, change: tuple[float, float], text: str):
    low, high = change
    drawn = shift(unit, before, after, Interval(low=low, high=high))
    assert drawn.title.replace("\u00a0", " ") == text


@pytest.mark.parametrize(
    ("low", "high", "text"), [(0.55, 0.7, "55 to 70 %"), (0.8301, 0.8304, "83 %"), (-0.1, 0.3, "−10 to 30 %")]
)
def test_a_share_with_its_interval(low: float, high: float, text: str):
    assert measures.share_span(Interval(low=low, high=high)).replace("\u00a0", " ") == text


def test_a_difference_has_a_sign():
    texts = [measures.shift("share", 0.039), measures.shift("calls", -0.5), measures.shift("share", 0.0)]
    assert [text.replace("\u00a0", " ") for text in texts] == ["+3.9 points", "−0.5 calls", "0 points"]
    assert all(a != b for a, b in pairwise(texts))
