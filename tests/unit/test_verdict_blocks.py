"""Blocks out of a profile are those of its requests; noise of ordinary windows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from oracles.blocks_of_requests import period_blocks, period_requests, root_types, tail_thresholds
from oracles.period_traffic import PERIOD, blocks_of, drawn
from oracles.refined import call, population

from analyze.methods.robust.period_blocks import PeriodBlocks, profile_blocks, slow_thresholds
from analyze.methods.robust.robust_run import slow_response_ns
from analyze.methods.robust.settings import VerdictSettings
from analyze.methods.robust.verdict.load import clients_sent_less, rate_changes
from analyze.methods.robust.verdict.whole import Noise, rate_tau, whole_change, window_tau
from analyze.profile.build import profile_of
from analyze.profile.profile import Slot

SETTINGS = VerdictSettings()


def test_a_profile_has_the_blocks_of_its_requests() -> None:
    rng = np.random.default_rng(1)
    calls = [
        call(f"{'ab'[at % 2]}/x", 0, float(rng.lognormal(5, 0.6)), status="no" if at % 5 == 0 else "ok")
        for at in range(240)
    ]
    found = population(calls[:160], calls[160:])
    roots = root_types(found)
    slots, block = [], []
    for sample in (0, 1):
        start = int(period_requests(found, sample).start_ns.min())
        length = (20, 10)[sample] * 10**9  # requests are a second apart
        slots += [Slot(sample, start + at * length, start + (at + 1) * length) for at in range(8)]
        block += [at if sample == 0 else -1 for at in range(8)]
    profile = profile_of(found, slots).profile
    assert profile.names.roots == roots
    reference = np.array(block) >= 0
    limits = slow_thresholds(profile, reference, SETTINGS.slow_levels, SETTINGS.least_slow)
    exact = tail_thresholds(period_requests(found, 0))
    assert len(limits) == len(exact) == 1
    assert exact[0] <= limits[0] <= exact[0] * 1.03
    ours = profile_blocks(profile, np.array(block), limits)
    first = slots[0].start_ns
    theirs = period_blocks(period_requests(found, 0), 2, [(first, first + 160 * 10**9)], limits)
    for name in (
        "seconds",
        "requests",
        "weight",
        "weight2",
        "time_us",
        "square_us2",
        "failed",
        "failing",
        "slow",
    ):
        assert np.allclose(getattr(ours, name), getattr(theirs, name)), name
    assert np.allclose(ours.log_us, theirs.log_us, rtol=0.01)
    problem = profile_blocks(profile, np.array([-1] * 8 + list(range(8))), limits)
    names = [test.name for test in whole_change(ours, problem, None, Noise(0.1), SETTINGS).measures]
    assert names == ["mean", "tail", "errors", "failing"]


def test_thresholds_are_of_all_requests_whatever_part_was_kept() -> None:
    """Slow requests were all kept, of others one in ten."""
    took = np.random.default_rng(7).lognormal(7, 0.5, 6_000)
    kept = (took > np.quantile(took, 0.9)) | (np.arange(len(took)) % 10 == 0)
    (category,) = population([call("a/x", 0, float(us)) for us in took[kept]], []).categories
    weight = np.where(category.response_ns > 1_000 * np.quantile(took, 0.9), 1.0, 10.0)
    found = replace(population([call("a/x", 0, 1)], []), categories=(replace(category, weight=weight),))
    requests = period_requests(found, 0)
    starts = requests.start_ns
    profile = profile_of(found, [Slot(0, int(starts.min()), int(starts.max()) + 1)]).profile
    limits = slow_thresholds(profile, np.array([True]), SETTINGS.slow_levels, SETTINGS.least_slow)
    exact = tail_thresholds(requests)
    assert len(limits) == len(exact) == 2
    assert all(true <= limit <= true * 1.03 for true, limit in zip(exact, limits, strict=True))
    assert limits == pytest.approx(np.quantile(took, [0.95, 0.99]), rel=0.05)
    # The account's threshold is in the same bin: whole ns at its end.
    assert slow_response_ns(found, 0.95) / 1_000 == pytest.approx(limits[0], abs=0.002)


def test_requests_that_all_fail_are_all_recorded_as_failures() -> None:
    """No status of the population is `ok` then."""
    found = population([call("a/x", 0, 100, status="no") for _ in range(5)], [])
    starts = period_requests(found, 0).start_ns
    profile = profile_of(found, [Slot(0, int(starts.min()), int(starts.max()) + 1)]).profile
    assert sum(profile.responses["failed"].to_pylist()) == 5
    assert sum(profile.responses["failed_n"].to_pylist()) == 5


def test_a_failing_call_inside_counts_apart() -> None:
    """Its request succeeded: it failed by no root, and holds a failing call."""
    calls = [call("a/x", 0, 100, call("b/y", 10, 50, status="no" if at < 4 else "ok")) for at in range(20)]
    calls += [call("a/x", 0, 100, status="no")]
    found = population(calls, [])
    starts = period_requests(found, 0).start_ns
    profile = profile_of(found, [Slot(0, int(starts.min()), int(starts.max()) + 1)]).profile
    blocks = profile_blocks(profile, np.zeros(1, np.int64))
    assert (blocks.failed.sum(), blocks.failing.sum()) == (1, 5)


def windows(rng: np.random.Generator, n: int, tau: float, failing: float = 0.0) -> PeriodBlocks:
    """One block a window, each with a mean of its own."""
    parts = [
        period_blocks(
            drawn(rng, 2_000, mean_us=1_000 * np.exp(rng.normal(0, tau)), failing=failing),
            1,
            [PERIOD],
            blocks=1,
        )
        for _ in range(n)
    ]
    return joined(parts)


def joined(parts: list[PeriodBlocks]) -> PeriodBlocks:
    """The blocks of several, one after the other."""
    names = PeriodBlocks.__slots__[:-1]
    return PeriodBlocks(*(np.concatenate([getattr(part, name) for part in parts]) for name in names), ())


def test_noise_is_what_windows_differ_by() -> None:
    rng = np.random.default_rng(2)
    for tau in (0.05, 0.3):
        found = np.mean([window_tau(windows(rng, 60, tau), SETTINGS)[0] for _ in range(8)])
        assert 0.75 * tau < found < 1.25 * tau
    assert window_tau(windows(rng, 60, 0.0), SETTINGS)[0] < 0.05


def test_a_fault_in_the_history_is_no_noise() -> None:
    rng = np.random.default_rng(3)
    quiet = windows(rng, 30, 0.05)
    quiet.time_us[:3] *= 20
    assert window_tau(quiet, SETTINGS)[0] < 0.1


def test_few_windows_tell_nothing() -> None:
    rng = np.random.default_rng(4)
    assert window_tau(windows(rng, 2, 0.5), SETTINGS) == (SETTINGS.assumed_tau, np.inf)
    assert window_tau(None, SETTINGS) == (SETTINGS.assumed_tau, np.inf)


def test_few_requests_are_compared_with_all_ordinary_windows() -> None:
    """Sixty requests do not show that nothing changed against sixty others; against many windows they do."""
    rng = np.random.default_rng(8)
    ordinary = windows(rng, 20, 0.1)
    tau, freedom = window_tau(ordinary, SETTINGS)
    before, after = blocks_of(drawn(rng, 60), drawn(rng, 60))
    bare = replace(after, slow=np.zeros((len(after.seconds), 0)), thresholds_us=())
    alone = whole_change(before, after, ordinary if not before.thresholds_us else None, Noise(tau), SETTINGS)
    against = whole_change(ordinary, bare, ordinary, Noise(tau, freedom, windows=(20, 1)), SETTINGS)
    means = [found.of("mean") for found in (alone, against)]
    sizes = [mean.largest(0.95) for mean in means if mean is not None]
    assert sizes[1] < sizes[0]
    assert sizes[1] < 0.6
    errors = against.of("errors")
    assert errors is not None
    assert errors.largest(0.95) < 0.1


def test_traffic_that_follows_the_hour_is_no_external_cause() -> None:
    rng = np.random.default_rng(6)
    sides = blocks_of(drawn(rng, 9_000), drawn(rng, 6_000))
    parts = [period_blocks(drawn(rng, n), 1, [PERIOD], blocks=1) for n in rng.integers(2_000, 12_000, 20)]
    busy = joined(parts)
    plain, noisy = (rate_changes(*sides, ["a"], SETTINGS, tau=tau)[0] for tau in (0.0, rate_tau(busy)))
    assert clients_sent_less(*sides, plain, SETTINGS, largest_rise=0.0)
    assert not clients_sent_less(*sides, noisy, SETTINGS, largest_rise=0.0)
    assert rate_tau(windows(rng, 20, 0.02)) < 0.1
