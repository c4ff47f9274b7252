"""Mean time to absorption: against exact fractions, and where absorption is rare or cannot be reached."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.absorption import mean_absorption_time as exact

from analyze.stats.absorption import mean_absorption_time
from analyze.watch.evidence import run_length

POWERS = st.lists(st.integers(0, 40), min_size=4, max_size=30)


@given(POWERS)
def test_times_are_those_of_exact_fractions(powers: list[int]) -> None:
    """Weights of 2^0 to 2^-40: what leaves is as rare as 1e-12 a step, times the states before it."""
    size = int((np.sqrt(1 + 4 * len(powers)) - 1) / 2)
    rows = np.exp2(-np.array(powers[: size * (size + 1)], dtype=np.float64)).reshape(size, size + 1)
    chances = [[Fraction(x) for x in row] for row in rows.tolist()]
    chances = [[x / sum(row) for x in row] for row in chances]
    floats = np.array([[float(x) for x in row] for row in chances])
    # Fractions of what was rounded: rounding of the input is no error of the method.
    wanted = exact([[Fraction(x) for x in row] for row in floats.tolist()])
    assert mean_absorption_time(floats[:, :-1], floats[:, -1]) == pytest.approx(float(wanted), rel=1e-10)


def test_what_never_ends_is_infinite() -> None:
    trap = np.array([[0.5, 0.25], [0.0, 1.0]])
    assert mean_absorption_time(trap, np.array([0.25, 0.0])) == np.inf
    assert mean_absorption_time(np.array([[1.0]]), np.array([0.0])) == np.inf
    not_entered = np.array([[0.5, 0.0], [0.0, 1.0]])
    assert mean_absorption_time(not_entered, np.array([0.5, 0.0])) == 2.0


@pytest.mark.parametrize("cap_ticks", [1.0, 2.0, 20.0, 100.0])
def test_run_lengths_rise_with_the_threshold_however_rare(cap_ticks: float) -> None:
    """Solved as a linear system, a length of 1e17 came out as -3.6e17 on some processors."""
    lengths = [run_length(threshold, threshold / cap_ticks, 0.25) for threshold in (1.0, 10.0, 20.0, 40.0)]
    assert all(length >= 1 for length in lengths)
    assert lengths == sorted(lengths)
