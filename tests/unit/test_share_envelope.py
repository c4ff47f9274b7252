"""A share of few votes leaves an envelope only by more than the chance of them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from analyze.methods.robust.noise_between import SURE, leaves_envelope


def leaves(x: int, n: int, low: float, high: float) -> bool:
    """Plainly: under a share at the envelope's edge, as many (as few) are seen in less than 5 %."""

    def at_least(k: int, p: float) -> float:
        return sum(math.comb(n, j) * p**j * (1 - p) ** (n - j) for j in range(k, n + 1))

    return at_least(x, high) < 1 - SURE or 1 - at_least(x + 1, low) < 1 - SURE


@pytest.mark.parametrize("n", [1, 4, 12, 50])
@pytest.mark.parametrize(("low", "high"), [(0.0, 0.05), (0.1, 0.58), (0.4, 1.0), (0.0, 0.0)])
def test_it_is_the_exact_bound(n: int, low: float, high: float) -> None:
    x = np.arange(n + 1, dtype=np.float64)
    edges = np.full((2, n + 1), [[low], [high]])
    found = leaves_envelope(x, np.full(n + 1, float(n)), *edges)
    assert found.tolist() == [leaves(k, n, low, high) for k in range(n + 1)]


def test_without_an_envelope_everything_leaves_it() -> None:
    nothing = np.full(1, np.nan)
    assert leaves_envelope(np.ones(1), np.full(1, 4.0), nothing, nothing).all()


def test_four_of_four_are_no_more_than_seven_of_twelve() -> None:
    high = np.full(1, 7 / 12)
    assert not leaves_envelope(np.full(1, 4.0), np.full(1, 4.0), np.zeros(1), high).any()
    assert leaves_envelope(np.full(1, 18.0), np.full(1, 18.0), np.zeros(1), high).all()
