"""Blocks and κ: bounds, autocorrelation, size of the tolerant KS on dependent requests."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import statistics as oracle
from scipy.signal import lfilter

from analyze.stats.time_blocks import (
    autocorrelation_time,
    block_counts,
    block_kappa,
    block_of,
    blocks_for,
    equal_count_bounds,
    equal_time_bounds,
    ranks,
)
from analyze.stats.tolerant_ks import tolerant_ks


def ar1(rho: float, runs: int, n: int, seed: int) -> np.ndarray:
    noise = np.random.default_rng(seed).normal(size=(runs, n + 200))
    return lfilter([np.sqrt(1 - rho**2)], [1, -rho], noise, axis=1)[:, 200:]


def test_bounds_cover_everything_once() -> None:
    bounds = equal_time_bounds(1_000, 2_003, 8)
    assert bounds[0] == 1_000
    assert bounds[-1] == 2_003
    assert np.diff(bounds).min() >= 125
    where = block_of(np.array([999, 1_000, 1_125, 2_002, 2_003]), bounds)
    assert where.tolist() == [0, 0, 1, 7, 7]
    assert np.diff(equal_count_bounds(103, 20)).tolist().count(6) == 3
    far = equal_time_bounds(1_700_000_000_000_000_000, 1_700_000_300_000_000_000, 7)
    assert far[-1] == 1_700_000_300_000_000_000


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_autocorrelation_time_of_a_known_series(rho: float) -> None:
    series = ar1(rho, 20, 4_000, 1)
    found = np.mean([autocorrelation_time(x) for x in series])
    assert found == pytest.approx((1 + rho) / (1 - rho), rel=0.12)
    assert autocorrelation_time(np.ones(50)) == 1.0
    assert autocorrelation_time(np.zeros(0)) == 1.0


def test_ranks_and_number_of_blocks() -> None:
    assert ranks(np.array([5.0, 1.0, 5.0])).tolist() == [2.5, 1.0, 2.5]
    assert blocks_for(10_000, 4.0) == 20
    assert blocks_for(100, 4.0) == 8


def test_kappa_is_that_of_one_shuffle_after_the_other() -> None:
    rng = np.random.default_rng(2)
    counts = rng.integers(0, 30, (3, 16, 10))
    problem = np.repeat([False, True], 8)
    found = block_kappa(counts, problem, permutations=49, seed=5)
    for test in range(3):
        assert found[test] == pytest.approx(oracle.kappa(counts[test], problem, 49, 5))
    empty = np.zeros((1, 16, 10))
    assert block_kappa(empty, problem).tolist() == [1.0]


@pytest.mark.parametrize(("rho", "n"), [(0.0, 1_000), (0.6, 1_000), (0.9, 2_000)])
def test_size_with_dependence(rho: float, n: int) -> None:
    runs, blocks = 200, 20
    x = ar1(rho, runs, 2 * n, 3)
    # Two periods far apart: independent halves, each with its own dependence.
    x[:, n:] = ar1(rho, runs, n, 4)
    late = np.repeat([False, True], n)
    block = np.repeat(np.arange(2 * blocks), n // blocks)
    problem = np.repeat([False, True], blocks)
    counts = np.stack([block_counts(row, block, 2 * blocks) for row in x])
    kappa = block_kappa(counts, problem, permutations=99)
    arguments = (
        x.reshape(-1),
        np.ones(x.size),
        np.tile(late, runs),
        np.repeat(np.arange(runs), 2 * n),
        np.zeros(runs),
    )
    assert (tolerant_ks(*arguments, kappa=kappa).p <= 0.05).mean() <= 0.1
    if rho > 0.5:
        assert (tolerant_ks(*arguments).p <= 0.05).mean() > 0.15
    else:
        assert np.median(kappa) < 1.4
