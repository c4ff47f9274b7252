"""Noise between windows: medians and their errors, τ, shrinkage, the envelope with a fault in history."""

from __future__ import annotations

import math

import numpy as np
import pytest

from analyze.stats.noise import LogMedians, window_noise

SPREAD = 0.4
"""Of the logarithm of a request's time."""


def windows_of(tau: float, sites: int, windows: int, n: int, seed: int) -> LogMedians:
    rng = np.random.default_rng(seed)
    shift = rng.normal(0, tau, (sites, windows, 1))
    values = rng.normal(5, SPREAD, (sites, windows, n)) + shift
    return LogMedians(np.median(values, axis=2), np.full((sites, windows), (1.2533 * SPREAD) ** 2 / n))


@pytest.mark.parametrize("tau", [0.0, 0.1, 0.3])
def test_tau_without_its_sampling_error(tau: float) -> None:
    noise = window_noise(windows_of(tau, 300, 20, 100, 3), floor=0.0)
    assert math.sqrt(np.median(noise.tau2)) == pytest.approx(tau, rel=0.2, abs=0.03)
    assert (window_noise(windows_of(0.0, 20, 20, 100, 3), floor=0.05).tau2 >= 0.05**2).all()


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


def test_a_fault_in_history_does_not_widen_tau() -> None:
    clean = windows_of(0.05, 200, 12, 200, 6)
    value = clean.value.copy()
    value[:, 4] += 2.0
    faulty = window_noise(LogMedians(value, clean.variance), floor=0.05)
    assert np.median(faulty.tau2) < 2 * max(np.median(window_noise(clean, floor=0.05).tau2), 0.05**2)
    assert not faulty.outside(faulty.centre + 0.5).any()
    assert faulty.outside(faulty.centre + 3.0).all()


@pytest.mark.parametrize("ill", [1, 3, 4])
@pytest.mark.parametrize("factor", [-2.0, 0.7, 5.0])
def test_a_third_of_the_windows_cannot_move_tau(ill: int, factor: float) -> None:
    """Of twelve windows up to four are of an incident, to one side; of half of them nobody knows which."""
    clean = windows_of(0.05, 300, 12, 200, 6)
    value = clean.value.copy()
    value[:, :ill] += factor
    found = window_noise(LogMedians(value, clean.variance), floor=0.0)
    plain = window_noise(LogMedians(value[:, ill:], clean.variance[:, ill:]), floor=0.0)
    assert math.sqrt(np.median(found.raw_tau2)) < 1.25 * math.sqrt(np.median(plain.raw_tau2))
    value[:, :6] = clean.value[:, :6] + factor
    half = window_noise(LogMedians(value, clean.variance), floor=0.0)
    assert np.median(half.raw_tau2) > 10 * np.median(plain.raw_tau2)
