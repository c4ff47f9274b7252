"""Blocks out of a profile are those of its requests; noise of ordinary windows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from oracles.blocks_of_requests import period_blocks, tail_thresholds
from oracles.period_traffic import PERIOD, blocks_of, drawn
from oracles.refined import call, population

from analyze.methods.robust.robust_run import slow_response_ns
from analyze.methods.robust.verdict.judgement import judge
from analyze.methods.robust.verdict.outcome import Explained
from analyze.methods.robust.verdict.period_blocks import (
    PeriodBlocks,
    log_spread,
    period_requests,
    profile_blocks,
    profile_log_spread,
    profile_thresholds,
    root_types,
)
from analyze.methods.robust.verdict.period_tests import PeriodNoise, ordinary_noise, period_tests
from analyze.profile.build import profile_of
from analyze.profile.profile import Slot


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
    limits = profile_thresholds(profile, reference)
    exact = tail_thresholds(period_requests(found, 0))
    assert len(limits) == len(exact) == 1
    assert exact[0] <= limits[0] <= exact[0] * 1.03
    ours = profile_blocks(profile, np.array(block), limits)
    first = slots[0].start_ns
    theirs = period_blocks(period_requests(found, 0), 2, [(first, first + 160 * 10**9)], limits)
    for name in ("seconds", "requests", "weight", "weight2", "time_us", "square_us2", "failed", "slow"):
        assert np.allclose(getattr(ours, name), getattr(theirs, name)), name
    before = period_requests(found, 0)
    spread = profile_log_spread(profile, reference)
    assert np.allclose(spread, log_spread(before.response_us, before.weight, before.root, 2), atol=0.01)
    problem = profile_blocks(profile, np.array([-1] * 8 + list(range(8))), limits)
    assert [test.measure for test in period_tests(ours, problem, PeriodNoise())] == ["mean", "tail", "errors"]


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
    limits = profile_thresholds(profile, np.array([True]))
    exact = tail_thresholds(requests)
    assert len(limits) == len(exact) == 2
    assert all(true <= limit <= true * 1.03 for true, limit in zip(exact, limits, strict=True))
    assert limits == pytest.approx(np.quantile(took, [0.95, 0.99]), rel=0.05)
    # The account's threshold is in the same bin: whole ns at its end.
    assert slow_response_ns(found) / 1_000 == pytest.approx(limits[0], abs=0.002)


def test_requests_that_all_fail_are_all_recorded_as_failures() -> None:
    """No status of the population is `ok` then."""
    found = population([call("a/x", 0, 100, status="no") for _ in range(5)], [])
    starts = period_requests(found, 0).start_ns
    profile = profile_of(found, [Slot(0, int(starts.min()), int(starts.max()) + 1)]).profile
    assert sum(profile.responses["failed"].to_pylist()) == 5
    assert sum(profile.responses["failed_n"].to_pylist()) == 5


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
    names = PeriodBlocks.__slots__[:-1]
    return PeriodBlocks(*(np.concatenate([getattr(part, name) for part in parts]) for name in names), ())


def test_noise_is_what_windows_differ_by() -> None:
    rng = np.random.default_rng(2)
    for tau in (0.05, 0.3):
        found = np.mean([ordinary_noise(windows(rng, 60, tau)).tau for _ in range(8)])
        assert 0.75 * tau < found < 1.25 * tau
    assert ordinary_noise(windows(rng, 60, 0.0)).tau < 0.05
    assert ordinary_noise(windows(rng, 60, 0.0, failing=0.2)).phi < 1.6


def test_a_fault_in_the_history_is_no_noise() -> None:
    rng = np.random.default_rng(3)
    quiet = windows(rng, 30, 0.05)
    quiet.time_us[:3] *= 20
    assert ordinary_noise(quiet).tau < 0.1


def test_few_windows_tell_nothing() -> None:
    rng = np.random.default_rng(4)
    assert ordinary_noise(windows(rng, 4, 0.5), 3, 2) == PeriodNoise(windows0=3, windows1=2)


def test_a_judgement_is_of_its_parts() -> None:
    rng = np.random.default_rng(5)
    spread = np.array([0.5])
    ordinary = windows(rng, 20, 0.02)
    quiet = judge(*blocks_of(drawn(rng, 6_000), drawn(rng, 6_000)), ["a/x"], spread, ordinary=ordinary)
    assert quiet.outcome(0, None).outcome == "unchanged"
    assert quiet.noise.tau < 0.1
    assert quiet.tau_rate < 0.1
    assert quiet.visible[0].ratio is not None
    slow = judge(*blocks_of(drawn(rng, 6_000), drawn(rng, 6_000, mean_us=2_000)), ["a/x"], spread)
    mean = slow.test("mean")
    assert mean is not None
    assert mean.changed
    assert slow.outcome(0, None).outcome == "not-explained"
    assert slow.outcome(1, Explained(900.0, 1_000.0)).outcome == "changed"
    empty = judge(*blocks_of(drawn(rng, 100), drawn(rng, 0)), ["a/x"], spread)
    assert empty.test("mean") is None
    assert empty.outcome(0, None).outcome == "cannot-tell"


@pytest.mark.parametrize(
    ("factor", "words"),
    [(1.0, {"unchanged"}), (2.0, {"cannot-tell", "not-explained"}), (4.0, {"not-explained", "cannot-tell"})],
)
def test_few_requests_are_held_against_all_ordinary_windows(factor: float, words: set[str]) -> None:
    """Sixty requests do not show that nothing changed against sixty others; against many windows they do."""
    rng = np.random.default_rng(8)
    ordinary = windows(rng, 20, 0.1)
    sides = blocks_of(drawn(rng, 60), drawn(rng, 60, mean_us=1_000 * factor))
    spread = np.array([0.5])
    known = (ordinary, replace(sides[1], slow=np.zeros((len(sides[1].seconds), 0)), thresholds_us=()))

    def said(**fields: object) -> str:
        found = judge(*sides, ["a/x"], spread, ordinary=ordinary, places=lambda band: (0.0, 0.3), **fields)  # type: ignore[arg-type]
        return found.outcome(0, None).outcome

    assert said() != "unchanged"
    assert said(usual=known) in words


def test_traffic_that_follows_the_hour_is_no_external_cause() -> None:
    rng = np.random.default_rng(6)
    sides = blocks_of(drawn(rng, 9_000), drawn(rng, 6_000))
    parts = [period_blocks(drawn(rng, n), 1, [PERIOD], blocks=1) for n in rng.integers(2_000, 12_000, 20)]
    names = PeriodBlocks.__slots__[:-1]
    busy = PeriodBlocks(*(np.concatenate([getattr(part, name) for part in parts]) for name in names), ())
    alone = judge(*sides, ["a/x"], np.array([0.5]))
    assert alone.outcome(0, None).external
    assert not judge(*sides, ["a/x"], np.array([0.5]), ordinary=busy).external.external
