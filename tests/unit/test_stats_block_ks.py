"""KS by permuted blocks: the statistic by definition, its size on dependent series, its power."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.examples import examples
from scipy.stats import ks_2samp

from analyze.stats.ks import LEAST, block_ks


@examples(20)
@given(st.integers(0, 2**32 - 1), st.integers(LEAST, 120), st.integers(LEAST, 120), st.booleans())
def test_the_statistic_is_that_of_kolmogorov_and_smirnov(seed: int, n: int, m: int, coarse: bool) -> None:
    rng = np.random.default_rng(seed)
    first, second = rng.normal(0, 1, n), rng.normal(0.3, 1, m)
    if coarse:
        first, second = first.round(), second.round()
    found = block_ks(first, second, 0)
    assert found is not None
    assert found.d == pytest.approx(ks_2samp(first, second).statistic)
    assert 0 < found.p <= 1


def walk(rng: np.random.Generator, n: int, rho: float) -> np.ndarray:
    """A series each value of which is like the one before."""
    noise = rng.normal(0, 1, n)
    found = np.empty(n)
    found[0] = noise[0]
    for i in range(1, n):
        found[i] = rho * found[i - 1] + np.sqrt(1 - rho**2) * noise[i]
    return found


@pytest.mark.parametrize("rho", [0.0, 0.7])
def test_size_holds_on_dependent_series(rho: float) -> None:
    """Blocks of 20 values, dependence over some: of 100 pairs about 5 are below 5 %; plain KS has 25."""
    rng = np.random.default_rng(5)
    pairs = [(walk(rng, 400, rho), walk(rng, 400, rho)) for _ in range(100)]
    ps = [found.p for found in (block_ks(a, b, i) for i, (a, b) in enumerate(pairs)) if found is not None]
    assert sum(p < 0.05 for p in ps) <= 12
    assert sum(p < 0.5 for p in ps) >= 35
    if rho:
        assert sum(ks_2samp(a, b).pvalue < 0.05 for a, b in pairs) > 20


def test_power_and_too_few() -> None:
    rng = np.random.default_rng(6)
    found = [block_ks(rng.normal(0, 1, 300), rng.normal(0.5, 1, 300), i) for i in range(20)]
    assert sum(one is not None and one.p < 0.01 for one in found) >= 18
    assert block_ks(np.zeros(LEAST - 1), np.zeros(500), 0) is None
