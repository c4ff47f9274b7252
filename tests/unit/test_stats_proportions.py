"""Proportions: exact tails against fractions and scipy, over-dispersion, size and power."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import statistics as oracle
from scipy.stats import betabinom, hypergeom, norm

from analyze.stats.estimate import share_change
from analyze.stats.proportions import (
    MOST_TERMS,
    correlation,
    fisher,
    share_dispersion,
    surprise,
)


@given(st.integers(0, 60), st.integers(0, 60), st.data())
def test_fisher_is_the_hypergeometric_tail(n0: int, n1: int, data: st.DataObject) -> None:
    k0, k1 = data.draw(st.integers(0, n0)), data.draw(st.integers(0, n1))
    found = fisher(*(np.array([x]) for x in (k0, n0, k1, n1)))
    assert found.p_more[0] == pytest.approx(float(oracle.hypergeometric_tail(k0, n0, k1, n1)), abs=1e-12)
    fewer = float(oracle.hypergeometric_tail(k1, n1, k0, n0))
    assert found.p_fewer[0] == pytest.approx(fewer, abs=1e-12)


def test_large_tables_agree_with_fractions_also_far_out() -> None:
    for k0, n0, k1, n1 in [
        (40, 4_000, 90, 3_000),
        (900, 2_000, 1_100, 2_000),
        (5, 6_000, 80, 900),
    ]:
        found = fisher(*(np.array([x]) for x in (k0, n0, k1, n1)))
        assert found.p_more[0] == pytest.approx(float(oracle.hypergeometric_tail(k0, n0, k1, n1)), rel=1e-6)


def test_twelve_of_fourteen_failing_is_seen_and_one_is_not() -> None:
    found = fisher(np.array([0, 0]), np.array([200, 200]), np.array([12, 1]), np.array([14, 14]))
    assert found.p_more[0] < 1e-12
    assert found.p_more[1] > 0.05


def test_tables_of_more_requests_than_products_of_63_bits_hold() -> None:
    n = 4 * 10**9
    k1 = 2**63 // (2 * n) + 5
    k0 = k1 - int(20 * np.sqrt(0.48 * n))
    found = fisher(*np.array([[0, k0, k1, n], [n, n, n, n], [n, k1, k0, 0], [n, n, n, n]]))
    z = (k1 - k0 - 1) / np.sqrt((k0 + k1) * (2 - (k0 + k1) / n) / 2)
    assert found.p_more.tolist() == [0, found.p_fewer[2], 1, 1]
    assert found.p_fewer.tolist() == [1, 1, found.p_more[1], 0]
    assert found.p_more[1] == pytest.approx(norm.sf(z), rel=1e-3)


def test_swapping_periods_swaps_tails() -> None:
    a = [np.array(x) for x in ([3, 40], [50, 90], [9, 20], [60, 70])]
    there, back = fisher(*a), fisher(a[2], a[3], a[0], a[1])
    np.testing.assert_allclose(there.p_more, back.p_fewer)
    np.testing.assert_allclose(there.p, back.p)


def test_z_of_known_numbers_and_of_none() -> None:
    found = share_change(np.array([[50.0, 70.0]]), np.full((1, 2), 100.0), prior_phi=4.0)
    assert found.change[0] == pytest.approx(0.2)
    assert found.z[0] == pytest.approx(0.2 / np.sqrt(0.6 * 0.4 * 0.02) / 2)
    none = share_change(np.zeros((1, 2)), np.array([[100.0, 50.0]]))
    assert none.z[0] == 0.0
    assert none.p_with_noise[0] == 1.0


def simulate(phi: float, tests: int, windows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Counts of windows of 400 requests, share 0.3, variance phi times the binomial's."""
    rng = np.random.default_rng(seed)
    n, f = 400, 0.3
    if phi == 1:
        shares = np.full((tests, windows), f)
    else:
        strength = (n - 1) / (phi - 1) - 1  # beta-binomial: φ = 1 + (n-1)/(strength+1)
        shares = rng.beta(f * strength, (1 - f) * strength, (tests, windows))
    return rng.binomial(n, shares).astype(float), np.full((tests, windows), float(n))


@pytest.mark.parametrize("phi", [1.0, 4.0])
def test_dispersion_is_estimated(phi: float) -> None:
    counts, trials = simulate(phi, 500, 20, 1)
    found = share_dispersion(counts, trials)
    assert (found >= 1).all()
    assert found.mean() == pytest.approx(phi, rel=0.2)


