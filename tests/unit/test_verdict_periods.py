"""Tests of whole periods: sums of blocks against plain sums, size and power of mean, tail and error rate."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from oracles.blocks_of_requests import period_blocks
from oracles.period_traffic import MINUTE_NS, PERIOD, blocks_of, drawn
from oracles.refined import Call, call, population
from scipy import stats

from analyze.methods.robust.verdict.period_blocks import block_means, period_requests, root_types
from analyze.methods.robust.verdict.period_tests import (
    PeriodNoise,
    PeriodTest,
    newcombe,
    period_tests,
)
from analyze.stats.proportions import exact_p

CALM = PeriodNoise(tau=0.0, phi=1.0)
TRIALS = 200


def by_measure(tests: tuple[PeriodTest, ...]) -> dict[str, PeriodTest]:
    """The first test of each measure."""
    return {test.measure: test for test in reversed(tests)}


def changed_shares(seed: int, noise: PeriodNoise, n: int, before: dict, after: dict) -> Counter[str]:
    """How often each measure changed, as a share of the trials."""
    rng = np.random.default_rng(seed)
    hits: Counter[str] = Counter()
    for _ in range(TRIALS):
        tests = period_tests(*blocks_of(drawn(rng, n, **before), drawn(rng, n, **after)), noise)
        hits.update({test.measure for test in tests if test.changed})
    return Counter({measure: count / TRIALS for measure, count in hits.items()})


def test_sums_of_blocks_are_plain_sums() -> None:
    rng = np.random.default_rng(1)
    requests = drawn(rng, 500, roots=3, failing=0.2, weight=2.5)
    ranges = [(0, MINUTE_NS), (3 * MINUTE_NS, 5 * MINUTE_NS)]
    found = period_blocks(requests, 3, ranges, (900.0, 2_000.0), blocks=6)
    assert found.seconds.tolist() == [30.0] * 6
    expected = np.zeros((6, 3))
    slow = np.zeros((6, 2))
    for at in range(500):
        t = int(requests.start_ns[at])
        t = t if t < MINUTE_NS else max(t, 3 * MINUTE_NS) - 2 * MINUTE_NS if t >= 3 * MINUTE_NS else MINUTE_NS
        block = min(t // (MINUTE_NS // 2), 5)
        expected[block, requests.root[at]] += 2.5 * requests.response_us[at]
        slow[block] += 2.5 * (requests.response_us[at] > np.array([900.0, 2_000.0]))
    assert np.allclose(found.time_us, expected)
    assert np.allclose(found.slow, slow)
    assert found.n_requests == 500
    assert np.allclose(found.weight, 2.5 * found.requests)


def test_requests_of_a_population() -> None:
    requests = [
        call("a/x", 0, 100, status="ok"),
        call("a/x", 0, 300, status="no"),
        call("b/y", 0, 50, call("a/x", 10, 20, status="no")),
    ]
    found = population(requests, requests[:1])
    assert root_types(found) == ("a/x", "b/y")
    mine = period_requests(found, 0)
    rows = sorted(zip(mine.root.tolist(), mine.response_us.tolist(), mine.failed.tolist(), strict=True))
    assert rows == [(0, 100.0, False), (0, 300.0, True), (1, 50.0, False)]
    assert len(period_requests(found, 1).start_ns) == 1


def test_weights_of_all_requests_alike_change_nothing() -> None:
    rng = np.random.default_rng(2)
    before, after = drawn(rng, 400, failing=0.1), drawn(rng, 400, mean_us=1_300, failing=0.2)
    plain = period_tests(*blocks_of(before, after), CALM)
    heavy = [replace(side, weight=side.weight * 4) for side in (before, after)]
    for left, right in zip(plain, period_tests(*blocks_of(*heavy), CALM), strict=True):
        assert np.isclose(left.p, right.p)
        assert np.isclose(left.low, right.low)
        assert (left.changed, left.settled) == (right.changed, right.settled)


def test_swapping_the_periods_turns_the_change_round() -> None:
    rng = np.random.default_rng(3)
    before, after = drawn(rng, 400, failing=0.1), drawn(rng, 400, mean_us=1_500, failing=0.3)
    one, other = blocks_of(before, after)
    there, back = (by_measure(period_tests(*pair, CALM)) for pair in ((one, other), (other, one)))
    for measure in ("mean", "errors"):
        assert np.isclose(there[measure].p, back[measure].p)
        assert np.isclose(there[measure].low, -back[measure].high)


def test_the_variance_of_a_mean_holds_what_requests_of_a_block_share() -> None:
    """Over many periods the block variance is that of the mean, with bursts of 10 s and without."""
    rng = np.random.default_rng(4)
    for burst in (0.0, 0.5):
        means, variances = [], []
        for _ in range(400):
            sums = period_blocks(drawn(rng, 300, burst=burst), 1, [PERIOD])
            found = block_means(sums, by_root=False)
            means.append(float(found.mean))
            variances.append(float(found.variance))
        assert 0.8 < np.mean(variances) / np.var(means) < 1.25


@pytest.mark.parametrize(("n", "burst"), [(14, 0.0), (300, 0.0), (2_000, 0.5)])
def test_quiet_periods_do_not_change(n: int, burst: float) -> None:
    """At α = 1 % a measure, 2 of 200 are expected; floors make it fewer."""
    quiet = {"burst": burst, "failing": 0.1}
    shares = changed_shares(5, CALM, n, quiet, quiet)
    assert all(share <= 0.03 for share in shares.values()), shares


def test_size_of_the_p_values_without_floors() -> None:
    rng = np.random.default_rng(6)
    p = {"mean": [], "errors": [], "tail": []}
    for _ in range(400):
        tests = period_tests(*blocks_of(drawn(rng, 400, failing=0.1), drawn(rng, 400, failing=0.1)), CALM)
        for measure, test in by_measure(tests).items():
            p[measure].append(test.p)
    for measure, values in p.items():
        # 400 trials at 5 %: 20 expected, 33 is three standard deviations more. Exact tests lie below.
        assert np.mean(np.array(values) < 0.05) <= 0.0825, measure
    assert np.mean(np.array(p["mean"]) < 0.05) >= 0.02


@pytest.mark.parametrize(
    ("n", "before", "after", "measure"),
    [
        (14, {}, {"mean_us": 6_000}, "mean"),
        (1_000, {}, {"mean_us": 1_200}, "mean"),
        (1_000, {"failing": 0.01}, {"failing": 0.05}, "errors"),
        (14, {}, {"failing": 0.9}, "errors"),
        (1_000, {}, {"sigma": 0.8}, "tail"),
    ],
)
def test_power(n: int, before: dict, after: dict, measure: str) -> None:
    assert changed_shares(7, CALM, n, before, after)[measure] >= 0.9


def test_noise_between_windows_widens() -> None:
    rng = np.random.default_rng(8)
    sides = blocks_of(drawn(rng, 3_000), drawn(rng, 3_000, mean_us=1_150))
    calm = by_measure(period_tests(*sides, CALM))["mean"]
    noisy = by_measure(period_tests(*sides, PeriodNoise(tau=0.1)))["mean"]
    many = by_measure(period_tests(*sides, PeriodNoise(tau=0.1, windows0=50, windows1=50)))["mean"]
    assert calm.changed
    assert not noisy.changed
    assert many.changed
    assert noisy.high - noisy.low > many.high - many.low > calm.high - calm.low


def failing(n: int, k: int) -> list[Call]:
    return [call("a/x", 0, 100 + at % 7, status="no" if at < k else "ok") for at in range(n)]


def errors_of(reference: list[Call], problem: list[Call]) -> PeriodTest:
    found = population(reference, problem)
    sides = [period_blocks(period_requests(found, at), 1, []) for at in (0, 1)]
    return by_measure(period_tests(sides[0], sides[1], PeriodNoise()))["errors"]


def test_twelve_failing_of_fourteen_are_found_and_one_is_open() -> None:
    many = errors_of(failing(14, 0), failing(14, 12))
    assert many.changed
    assert many.low > 0
    one = errors_of(failing(14, 0), failing(14, 1))
    assert not one.changed
    assert one.open
    none = errors_of(failing(14, 0), failing(14, 0))
    assert none.settled


def test_periods_without_requests_have_no_tests() -> None:
    rng = np.random.default_rng(9)
    sides = blocks_of(drawn(rng, 100), drawn(rng, 0))
    assert period_tests(*sides, CALM) == ()


def test_one_block_is_as_sure_as_its_requests() -> None:
    rng = np.random.default_rng(10)
    requests = drawn(rng, 100)
    found = block_means(period_blocks(requests, 1, [PERIOD], blocks=1), by_root=False)
    assert np.isclose(found.variance, requests.response_us.var(ddof=1) / 100)
    assert np.isclose(found.freedom, 99)
    one = replace(requests, **{name: getattr(requests, name)[:1] for name in requests.__slots__})
    mean = by_measure(period_tests(*blocks_of(requests, one), CALM))["mean"]
    assert mean.open
    assert mean.p == 1


@pytest.mark.parametrize(
    "table", [(0, 14, 12, 14), (3, 40, 0, 60), (50, 100, 70, 100), (95, 100, 60, 80), (0, 5, 0, 5)]
)
def test_exact_p_is_fishers(table: tuple[int, int, int, int]) -> None:
    k0, n0, k1, n1 = table
    tails = [
        stats.fisher_exact([[k1, n1 - k1], [k0, n0 - k0]], alternative=side).pvalue
        for side in ("greater", "less")
    ]
    assert np.isclose(exact_p(k0, n0, k1, n1), min(1.0, 2 * min(tails)))


def test_intervals_of_differences_hold_the_truth() -> None:
    rng = np.random.default_rng(11)
    held = 0
    for _ in range(400):
        shares = rng.binomial(60, 0.1) / 60, rng.binomial(40, 0.3) / 40
        low, high = newcombe(shares, (60, 40), 1.0, 0.95)
        held += low <= 0.2 <= high
    assert held / 400 >= 0.92
