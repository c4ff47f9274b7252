"""Blocks: bounds, autocorrelation, sizes on dependent requests."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter

from analyze.stats.time_blocks import (
    BlockSums,
    autocorrelation_time,
    block_of,
    blocks_for,
    equal_count_bounds,
    equal_time_bounds,
)


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


def test_number_of_blocks() -> None:
    assert blocks_for(10_000, 4.0) == 20
    assert blocks_for(100, 4.0) == 8


def test_blocks_of_equal_times_have_no_variance_by_chance_and_never_a_negative_one() -> None:
    weight = np.full((1, 7), 13.0)
    time = 123456.789 * np.array([[1.0, 3.0, 7.0, 0.1, 1e3, 1e6, 1 / 3]])
    blocks = BlockSums(time * weight, time**2 * weight, weight, weight)
    value, variance = blocks.log_means()
    assert value == pytest.approx(np.log(time))
    assert (variance >= 0).all()
    assert variance == pytest.approx(0.0, abs=1e-15)
