"""How many changes are compared whose sizes say nothing: as many as the budget has, by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from oracles.watched_series import MONDAY, WEEK, WINDOW_NS

from analyze.watch.ordinary import LARGE, Ordinary
from analyze.watch.settings import WatchSettings

SETTINGS = WatchSettings(slot_ns=0)
BUDGET, CHANGES = int(SETTINGS.candidates), 80
BEGAN = MONDAY // WINDOW_NS


def compared(rng: np.random.Generator, began_ns: int, weeks: int = 1) -> list[int]:
    """How many of `CHANGES` a week are compared in each week, each refuted; sizes are drawn alike."""
    ordinary, found = Ordinary((), SETTINGS, WINDOW_NS, began_ns), [0] * weeks
    for onset in np.sort(rng.integers(0, weeks * WEEK, weeks * CHANGES)).tolist():
        size = float(rng.uniform(0, LARGE))
        found[onset // WEEK] += size >= ordinary.worth(BEGAN + onset + 1)
        ordinary.add(BEGAN + onset, size)
        ordinary.forget(BEGAN + onset + 1, BEGAN + onset + 1)
    return found


def test_the_first_week_compares_what_is_budgeted_as_every_other_one() -> None:
    """Two more are let through while a part of the budget is one change, by the first hours' harmonic sum."""
    rng = np.random.default_rng(1)
    first, second = np.mean([compared(rng, MONDAY, weeks=2) for _ in range(100)], axis=0)
    assert BUDGET - 1 < first < BUDGET * 1.25
    assert BUDGET - 1 < second < BUDGET * 1.15


def test_a_bar_that_waits_for_a_whole_budget_costs_what_is_said() -> None:
    """So many of n are among the b largest when they come: b (1 + ln(n / b))."""
    rng = np.random.default_rng(2)
    found = np.mean([compared(rng, 0)[0] for _ in range(100)])
    assert found == pytest.approx(BUDGET * (1 + np.log(CHANGES / BUDGET)), rel=0.05)


def test_nothing_is_withheld_that_is_as_large_as_a_large_step() -> None:
    ordinary = Ordinary(((BEGAN + n, 5.0 + n) for n in range(100)), SETTINGS, WINDOW_NS, MONDAY)
    assert ordinary.worth(BEGAN + 101) == LARGE


def test_what_was_of_a_confirmed_change_raises_no_bar() -> None:
    ordinary = Ordinary(((BEGAN + n, 0.1 + n / 1000) for n in range(100)), SETTINGS, WINDOW_NS, MONDAY)
    ordinary.drop_since(BEGAN + 50)
    assert dict(ordinary.sizes) == {BEGAN + n: 0.1 + n / 1000 for n in range(50)}


def test_what_is_let_go_of_would_never_have_decided() -> None:
    """A bar that forgets is always the one that remembers all, of a tenth as many changes."""
    rng = np.random.default_rng(3)
    bar, all_of_them = (Ordinary((), SETTINGS, WINDOW_NS, MONDAY) for _ in range(2))
    for onset in range(2 * WEEK):
        if onset % 50 == 0:
            assert bar.worth(BEGAN + onset) == all_of_them.worth(BEGAN + onset)
        size = float(rng.uniform(0, LARGE) * (1 + np.sin(onset / 700)) / 2)
        bar.add(BEGAN + onset, size)
        all_of_them.add(BEGAN + onset, size)
        bar.forget(BEGAN + onset, BEGAN + onset)
    assert BUDGET < len(bar.sizes) < len(all_of_them.sizes) / 10


def test_what_goes_with_a_confirmed_change_displaced_nothing_before_it() -> None:
    """Twenty as large ones since a fault began: the bar is again what it was before the fault."""
    began = BEGAN + WEEK
    sizes = {began - 1 - n: 0.5 for n in range(BUDGET)} | {began + n: 0.6 for n in range(BUDGET)}
    ordinary = Ordinary(sizes.items(), SETTINGS, WINDOW_NS, MONDAY)
    ordinary.forget(began + BUDGET, began)
    assert ordinary.worth(began + BUDGET) == 0.6
    ordinary.drop_since(began)
    assert ordinary.worth(began + BUDGET) == 0.5


def test_sizes_are_larger_parts_of_a_smaller_step() -> None:
    ordinary = Ordinary([(BEGAN + 1, 0.25), (BEGAN + 2, 0.5)], SETTINGS, WINDOW_NS, MONDAY)
    ordinary.rescale(1.5)
    assert dict(ordinary.sizes) == {BEGAN + 1: 0.375, BEGAN + 2: 0.75}
