"""Noise between windows: medians and their errors, τ, shrinkage, the envelope with a fault in history."""

from __future__ import annotations

import math

import numpy as np
import pytest

from analyze.stats.noise import LogMedians, log_medians, window_noise


def windows_of(tau: float, sites: int, windows: int, n: int, seed: int) -> LogMedians:
    rng = np.random.default_rng(seed)
    shift = rng.normal(0, tau, (sites, windows, 1))
    values = np.exp(rng.normal(5, 0.4, (sites, windows, n)) + shift)
    group = np.repeat(np.arange(sites * windows), n)
    found = log_medians(values.reshape(-1), group, sites * windows, least=1e-3)
    return LogMedians(found.value.reshape(sites, windows), found.variance.reshape(sites, windows))


def test_log_median_of_values() -> None:
    found = log_medians(np.array([4.0, 1.0, 2.0, 9.0, 0.0]), np.array([0, 0, 0, 2, 3]), 4, least=0.5)
    assert found.value[0] == pytest.approx(math.log(2))
    assert np.isnan(found.value[1])
    assert np.isnan(found.variance[1])
    assert found.value[2] == pytest.approx(math.log(9))
    assert found.variance[2] == pytest.approx((1.2533 * 0.02) ** 2)
    assert found.value[3] == pytest.approx(math.log(0.5))
    assert np.isnan(log_medians(np.zeros(0), np.zeros(0, int), 2, least=1.0).value).all()


def test_sampling_variance_is_that_of_repeated_samples() -> None:
    medians = windows_of(0.0, 1, 3_000, 50, 2)
    assert np.var(medians.value) == pytest.approx(np.mean(medians.variance), rel=0.15)


@pytest.mark.parametrize("tau", [0.0, 0.1, 0.3])
def test_tau_without_its_sampling_error(tau: float) -> None:
    noise = window_noise(windows_of(tau, 300, 20, 100, 3), floor=0.0)
    assert math.sqrt(np.median(noise.tau2)) == pytest.approx(tau, rel=0.2, abs=0.03)
    assert (window_noise(windows_of(0.0, 20, 20, 100, 3)).tau2 >= 0.05**2).all()


def test_few_windows_take_what_the_others_show() -> None:
    medians = windows_of(0.2, 100, 12, 100, 4)
    value = medians.value.copy()
    value[0, 2:] = np.nan
    value[1] = np.nan
    noise = window_noise(LogMedians(value, medians.variance), floor=0.01)
    middle = np.median(noise.raw_tau2[2:])
    assert noise.tau2[0] == pytest.approx(middle)
    assert noise.windows[:2].tolist() == [2, 0]
    assert np.isnan(noise.raw_tau2[0])
    assert np.isnan(noise.centre[1])
    told = window_noise(LogMedians(value, medians.variance), floor=0.01, prior_tau2=np.full(100, 0.09))
    assert told.tau2[0] == pytest.approx(0.09)
    none = window_noise(LogMedians(np.zeros((2, 0)), np.zeros((2, 0))), floor=0.2)
    assert none.tau2.tolist() == [pytest.approx(0.04)] * 2
    assert none.outside(np.array([1.0, np.nan])).tolist() == [True, False]


def test_shrinkage_is_a_weighted_mean() -> None:
    medians = windows_of(0.2, 50, 13, 100, 5)
    noise = window_noise(medians, floor=0.0)
    prior = np.median(noise.raw_tau2)
    np.testing.assert_allclose(noise.tau2, (6 * prior + 12 * noise.raw_tau2) / 18)


def test_a_fault_in_history_neither_widens_tau_nor_the_envelope() -> None:
    clean = windows_of(0.05, 200, 12, 200, 6)
    value = clean.value.copy()
    value[:, 4] += 2.0
    faulty = window_noise(LogMedians(value, clean.variance))
    assert np.median(faulty.tau2) < 2 * max(np.median(window_noise(clean).tau2), 0.05**2)
    assert (faulty.high < 6).all()
    slow = faulty.centre + 0.5
    assert faulty.outside(slow).all()
    untrimmed = window_noise(LogMedians(value, clean.variance), trim=0.0)
    assert not untrimmed.outside(slow).any()


def test_the_interval_covers_ordinary_windows() -> None:
    medians = windows_of(0.15, 800, 22, 100, 7)
    past = LogMedians(medians.value[:, :20], medians.variance[:, :20])
    noise = window_noise(past)
    change = medians.value[:, 21] - medians.value[:, 20]
    se = np.sqrt(noise.variance_of_change(medians.variance[:, 20], medians.variance[:, 21]))
    assert (np.abs(change) > 1.96 * se).mean() == pytest.approx(0.05, abs=0.03)
    assert (np.abs(change) > 3 * se).mean() < 0.012
    longer = noise.variance_of_change(medians.variance[:, 20], medians.variance[:, 21], windows0=20)
    assert (longer < se**2).all()
