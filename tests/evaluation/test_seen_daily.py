"""The test that knows the truth sees what is large, and of what is nothing no more than its level."""

from __future__ import annotations

import pytest
from evaluation.seen_daily import is_reported, seen_daily
from oracles.watched_week import OWN_MS, WINDOWS_A_DAY, Change

LEARNED, DAYS, REQUESTS = 14, 6, 20


def of_days(slower: float = 1.0, failing: float = 0.0) -> list[Change]:
    """A change of every service on every day but the first ones: nothing, by default."""
    return [
        Change(service, day * WINDOWS_A_DAY, (day + 1) * WINDOWS_A_DAY, slower=slower, failing=failing)
        for day in range(LEARNED, LEARNED + DAYS)
        for service in OWN_MS
    ]


@pytest.mark.parametrize("how", [{"slower": 1.5}, {"failing": 0.05}])
def test_what_is_large_is_seen(how: dict[str, float]) -> None:
    changes = of_days(**how)
    assert seen_daily(changes, 1, LEARNED, DAYS, REQUESTS) == changes


@pytest.mark.parametrize("how", [{"slower": 1.0}, {"slower": 0.8}])
def test_what_is_no_change_for_the_worse_is_not_seen(how: dict[str, float]) -> None:
    assert [seen_daily(of_days(**how), seed, LEARNED, DAYS, REQUESTS) for seed in (1, 2, 3)] == [[], [], []]


def test_a_change_of_a_standard_deviation_of_days_is_seldom_seen() -> None:
    changes = of_days(slower=1.03)
    assert len(seen_daily(changes, 1, LEARNED, DAYS, REQUESTS)) < len(changes) / 10


def test_what_is_short_is_a_small_part_of_its_day() -> None:
    whole = Change("cart", 0, WINDOWS_A_DAY, slower=1.2)
    short = Change("cart", 0, WINDOWS_A_DAY // 16, slower=2.0, failing=0.1)
    assert is_reported(whole)
    assert not is_reported(short)
