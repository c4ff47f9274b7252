"""KS columns against scipy: D exactly, p within the error the module states."""

import numpy as np
import pytest
from scipy import stats

from analyze.stats.ks import effective_size, ks_columns, p_one_sided, p_two_sided


def _columns(reference: np.ndarray, problem: np.ndarray, include: np.ndarray | None = None):
    values = np.concatenate([reference, problem])
    mine = np.repeat([False, True], [len(reference), len(problem)])
    return ks_columns(values, mine, include)


def test_hand_computed_statistic():
    # F0 steps at 1, 2, 3; F1 at 3, 4: largest gap 2/3 just below 3, F1 never above F0.
    got = _columns(np.array([[1], [2], [3]]), np.array([[3], [4]]))
    assert got.d[0] == pytest.approx(2 / 3, abs=1e-15)
    assert got.d_slower[0] == pytest.approx(2 / 3, abs=1e-15)
    swapped = _columns(np.array([[3], [4]]), np.array([[1], [2], [3]]))
    assert swapped.d[0] == pytest.approx(2 / 3, abs=1e-15)
    assert swapped.d_slower[0] == 0


def test_ties_count_once_both_periods_have_stepped():
    got = _columns(np.array([[5], [5], [5]]), np.array([[5], [5]]))
    assert got.d[0] == 0
    assert got.d_slower[0] == 0


@pytest.mark.parametrize("spread", [3, 50, 10**15])
def test_agrees_with_scipy(spread: int):
    rng = np.random.default_rng(spread)
    reference = rng.integers(-spread, spread, size=(37, 6))
    problem = rng.integers(-spread // 2, 2 * spread, size=(53, 6))
    got = _columns(reference, problem)
    for c in range(6):
        two = stats.ks_2samp(reference[:, c], problem[:, c], method="asymp")
        slower = stats.ks_2samp(reference[:, c], problem[:, c], alternative="greater", method="asymp")
        assert got.d[c] == pytest.approx(two.statistic, abs=1e-14)
        assert got.d_slower[c] == pytest.approx(slower.statistic, abs=1e-14)


def test_excluded_values_do_not_take_part():
    rng = np.random.default_rng(7)
    reference, problem = rng.integers(0, 100, (40, 3)), rng.integers(20, 120, (30, 3))
    include = rng.random((70, 3)) < 0.6
    include[:, 2] = True
    got = _columns(reference, problem, include)
    for c in range(3):
        a, b = reference[include[:40, c], c], problem[include[40:, c], c]
        assert (got.n0[c], got.n1[c]) == (len(a), len(b))
        assert got.d[c] == pytest.approx(stats.ks_2samp(a, b, method="asymp").statistic, abs=1e-14)


def test_many_columns_go_through_in_chunks(monkeypatch: pytest.MonkeyPatch):
    rng = np.random.default_rng(3)
    reference, problem = rng.integers(0, 9, (11, 7)), rng.integers(0, 9, (12, 7))
    whole = _columns(reference, problem)
    monkeypatch.setattr("analyze.stats.ks._CHUNK_VALUES", 46)
    cut = _columns(reference, problem)
    np.testing.assert_array_equal(cut.d, whole.d)
    np.testing.assert_array_equal(cut.n1, whole.n1)


@pytest.mark.parametrize(("n0", "n1"), [(0, 4), (4, 0), (0, 0)])
def test_empty_period_has_no_statistic(n0: int, n1: int):
    got = _columns(np.ones((n0, 2), np.int64), np.ones((n1, 2), np.int64))
    assert np.isnan(got.d).all()
    assert np.isnan(p_two_sided(got.d, got.n0, got.n1)).all()
    assert np.isnan(p_one_sided(got.d_slower, got.n0, got.n1)).all()


@pytest.mark.parametrize(
    ("n0", "n1", "most"), [(11, 11, 0.03), (11, 50, 0.01), (30, 30, 0.02), (100, 100, 0.01), (12, 1000, 0.01)]
)
def test_p_is_near_the_exact_one(n0: int, n1: int, most: float):
    rng = np.random.default_rng(n0 * 1000 + n1)
    for shift in np.linspace(0, 2.5, 60):
        a, b = rng.normal(size=n0), rng.normal(size=n1) + shift * 2 / np.sqrt(min(n0, n1))
        sizes = np.array([n0]), np.array([n1])
        exact = stats.ks_2samp(a, b, method="exact")
        if exact.pvalue < 0.1:
            assert p_two_sided(np.array([exact.statistic]), *sizes)[0] == pytest.approx(
                exact.pvalue, abs=most
            )
        slower = stats.ks_2samp(a, b, method="exact", alternative="greater")
        if slower.pvalue < 0.1:
            assert p_one_sided(np.array([slower.statistic]), *sizes)[0] == pytest.approx(
                slower.pvalue, abs=most
            )


def test_effective_size():
    got = effective_size(np.array([8, 4, 0]), np.array([8, 100, 0]))
    np.testing.assert_allclose(got, [4, 400 / 104, 0])
