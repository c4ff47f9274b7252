"""Evidence of series: against its theorem, by simulation; onsets and levels against other implementations."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
from oracles.least_squares_break import least_squares_break
from oracles.watched_series import EVENT_SD, EVENTS, MONDAY, WINDOW_NS, failing_windows, levels, windows
from scipy import signal, stats

from analyze.watch.baseline import (
    RUN,
    Sample,
    _course,
    innovations,
    level_of,
)
from analyze.watch.decide import CHANGED, UNCHANGED, UNSURE, Decision
from analyze.watch.detect import REFIT_SHARE
from analyze.watch.evidence import (
    Kept,
    RunningEvidence,
    TickEvidence,
    cap_of,
    grown,
    log_e_value,
    run_length,
    size_of,
)
from analyze.watch.series import TIME, Name, WindowTicks
from analyze.watch.settings import WatchSettings, rate_ns
from analyze.watch.slow_lane import Spent, after, level, weight
from analyze.watch.watcher import State, Watcher
from schemas.watch_tables import ChangePoint
from schemas.windows import NS_PER_DAY

NEVER = Decision(UNCHANGED, "unchanged")
CONFIRMED = Decision(CHANGED, "changed")
SETTINGS = WatchSettings(slot_ns=0, baseline_ns=1152 * WINDOW_NS, season_days=14)


def watched(
    logs: np.ndarray, settings: WatchSettings, learned: int, decision: Decision = NEVER
) -> list[ChangePoint]:
    """Candidates of the ticks behind those that are learned, each decided alike."""
    watcher = Watcher(
        State(lake_id="x", tick_ns=WINDOW_NS, through_ns=MONDAY), settings, lambda *_, **__: decision
    )
    found = []
    for number, window in enumerate(windows(logs)):
        if number < learned:
            watcher.learn(window)
        else:
            found += watcher.decide(window).change_points
    return found


def test_an_e_value_of_a_uniform_p_is_one_on_average() -> None:
    p = (np.arange(2_000_000) + 0.5) / 2_000_000
    assert 0.8 < np.exp(log_e_value(p, 0.25)).mean() <= 1.0 + 1e-6


@pytest.mark.parametrize("cap_ticks", [2.0, 3.0, 1.0])
def test_sums_of_ordinary_times_run_as_long_as_is_said(cap_ticks: float) -> None:
    """By simulation; the theorem's bound, that an e-CUSUM passes c after c ticks on average or later, holds
    too."""
    rng, c, n = np.random.default_rng(4), 20.0, 1_000
    threshold = float(np.log(c))
    sums, alarmed, tick = np.zeros(n), np.zeros(n), 0
    while not alarmed.all():
        tick += 1
        gain = np.minimum(log_e_value(rng.random(n), 0.25), threshold / cap_ticks)
        sums = grown(sums, gain)
        alarmed[(alarmed == 0) & (sums >= threshold - 1e-9)] = tick
    said = run_length(threshold, threshold / cap_ticks, 0.25)
    assert said == pytest.approx(alarmed.mean(), rel=0.12)
    assert said > 5 * c


@pytest.mark.parametrize("cap_ticks", [1.25, 2.0, 3.0, 7.0])
def test_as_many_full_ticks_alarm_as_are_said_though_the_threshold_moves(cap_ticks: float) -> None:
    """What is usual is learned anew between two ticks; each brings the most that one may."""
    thresholds, sums = np.linspace(7.0, 9.0, int(np.ceil(cap_ticks))), RunningEvidence()
    settings, nothing = WatchSettings(cap_ticks=cap_ticks), np.zeros((2, 1))
    for number, (before, threshold) in enumerate(itertools.pairwise([7.0, *thresholds.tolist()])):
        sums.rescale(threshold / before, 1.0)
        gain = np.full((2, 1), cap_of(threshold, 1, settings))
        sums.step(1, [TickEvidence(np.array([0]), number, gain, nothing, np.zeros(1))])
        assert sums.reached(threshold)[0] == (number + 1 == len(thresholds))


def test_a_level_seen_through_noise_is_taken_out() -> None:
    """Innovations of ticks of fifteen seconds are as wide as is said, and none foretells another; less what
    the one before foretold, values still do."""
    rng, n = np.random.default_rng(7), 3_000
    logs = levels(rng, 30, n // 20, ticks=20, sd=0.2, season=0.0)
    left = logs - np.median(logs, axis=1, keepdims=True)
    error = np.full_like(left, EVENT_SD / np.sqrt(EVENTS / 20))
    at = np.arange(n)
    level = level_of(left, at, left.std(axis=1), error, SETTINGS)
    white = innovations(left, at, error, level, np.zeros(30))[0]
    assert white.std() == pytest.approx(1.0, abs=0.1)

    def correlation(values: np.ndarray) -> float:
        return float(np.mean([(values[:, k:] * values[:, :-k]).mean() for k in (3, 6, 12)]) / values.var())

    assert abs(correlation(white)) < 0.02
    assert correlation(left[:, 1:] - 0.6 * left[:, :-1]) > 0.1


@pytest.mark.parametrize("k", [16, 64])
def test_a_level_is_learned_of_runs_of_two_values_too(k: int) -> None:
    """A sampled week has runs of 128 ticks: of values of 64 ticks no two lie further apart than one."""
    rng, n, phi = np.random.default_rng(1), 40_320 // k, 0.9
    noise = rng.normal(0, np.sqrt(1 - phi * phi), (100, n + 200))
    left, pool = signal.lfilter([1.0], [1.0, -phi], noise, axis=1)[:, 200:], np.arange(n)
    known = Sample(40_320, 40_320, 4096).takes(pool * k)
    exact = np.full(left.shape, 1e-6)
    level = level_of(left[:, known], pool[known], np.ones(100), exact[:, known], WatchSettings())
    white = innovations(left, pool, exact, level, np.zeros(100))[0]
    assert (white[:, 1:] * white[:, :-1]).mean() / white.var() < 0.35  # 0.9 where nothing is taken out


def test_a_change_is_as_large_as_its_estimate_by_all_that_it_left_in_innovations() -> None:
    """The same by least squares of each stretch that ends at a value, none across the gap."""
    rng, limit = np.random.default_rng(2), 4.0
    pool = np.delete(np.arange(30), [11, 12, 13])
    white = rng.standard_t(2, (3, len(pool)))
    signature = 0.8 ** np.arange(5) * np.array([[1.0], [2.0], [0.5]])
    found = size_of(white, pool, signature, limit)
    for row, at in np.ndindex(found.shape):
        estimates = [-np.inf]
        for n in range(2, 6):
            past = range(at + 1 - n, at + 1)
            if past[0] >= 0 and pool[at] - pool[past[0]] == n - 1:
                x, y = signature[row, :n], np.clip(white[row, past], -limit, limit)
                estimates.append(float(np.linalg.lstsq(x[:, None], y)[0][0]) * np.sqrt(x @ x))
        assert found[row, at] == pytest.approx(max(estimates))


def test_comparisons_of_levels_that_jump_are_as_many_as_the_budget_has() -> None:
    """Increments of Student's law with 3 degrees of freedom; every comparison says that nothing changed."""
    settings = SETTINGS.model_copy(update={"false_alarms": "1 a day", "candidates": 2.0})
    logs = levels(np.random.default_rng(3), 60, 1152 + 864, rho=0.975, sd=0.045, season=0.0, df=3.0)
    found = watched(logs, settings, 1152)
    days = np.bincount([(one.at_ns - MONDAY) // NS_PER_DAY - 4 for one in found], minlength=3)
    assert days[0] > 2 * settings.candidates
    assert stats.poisson.sf(days[1:].sum() - 1, 2 * settings.candidates) > 0.01


@pytest.mark.parametrize(
    ("known", "calls", "failing", "within"),
    [(200, 12.0, 0.1, 18), (40, 40.0, 1.0, 3)],
    ids=["a tenth of a dozen calls", "all, while little is known"],
)
def test_failures_are_found_where_few_values_are_known(
    known: int, calls: float, failing: float, within: int
) -> None:
    """By Student's law none of the former is, by ranks among few values the latter only by and by."""
    shares = np.full((10, known + within), 0.002)
    shares[:, known:] += failing * 0.998
    found = set[str]()
    for row in range(len(shares)):
        watcher = Watcher(
            State(lake_id="x", tick_ns=WINDOW_NS, through_ns=MONDAY), SETTINGS, lambda *_, **__: NEVER
        )
        alone = np.full_like(shares, 0.002)
        alone[row] = shares[row]
        for number, window in enumerate(failing_windows(np.random.default_rng(row), alone, calls)):
            if number < known:
                watcher.learn(window)
            else:
                points = watcher.decide(window).change_points
                found |= {one.series for one in points if f"/op-{row} <" in one.series}
    assert len(found) >= 9


@pytest.fixture(scope="module")
def behind_refuted_jumps() -> tuple[Watcher, list[ChangePoint], list[int]]:
    """A watcher behind 24 jumps by 6 sd of white series, all refuted, and behind a small and a large step of
    series that are autocorrelated; candidates of the steps' time, and ticks that withheld something."""
    rng, known, at = np.random.default_rng(3), 600, 820
    white = levels(rng, 26, at + 60, rho=0.0, sd=0.1, season=0.0, df=30)
    for number in range(24):
        white[number, known + 5 + number * 8 : known + 14 + number * 8] += 0.6
    moving = levels(rng, 4, at + 60, rho=0.6, sd=0.1, season=0.0, df=30)
    moving[0, at : at + 18] += 0.8
    moving[1, at : at + 18] += 0.25
    settings = SETTINGS.model_copy(update={"season_days": 0, "baseline_ns": 600 * WINDOW_NS})
    state = State(lake_id="x", tick_ns=WINDOW_NS, through_ns=MONDAY)
    watcher = Watcher(state, settings, lambda *_, **__: NEVER)
    found, withheld = list[ChangePoint](), list[int]()
    for number, window in enumerate(windows(np.vstack([white, moving]))):
        if number < known:
            watcher.learn(window)
            continue
        decided = watcher.decide(window)
        found += decided.change_points if number >= at else []
        if decided.run is not None and decided.run.withheld:
            withheld.append(number - at)
    return watcher, found, withheld


def test_a_large_step_is_compared_whatever_was_refuted_before(
    behind_refuted_jumps: tuple[Watcher, list[ChangePoint], list[int]],
) -> None:
    """A level that is soon learned leaves less in innovations than white series do at their jumps."""
    watcher, found, _ = behind_refuted_jumps
    assert len(watcher.state.ordinary) >= SETTINGS.candidates
    assert any("/op-26 <" in one.series for one in found)


def test_a_small_step_is_withheld_counted_and_begun_anew(
    behind_refuted_jumps: tuple[Watcher, list[ChangePoint], list[int]],
) -> None:
    _, found, withheld = behind_refuted_jumps
    assert not any("/op-27 <" in one.series for one in found)
    there = [tick for tick in withheld if tick >= 0]
    assert there
    assert max(there) < 18 + SETTINGS.size_values


def test_what_was_small_of_a_confirmed_change_is_no_ordinary_one() -> None:
    """Kept from before it was compared, as those of times before it are: as many as are budgeted of each."""
    began, budgeted = MONDAY // WINDOW_NS + 400, 4
    earlier = {began - 100 + n: 0.4 for n in range(budgeted)}
    of_it = {began - 1 - n: 0.5 for n in range(budgeted)}
    state = State(
        lake_id="x", tick_ns=WINDOW_NS, through_ns=MONDAY, ordinary=tuple((earlier | of_it).items())
    )
    settings = SETTINGS.model_copy(update={"candidates": budgeted})
    watcher = Watcher(state, settings, lambda *_, **__: CONFIRMED)
    logs = levels(np.random.default_rng(5), 5, 410, sd=0.05, season=0.0)
    logs[0, 400:] += 1.2
    for number, window in enumerate(windows(logs)):
        (watcher.learn if number < 390 else watcher.decide)(window)
    assert dict(watcher.state.ordinary) == earlier


def test_sizes_are_counted_anew_where_the_course_of_a_day_becomes_known() -> None:
    """It was a part of what series deviate: as a part of the rest an earlier change is as much larger."""
    known = 700  # 2.4 days
    state = State(
        lake_id="x", tick_ns=WINDOW_NS, through_ns=MONDAY, ordinary=((MONDAY // WINDOW_NS + 600, 0.1),)
    )
    watcher = Watcher(state, SETTINGS, lambda *_, **__: NEVER)
    for number, window in enumerate(windows(levels(np.random.default_rng(5), 5, 800, sd=0.05, season=0.3))):
        (watcher.learn if number < known else watcher.decide)(window)
        if number == known + 10:
            assert dict(watcher.state.ordinary)[MONDAY // WINDOW_NS + 600] == 0.1
    assert dict(watcher.state.ordinary)[MONDAY // WINDOW_NS + 600] > 0.25


def test_a_sum_under_way_goes_on_in_the_units_of_what_is_learned_anew() -> None:
    """Series that deviated three times as far before: what was remembered and what goes on are three times as
    large parts of a large step."""
    now = MONDAY // WINDOW_NS + 720
    state = State(lake_id="x", tick_ns=WINDOW_NS, through_ns=MONDAY, ordinary=((now - 100, 0.1),))
    watcher = Watcher(state, SETTINGS, lambda *_, **__: NEVER)
    for number, window in enumerate(windows(levels(np.random.default_rng(5), 5, 720, sd=0.05, season=0.0))):
        (watcher.learn if number < 700 else watcher.decide)(window)
    was = watcher.detector.base
    assert was is not None
    groups = [replace(one, level=replace(one.level, variance=9 * one.level.variance)) for one in was.groups]
    before = replace(was, groups=tuple(groups))
    assert was.nearer_than(before) == pytest.approx(3)
    assert before.nearer_than(was) == pytest.approx(1 / 3)
    assert was.nearer_than(replace(was, groups=())) == 1
    watcher.detector.base = before
    watcher.detector.evidence.sums[:, 0], watcher.detector.evidence.sizes[:, 0] = 1.0, (0.2, 0.3)
    assert watcher.state.fitted is not None
    nearer = watcher.detector.fit(watcher.detector.sampled(now, 0), ())
    assert watcher.detector.evidence.sizes[:, 0] == pytest.approx([0.6, 0.9])
    assert nearer == pytest.approx(3)


def test_the_oldest_sum_under_way_says_since_when_something_may_go_on() -> None:
    sums = RunningEvidence()
    gain = np.array([[2.0, 0.0], [0.0, 0.0]])
    sums.step(2, [TickEvidence(np.array([0, 1]), 50, gain, gain, gain[0])])
    sums.step(2, [TickEvidence(np.array([1]), 60, gain[:, :1], gain[:, :1], gain[0, :1])])
    assert sums.oldest(latest=100) == 50
    assert sums.oldest(latest=40) == 40
    sums.reset(70, np.array([0]))
    assert sums.oldest(latest=100) == 60


def test_one_that_cannot_be_told_holds_up_no_other() -> None:
    logs = levels(np.random.default_rng(5), 20, 900, sd=0.05, season=0.0)
    logs[0, 620:] += 0.6
    logs[3:7, 760:] += 1.2
    asked: list[tuple[int, int]] = []

    def unsure(_reference: object, problem: list[tuple[int, int]], _history: object, **_: object) -> Decision:
        asked.append(((problem[0][0] - MONDAY) // WINDOW_NS, (problem[-1][1] - MONDAY) // WINDOW_NS))
        return Decision(UNSURE, "cannot-tell")

    watcher = Watcher(State(lake_id="x", tick_ns=WINDOW_NS, through_ns=MONDAY), SETTINGS, unsure)
    for number, window in enumerate(windows(logs)):
        (watcher.learn if number < 600 else watcher.decide)(window)
    assert any(abs(first - 760) < 6 and last <= 764 for first, last in asked)


def test_a_long_problem_is_held_against_times_as_long() -> None:
    """Of a few calls one failure is a large share: in a short reference, and in short blocks of a history."""
    logs = levels(np.random.default_rng(5), 5, 700, sd=0.05, season=0.0)
    logs[0, 600:] += 0.6
    asked: list[list[int]] = []

    def unsure(*compared: Sequence[tuple[int, int]], **_: object) -> Decision:
        reference, problem, history = ([(b - a) // WINDOW_NS for a, b in ranges] for ranges in compared)
        asked.append([sum(problem), sum(reference), round(np.median(history))])
        return Decision(UNSURE, "cannot-tell")

    settings = SETTINGS.model_copy(
        update={"season_days": 0, "reference_ticks": 4, "history_windows": 52, "again_share": 1.0}
    )
    watcher = Watcher(
        State(lake_id="x", tick_ns=WINDOW_NS, through_ns=MONDAY),
        settings,
        unsure,
        windows_of=lambda start, end: [
            (at, at + WINDOW_NS) for at in range(max(start, MONDAY), end, WINDOW_NS)
        ],
    )
    for number, window in enumerate(windows(logs)):
        (watcher.learn if number < 590 else watcher.decide)(window)
    long = [one for one in asked if one[0] > 16]
    shortest = min(asked)
    assert shortest[0] < shortest[1] == settings.reference_ticks
    assert long
    assert all(reference == problem and block == 4 for problem, reference, block in long)


def test_what_a_day_has_had_is_no_load() -> None:
    """Two peaks, neither in the sample of the week that is usual: the first one was never seen before."""
    settings = WatchSettings(slot_ns=0, baseline_ns=4096 * WINDOW_NS, baseline_ticks=1024, season_days=0)
    state = State(lake_id="x", tick_ns=WINDOW_NS, through_ns=MONDAY)
    watcher = Watcher(state, settings, lambda *_, **__: NEVER)
    run, known = MONDAY // WINDOW_NS // RUN, 2_000
    first = next(n for n in itertools.count(run + 17) if n % 2) * RUN - MONDAY // WINDOW_NS
    peaks, suspended = [first + 10, first + 10 + 4 * RUN], []
    for number, window in enumerate(windows(levels(np.random.default_rng(6), 3, peaks[1] + 10))):
        busy = replace(window, requests=window.requests * (5 if number in peaks else 1))
        if number < known:
            watcher.learn(busy)
        elif (decided := watcher.decide(busy).run) is not None and decided.suspended:
            suspended.append(number)
    assert known < peaks[0]
    assert suspended == peaks[:1]


@pytest.mark.parametrize(("load", "asks"), [(1.0, True), (5.0, False)])
def test_what_rose_while_load_was_beyond_the_known_asks_for_nothing_afterwards(
    load: float, asks: bool
) -> None:
    """Times rise with the load and fall with it; with usual load the same rise is a candidate."""
    begin, end = 420, 424
    logs = levels(np.random.default_rng(8), 5, 440, rho=0.3, season=0.0)
    logs[:3, begin:end] += 0.6
    asked: list[int] = []

    def decide(_reference: object, problem: list[tuple[int, int]], _history: object, **_: object) -> Decision:
        asked.append((problem[0][0] - MONDAY) // WINDOW_NS)
        return NEVER

    watcher = Watcher(State(lake_id="x", tick_ns=WINDOW_NS, through_ns=MONDAY), SETTINGS, decide)
    suspended = []
    for number, window in enumerate(windows(logs)):
        busy = replace(window, requests=window.requests * (load if begin <= number < end else 1.0))
        if number < 400:
            watcher.learn(busy)
        elif (decided := watcher.decide(busy).run) is not None and decided.suspended:
            suspended.append(number)
    assert suspended == ([] if asks else [*range(begin, end)])
    assert any(begin - 1 <= at < end for at in asked) == asks


def test_a_series_that_is_gone_ends_no_restart() -> None:
    gone = Kept(
        name=Name(TIME, "gone", "op", "gone/op < -"),
        sums=(3.0, 0.0),
        starts=(1, 1),
        sizes=(4.0, 0.0),
        lasting=(0, 0),
        tried=1,
    )
    watcher = Watcher(
        State(lake_id="x", tick_ns=WINDOW_NS, through_ns=MONDAY, sums=(gone,)),
        SETTINGS,
        lambda *_, **__: Decision(UNCHANGED, "unchanged"),
    )
    for number, window in enumerate(windows(levels(np.random.default_rng(1), 5, 400))):
        (watcher.learn if number < 390 else watcher.decide)(window)
    assert all(one.name != gone.name for one in watcher.state.sums)


def test_long_windows_have_a_history_though_no_run_of_the_sample_holds_one() -> None:
    """Windows of twelve hours; runs of the sample are of ten and a half."""
    settings = WatchSettings(slot_ns=0, baseline_ns=4096 * WINDOW_NS, baseline_ticks=1024, season_days=0)
    logs = levels(np.random.default_rng(3), 3, 4_400, sd=0.05, season=0.0)
    logs[:, 4_300:] += 1.2
    length, asked = 144 * WINDOW_NS, list[int]()

    def whole(begin: int, end: int) -> list[tuple[int, int]]:
        return [(n, n + length) for n in range(-(-begin // length) * length, end - length + 1, length)]

    def decide(_reference: object, _problem: object, history: list[tuple[int, int]], **_: object) -> Decision:
        asked.append(sum((end - begin) // length for begin, end in history))
        return Decision(UNCHANGED, "unchanged")

    state = State(lake_id="x", tick_ns=WINDOW_NS, through_ns=MONDAY)
    watcher = Watcher(state, settings, decide, windows_of=whole)
    for number, window in enumerate(windows(logs)):
        (watcher.learn if number < 4_250 else watcher.decide)(window)
    assert asked
    assert min(asked) >= 20


@pytest.mark.parametrize("season_days", [0, 28])
def test_a_restart_reads_all_that_its_baseline_was_learned_from(season_days: int) -> None:
    """What is usual is learned anew after a twentieth of its time: until then it is of earlier hours."""
    settings = WatchSettings(season_days=season_days)
    watcher = Watcher(
        State(lake_id="x", tick_ns=WINDOW_NS, through_ns=MONDAY), settings, lambda *_, **__: NEVER
    )
    learned_of = max(settings.baseline_ns, season_days * NS_PER_DAY)
    assert watcher.detector.history_ns >= learned_of + int(REFIT_SHARE * settings.baseline_ns)


@pytest.mark.parametrize("past", [10_000_000, 10_001_111, 10_007_777])
def test_a_sample_holds_half_of_what_is_asked_at_least(past: int) -> None:
    least = WatchSettings.model_fields["baseline_ticks"].metadata[0].ge
    for span in (least, 3 * least, 40_320):
        taken = Sample(past, span, least).takes(np.arange(past - span, past)).sum()
        assert least // 2 - RUN <= taken <= least + RUN


def test_a_sample_of_a_longer_time_takes_no_other_ticks() -> None:
    at, kept = np.arange(100_000), np.ones(100_000, dtype=np.bool_)
    for span in (3_000, 4_000, 9_000, 40_000, 90_000):
        taken = Sample(100_000, span, 4_000).takes(at)
        assert 1_000 < taken.sum() <= 4_000 + RUN
        assert kept[taken & (at >= 97_000)].all()
        kept &= taken | (at < 97_000)


def test_a_course_of_the_week_is_not_made_of_chance() -> None:
    """Two weeks without one: medians of two values each would put half of the variance into every value."""
    rng, hours = np.random.default_rng(8), np.arange(14 * 24)
    x = rng.normal(size=(50, len(hours)))
    assert _course(x, hours % 168, 168).var() < 0.05
    wave = 3 * np.sin(2 * np.pi * hours / 168)
    assert np.corrcoef(_course(x + wave, hours % 168, 168).mean(axis=0), wave[:168])[0, 1] > 0.99
    assert _course(x + wave, hours % 168, 168).var() > 3.5


@pytest.mark.parametrize(("text", "days"), [("1 a day", 1), ("2 a week", 3.5), ("1 a month", 30)])
def test_a_budget_is_said_in_words(text: str, days: float) -> None:
    assert rate_ns(text) == pytest.approx(days * 86_400 * 10**9)


def test_a_budget_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="1 a week"):
        WatchSettings(false_alarms="seldom")
    for text in ("0 a week", "0.009 a year"):
        with pytest.raises(ValueError, match="hundred years"):
            WatchSettings(false_alarms=text)


def test_nothing_alarms_more_often_than_the_budget_says_and_without_whitening_it_does() -> None:
    """Nothing is refuted, so no size is asked. Of three times the budget the first would be too many."""
    logs = levels(np.random.default_rng(2), 40, 1152 + 576, rho=0.7, sd=0.2)
    with_it = watched(logs, SETTINGS, 1152, CONFIRMED)
    without = watched(logs, SETTINGS.model_copy(update={"whiten": False}), 1152, CONFIRMED)
    budget = SETTINGS.candidates * 2 / 7  # of two days
    assert stats.poisson.sf(len(with_it) - 1, budget) > 0.01
    assert len(without) > 10 * max(len(with_it), 1)


def test_a_step_is_found_and_its_onset_is_that_of_least_squares() -> None:
    """Of the 50 ticks before each step and the 10 behind it: where their levels part, which is not always
    where the step is."""
    rng = np.random.default_rng(3)
    logs = levels(rng, 40, 2016 + 576, rho=0.3, season=0.0)
    steps = {k: 2016 + 100 + 40 * k for k in range(10)}
    for k, at in steps.items():
        logs[k, at : at + 20] += 0.2
    breaks = {k: at - 50 + least_squares_break(logs[k, at - 50 : at + 10]) for k, at in steps.items()}
    first: dict[str, ChangePoint] = {}
    for one in watched(logs, SETTINGS, 2016, CONFIRMED):
        first.setdefault(one.series, one)
    mine = [(at, first[f"time service-{k % 10}/op-{k} < -"]) for k, at in breaks.items()]
    off = [abs((one.onset_ns - MONDAY) // WINDOW_NS - at) for at, one in mine]
    assert sum(each <= 1 for each in off) >= 9
    assert np.median([(one.at_ns - MONDAY) // WINDOW_NS - at for at, one in mine]) <= 5


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


P_VALUES = (2.90e-08, 0.06743, 0.01514, 0.08174, 0.00171, 3.60e-05, 0.79149, 0.27201, 0.28295, 7.59e-08)
LORD_LEVELS = (
    0.0013379192728150216,
    0.001628874417388565,
    0.0005387676144350613,
    0.00045390262133570116,
    0.0003808118942078829,
    0.000325869251275321,
    0.0029599721596363718,
    0.0008335270303947786,
    0.0007212792908576142,
    0.0006166603159315581,
    0.00321217815291216,
)
"""Of LORD++ at 5 %, a wealth of 2.5 % at the start, by online-fdr 1.0.0; rejected are the first p-value, the
sixth and the tenth."""


def test_levels_are_those_of_another_implementation() -> None:
    spent = Spent()
    for p, wanted in zip((*P_VALUES, 1.0), LORD_LEVELS, strict=True):
        assert level(spent, 0.05) == pytest.approx(wanted, rel=1e-12)
        spent = after(spent, rejected=p <= wanted)
    assert spent.rejected == (1, 6, 10)


def test_levels_keep_the_share_of_false_findings() -> None:
    rng, alpha, shares = np.random.default_rng(6), 0.1, []
    for _ in range(60):
        spent, false = Spent(), 0
        for _ in range(150):
            changed = rng.random() < 0.1
            p = float(stats.norm.sf(rng.normal(4.0 if changed else 0.0)))
            rejected = p <= level(spent, alpha)
            false += rejected and not changed
            spent = after(spent, rejected=rejected)
        shares.append(false / max(len(spent.rejected), 1))
    assert np.mean(shares) <= alpha


@pytest.mark.parametrize("empty", [0, 3])
def test_a_value_of_four_ticks_is_made_though_the_last_has_no_request(empty: int) -> None:
    """At night a tick often has none."""
    ticks, k, n = 20, 4, 60
    tick_ns = WINDOW_NS // ticks
    logs = levels(np.random.default_rng(9), 3, n, ticks=ticks, sd=0.05, season=0.0)
    logs[0, 50 * ticks :] += 1.0
    settings = WatchSettings(slot_ns=tick_ns, least_events=3 * EVENTS // ticks, season_days=0)
    state = State(lake_id="x", tick_ns=tick_ns, through_ns=MONDAY)
    watcher, found = Watcher(state, settings, lambda *_, **__: NEVER), list[ChangePoint]()
    gone = (MONDAY // tick_ns + np.arange(ticks)) % k == empty
    for number, window in enumerate(windows(logs, ticks=ticks)):
        rows = window.rows[~gone[window.rows["tick"]]]
        sparse = replace(window, rows=rows, requests=np.where(gone, 0.0, window.requests))
        if number < 40:
            watcher.learn(sparse)
        else:
            found += watcher.decide(sparse).change_points
    assert any("/op-0 <" in one.series for one in found)


def cut(window: WindowTicks, size: int) -> Iterator[WindowTicks]:
    """The same ticks in windows of so many."""
    for first in range(0, window.n_ticks, size):
        tick = window.rows["tick"]
        rows = window.rows[(tick >= first) & (tick < first + size)]
        rows["tick"] -= first
        start_ns, requests = window.start_ns + first * window.tick_ns, window.requests[first : first + size]
        yield WindowTicks(start_ns, window.tick_ns, size, window.names, rows, requests)


def with_holes(logs: np.ndarray, gone: np.ndarray) -> Iterator[WindowTicks]:
    """Windows of twelve ticks, of which some have no request."""
    for number, window in enumerate(windows(logs, ticks=12)):
        here = gone[number * 12 : (number + 1) * 12]
        rows = window.rows[~here[window.rows["tick"]]]
        yield replace(window, rows=rows, requests=np.where(here, 0.0, window.requests))


class Taken(RunningEvidence):
    """Sums that remember the values they were made of."""

    def __init__(self) -> None:
        super().__init__()
        self.of = list[TickEvidence]()

    def step(self, n_series: int, evidence: Sequence[TickEvidence]) -> None:
        super().step(n_series, evidence)
        self.of += evidence


@pytest.mark.parametrize("holes", [[6, 7], [2, 3, 4, 5, 6, 7], [5, 6, 7, 11], "chance"])
def test_values_of_four_ticks_are_the_same_however_windows_cut_them(holes: list[int] | str) -> None:
    """A value that reaches into the next window ends there, though that has no request of it."""
    known, n, tick_ns = 80, 83, WINDOW_NS // 12
    rng = np.random.default_rng(9)
    logs = levels(rng, 3, n, ticks=12, sd=0.05, season=0.0)
    logs[0, known * 12 :] += 0.2
    gone = np.zeros(n * 12, dtype=np.bool_)
    if holes == "chance":
        gone[known * 12 :] = rng.random((n - known) * 12) < 0.4
    else:
        gone[known * 12 + np.array(holes)] = True
    settings = WatchSettings(slot_ns=tick_ns, least_events=4 * EVENTS // 12, season_days=0)
    told = list[Taken]()
    for size in (12, 6, 2, 1):
        state = State(lake_id="x", tick_ns=tick_ns, through_ns=MONDAY)
        watcher = Watcher(state, settings, lambda *_, **__: NEVER)
        watcher.detector.evidence = sums = Taken()
        for number, window in enumerate(with_holes(logs, gone)):
            for part in cut(window, size):
                (watcher.learn if number < known else watcher.decide)(part)
        told.append(sums)
    first, *others = told
    for other in others:
        assert [one.start for one in other.of] == [one.start for one in first.of]
        np.testing.assert_array_equal(other.starts, first.starts)
        # A filter of a longer window begins further back, which it forgets but to a hundredth.
        np.testing.assert_allclose(other.sums, first.sums, atol=0.01)
        for one, same in zip(other.of, first.of, strict=True):
            np.testing.assert_array_equal(one.rows, same.rows)
            for name in ("gain", "size", "z"):
                np.testing.assert_allclose(getattr(one, name), getattr(same, name), rtol=0.01, atol=0.01)
    assert {one.start % 4 for one in first.of} == {0}
    assert len(first.of) >= 6
