"""Evidence for "no change": equivalence, smallest visible change, requests that lack; size and power."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from oracles.blocks_of_requests import period_blocks, tail_thresholds
from oracles.period_traffic import PERIOD, blocks_of, drawn

from analyze.methods.robust.verdict.period_blocks import log_spread
from analyze.methods.robust.verdict.period_tests import (
    Equivalence,
    PeriodNoise,
    PeriodTest,
    RootEquivalence,
    equivalence,
    period_tests,
)
from analyze.methods.robust.verdict.sizes import (
    least_new,
    missing_for_equivalence,
    missing_for_share,
    missing_for_test,
    smallest_ratio,
    smallest_share,
    visible_rows,
)
from analyze.stats.proportions import exact_p

CALM = PeriodNoise(tau=0.0, phi=1.0)


def held(seed: int, n: int, ratio: float, trials: int = 200) -> float:
    """How often equivalence is claimed of one root type whose mean moved by this factor."""
    rng = np.random.default_rng(seed)
    hits = 0
    for _ in range(trials):
        sides = blocks_of(drawn(rng, n, sigma=0.3), drawn(rng, n, sigma=0.3, mean_us=1_000 * ratio))
        hits += equivalence(*sides, ["a/x"], CALM).holds
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
    assert not equivalence(*sides, ["a/x"], CALM).holds
    found = equivalence(*sides, ["a/x"], PeriodNoise(tau=0.06))
    assert found.holds
    assert np.isclose(found.band, 2 * 0.06 * 2**0.5)


def test_root_types_count_by_their_time() -> None:
    """A rare root type may move; one that holds half of the time may not."""
    rng = np.random.default_rng(7)
    for share, holds in ((0.01, True), (0.5, False)):
        before, after = drawn(rng, 8_000), drawn(rng, 8_000)
        moved = [(rng.random(8_000) < share).astype(np.int32) for _ in range(2)]
        after = replace(after, root=moved[1], response_us=after.response_us * np.where(moved[1], 1.5, 1.0))
        found = equivalence(*blocks_of(replace(before, root=moved[0]), after, 2), ["a/x", "b/y"], CALM)
        assert found.holds == holds
        assert np.isclose(sum(root.time_share for root in found.roots), 1)
        assert {root.root: root.equivalent for root in found.roots} == {"a/x": True, "b/y": False}


def test_a_root_type_of_one_period_is_no_evidence() -> None:
    rng = np.random.default_rng(8)
    before, after = drawn(rng, 500, roots=2), drawn(rng, 500)
    found = {
        root.root: root for root in equivalence(*blocks_of(before, after, 2), ["a/x", "b/y"], CALM).roots
    }
    assert found["b/y"].ratio is None
    assert not found["b/y"].equivalent


def test_as_many_requests_as_lack_would_do() -> None:
    """Power at the promised size: interval and band are as long as each other there, so about half hold."""
    rng = np.random.default_rng(9)
    sides = blocks_of(drawn(rng, 300), drawn(rng, 300))
    found = equivalence(*sides, ["a/x"], CALM)
    assert not found.holds
    lack = missing_for_equivalence(found, 300)
    assert lack is not None
    claimed = 0
    for _ in range(60):
        more = 2 * (300 + lack)
        claimed += equivalence(*blocks_of(drawn(rng, more), drawn(rng, more)), ["a/x"], CALM).holds
    assert claimed >= 20


def test_what_lacks_for_equivalence_is_that_of_the_hardest_root_type_needed() -> None:
    def row(name: str, share: float, factor: float | None, holds: bool = False) -> RootEquivalence:
        return RootEquivalence(name, 1.0, 0.9, 1.1, holds, share, factor)

    rows = (row("a", 0.5, None, holds=True), row("b", 0.3, 2.0), row("c", 0.15, 4.0), row("d", 0.05, 9.0))
    assert missing_for_equivalence(Equivalence(rows, 0.05), 100) == 300
    assert missing_for_equivalence(Equivalence((row("a", 1.0, None, holds=True),), 0.05), 100) is None
    assert missing_for_equivalence(Equivalence((row("a", 1.0, None),), 0.05), 100) is None


@pytest.mark.parametrize(("n0", "n1"), [(14, 14), (57, 14), (1_000, 300)])
def test_a_share_that_is_visible_is_found_nine_times_of_ten(n0: int, n1: int) -> None:
    share = smallest_share(n0, n1, alpha=0.01)
    assert share is not None
    rng = np.random.default_rng(10)
    least = least_new(n0, n1, alpha=0.01)
    assert least is not None
    assert exact_p(0, n0, least, n1) / 2 <= 0.01 < exact_p(0, n0, least - 1, n1) / 2
    assert np.mean(rng.binomial(n1, share, 4_000) >= least) >= 0.88


def test_too_few_requests_see_nothing() -> None:
    assert smallest_share(3, 100, alpha=0.01) is None
    assert smallest_share(5, 4, alpha=1e-6) is None
    assert smallest_ratio(0.5, 3, 100, CALM, alpha=0.01) is None


def test_a_ratio_that_is_visible_is_found_nine_times_of_ten() -> None:
    """By the test that the formula is of: the difference of mean logs over its standard error."""
    noise = PeriodNoise(tau=0.05)
    ratio = smallest_ratio(0.5, 200, 100, noise, alpha=0.01)
    assert ratio is not None
    rng = np.random.default_rng(11)
    sd = (2 * 0.05**2 + 0.25 * (1 / 200 + 1 / 100)) ** 0.5
    seen = rng.normal(np.log(ratio), sd, 4_000)
    assert 0.88 <= np.mean(np.abs(seen) / sd > 2.5758) <= 0.92
    assert smallest_ratio(1e-3, 1e6, 1e6, CALM, alpha=0.01) == 1.1


def test_rows_tell_what_would_have_shown() -> None:
    rng = np.random.default_rng(12)
    before, after = drawn(rng, 400, roots=2), drawn(rng, 100, roots=2)
    names = ["a/x", "b/y", "c/z"]
    spread = log_spread(before.response_us, before.weight, before.root, 3)
    for root in (0, 1):
        assert np.isclose(spread[root], np.log(before.response_us[before.root == root]).std())
    assert spread[2] == 0
    rows = visible_rows(*blocks_of(before, after, 3), spread, names, CALM, alpha=0.01)
    assert [row.root for row in rows][2] == "c/z"
    assert rows[2].ratio is None
    assert rows[2].share is None
    assert sum(row.requests1 for row in rows) == 100
    assert 1.1 < rows[0].ratio < 1.6
    sevenfold = [replace(side, weight=side.weight * 7) for side in (before, after)]
    heavy = visible_rows(*blocks_of(*sevenfold, 3), spread, names, CALM, alpha=0.01)
    assert heavy[0].ratio == pytest.approx(rows[0].ratio)


def test_periods_of_unlike_numbers_of_blocks_are_tested() -> None:
    """A reference of an hour has more blocks than a problem of two minutes."""
    rng = np.random.default_rng(5)
    before, after = drawn(rng, 900, failing=0.02), drawn(rng, 120, mean_us=3_000.0, failing=0.3)
    limits = tail_thresholds(before)
    sides = [
        period_blocks(requests, 1, [PERIOD], limits, blocks=blocks)
        for requests, blocks in ((before, 12), (after, 4))
    ]
    changed = {test.measure for test in period_tests(sides[0], sides[1], CALM) if test.changed}
    assert changed >= {"mean", "errors"}


def test_one_failing_request_of_fourteen_lacks_some() -> None:
    lack = missing_for_share(0, 14, 1, 14, alpha=0.01)
    assert lack is not None
    factor = (14 + lack) / 14
    enough = round(14 * factor)
    assert exact_p(0, enough, round(factor), enough) < 0.01
    # The shares stay: fewer by a whole failing request would not do.
    fewer = 14 * (round(factor) - 1)
    assert exact_p(0, fewer, round(factor) - 1, fewer) >= 0.01
    assert missing_for_share(0, 14, 12, 14, alpha=0.01) == 0
    assert missing_for_share(1, 14, 1, 14, alpha=0.01) is None
    assert missing_for_share(0, 0, 1, 14, alpha=0.01) is None


def test_what_lacks_for_a_mean_follows_its_interval() -> None:
    rng = np.random.default_rng(13)
    sides = blocks_of(drawn(rng, 40), drawn(rng, 40, mean_us=1_150))
    mean = period_tests(*sides, CALM)[0]
    assert mean.open
    lack = missing_for_test(mean, alpha=0.01)
    assert lack is not None
    assert 1 <= lack < 2_000
    assert missing_for_test(replace(mean, settled=True), alpha=0.01) is None
    nothing = replace(mean, low=-np.inf, high=np.inf, reach=np.inf)
    assert missing_for_test(nothing, alpha=0.01) is None


def test_what_lacks_is_what_the_nearer_answer_lacks() -> None:
    """A difference near 0 will be shown to be none; one past the margin to be one."""
    near = PeriodTest("mean", None, 100, 101, -20, 22, 0.9, 5, False, False, 50, 50, margin=10, reach=18)
    assert missing_for_test(near, alpha=0.05) == 50 * (18 / 9) ** 2 - 50
    far = replace(near, after=120, low=-4, high=44)
    assert missing_for_test(far, alpha=0.05) == 50 * (24 / 20) ** 2 - 50
    share = PeriodTest("tail", 1.0, 0.05, 0.06, -0.1, 0.1, 0.9, 0.05, False, False, 100, 100, 0.05, 0.08)
    assert missing_for_test(share, alpha=0.05) == 100 * (0.08 / 0.04) ** 2 - 100
