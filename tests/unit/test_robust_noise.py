"""Noise that is known from few blocks: what counts must be as rare as it is said to be (L.5)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import norm, t

from analyze.methods.robust.candidates import LogShift
from analyze.methods.robust.noise_between import dispersion, noise_between
from analyze.methods.robust.robust_settings import RobustSettings
from analyze.methods.robust.roles import Roles
from analyze.methods.robust.site_votes import Spread
from analyze.stats.noise import enough_errors
from analyze.stats.weights import in_requests

F8 = npt.NDArray[np.float64]
B1 = npt.NDArray[np.bool_]

SETTINGS = RobustSettings()
N_SITES, BLOCKS = 4_000, 9
NEVER = np.ones(N_SITES)


def roles(*, cold: bool = False) -> Roles:
    """Blocks of noise, and nothing else that matters here."""
    none = np.zeros(BLOCKS, dtype=np.bool_)
    return Roles(none, none, none, np.arange(BLOCKS), cold)


def spread(value: F8, se: float) -> Spread:
    return Spread(np.full(value.shape, 50.0), value, np.full(value.shape, se))


def share_that_counts(tau: F8, rng: np.random.Generator, min_z: float = 3.0) -> B1:
    """[sites] whether a problem that is one more ordinary window counts as changed."""
    se = 0.01
    windows = rng.normal(0, 1, (N_SITES, BLOCKS + 1)) * tau[:, None] + rng.normal(
        0, se, (N_SITES, BLOCKS + 1)
    )
    noise = noise_between(spread(windows[:, :BLOCKS], se), roles(), SETTINGS)
    periods = np.stack([np.median(windows[:, :BLOCKS], axis=1), windows[:, BLOCKS]], axis=1)
    variance = 2 * se**2 + noise.variance
    found = LogShift(spread(periods, se), np.sqrt(variance), NEVER, noise.freedom_of(variance))
    return found.exceeds(min_z, 0.0)


def test_as_many_errors_as_are_as_unlikely() -> None:
    freedom = np.array([1.0, 3, 8, 15, 1e6, np.inf])
    found = enough_errors(3.0, freedom)
    assert t.sf(found[:-1], freedom[:-1]) == pytest.approx(norm.sf(3.0), rel=1e-6)
    assert found[-1] == pytest.approx(3.0)
    assert (np.diff(found) < 0).all()


def test_one_more_ordinary_window_seldom_counts() -> None:
    """A robust estimate of nine windows is worth fewer than eight degrees: not 0.3 %, but few."""
    told = share_that_counts(np.full(N_SITES, 0.3), np.random.default_rng(1))
    assert told.mean() < 0.012


def test_intervals_hold_what_they_say() -> None:
    """A 95 % interval leaves out nothing in about one of twenty ordinary windows."""
    told = share_that_counts(np.full(N_SITES, 0.3), np.random.default_rng(6), min_z=1.96)
    assert 0.03 < told.mean() < 0.08


def test_a_site_that_scatters_is_not_judged_by_sites_that_do_not() -> None:
    """One of ten is a queue: its windows differ sixty times as much as those of the others."""
    tau = np.where(np.arange(N_SITES) % 10 == 0, 0.3, 0.005)
    told = share_that_counts(tau, np.random.default_rng(2))
    assert told[tau > 0.1].mean() < 0.03
    assert told[tau < 0.1].mean() < 0.003


def test_a_change_far_beyond_the_windows_counts() -> None:
    rng = np.random.default_rng(3)
    tau = 0.1
    windows = rng.normal(0, tau, (N_SITES, BLOCKS))
    noise = noise_between(spread(windows, 0.01), roles(), SETTINGS)
    periods = np.stack([np.zeros(N_SITES), np.full(N_SITES, np.log(2))], axis=1)
    variance = 2 * 0.01**2 + noise.variance
    found = LogShift(spread(periods, 0.01), np.sqrt(variance), NEVER, noise.freedom_of(variance))
    assert found.exceeds(3.0, 0.0).mean() > 0.85


def test_what_is_assumed_is_known_for_sure() -> None:
    """At the floor the variance is no estimate."""
    rng = np.random.default_rng(4)
    quiet = noise_between(spread(rng.normal(0, 0.005, (50, BLOCKS)), 0.01), roles(), SETTINGS)
    assert np.isinf(quiet.freedom).all()
    assert np.isinf(quiet.freedom_of(quiet.variance + 0.1)).all()
    loud = noise_between(spread(rng.normal(0, 0.5, (50, BLOCKS)), 0.01), roles(), SETTINGS)
    assert np.isfinite(loud.freedom).all()
    assert (loud.freedom_of(2 * loud.variance) > loud.freedom).all()


def test_dispersion_is_not_too_small_where_windows_differ_alike() -> None:
    rng = np.random.default_rng(5)
    n = np.full((N_SITES, 20), 100.0)
    share = rng.beta(5, 5, n.shape)  # variance 1/44 beside 1/400 of the binomial: phi about 10
    phi = dispersion(rng.binomial(100, share).astype(float), n)
    assert 8 < phi.mean() < 12


def test_weights_are_worth_requests() -> None:
    weight = np.array([1.0, 4, 4, 8])
    worth = in_requests(np.array([weight.sum(), 12.0, 0.0]), np.array([(weight**2).sum(), 3 * 16.0, 0.0]))
    assert worth[0] * weight.sum() == pytest.approx(weight.sum() ** 2 / (weight**2).sum())
    assert worth[1:].tolist() == [0.25, 1.0]
