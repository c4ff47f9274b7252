"""Whole periods: sums of blocks against plain sums; size and power of each measure; equivalence."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from oracles.blocks_of_requests import period_blocks, period_requests, root_types, tail_thresholds
from oracles.period_traffic import MINUTE_NS, PERIOD, blocks_of, drawn
from oracles.refined import Call, call, population

from analyze.methods.robust.period_blocks import PeriodBlocks
from analyze.methods.robust.settings import VerdictSettings
from analyze.methods.robust.verdict.whole import Name, Noise, PeriodMeasure, Whole, whole_change

SETTINGS = VerdictSettings()
CALM = Noise(tau=0.0)
ASSUMED = Noise(tau=0.1, phi=3.0)
TRIALS = 200


def whole(before: PeriodBlocks, after: PeriodBlocks, noise: Noise = CALM) -> Whole:
    return whole_change(before, after, None, noise, SETTINGS)


def measure(found: Whole, name: Name) -> PeriodMeasure:
    one = found.of(name)
    assert one is not None
    return one


def changed_shares(seed: int, n: int, before: dict, after: dict) -> Counter[str]:
    """How often each measure changed, as a share of the trials."""
    rng = np.random.default_rng(seed)
    hits: Counter[str] = Counter()
    for _ in range(TRIALS):
        found = whole(*blocks_of(drawn(rng, n, **before), drawn(rng, n, **after)))
        hits.update({test.name for test in found.changed})
    return Counter({name: count / TRIALS for name, count in hits.items()})


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
    assert np.allclose(found.whole().time_us, expected.sum(axis=0))
    assert np.allclose(found.effective, found.requests.sum(axis=1))


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
    plain = whole(*blocks_of(before, after))
    heavy = whole(*blocks_of(*(replace(side, weight=side.weight * 4) for side in (before, after))))
    for left, right in zip(plain.measures, heavy.measures, strict=True):
        assert np.isclose(left.p, right.p)
        assert np.allclose(left.interval(0.95), right.interval(0.95))
        assert left.changed == right.changed


def test_swapping_the_periods_turns_the_change_round() -> None:
    rng = np.random.default_rng(3)
    one, other = blocks_of(drawn(rng, 400, failing=0.1), drawn(rng, 400, mean_us=1_500, failing=0.3))
    both = one.whole()  # shares scatter as much as both periods together do, whichever comes first
    there, back = (whole_change(*pair, both, CALM, SETTINGS) for pair in ((one, other), (other, one)))
    for name in ("mean", "errors"):
        left, right = measure(there, name).estimate, measure(back, name).estimate
        assert np.isclose(left.p, right.p)
        assert np.isclose(left.interval()[0], -right.interval()[1])


def test_the_variance_of_a_mean_holds_what_requests_of_a_block_share() -> None:
    """Over many periods the block variance is that of the mean, with bursts of 10 s and without."""
    rng = np.random.default_rng(4)
    for burst in (0.0, 0.5):
        found = [
            period_blocks(drawn(rng, 300, burst=burst), 1, [PERIOD]).response_times().mean()
            for _ in range(400)
        ]
        means, variances = ([float(row[at][0]) for row in found] for at in (0, 1))
        assert 0.8 < np.mean(variances) / np.var(means) < 1.25


@pytest.mark.parametrize(("n", "burst"), [(14, 0.0), (300, 0.0), (2_000, 0.5)])
def test_quiet_periods_do_not_change(n: int, burst: float) -> None:
    """At α = 1 % a measure, 2 of 200 are expected; floors make it fewer."""
    quiet = {"burst": burst, "failing": 0.1}
    shares = changed_shares(5, n, quiet, quiet)
    assert all(share <= 0.03 for share in shares.values()), shares


def test_size_of_the_p_values_without_floors() -> None:
    rng = np.random.default_rng(6)
    p: dict[Name, list[float]] = {"mean": [], "errors": [], "tail": []}
    for _ in range(400):
        found = whole(*blocks_of(drawn(rng, 400, failing=0.1), drawn(rng, 400, failing=0.1)))
        for name, values in p.items():
            values.append(measure(found, name).p)
    for name, values in p.items():
        # 400 trials at 5 %: 20 expected, 33 is three standard deviations more. Exact tests lie below.
        assert np.mean(np.array(values) < 0.05) <= 0.0825, name
    assert np.mean(np.array(p["mean"]) < 0.05) >= 0.02


@pytest.mark.parametrize(
    ("n", "before", "after", "name"),
    [
        (14, {}, {"mean_us": 6_000}, "mean"),
        (1_000, {}, {"mean_us": 1_200}, "mean"),
        (1_000, {"failing": 0.01}, {"failing": 0.05}, "errors"),
        (14, {}, {"failing": 0.9}, "errors"),
        (1_000, {}, {"sigma": 0.8}, "tail"),
        (1_000, {"sigma": 0.8}, {}, "tail"),
    ],
)
def test_power(n: int, before: dict, after: dict, name: str) -> None:
    assert changed_shares(7, n, before, after)[name] >= 0.9


def test_noise_between_windows_widens() -> None:
    rng = np.random.default_rng(8)
    sides = blocks_of(drawn(rng, 3_000), drawn(rng, 3_000, mean_us=1_150))
    noises = CALM, Noise(tau=0.1, windows=(50, 50)), Noise(tau=0.1)
    found = [measure(whole(*sides, noise), "mean") for noise in noises]
    assert [one.changed for one in found] == [True, True, False]
    lengths = [one.interval(0.95)[1] - one.interval(0.95)[0] for one in found]
    assert lengths == sorted(lengths)


@pytest.mark.parametrize(("mean_us", "usual"), [(1_000, True), (1_010, True), (1_150, False)])
def test_noise_that_is_assumed_makes_nothing_the_same(mean_us: float, usual: bool) -> None:
    """A change that ordinary windows have shown is usual; of one that none has shown nobody knows."""
    rng = np.random.default_rng(8)
    sides = blocks_of(drawn(rng, 3_000), drawn(rng, 3_000, mean_us=mean_us))
    seen, assumed = (measure(whole(*sides, n), "mean") for n in (Noise(0.1), Noise(0.1, assumed=True)))
    assert not seen.changed
    assert not assumed.changed
    assert seen.usual
    assert assumed.usual == usual
    few = measure(whole(*blocks_of(drawn(rng, 20), drawn(rng, 20)), Noise(0.1, assumed=True)), "mean")
    assert few.usual == (abs(few.estimate.change[0]) <= few.margin), "what chance makes is no difference"


def failing(n: int, k: int) -> list[Call]:
    return [call("a/x", 0, 100 + at % 7, status="no" if at < k else "ok") for at in range(n)]


def test_twelve_failing_of_fourteen_are_found_and_one_is_open() -> None:
    def errors(k: int) -> PeriodMeasure:
        found = population(failing(14, 0), failing(14, k))
        sides = [period_blocks(period_requests(found, at), 1, []) for at in (0, 1)]
        return measure(whole(sides[0], sides[1], ASSUMED), "errors")

    assert errors(12).changed
    assert errors(12).interval(0.95)[0] > 0
    assert not errors(1).changed
    assert errors(1).largest(0.95) > 0.1
    assert errors(0).largest(0.95) == pytest.approx(0.2153, abs=1e-3), "of Wilson's interval of 0 of 14"


def test_periods_without_requests_have_no_measures() -> None:
    rng = np.random.default_rng(9)
    assert whole(*blocks_of(drawn(rng, 100), drawn(rng, 0))).measures == ()


def test_one_block_is_as_sure_as_its_requests() -> None:
    rng = np.random.default_rng(10)
    requests = drawn(rng, 100)
    _, variance, freedom, _ = period_blocks(requests, 1, [PERIOD], blocks=1).response_times().mean()
    assert np.isclose(variance[0], requests.response_us.var(ddof=1) / 100)
    assert np.isclose(freedom[0], 99)
    one = replace(requests, **{name: getattr(requests, name)[:1] for name in requests.__slots__})
    mean = measure(whole(*blocks_of(requests, one)), "mean")
    assert (mean.p, mean.changed, mean.largest(0.95)) == (1, False, np.inf)


def test_periods_of_unlike_numbers_of_blocks_are_compared() -> None:
    """A reference of an hour has more blocks than a problem of two minutes."""
    rng = np.random.default_rng(5)
    before, after = drawn(rng, 900, failing=0.02), drawn(rng, 120, mean_us=3_000.0, failing=0.3)
    limits = tail_thresholds(before)
    sides = [
        period_blocks(requests, 1, [PERIOD], limits, blocks=blocks)
        for requests, blocks in ((before, 12), (after, 4))
    ]
    assert {test.name for test in whole(sides[0], sides[1]).changed} >= {"mean", "errors"}


def held(seed: int, n: int, ratio: float, trials: int = TRIALS) -> float:
    """How often equivalence is claimed of one root type whose mean moved by this factor."""
    rng = np.random.default_rng(seed)
    hits = 0.0
    for _ in range(trials):
        sides = blocks_of(drawn(rng, n, sigma=0.3), drawn(rng, n, sigma=0.3, mean_us=1_000 * ratio))
        hits += whole(*sides).equivalent_share
    return hits / trials


def test_equivalence_is_not_claimed_of_what_moved_by_the_band() -> None:
    """The band is 5 %: at its edges, at most 5 % of the claims are wrong (and 10 of 200 ± 3 sd: 0.1)."""
    assert held(1, 2_000, 1.05) <= 0.1
    assert held(2, 2_000, 1 / 1.05) <= 0.1
    assert held(3, 2_000, 1.2) == 0


def test_equivalence_is_claimed_where_nothing_moved() -> None:
    assert held(4, 4_000, 1.0) >= 0.95
    assert held(5, 60, 1.0) <= 0.2


def test_noise_between_windows_is_in_the_band() -> None:
    rng = np.random.default_rng(6)
    sides = blocks_of(drawn(rng, 4_000), drawn(rng, 4_000, mean_us=1_090))
    assert whole(*sides).equivalent_share == 0
    found = whole(*sides, Noise(tau=0.06))
    assert found.equivalent_share == pytest.approx(1)
    assert np.isclose(found.band, 2 * 0.06 * 2**0.5)


def test_root_types_count_by_their_time() -> None:
    """A rare root type may move; one that holds half of the time may not."""
    rng = np.random.default_rng(7)
    for share in (0.01, 0.5):
        before, after = drawn(rng, 8_000), drawn(rng, 8_000)
        moved = [(rng.random(8_000) < share).astype(np.int32) for _ in range(2)]
        after = replace(after, root=moved[1], response_us=after.response_us * np.where(moved[1], 1.5, 1.0))
        found = whole(*blocks_of(replace(before, root=moved[0]), after, 2))
        assert np.isclose(found.time_share.sum(), 1)
        assert found.equivalent_share == pytest.approx(found.time_share[0])
        assert found.equivalent_share == pytest.approx(1 - share, abs=0.1)


def test_a_root_type_of_one_period_is_no_evidence() -> None:
    rng = np.random.default_rng(8)
    found = whole(*blocks_of(drawn(rng, 500, roots=2), drawn(rng, 500), 2))
    assert found.responses.p[2] == 1
    assert not found.responses.equivalent(10.0)[2]


@pytest.mark.parametrize("tau", [0.05, 0.15])
def test_intervals_hold_the_truth(tau: float) -> None:
    """Of means of periods that differ by noise of their own, too, and of shares of few requests."""
    rng = np.random.default_rng(11)
    inside: Counter[str] = Counter()
    for _ in range(TRIALS):
        factor = np.exp(rng.normal(0, tau, 2))
        sides = [drawn(rng, 300, mean_us=1_000 * factor[0], failing=0.1)]
        sides.append(drawn(rng, 60, mean_us=1_500 * factor[1], failing=0.3))
        found = whole(*blocks_of(*sides), Noise(tau=tau))
        (low, high), (least, most) = (measure(found, name).estimate.interval() for name in ("mean", "errors"))
        inside["mean"] += bool(low[0] <= np.log(1.5) <= high[0])
        inside["errors"] += bool(least[0] <= 0.2 <= most[0])
    assert all(count >= 0.9 * TRIALS for count in inside.values()), inside


def test_what_many_windows_differ_by_is_ordinary_and_one_window_bounds_the_guess() -> None:
    """Nobody would call a system unchanged that may move by half because one window says so."""
    one, many = (Noise(tau=0.3, windows=(n, n)).band(SETTINGS) for n in (1, 6))
    assert one == SETTINGS.most_band < many
    assert many == pytest.approx(2 * 0.3 * np.sqrt(2 / 6))