def test_one_broken_window_does_not_blow_up_the_dispersion() -> None:
    counts, trials = simulate(1.0, 200, 20, 2)
    counts[:, 3] = 340
    assert np.median(share_dispersion(counts, trials)) < 4


def test_too_few_windows_show_no_dispersion() -> None:
    counts, trials = simulate(4.0, 3, 2, 3)
    assert share_dispersion(counts, trials).tolist() == [1.0] * 3
    zero = np.zeros((1, 8))
    assert share_dispersion(zero, np.full((1, 8), 50.0))[0] == 1.0
    gone = share_dispersion(np.array([[5.0, 5.0, 5.0, 0.0]]), np.array([[9.0, 9.0, 9.0, 0.0]]))
    assert gone[0] == 1.0


@pytest.mark.parametrize("phi", [1.0, 4.0])
def test_size_with_the_dispersion_of_history(phi: float) -> None:
    counts, trials = simulate(phi, 3_000, 22, 4)
    order = [20, 21, *range(20)]
    found = share_change(counts[:, order], trials[:, order])
    assert (found.p_with_noise <= 0.05).mean() <= 0.075
    low, high = found.interval()
    assert ((low <= 0) & (high >= 0)).mean() >= 0.93
    blind = share_change(counts[:, order[:2]], trials[:, order[:2]])
    if phi > 1:
        assert (blind.p_with_noise <= 0.05).mean() > 0.25


def test_power_against_eighteen_points() -> None:
    counts, _ = simulate(2.0, 500, 21, 5)
    moved = np.random.default_rng(6).binomial(400, 0.48, (500, 1)).astype(float)
    found = share_change(np.hstack((counts[:, 20:], moved, counts[:, :20])), np.full((500, 22), 400.0))
    assert (found.p_with_noise <= 0.01).mean() > 0.7  # Student: twenty windows tell φ


@pytest.mark.parametrize("most", [3, 40, 4_000, 1_000_000])
def test_tails_are_those_of_scipy(most: int) -> None:
    rng = np.random.default_rng(most)
    total = rng.integers(2, most, 2000)
    marked, drawn = rng.integers(1, total), rng.integers(1, total)
    law = hypergeom(total, marked, drawn)
    least, largest = np.maximum(0, drawn - (total - marked)), np.minimum(drawn, marked)
    spread = np.sqrt(drawn * (total - drawn) / total)
    near = np.rint(drawn * (marked / total) + spread * rng.normal(0, 2, len(total))).astype(np.int64)
    k = np.where(rng.random(len(total)) < 0.8, near.clip(least, largest), rng.integers(least, largest + 1))
    found = fisher(marked - k, total - drawn, k, drawn)
    for p, of_scipy in ((found.p_more, law.sf(k - 1)), (found.p_fewer, law.cdf(k))):
        np.testing.assert_allclose(p, of_scipy, rtol=1e-9, atol=1e-300)


def drawn(
    rng: np.random.Generator, share: float, rho: float, n: int, windows: int, tests: int = 3_000
) -> np.ndarray:
    """Counts of windows of n requests that have so much of a share in common."""
    strength = 1 / rho - 1
    shares = rng.beta(share * strength, (1 - share) * strength, (tests, windows))
    return rng.binomial(n, shares).astype(np.float64)


