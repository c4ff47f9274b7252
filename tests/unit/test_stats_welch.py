"""Welch's t of many features: as the library has it, with weights, gaps and constants."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ttest_ind

from analyze.stats.welch import MOST_T, welch_tests


def test_without_weights_and_gaps_it_is_the_librarys() -> None:
    rng = np.random.default_rng(1)
    problem = rng.random(300) < 0.3
    values = rng.lognormal(0, 1, (700, 300)) + problem * rng.normal(0, 1, (700, 1))
    found = welch_tests(values, problem, np.ones(300))
    told = ttest_ind(values[:, problem], values[:, ~problem], axis=1, equal_var=False)
    assert np.allclose(found.t, told.statistic)
    assert np.allclose(found.p, told.pvalue, rtol=1e-9)
    assert np.allclose(found.mean1, values[:, problem].mean(axis=1))


def test_gaps_are_left_out() -> None:
    rng = np.random.default_rng(2)
    problem = np.arange(80) % 2 == 0
    values = rng.normal(0, 1, (20, 80))
    values[rng.random(values.shape) < 0.4] = np.nan
    found = welch_tests(values, problem, np.ones(80))
    told = ttest_ind(values[:, problem], values[:, ~problem], axis=1, equal_var=False, nan_policy="omit")
    assert np.allclose(found.t, told.statistic)
    assert np.allclose(found.p, told.pvalue)


def test_a_scale_of_all_weights_changes_nothing_and_a_zero_like_weight_leaves_out() -> None:
    rng = np.random.default_rng(3)
    problem = np.arange(60) < 25
    values, weight = rng.normal(0, 1, (9, 60)), rng.uniform(0.5, 4, 60)
    one, other = welch_tests(values, problem, weight), welch_tests(values, problem, 7 * weight)
    assert np.allclose(one.t, other.t)
    kept = rng.random(60) < 0.7
    few = welch_tests(values, problem, np.where(kept, 1.0, 1e-12))
    told = ttest_ind(values[:, problem & kept], values[:, ~problem & kept], axis=1, equal_var=False)
    assert np.allclose(few.t, told.statistic, rtol=1e-6)


def test_constants_and_what_cannot_be_tested() -> None:
    problem = np.array([False] * 5 + [True] * 5)
    values = np.array(
        [
            [0.1 + 0.2] * 5 + [0.3] * 5,  # equal but for rounding
            [1.0] * 5 + [2.0] * 5,
            [2.0] * 5 + [1.0] * 5,
            [1.0, *[np.nan] * 4, 1, 2, 3, 4, 5],  # one value
        ]
    )
    found = welch_tests(values, problem, np.ones(10))
    assert found.t[:3].tolist() == [0.0, MOST_T, -MOST_T]
    assert found.p[:3].tolist() == [1.0, 0.0, 0.0]
    assert np.isnan(found.t[3])
    assert np.isnan(found.p[3])


def test_a_small_class_without_the_rare_large_values_does_not_differ() -> None:
    """Welch alone calls it different; with the spread of both it is not."""
    rng = np.random.default_rng(6)
    values = np.where(np.arange(1_000) < 950, rng.lognormal(0, 0.3, 1_000), 1.0)[None, :]
    values[0, :950:70] = 100.0
    values[0, 950:] = rng.lognormal(0, 0.3, 50)
    found = welch_tests(values, np.arange(1_000) >= 950, np.ones(1_000))
    assert found.p[0] < 0.001
    assert found.p_pooled[0] > 0.2


@pytest.mark.parametrize("weighted", [False, True])
def test_it_holds_its_level(weighted: bool) -> None:
    rng = np.random.default_rng(4)
    problem = np.arange(200) < 60
    values = rng.normal(0, 1, (20_000, 200))
    weight = rng.choice([1.0, 2.0, 5.0], 200) if weighted else np.ones(200)
    tests = welch_tests(values, problem, weight)
    for p in (tests.p, tests.p_pooled):
        assert 0.044 < (p < 0.05).mean() < 0.058
        assert (p < 0.001).mean() < 0.0025
