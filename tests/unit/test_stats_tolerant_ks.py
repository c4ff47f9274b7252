"""Tolerant KS: against its definition, valid at the boundary, blind within the tolerance only."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import statistics as oracle
from scipy import stats

from analyze.stats.ks import TolerantKs, tolerant_ks

RATIO = 1.02


def one(a: np.ndarray, b: np.ndarray, delta: float, **more: object) -> TolerantKs:
    values = np.concatenate([a, b])
    late = np.repeat([False, True], [len(a), len(b)])
    weight = more.pop("weight", np.ones(len(values)))
    zeros = np.zeros(len(values), np.int64)
    return tolerant_ks(values, weight, late, zeros, np.array([delta]), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("delta", [0.0, 0.1, 0.5])
def test_d_is_its_definition(delta: float) -> None:
    rng = np.random.default_rng(1)
    for _ in range(25):
        n0, n1 = rng.integers(1, 15, 2)
        x = rng.integers(1, 9, n0 + n1).astype(float)
        w = rng.choice([1.0, 2.5, 4.0], n0 + n1)
        found = one(x[:n0], x[n0:], delta, weight=w)
        a, wa, b, wb = (v.tolist() for v in (x[:n0], w[:n0], x[n0:], w[n0:]))
        assert found.d_slower[0] == pytest.approx(oracle.tolerant_d(a, wa, b, wb, delta), abs=1e-12)
        assert found.d_faster[0] == pytest.approx(oracle.tolerant_d(b, wb, a, wa, delta), abs=1e-12)
        assert found.effective0[0] == pytest.approx(w[:n0].sum() ** 2 / (w[:n0] ** 2).sum())


def test_many_tests_are_the_single_tests_and_empty_ones_are_no_change() -> None:
    rng = np.random.default_rng(2)
    test = rng.integers(0, 9, 400)
    late = rng.random(400) < 0.5
    x = rng.lognormal(5, 1, 400)
    delta = np.linspace(0, 0.3, 11)
    found = tolerant_ks(x, np.ones(400), late, test, delta)
    for i in range(9):
        mine = test == i
        alone = one(x[mine & ~late], x[mine & late], float(delta[i]))
        assert found.d_slower[i] == pytest.approx(alone.d_slower[0])
        assert found.p[i] == pytest.approx(alone.p[0])
    assert found.p[9:].tolist() == [1.0, 1.0]
    assert one(np.zeros(0), np.zeros(0), 0.0).p.tolist() == [1.0]


def test_no_tolerance_is_scipys_statistic() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=80), rng.normal(0.5, 1, 60)
    found = one(a, b, 0.0)
    assert found.d_slower[0] == pytest.approx(stats.ks_2samp(a, b, alternative="greater").statistic)
    assert found.d_faster[0] == pytest.approx(stats.ks_2samp(a, b, alternative="less").statistic)


def test_p_is_never_below_the_exact_one() -> None:
    rng = np.random.default_rng(4)
    for n in (8, 20, 50):
        a, b = rng.normal(size=n), rng.normal(1.0, 1, n)
        exact = stats.ks_2samp(a, b, alternative="greater", method="exact").pvalue
        assert exact <= one(a, b, 0.0).p_slower[0] <= 4 * exact


@pytest.mark.parametrize("ratio", [1.0, 1.1, 1 / 1.1])
def test_size_at_and_within_the_boundary(ratio: float) -> None:
    rng = np.random.default_rng(5)
    runs, n = 1_000, 200
    x = rng.lognormal(3, 0.4, (runs, 2 * n))
    x[:, n:] *= ratio
    late = np.tile(np.repeat([False, True], n), runs)
    test = np.repeat(np.arange(runs), 2 * n)
    delta = np.full(runs, 0.1)
    exact = tolerant_ks(x.reshape(-1), np.ones(x.size), late, test, delta).p
    assert (exact <= 0.05).mean() <= 0.055


def test_power_and_direction_beyond_the_tolerance() -> None:
    rng = np.random.default_rng(6)
    a, b = rng.lognormal(3, 0.3, 600), rng.lognormal(3, 0.3, 600) * 1.4
    found = one(a, b, 0.1)
    assert found.p_slower[0] < 1e-6
    assert found.p_faster[0] > 0.5
    swapped = one(b, a, 0.1)
    assert swapped.p[0] == found.p[0]
    assert swapped.p_faster[0] == found.p_slower[0]


def test_additive_tolerance_hides_a_tick() -> None:
    a, b = np.repeat([1.0, 2.0], 100), np.repeat([2.0, 3.0], 100)
    assert one(a, b, 0.0).p_slower[0] < 1e-6
    assert one(a, b, 0.0, additive=1.0).p_slower[0] == 1.0


def test_weight_two_is_two_rows_for_d() -> None:
    rng = np.random.default_rng(8)
    a, b = rng.normal(size=30), rng.normal(0.4, 1, 20)
    twice = one(np.repeat(a, 2), np.repeat(b, 2), 0.2)
    heavy = one(a, b, 0.2, weight=np.full(50, 2.0))
    assert twice.d_slower[0] == pytest.approx(heavy.d_slower[0])