def told(windows: np.ndarray, own: np.ndarray, problem: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """p by Fisher and by the windows of a history, [tests, windows] of n requests each."""
    everything = np.concatenate([windows, own], axis=1)
    x = np.stack([everything.sum(axis=1), problem.sum(axis=1)], axis=1)
    of = np.empty_like(x)
    of[:] = n * everything.shape[1], n * problem.shape[1]
    exact = fisher(*(v[:, at].astype(np.int64) for at in (0, 1) for v in (x, of))).p
    return exact, surprise(x, of, windows, np.full(windows.shape, float(n)), exact, q=0.05, one_sided=False)


@pytest.mark.parametrize(
    ("windows", "long", "most"),
    [(20, 1, 0.003), (12, 1, 0.008), (8, 1, 0.013), (5, 1, 0.023), (20, 12, 0.007), (8, 12, 0.018)],
)
@pytest.mark.parametrize(
    ("share", "rho", "n"), [(0.05, 0.02, 200), (0.3, 0.02, 20), (0.3, 0.1, 20), (0.3, 0.3, 20)]
)
def test_one_more_period_is_about_as_rare_as_windows_make_it(
    share: float, rho: float, n: int, windows: int, long: int, most: float
) -> None:
    """Requests of a window have something in common: by Fisher's test, of requests that stand for themselves,
    up to 20 % of windows of 20 requests would differ with p < 0.001 from the others. Few windows know badly
    how much it is, which p does not count: `most` is what is left."""
    rng = np.random.default_rng(1)
    history, own, problem = (drawn(rng, share, rho, n, size) for size in (windows, 1, long))
    exact, p = told(history, own, problem, n)
    assert (p < 0.001).mean() <= most
    assert (exact < 0.001).mean() >= (p < 0.001).mean()
    if (windows, long) == (20, 1):
        assert (p < 0.01).mean() <= 0.01 + 3 * np.sqrt(0.01 / len(p))
        of = np.full(history.shape, float(n))
        assert correlation(history, of).mean() == pytest.approx(rho, rel=0.15)


def test_a_problem_of_many_windows_is_known_better_than_one_window() -> None:
    """From 5 to 20 % of the requests for twelve windows of 300, against twelve."""
    rng = np.random.default_rng(2)
    history, own, problem = (
        drawn(rng, share, 0.03, 300, size) for share, size in ((0.05, 12), (0.05, 1), (0.2, 12))
    )
    assert (told(history, own, problem, 300)[1] < 1e-4).mean() > 0.93


HISTORY = np.array([[0.0, 8, 0, 6, 6, 0]]), np.array([[30.0, 40, 30, 40, 30, 30]])
WORTH = 200 / (1 + ((HISTORY[1] ** 2).sum() / 200 - 1) * correlation(*HISTORY)[0])


@pytest.mark.parametrize(
    ("k", "n"),
    [
        (3, 4),
        (0, 4),
        (4, 4),
        (60, 200),
        (2, 1_000),
        (2, 1_001),
        (150, 1_001),
        (3.3, 1_200.4),
        (20_000, 90_000),
    ],
)
def test_tails_of_polyas_law_are_scipys(k: float, n: float) -> None:
    for before in (20.0, 0.2):
        x, of = np.array([[before, k]]), np.array([[200.0, n]])
        share = (before + 0.5) / 201
        window = (HISTORY[1] ** 2).sum() / 200
        both = correlation(*HISTORY)[0] * min(1, window / n) + 1 / (WORTH + 1)
        law = betabinom(round(n), share * (1 / both - 1), (1 - share) * (1 / both - 1))
        found = surprise(x, of, *HISTORY, np.zeros(1), q=0.05, one_sided=True)
        exact = min(round(k), round(n - k)) <= MOST_TERMS
        assert found[0] == pytest.approx(law.sf(round(k) - 1), rel=1e-6 if exact else 0.01, abs=1e-10)


def test_a_share_that_falls_to_less_than_half_a_request_has_a_tail() -> None:
    x, of = np.array([[200.0, 0.3], [200, 0]]), np.full((2, 2), [9_600.0, 1_200.0])
    windows = np.tile([5.0, 30, 10, 45, 8, 22, 60, 20], (2, 1))
    p = surprise(x, of, windows, np.full(windows.shape, 1_200.0), np.full(2, 1e-9), q=0.05, one_sided=False)
    assert 0.01 < p[0] < 1
    assert p[0] == p[1]
    rises = surprise(x, of, windows, np.full(windows.shape, 1_200.0), np.zeros(2), q=0.05, one_sided=True)
    assert rises.tolist() == [1.0, 1.0]


def test_what_is_not_significant_anyway_is_left_as_it_is() -> None:
    x, of = np.array([[20.0, 10]] * 2), np.array([[200.0, 30]] * 2)
    windows = [np.repeat(v, 2, axis=0) for v in HISTORY]
    p = surprise(x, of, *windows, np.array([0.003, 0.0031]), q=0.003, one_sided=False)
    assert p[0] > 0.01
    assert p[1] == 0.0031


def test_a_history_whose_windows_are_alike_leaves_p_as_it_is() -> None:
    x, n, windows = np.array([[40.0, 4]]), np.array([[400.0, 4]]), np.full((1, 8), 5.0)
    p = surprise(x, n, windows, 10 * windows, np.array([1e-4]), q=0.003, one_sided=True)
    assert p.tolist() == [1e-4]
