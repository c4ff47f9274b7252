"""Rank test: exact against enumeration and scipy, size with ties, power of four requests."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import statistics as oracle
from scipy import stats
from scipy.stats import rankdata

from analyze.stats.rank import (
    midranks,
    rank_p_of_groups,
)


def rank_tests(values: np.ndarray, late: np.ndarray, test: np.ndarray, n_tests: int) -> np.ndarray:
    """Tests of ragged samples, one a value of `test`; equal values are one group."""
    found, group = np.unique(np.stack([test, values]), axis=1, return_inverse=True)
    before, after = (np.bincount(group.reshape(-1), side, found.shape[1]) for side in (~late, late))
    return rank_p_of_groups(found[0].astype(np.int64), before, after, n_tests)


def rank_test(reference: np.ndarray, problem: np.ndarray) -> np.ndarray:
    """One test; arrays of length 1."""
    values = np.concatenate([reference, problem])
    late = np.repeat([False, True], [len(reference), len(problem)])
    return rank_tests(values, late, np.zeros(len(values), np.int64), 1)


@pytest.mark.parametrize("ties", [False, True])
def test_exact_p_is_the_share_of_all_ways_to_pick(ties: bool) -> None:
    rng = np.random.default_rng(1)
    for _ in range(40):
        n0, n1 = rng.integers(1, 7, 2)
        pool = rng.integers(0, 4, n0 + n1).astype(float) if ties else rng.normal(size=n0 + n1)
        a, b = pool[:n0], pool[n0:]
        found = rank_test(a, b)
        higher, lower = oracle.rank_p(a.tolist(), b.tolist())
        assert found[0] == pytest.approx(min(1.0, 2 * min(higher, lower)), abs=1e-12)


@pytest.mark.parametrize(("n0", "n1"), [(4, 300), (150, 10), (10, 150), (3, 500)])
def test_exact_at_the_bounds_agrees_with_scipy(n0: int, n1: int) -> None:
    rng = np.random.default_rng(n0)
    a, b = rng.normal(size=n0), rng.normal(0.8, 1, n1)
    found = rank_test(a, b)
    assert found[0] == pytest.approx(stats.mannwhitneyu(b, a, method="exact").pvalue, rel=1e-9)


def test_large_samples_agree_with_scipys_tie_correction() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.integers(0, 9, 400).astype(float), rng.integers(0, 10, 300).astype(float)
    found = rank_test(a, b)
    assert found[0] == pytest.approx(stats.mannwhitneyu(b, a, method="asymptotic").pvalue, rel=1e-9)


def test_ragged_tests_are_the_single_tests() -> None:
    rng = np.random.default_rng(3)
    n_tests = 30
    test = rng.integers(0, n_tests, 900)
    late = rng.random(900) < 0.4
    value = rng.integers(0, 12, 900).astype(float)
    together = rank_tests(value, late, test, n_tests + 1)
    for i in range(n_tests):
        mine = test == i
        alone = rank_test(value[mine & ~late], value[mine & late])
        assert together[i] == alone[0]
    assert together[n_tests] == 1.0


def test_work_on_exact_tests_is_bounded_and_spent_where_it_decides() -> None:
    rng = np.random.default_rng(6)
    runs = 4_000
    x = rng.normal(size=(runs, 100))
    x[::50, 90:] += 3
    late = np.tile(np.repeat([False, True], [90, 10]), runs)
    found = rank_tests(x.reshape(-1), late, np.repeat(np.arange(runs), 100), runs)
    approximate = stats.mannwhitneyu(x[:, :90], x[:, 90:], axis=1, method="asymptotic").pvalue
    exact = ~np.isclose(found, approximate, rtol=1e-9, atol=0)
    assert exact[::50].all()
    assert 0.05 < exact.mean() < 0.5


def test_fractions_of_votes_have_no_exact_test() -> None:
    groups = np.zeros(4, np.int64)
    votes = rank_p_of_groups(groups, np.array([2.0, 2, 0, 0]), np.array([0.0, 0, 2, 2]), 1)
    parts = rank_p_of_groups(groups, np.array([1.9, 2.1, 0, 0]), np.array([0.0, 0, 2, 2]), 1)
    assert votes[0] == pytest.approx(2 / 70)
    assert parts[0] != pytest.approx(votes[0])
    assert parts[0] == pytest.approx(votes[0], abs=0.03)


def test_nothing_and_all_equal_are_no_change() -> None:
    assert rank_tests(np.zeros(0), np.zeros(0, bool), np.zeros(0, int), 2).tolist() == [1.0, 1.0]
    assert rank_test(np.ones(5), np.ones(6))[0] == 1.0
    assert rank_test(np.ones(5), np.zeros(0))[0] == 1.0


@pytest.mark.parametrize(("n0", "n1", "values"), [(6, 9, 5), (40, 8, 4), (60, 60, 6), (9, 9, 1000)])
def test_size_holds_with_ties(n0: int, n1: int, values: int) -> None:
    rng = np.random.default_rng(4)
    runs = 2_000
    x = rng.integers(0, values, (runs, n0 + n1)).astype(float)
    late = np.tile(np.repeat([False, True], [n0, n1]), runs)
    p = rank_tests(x.reshape(-1), late, np.repeat(np.arange(runs), n0 + n1), runs)
    assert (p <= 0.05).mean() <= 0.062
    assert (p <= 0.01).mean() <= 0.016


def test_four_against_forty_is_enough_for_a_doubling() -> None:
    rng = np.random.default_rng(5)
    runs = 300
    x = rng.lognormal(0, 0.2, (runs, 44))
    x[:, 40:] *= 2
    late = np.tile(np.repeat([False, True], [40, 4]), runs)
    p = rank_tests(x.reshape(-1), late, np.repeat(np.arange(runs), 44), runs)
    assert (p <= 0.001).mean() > 0.9


def test_midranks_are_those_of_scipy() -> None:
    values = np.random.default_rng(0).integers(0, 30, 200) / 3
    assert np.array_equal(midranks(values), rankdata(values))
    assert len(midranks(np.zeros(0))) == 0
