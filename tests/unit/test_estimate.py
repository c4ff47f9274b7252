"""Estimates: what counts must be as rare as it is said to be, and what is there must be found."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm, t

from analyze.stats.estimate import FIRST_BLOCK, Estimate, level_change, share_bounds, share_change
from analyze.stats.noise import LogMedians, student_z
from analyze.stats.rank import requests_per_weight
from schemas.arrays import B1, F8

N_SITES, BLOCKS = 4_000, 9
TAU = 0.06


def levels(periods: F8, blocks: F8, se: float, told: bool = False) -> Estimate:
    """Of places with plenty of requests; periods [places, 2], blocks [places, blocks], logarithms."""
    every = [LogMedians(value, np.full(value.shape, se**2)) for value in (periods, blocks)]
    n = [np.full(value.shape, 50.0) for value in (periods, blocks)]
    p = np.zeros(len(periods))
    return level_change(
        every[0], n[0], p, every[1], n[1], tau_floor=TAU, tau_estimated=np.full(len(periods), told)
    )


def counts_as_changed(tau: F8, rng: np.random.Generator, min_z: float = 3.0) -> B1:
    """[places] whether one more ordinary window counts as changed."""
    se = 0.01
    windows = rng.normal(0, 1, (N_SITES, BLOCKS + 1)) * tau[:, None]
    windows += rng.normal(0, se, windows.shape)
    before = np.median(windows[:, :BLOCKS], axis=1)
    return levels(np.stack([before, windows[:, BLOCKS]], axis=1), windows[:, :BLOCKS], se).clears(min_z, 0.0)


def test_as_many_errors_as_are_as_unlikely() -> None:
    freedom = np.array([1.0, 3, 8, 15, 1e6, np.inf])
    found = student_z(3.0, freedom)
    assert t.sf(found[:-1], freedom[:-1]) == pytest.approx(norm.sf(3.0), rel=1e-6)
    assert found[-1] == pytest.approx(3.0)
    assert (np.diff(found) < 0).all()


def test_one_more_ordinary_window_seldom_counts() -> None:
    """A robust estimate of nine windows is worth fewer than eight degrees: not 0.3 %, but few."""
    told = counts_as_changed(np.full(N_SITES, 0.3), np.random.default_rng(1))
    assert told.mean() < 0.012


def test_intervals_hold_what_they_say() -> None:
    """A 95 % interval leaves out nothing in about one of twenty ordinary windows."""
    told = counts_as_changed(np.full(N_SITES, 0.3), np.random.default_rng(6), min_z=1.96)
    assert 0.03 < told.mean() < 0.08


def test_a_site_that_scatters_is_not_judged_by_sites_that_do_not() -> None:
    """One of ten is a queue: its windows differ sixty times as much as those of the others."""
    tau = np.where(np.arange(N_SITES) % 10 == 0, 0.3, 0.005)
    told = counts_as_changed(tau, np.random.default_rng(2))
    assert told[tau > 0.1].mean() < 0.03
    assert told[tau < 0.1].mean() < 0.003


def test_a_change_far_beyond_the_windows_counts() -> None:
    rng = np.random.default_rng(3)
    windows = rng.normal(0, 0.1, (N_SITES, BLOCKS))
    twice = np.stack([np.zeros(N_SITES), np.full(N_SITES, np.log(2))], axis=1)
    assert levels(twice, windows, 0.01).clears(3.0, 0.0).mean() > 0.85


@pytest.mark.parametrize("n", [4, 8, 50])
def test_what_few_requests_tell_of_their_own_scatter_is_not_sure(n: int) -> None:
    """Of one law, before and after; the variances are estimated of a few, shrunk to that of many."""
    rng = np.random.default_rng(5)
    many, few = rng.normal(0, 0.5, (N_SITES, 200)), rng.normal(0, 0.5, (N_SITES, n))
    shrunk = (n * few.var(axis=1, ddof=1) + 4 * many.var(axis=1)) / (n + 4) / n
    value = np.stack([many.mean(axis=1), few.mean(axis=1)], axis=1)
    variance = np.stack([many.var(axis=1) / 200, shrunk], axis=1)
    blocks = LogMedians(np.zeros((N_SITES, 0)), np.zeros((N_SITES, 0)))
    requests = np.tile([200.0, n], (N_SITES, 1))
    found = level_change(
        LogMedians(value, variance, requests - 1),
        requests,
        np.ones(N_SITES),
        blocks,
        np.zeros((N_SITES, 0)),
        tau_floor=1e-6,
    )
    assert (np.abs(found.change) > found.reach(0.99)).mean() == pytest.approx(0.01, abs=0.006)


def test_what_is_assumed_is_known_for_sure() -> None:
    """At the floor the variance between blocks is no estimate, and that of many requests is nearly known."""
    rng = np.random.default_rng(4)
    none = np.zeros((50, 2))
    assert (levels(none, rng.normal(0, 0.005, (50, BLOCKS)), 0.01).freedom > 10_000).all()
    loud = levels(none, rng.normal(0, 0.5, (50, BLOCKS)), 0.01)
    assert np.isfinite(loud.freedom).all()
    assert (levels(none, rng.normal(0, 0.5, (50, BLOCKS)), 0.4).freedom > loud.freedom.max()).mean() > 0.9


@pytest.mark.parametrize("blocks", [9, 12, 27])
@pytest.mark.parametrize("tau", [0.02, 0.03, 0.05])
def test_what_is_assumed_gives_way_to_enough_blocks(tau: float, blocks: int) -> None:
    """Days that differ by 2 or 3 % show a change that is lost where 6 % are assumed; and of whatever noise
    one more ordinary day seldom counts."""
    windows = np.random.default_rng(7).normal(0, tau, (N_SITES, blocks + 1))
    before, seen = np.median(windows[:, :blocks], axis=1), windows[:, :blocks]
    ordinary, slower = (
        levels(np.stack([before, after], axis=1), seen, 0.005, told=blocks >= 12).clears(3.0, 0.0).mean()
        for after in (windows[:, blocks], before + 0.17)
    )
    assert ordinary < 0.006
    if tau < 0.05:
        assert slower > 0.6 if blocks >= 12 else slower == 0


@pytest.mark.parametrize("pieces", [0, 1, 8])
def test_pieces_of_one_stretch_make_an_assumed_change_no_surer(pieces: int) -> None:
    """How many of them have requests of a place says nothing of how far two stretches differ."""
    value = LogMedians(np.zeros((50, 2)), np.zeros((50, 2)))
    blocks, n = LogMedians(np.zeros((50, pieces)), np.zeros((50, pieces))), np.full((50, 2), 50.0)
    found = level_change(
        value, n, np.ones(50), blocks, np.full((50, pieces), 50.0), tau_floor=0.2, of_change=True
    )
    assert found.se == pytest.approx(0.2)
    assert np.isinf(found.freedom).all()


def shares(rng: np.random.Generator, before: float, after: float, spread: float, n: int = 200) -> Estimate:
    """Of places whose blocks' shares lie about `before` with an over-dispersion of about 1 + n · spread."""

    def drawn(mean: float, size: tuple[int, ...]) -> F8:
        if not spread:
            return np.full(size, mean)
        return rng.beta(mean * (1 / spread - 1), (1 - mean) * (1 / spread - 1), size)

    every = [drawn(before, (2_000,)), drawn(after, (2_000,)), *drawn(before, (BLOCKS, 2_000))]
    x = rng.binomial(n, np.stack(every, axis=1)).astype(np.float64)
    return share_change(x, np.full(x.shape, float(n)))


