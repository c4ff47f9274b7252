"""Evidence of series: checked against its theorem, by simulation; onsets against a slow oracle."""

from __future__ import annotations

import numpy as np
import pytest
from oracles.watched_series import MONDAY, TICK_NS, levels, windows
from scipy import stats

from analyze.watch.decide import UNCHANGED, Decision
from analyze.watch.evidence import grown, log_e_value
from analyze.watch.settings import WatchSettings, rate_ns
from analyze.watch.slow_lane import Spent, after, level, weight
from analyze.watch.watcher import State, Watcher
from schemas.watch_tables import ChangePoint

SETTINGS = WatchSettings(slot_ns=0, baseline_ticks=576, season_days=14)


def watched(logs: np.ndarray, settings: WatchSettings, learned: int) -> list[ChangePoint]:
    """Candidates of the ticks behind those that are learned; no comparison finds anything."""
    watcher = Watcher(
        State(lake_id="x", tick_ns=TICK_NS, through_ns=MONDAY),
        settings,
        lambda *_, **__: Decision(UNCHANGED, "unchanged"),
    )
    found = []
    for number, window in enumerate(windows(logs)):
        if number < learned:
            watcher.learn(window)
        else:
            found += watcher.decide(window).change_points
    return found


@pytest.mark.parametrize("is_rank", [False, True])
def test_an_e_value_of_a_uniform_p_is_one_on_average(is_rank: bool) -> None:
    p = (np.arange(2_000_000) + 0.5) / 2_000_000
    assert 0.8 < np.exp(log_e_value(p, np.array(is_rank), 0.25)).mean() <= 1.0 + 1e-6


@pytest.mark.parametrize("is_rank", [False, True])
@pytest.mark.parametrize("cap_ticks", [2.0, np.inf])
def test_sums_of_ordinary_times_run_as_long_as_the_theorem_says(cap_ticks: float, is_rank: bool) -> None:
    """An e-CUSUM passes the threshold c after c ticks on average, or later."""
    rng, c, n = np.random.default_rng(4), 150.0, 600
    sums, alarmed = np.zeros(n), np.zeros(n)
    for tick in range(1, 4_001):
        gain = np.minimum(log_e_value(rng.random(n), np.array(is_rank), 0.25), np.log(c) / cap_ticks)
        sums = grown(sums, gain)
        alarmed[(alarmed == 0) & (sums >= np.log(c))] = tick
    runs = np.where(alarmed == 0, 4_000, alarmed)  # too short, if anything
    assert runs.mean() > c
    assert runs.mean() < 100 * c  # and is no bound of straw


@pytest.mark.parametrize(("text", "days"), [("1 a day", 1), ("2 a week", 3.5), ("1 a month", 30)])
def test_a_budget_is_said_in_words(text: str, days: float) -> None:
    assert rate_ns(text) == pytest.approx(days * 86_400 * 10**9)


def test_a_budget_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="1 a week"):
        WatchSettings(false_alarms="seldom")


@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_alarms_more_often_than_the_budget_says_and_without_whitening_it_does(seed: int) -> None:
    logs = levels(np.random.default_rng(seed), 40, 1152 + 576, rho=0.7, sd=0.2)
    with_it = watched(logs, SETTINGS, 1152)
    without = watched(logs, SETTINGS.model_copy(update={"whiten": False}), 1152)
    assert len(with_it) <= SETTINGS.candidates * 2 / 7  # of two days
    assert len(without) > 10 * max(len(with_it), 1)


def test_a_step_is_found_and_its_onset_is_that_of_the_slow_oracle() -> None:
    rng = np.random.default_rng(3)
    logs = levels(rng, 40, 2016 + 576, rho=0.3)
    steps = {k: 2016 + 100 + 40 * k for k in range(10)}
    for k, at in steps.items():
        logs[k, at : at + 20] += 0.5
    found = watched(logs, SETTINGS, 2016)
    first: dict[str, ChangePoint] = {}
    for one in found:
        first.setdefault(one.series, one)
    near, delays = 0, []
    for k, at in steps.items():
        one = first[f"time service-{k % 10}/op-{k} < -"]
        seen = (one.at_ns - MONDAY) // TICK_NS - at
        delays.append(seen)
        near += (
            abs((one.onset_ns - MONDAY) // TICK_NS - best_split(logs[k, at - 50 : at + seen]) - at + 50) <= 1
        )
    assert near >= 9
    assert np.median(delays) <= 4


def best_split(x: np.ndarray) -> int:
    """The cut that leaves least spread on both sides, every one tried."""
    return min(range(2, len(x)), key=lambda cut: x[:cut].var() * cut + x[cut:].var() * (len(x) - cut))


def test_levels_of_all_days_are_what_may_be_spent() -> None:
    assert 0.3 < sum(weight(t) for t in range(1, 20_000)) <= 1.0
    spent, total = Spent(), 0.0
    for _ in range(1_000):
        total += level(spent, 0.05)
        spent = after(spent, rejected=False)
    assert total <= 0.025
    # A day that found something pays for those behind it.
    poor, rich = Spent(tests=30), Spent(tests=30, rejected=(30,))
    assert level(rich, 0.05) > 5 * level(poor, 0.05)


def slow_level(rejections: list[bool], alpha: float) -> float:
    """LORD++ as its paper writes it (Ramdas and others 2017), half of the wealth at the start."""

    def gamma(j: int) -> float:
        return 0.07720838 * np.log(max(j, 2)) / (j * np.exp(np.sqrt(np.log(j)))) if j >= 1 else 0.0

    t, wealth = len(rejections) + 1, alpha / 2
    at = [number for number, rejected in enumerate(rejections, 1) if rejected]
    first = (alpha - wealth) * gamma(t - at[0]) if at else 0.0
    return gamma(t) * wealth + first + alpha * sum(gamma(t - tau) for tau in at[1:])


def test_levels_are_those_of_the_paper_and_keep_the_share_of_false_findings() -> None:
    rng, alpha, shares = np.random.default_rng(6), 0.1, []
    for run in range(60):
        spent, rejections, false = Spent(), list[bool](), 0
        for _ in range(150):
            changed = rng.random() < 0.1
            p = float(stats.norm.sf(rng.normal(4.0 if changed else 0.0)))
            now = level(spent, alpha)
            if run == 0:
                assert now == pytest.approx(slow_level(rejections, alpha))
            rejected = p <= now
            false += rejected and not changed
            spent = after(spent, rejected=rejected)
            rejections.append(rejected)
        shares.append(false / max(sum(rejections), 1))
    assert np.mean(shares) <= alpha
