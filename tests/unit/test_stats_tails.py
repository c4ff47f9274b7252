"""Exceedance test: against the binomial, dispersion of blocks, size, and power where KS is blind."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import statistics as oracle

from analyze.stats.ks import ks_columns, p_two_sided
from analyze.stats.tails import block_dispersion, exceedance_tests, tail_test
from analyze.stats.time_blocks import block_of, equal_count_bounds


def blocks(n: int, count: int = 20) -> np.ndarray:
    return block_of(np.arange(n), equal_count_bounds(n, count))


def test_mid_p_is_the_binomials() -> None:
    for k0, n0, k1, n1 in [(3, 100, 9, 120), (0, 50, 4, 50), (7, 30, 0, 60)]:
        found = exceedance_tests(*(np.array([float(x)]) for x in (k0, n0, k1, n1)))
        share = n1 / (n0 + n1)
        at_least = oracle.binomial_tail(k1, k0 + k1, share)
        above = oracle.binomial_tail(k1 + 1, k0 + k1, share)
        assert found.p_more[0] == pytest.approx((at_least + above) / 2)
        assert found.p_fewer[0] == pytest.approx(1 - (at_least + above) / 2)
    none = exceedance_tests(*(np.array([x]) for x in (0.0, 10.0, 0.0, 10.0)))
    assert none.p[0] == 1.0


def test_dispersion_makes_it_careful() -> None:
    p = [
        float(exceedance_tests(*(np.array([x]) for x in (40.0, 1e3, 80.0, 1e3)), phi).p[0])
        for phi in (1.0, 2.0, 5.0)
    ]
    assert p[0] < p[1] < p[2]


def test_dispersion_of_blocks() -> None:
    rng = np.random.default_rng(1)
    trials = np.full((400, 20), 100.0)
    quiet = rng.binomial(100, 0.05, (400, 20)).astype(float)
    bursts = rng.binomial(100, rng.beta(0.5, 9.5, (400, 20))).astype(float)
    assert block_dispersion(quiet, trials).mean() == pytest.approx(1.1, abs=0.1)
    assert block_dispersion(bursts, trials).mean() > 4
    assert block_dispersion(np.array([3.0]), np.array([9.0])) == 1.0


def test_size() -> None:
    rng = np.random.default_rng(2)
    p = [
        tail_test(rng.lognormal(0, 1, 2_000), rng.lognormal(0, 1, 1_500), blocks(2_000), blocks(1_500), 20).p
        for _ in range(500)
    ]
    assert np.mean(np.array(p) <= 0.05) <= 0.06


def test_size_with_bursts() -> None:
    rng = np.random.default_rng(3)
    hits = 0
    for _ in range(300):
        sides = []
        for _ in range(2):
            x = rng.lognormal(0, 0.5, (40, 100))
            x[rng.random(40) < 0.15, :30] *= 10
            sides.append(x.reshape(-1))
        where = np.repeat(np.arange(40), 100)
        hits += tail_test(sides[0], sides[1], where, where, 40).p <= 0.05
    assert hits / 300 <= 0.09


def test_power_where_ks_is_blind() -> None:
    rng = np.random.default_rng(4)
    seen = blind = 0
    for _ in range(40):
        a, b = rng.lognormal(0, 0.3, 10_000), rng.lognormal(0, 0.3, 10_000)
        b[rng.random(10_000) < 0.01] *= 10
        seen += tail_test(a, b, blocks(10_000), blocks(10_000), 20).p <= 1e-3
        both = (np.concatenate([a, b]) * 1e6).astype(np.int64)[:, None]
        ks = ks_columns(both, np.repeat([False, True], 10_000))
        blind += p_two_sided(ks.d, ks.n0, ks.n1)[0] <= 1e-3
    assert seen == 40
    assert blind <= 10


def test_small_samples_are_not_tested() -> None:
    few = tail_test(np.ones(20), np.ones(20), blocks(20), blocks(20), 20)
    assert few.p == 1.0
    assert few.level is None
    assert tail_test(np.zeros(0), np.ones(5), blocks(0), blocks(5), 20).p == 1.0
    ties = tail_test(np.ones(500), np.ones(500), blocks(500), blocks(500), 20)
    assert ties.p == 1.0