@pytest.mark.parametrize("spread", [0.0, 0.02])
def test_shares_of_one_more_ordinary_window_seldom_count(spread: float) -> None:
    found = shares(np.random.default_rng(7), 0.2, 0.2, spread)
    assert found.clears(3.0, 0.0).mean() < 0.02
    low, high = found.interval()
    assert ((low > 0) | (high < 0)).mean() < 0.1


def test_a_share_that_doubles_counts() -> None:
    """Nine windows that know their scatter badly cost power: half as much again is found half of the time."""
    assert shares(np.random.default_rng(8), 0.2, 0.5, 0.0).clears(3.0, 0.05).mean() > 0.85


def test_over_dispersion_is_not_too_small_where_windows_differ_alike() -> None:
    rng = np.random.default_rng(5)
    x = rng.binomial(100, rng.beta(5, 5, (N_SITES, 22))).astype(np.float64)
    found = share_change(x, np.full(x.shape, 100.0))
    phi = 1 + found.between / found.sampling
    assert 8 < phi.mean() < 12


def test_what_is_visible_is_found_that_often() -> None:
    rng = np.random.default_rng(9)
    still = levels(np.zeros((N_SITES, 2)), rng.normal(0, 0.01, (N_SITES, BLOCKS)), 0.03)
    effect = still.smallest_visible(3.0, 0.9)
    seen = np.stack([np.zeros(N_SITES), rng.normal(effect, still.se)], axis=1)
    found = levels(seen, rng.normal(0, 0.01, (N_SITES, BLOCKS)), 0.03)
    assert 0.88 < found.clears(3.0, 0.0).mean() < 0.92


