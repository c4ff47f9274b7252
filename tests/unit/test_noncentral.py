"""Tails of Fisher's noncentral hypergeometric law and of a binomial law against `scipy.stats`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, nchypergeom_fisher

from analyze.stats.noncentral import at_least_given_odds, at_least_of

COUNT = st.integers(0, 60)


@given(COUNT, COUNT, COUNT, COUNT, st.floats(0.05, 20))
def test_the_tail_is_that_of_scipy(x1: int, x0: int, y1: int, y0: int, odds: float) -> None:
    law = nchypergeom_fisher(x0 + x1 + y0 + y1, x0 + x1, x1 + y1, odds)
    assert at_least_given_odds(x1, x0, y1, y0, odds) == pytest.approx(float(law.sf(x1 - 1)), abs=1e-9)


@given(COUNT, COUNT, st.floats(0.01, 0.99))
def test_the_binomial_tail_is_that_of_scipy(x: int, more: int, share: float) -> None:
    assert at_least_of(x, x + more, share) == pytest.approx(float(binom.sf(x - 1, x + more, share)), abs=1e-9)


def test_hits_need_not_be_whole() -> None:
    low, between, high = (at_least_given_odds(9, x0, 3, 5, 1.0) for x0 in (2, 2.5, 3))
    assert low < between < high
