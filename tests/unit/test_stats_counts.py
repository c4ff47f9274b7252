"""Negative binomial predictive test: its law, its parts, size on simulated shares, power."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import statistics as oracle
from scipy import stats

from analyze.stats.counts import count_tests
from analyze.stats.multiple import q_values


def windows(shares: np.ndarray, totals: np.ndarray, cv: float, seed: int, n: int | None = None) -> np.ndarray:
    """Poisson counts of shares that move by `cv` between windows."""
    rng = np.random.default_rng(seed)
    moved = shares * rng.gamma(1 / cv**2, cv**2, (n or len(totals), len(shares)))
    return rng.poisson(moved * totals[:, None]).astype(float)


def many(categories: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.full(categories, 0.6))


def test_mid_p_is_that_of_the_law() -> None:
    history = np.array([[40.0, 60.0], [55.0, 45.0], [45.0, 55.0]])
    found = count_tests(history, np.array([[30.0, 70.0]]), np.array([0, 0]))
    share = (140 + 0.5) / (300 + 1)
    assert found.share0[0] == pytest.approx(share)
    assert found.expected[0] == pytest.approx(100 * share)
    assert found.spread[0] == pytest.approx(found.dispersion[0] * (1 + 1 / 3) + 1 / 140)
    upto = oracle.nb_cdf(30, found.expected[0], found.spread[0])
    below = oracle.nb_cdf(29, found.expected[0], found.spread[0])
    assert found.p_fewer[0] == pytest.approx((upto + below) / 2, rel=1e-8)
    assert found.p[0] == pytest.approx(upto + below, rel=1e-8)


def test_dispersion_is_shrunk_to_its_root() -> None:
    shares = np.full(40, 1 / 40)
    history = windows(shares, np.full(12, 40_000.0), 0.2, 1)
    found = count_tests(history, history[:1], np.zeros(40, int))
    assert np.mean(found.dispersion) == pytest.approx(0.04, rel=0.3)
    own = np.var(history / history.sum(axis=1, keepdims=True), axis=0)
    assert found.dispersion.std() < (own / shares**2).std()


def test_load_and_mix_are_no_change() -> None:
    shares = np.array([0.7, 0.3, 0.6, 0.4])
    root = np.array([0, 0, 1, 1])
    history = np.tile(shares * 1_000, (4, 1))
    problem = (shares * np.array([3_000, 3_000, 200, 200]))[None, :]
    found = count_tests(history, problem, root)
    assert (found.p > 0.9).all()
    np.testing.assert_allclose(found.expected, problem[0], rtol=0.01)


def test_empty_roots_and_new_and_vanished_categories() -> None:
    history = np.tile([500.0, 500.0, 0.0, 80.0], (3, 1))
    problem = np.array([[500.0, 0.0, 60.0, 0.0]])
    found = count_tests(history, problem, np.array([0, 0, 0, 1]))
    assert found.p_fewer[1] < 1e-6
    assert found.p_more[2] < 1e-4
    assert found.expected[3] == 0
    assert found.p[3] == pytest.approx(1.0)
    nothing = count_tests(np.zeros((2, 0)), np.zeros((1, 0)), np.zeros(0, int))
    assert len(nothing.p) == 0


def test_p_is_uniform_on_its_own_law() -> None:
    # The share is known (long history), the spread between windows is what the model says.
    categories = 2_000
    shares = np.full(categories, 1 / categories)
    history = windows(shares, np.full(60, 200_000.0), 0.15, 2)
    problem = windows(shares, np.array([200_000.0]), 0.15, 3)
    found = count_tests(history, problem, np.zeros(categories, int))
    assert stats.kstest(found.p_fewer, "uniform").pvalue > 0.01


@pytest.mark.parametrize("cv", [0.05, 0.2])
def test_quiet_pairs_stay_quiet(cv: float) -> None:
    shares = many(300)
    root = np.zeros(300, int)
    flagged = 0
    for run in range(30):
        history = windows(shares, np.full(8, 60_000.0), cv, 2 * run)
        problem = windows(shares, np.array([90_000.0]), cv, 2 * run + 1)
        found = count_tests(history, problem, root)
        testable = (found.expected >= 5) | (found.seen >= 10)
        big = np.abs(found.seen - found.expected) >= np.maximum(
            10, 0.2 * np.maximum(found.seen, found.expected)
        )
        flagged += int(((q_values(np.where(testable, found.p, np.nan)) <= 0.05) & big).sum())
    assert flagged / 30 <= 0.7


def test_cold_start_takes_the_floor_or_what_parts_show() -> None:
    shares = np.full(50, 0.02)
    one = windows(shares, np.array([10_000.0]), 0.3, 1)
    parts = windows(shares, np.full(8, 1_250.0), 0.3, 2)
    root = np.zeros(50, int)
    cold = count_tests(one, one, root)
    assert cold.dispersion.tolist() == [0.01] * 50
    warmer = count_tests(one, one, root, parts=(parts, parts))
    assert np.median(warmer.dispersion) > 0.04


def test_a_quarter_less_is_found() -> None:
    shares = many(100, 3)
    shares = np.sort(shares)[::-1]
    history = windows(shares, np.full(8, 60_000.0), 0.05, 4)
    moved = shares.copy()
    moved[:5] *= 0.7
    moved[20] += (shares - moved).sum()
    problem = windows(moved, np.array([60_000.0]), 0.05, 5)
    found = count_tests(history, problem, np.zeros(100, int))
    chosen = q_values(found.p) <= 0.05
    assert chosen[:5].sum() >= 4
    assert chosen[20]
    assert (found.p_fewer[:5] < found.p_more[:5]).all()