def test_equivalence_is_that_the_largest_change_is_small() -> None:
    found = shares(np.random.default_rng(11), 0.2, 0.2, 0.0)
    assert found.equivalent(found.largest(0.90) * 1.01).all()
    assert not found.equivalent(found.largest(0.90) * 0.99).any()
    # Size of the two one-sided tests: a true change at the margin passes in one of twenty.
    at_margin = shares(np.random.default_rng(12), 0.2, 0.3, 0.0)
    assert at_margin.equivalent(0.1).mean() < 0.06


def test_four_blocks_are_no_envelope() -> None:
    blocks = np.array([[0.0, 0.4, -0.7, 0.1, 0.2], [0.0, 0.4, -0.7, 0.1, np.nan]])
    found = levels(np.array([[0.0, 0.3], [0.0, -0.3]]), blocks, 0.01)
    assert found.outside().tolist() == [False, True]


def test_no_interval_that_is_shown_is_of_another_order_than_its_values() -> None:
    """Windows that differ by factors of ten widen the test, not what is said of two periods."""
    wild = np.array([[0.0, 3.0, -3.0, 5.0, -5.0, 1.0]])
    found = levels(np.array([[0.0, 1.0]]), wild, 0.01)
    (_, high), (low, shown) = found.interval(), found.bounded_interval()
    assert high[0] > 1.0 + math.log(10) >= shown[0]
    assert low[0] < 1.0 < shown[0]
    unsure = levels(np.array([[0.0, 1.0]]), wild, 9.0)
    assert np.isinf(unsure.bounded_interval()[1][0]), "the periods themselves say nothing"


def leaves(x: int, n: int, low: float, high: float) -> bool:
    """Plainly: under a share at the envelope's edge, as many (as few) are seen in less than 5 %."""

    def at_least(k: int, p: float) -> float:
        return sum(math.comb(n, j) * p**j * (1 - p) ** (n - j) for j in range(k, n + 1))

    return at_least(x, high) < 0.05 * (1 - 1e-9) or 1 - at_least(x + 1, low) < 0.05 * (1 - 1e-9)


@pytest.mark.parametrize("n", [1, 4, 12, 50])
@pytest.mark.parametrize(("low", "high"), [(0.0, 0.055), (0.1, 0.58), (0.4, 1.0), (0.0, 0.0)])
def test_bounds_of_a_share_are_exact(n: int, low: float, high: float) -> None:
    least, most = share_bounds(np.arange(n + 1, dtype=np.float64), np.full(n + 1, float(n)))
    assert ((least > high) | (most < low)).tolist() == [leaves(k, n, low, high) for k in range(n + 1)]


def test_four_of_four_are_no_more_than_seven_of_twelve() -> None:
    x = np.array([[12.0, 4, 7, 5, 6, 4, 6], [12, 18, 7, 5, 6, 4, 6]])
    n = np.array([[24.0, 4, 12, 12, 12, 12, 12], [24, 18, 12, 12, 12, 12, 12]])
    assert x.shape[1] > FIRST_BLOCK
    assert share_change(x, n, margin=0.02).outside().tolist() == [False, True]


def test_weights_are_worth_requests() -> None:
    weight = np.array([1.0, 4, 4, 8])
    worth = requests_per_weight(
        np.array([weight.sum(), 12.0, 0.0]), np.array([(weight**2).sum(), 3 * 16.0, 0.0])
    )
    assert worth[0] * weight.sum() == pytest.approx(weight.sum() ** 2 / (weight**2).sum())
    assert worth[1:].tolist() == [0.25, 1.0]
