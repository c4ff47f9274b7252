"""Variances that means and medians of histograms have by chance: against what many samples do."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import ttest_ind

from analyze.stats.estimate import level_change
from analyze.stats.histograms import BIN_LOG, Histograms, bin_of
from analyze.stats.noise import LogMedians
from schemas.arrays import F8

SAMPLES, REQUESTS, SIGMA = 2_000, 60, 0.5


def histograms(times: F8) -> Histograms:
    """[places, requests] times in ns, one column."""
    place = np.repeat(np.arange(len(times)), times.shape[1])
    return Histograms.of(place, np.zeros_like(place), bin_of(times.ravel()), np.ones(times.size))


def tailed(seed: int) -> F8:
    """Log-normal times around 1 ms, one in fifty six times as long."""
    rng = np.random.default_rng(seed)
    shape = (SAMPLES, REQUESTS)
    return 1e6 * rng.lognormal(0, SIGMA, shape) * np.where(rng.random(shape) < 0.02, 6.0, 1.0)


def test_a_trimmed_mean_of_logarithms_varies_as_it_says_and_less_than_a_median() -> None:
    found = histograms(tailed(1))
    trimmed, n = found.trimmed_log_means(SAMPLES, 1, 0.1)
    medians, _ = found.log_medians(SAMPLES, 1)
    assert (n == REQUESTS).all()
    assert trimmed.value.mean() == pytest.approx(np.log(1e6) + 0.02, abs=0.02)
    assert trimmed.variance.mean() == pytest.approx(trimmed.value.var(), rel=0.1)
    assert trimmed.value.var() < 0.75 * medians.value.var()


@pytest.mark.parametrize(
    ("requests", "slow", "most"),
    [
        ((145, 321), 0.0, 0.004),
        ((145, 321), 0.3, 0.004),
        ((145, 321), 0.5, 0.06),
        ((145, 321), 0.53, 0.06),
        ((1_133, 86), 0.0, 0.004),
    ],
)
def test_medians_that_differ_by_chance_differ_by_no_more_than_they_say(
    requests: tuple[int, int], slow: float, most: float
) -> None:
    """Times of a cache that is missed by some, forty times as long.

    By the quartiles of both kinds a half of these medians would differ by three standard errors, and by none
    where a third is slow, whose error they make three times as long as it is. What 18 of 86 values say of the
    error is not sure: taken for what 86 values say, 0.7 % of one law would differ by three of them.
    """
    rng = np.random.default_rng(3)
    shape = (SAMPLES, sum(requests))
    times = 1e6 * rng.lognormal(0, SIGMA, shape) * np.where(rng.random(shape) < slow, 40.0, 1.0)
    place, column = np.repeat(np.arange(SAMPLES), shape[1]), np.tile(np.repeat([0, 1], requests), SAMPLES)
    found = Histograms.of(place, column, bin_of(times.ravel()), np.ones(times.size))
    nothing = LogMedians(np.zeros((SAMPLES, 0)), np.zeros((SAMPLES, 0)))
    medians, n = found.log_medians(SAMPLES, 2)
    estimate = level_change(medians, n, np.ones(SAMPLES), nothing, np.zeros((SAMPLES, 0)), tau_floor=1e-6)
    assert estimate.clears(3.0, 0.0).mean() < most
    if slow < 0.5:
        assert np.sqrt((estimate.se**2).mean()) == pytest.approx(estimate.change.std(), rel=0.15)


@pytest.mark.parametrize("few", [5, 7, 9])
@pytest.mark.parametrize("sigma", [0.3, 1.0])
def test_medians_of_few_requests_are_no_surer_than_they_are(few: int, sigma: float) -> None:
    """The quartiles of five values are their second and fourth, which lie closer together than those of the
    law: by it 2 to 2.6 % of equal medians of five requests differed by three standard errors."""
    samples = 4 * SAMPLES
    times = 1e6 * np.random.default_rng(1).lognormal(0, sigma, (samples, 2 * few))
    place, column = np.repeat(np.arange(samples), 2 * few), np.tile(np.repeat([0, 1], few), samples)
    found = Histograms.of(place, column, bin_of(times.ravel()), np.ones(times.size))
    nothing = LogMedians(np.zeros((samples, 0)), np.zeros((samples, 0)))
    medians, n = found.log_medians(samples, 2)
    estimate = level_change(medians, n, np.ones(samples), nothing, np.zeros((samples, 0)), tau_floor=1e-6)
    assert estimate.clears(3.0, 0.0).mean() < 0.003
    assert np.sqrt((estimate.se**2).mean()) == pytest.approx(estimate.change.std(), rel=0.25)


LAWS: dict[str, Callable[[np.random.Generator, tuple[int, int]], F8]] = {
    "normal": lambda rng, shape: rng.normal(0, 1, shape),
    "exponential": lambda rng, shape: np.log(rng.exponential(1, shape)),
    "a cache that a fifth misses": lambda rng, shape: (
        rng.normal(0, 0.3, shape) + np.where(rng.random(shape) < 0.2, np.log(40), 0.0)
    ),
}
"""Of logarithms of times."""


def p_of_one_law(law: str, many: int, few: int, samples: int) -> tuple[F8, F8]:
    """Compare means of logarithms of one law: ([samples] p by the estimate, by Student's test)."""
    logs = LAWS[law](np.random.default_rng(many + few), (samples, many + few))
    place, column = (
        np.repeat(np.arange(samples), many + few),
        np.tile(np.repeat([0, 1], (many, few)), samples),
    )
    found = Histograms.of(place, column, bin_of(1e6 * np.exp(logs).ravel()), np.ones(logs.size))
    means, n = found.trimmed_log_means(samples, 2, 0.0)
    nothing = LogMedians(n[:, :0], n[:, :0])
    estimate = level_change(means, n, np.ones(samples), nothing, n[:, :0], tau_floor=1e-9)
    return estimate.p_with_noise, ttest_ind(logs[:, :many], logs[:, many:], axis=1).pvalue


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("few", [2, 3, 4, 6, 10])
def test_few_against_many_are_no_surer_than_they_are(few: int, law: str) -> None:
    """By the spread of all together (Student's test) 0.5 % of exponential times had p < 0.001."""
    samples = 3_000
    p, _ = p_of_one_law(law, 200, few, samples)
    for level in (0.003, 0.001):
        assert (p < level).mean() <= level + 3 * np.sqrt(level / samples)


@pytest.mark.parametrize("n", range(2, 11))
def test_as_few_on_both_sides_are_as_sure_as_students_test(n: int) -> None:
    """What both spreads have in common is told by 2n values: p is uniform where nothing changed."""
    samples = 6_000
    p, expected = p_of_one_law("normal", n, n, samples)
    assert np.abs(p - expected).mean() < 0.01  # of bins
    for level in (0.5, 0.1, 0.01, 0.001):
        assert (p < level).mean() == pytest.approx(level, abs=3 * np.sqrt(level / samples))


@pytest.mark.parametrize("n", range(2, 11))
def test_a_median_lies_in_the_middle(n: int) -> None:
    """The second of four values stood for their median, half a standard error too low."""
    logs = np.random.default_rng(n).normal(0, 1, (4 * SAMPLES, n))
    place = np.repeat(np.arange(len(logs)), n)
    found = Histograms.of(place, np.zeros_like(place), bin_of(1e6 * np.exp(logs).ravel()), np.ones(logs.size))
    medians, _ = found.log_medians(len(logs), 1)
    np.testing.assert_allclose(medians.value[:, 0] - np.log(1e6), np.median(logs, axis=1), atol=BIN_LOG)


@pytest.mark.parametrize(("few", "factor"), [(6, 4), (12, 4), (12, 16)])
def test_more_requests_tell_their_spread_better_too(few: int, factor: int) -> None:
    """With the freedom of the few the intervals of more were taken to be a tenth to a fifth longer."""
    rng = np.random.default_rng(5)
    found = []
    for n in (few, few * factor):
        times = 1e6 * rng.lognormal(0, SIGMA, (SAMPLES, 2 * n))
        place, column = np.repeat(np.arange(SAMPLES), 2 * n), np.tile(np.repeat([0, 1], n), SAMPLES)
        medians, counts = Histograms.of(
            place, column, bin_of(times.ravel()), np.ones(times.size)
        ).log_medians(SAMPLES, 2)
        nothing = LogMedians(np.zeros((SAMPLES, 0)), np.zeros((SAMPLES, 0)))
        ones = np.ones(SAMPLES)
        found.append(level_change(medians, counts, ones, nothing, np.zeros((SAMPLES, 0)), tau_floor=1e-6))
    expected = found[0].times(factor)
    assert np.sqrt((expected.reach() ** 2).mean()) == pytest.approx(
        np.sqrt((found[1].reach() ** 2).mean()), rel=0.06
    )
    assert (expected.freedom > found[0].freedom).all()


def test_a_trimmed_mean_leaves_out_a_tenth_of_either_end() -> None:
    found = Histograms(
        np.zeros(10, int), np.zeros(10, int), np.array([0, *range(101, 109), 900]), np.ones(10)
    )
    trimmed, _ = found.trimmed_log_means(1, 2, 0.1)
    assert trimmed.value[0, 0] == pytest.approx(105 * BIN_LOG)
    assert np.isnan(trimmed.value[0, 1])
    assert np.isnan(trimmed.variance[0, 1])


@pytest.mark.parametrize("few", [4, 6])
def test_few_equal_values_are_not_without_error(few: int) -> None:
    """Six requests with six calls each, where before they had two to six."""
    before = np.tile([2, 3, 4, 5, 6], 20)
    number = np.concatenate([before, np.full(few, 6)])
    column = np.repeat([0, 1], [len(before), few])
    found = Histograms.of(np.zeros_like(column), column, bin_of(1_000 * number), np.ones(len(column)))
    means, n = found.log_means(np.exp2((found.bin + 0.5) / 32) / 1_000, 1, 2)
    assert n.tolist() == [[100, few]]
    spread = np.sqrt(means.variance * n)
    assert spread[0, 0] == pytest.approx(np.sqrt(2) / 4, rel=0.05)
    assert spread[0, 1] > 0.5 * spread[0, 0]
    medians, _ = found.log_medians(1, 2)
    assert medians.variance[0, 1] > 10 * medians.variance[0, 0] / few
