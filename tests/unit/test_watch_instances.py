"""Instances are watched beside their siblings: one that changes is found, those that come and go are not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from oracles.robust_report import slow_recommendations
from oracles.watched_pods import pod_windows, rare_windows
from oracles.watched_series import MONDAY, WINDOW_NS

from analyze.watch.baseline import pooled, values
from analyze.watch.decide import CHANGED, UNCHANGED, Decision
from analyze.watch.evidence import Kept, RunningEvidence, evidence_of
from analyze.watch.series import HOUR_NS, INSTANCE, INSTANCES, TIME, Name, Ring, WindowTicks, rows_of
from analyze.watch.settings import WatchSettings
from analyze.watch.typical import groups_of, typical_instances
from analyze.watch.watcher import State, Watcher
from schemas.watch_tables import ChangePoint

TICKS = 4
"""In a window."""
SETTINGS = WatchSettings(slot_ns=WINDOW_NS // TICKS)
BUDGET = 3
"""Candidates of a first day."""
SLOW = (50, 60, 0.7)
"""First window, window past, and by how much (log) it is slower."""


def windows(n: int = 60, seed: int = 1, **how: Any) -> list[WindowTicks]:
    """Windows of two components with five pods each."""
    return [*pod_windows(np.random.default_rng(seed), n, components=2, ticks=TICKS, events=40.0, **how)]


def watcher_of(
    state: State | None = None, *, confirmed: bool = False, settings: WatchSettings = SETTINGS
) -> Watcher:
    """A watch whose comparisons find nothing, or a change."""
    first = State(lake_id="x", tick_ns=WINDOW_NS // TICKS, through_ns=MONDAY, began_ns=MONDAY)
    found = (
        Decision(CHANGED, "changed", (slow_recommendations(),)) if confirmed else Decision(UNCHANGED, "no")
    )
    return Watcher(state or first, settings, lambda *_, **__: found)


def candidates(watcher: Watcher, made: list[WindowTicks]) -> list[ChangePoint]:
    """What it asks comparisons for."""
    return [point for window in made for point in watcher.decide(window).change_points]


@pytest.mark.parametrize("rollouts", [0, 40])
def test_one_pod_of_five_that_gets_slower_is_a_candidate_that_names_it(rollouts: int) -> None:
    made = windows(slow=SLOW, rollouts=rollouts)
    pod = sorted(n.of for n in made[-1].names if n.of.startswith("component-0 on pod-2-"))[0]
    found = [one for one in candidates(watcher_of(), made) if one.at_ns > MONDAY + SLOW[0] * WINDOW_NS]
    assert {point.series for point in found} == {f"{INSTANCE} {pod}"}
    assert (found[0].at_ns - MONDAY) / WINDOW_NS <= SLOW[0] + 1.5
    assert abs((found[0].onset_ns - MONDAY) / WINDOW_NS - SLOW[0]) <= 0.5


def test_pods_that_come_and_go_are_no_candidates_and_no_more_series() -> None:
    made = windows(70, rollouts=10, apart=0.1)
    watcher = watcher_of()
    assert len(candidates(watcher, made)) <= BUDGET
    there = sum(name.kind == INSTANCE for name in made[-1].names)
    # Those that are there, and those that were renamed in the last windows.
    most = 2 * (there + 2 * SETTINGS.gone_windows)
    assert sum(name.kind in INSTANCES for name in watcher.detector.ring.names) <= most
    assert len(watcher.detector.ring.names) <= most + 1 + there


def test_a_pod_that_always_is_slower_is_none() -> None:
    made = windows(seed=3, apart=0.3)
    assert len(candidates(watcher_of(), made)) <= BUDGET


@pytest.mark.parametrize("at", [40, 52])
def test_a_restart_goes_on_as_if_it_had_been_one_process(at: int) -> None:
    made = windows(slow=SLOW, rollouts=30)
    whole = watcher_of()
    states = []
    for window in made:
        whole.decide(window)
        states.append(whole.state)
    again = watcher_of(states[at - 1])
    for window in made[:at]:
        again.learn(window)
    for window, state in zip(made[at:], states[at:], strict=True):
        again.decide(window)
        assert again.state == state


def test_an_incident_of_a_pod_that_is_gone_is_over() -> None:
    made = windows(SLOW[1], slow=SLOW)
    watcher = watcher_of(confirmed=True)
    candidates(watcher, made)
    (incident,) = watcher.book.open
    assert [name.of for name in incident.series] == ["component-0 on pod-2-0"]
    watcher.confirmation.decide_by = lambda *_, **__: Decision(UNCHANGED, "no")
    renamed = windows(SLOW[1] + 8, rollouts=SLOW[1], slow=(SLOW[0], SLOW[1] + 2, SLOW[2]))
    candidates(watcher, renamed[SLOW[1] :])
    assert watcher.book.open == []


def test_an_instance_is_gone_also_where_its_component_is_left_with_one() -> None:
    made = windows(5)
    ring = watcher_of().detector.ring
    ring.add_ticks(made[0])
    site = Name(TIME, "component-0", "op", "component-0/op < -")
    for window in made[1 : 1 + SETTINGS.gone_windows]:
        only = rows_of(np.zeros(TICKS, np.int64), np.arange(TICKS), 40.0, np.full(TICKS, 9.0))
        ring.add_ticks(replace(window, names=(site,), rows=only))
    assert {name.component for name in ring.there} == {"component-1"}
    assert {name.component for name in ring.codes if name.kind in INSTANCES} == {"component-1"}


def test_a_value_of_rare_visits_is_made_of_as_many_ticks_as_it_needs() -> None:
    ring = ring_of(rare_windows(np.random.default_rng(1), 200, visits=0.6))
    k = {one.pooled.k for one in typical_instances(ring, ring.at, SETTINGS, {}) if one.kind == INSTANCE}
    assert k == {16}
    pods = np.array([code for name, code in ring.codes.items() if name.kind == INSTANCE])
    _, sums = pooled(ring.sums(pods, slice(None)), ring.at, *k)
    assert np.isfinite(values(sums, [INSTANCE] * len(pods), SETTINGS.least_events)).mean() > 0.95


def test_a_steady_pod_with_few_visits_is_not_gone_until_the_others_had_many() -> None:
    ring = ring_of(rare_windows(np.random.default_rng(1), 300, visits=0.15))
    first, *_, pod = sorted(ring.there)
    assert len(ring.there) == 10
    assert max(seen.since for seen in ring.there.values()) <= int(ring.at[0]) + 100
    # 0.6 visits a window: of 32 for each of the ten the nine others have as many in 59.
    behind = [*rare_windows(np.random.default_rng(2), 100, visits=0.15, first=300, without=pod.of)]
    (freed,) = (n for n, window in enumerate(behind) if ring.add_ticks(window))
    assert abs(freed - 59) <= 12
    assert first in ring.there
    assert pod not in ring.there


def test_windows_that_hardly_have_a_component_end_none_of_its_instances() -> None:
    made = windows(60)
    ring = ring_of(made[:1])
    one, *rest = sorted(name for name in ring.there if name.component == "component-0")
    for window in made[1:]:
        row = rows_of(np.zeros(1, np.int64), np.zeros(1, np.int64), 1.0, np.zeros(1))
        ring.add_ticks(replace(window, names=(one,), rows=row))
    assert {*rest} < ring.there.keys()
    assert {ring.there[name].windows for name in rest} == {59}


def test_an_incident_of_a_pod_that_nobody_calls_for_a_while_goes_on() -> None:
    rng = np.random.default_rng(4)
    pod = "rare on pod-2"
    made = [*rare_windows(rng, 240, visits=0.6, slow=(pod, 200, 2.0))]
    watcher = watcher_of(confirmed=True)
    candidates(watcher, made)
    (incident,) = watcher.book.open
    assert {name.of for name in incident.series} == {pod}
    candidates(watcher, [*rare_windows(rng, 6, visits=0.6, first=240, without=pod)])
    assert len(watcher.book.open) == 1
    candidates(watcher, [*rare_windows(rng, 24, visits=0.6, first=246, without=pod)])
    assert watcher.book.open == []


@pytest.mark.parametrize(("appeared", "says"), [(20, True), (30, False)])
def test_first_values_are_those_since_an_instance_appeared(appeared: int, says: bool) -> None:
    # Of a new instance four of the last 16 pools have a value.
    mine = Name(INSTANCE, "component-0", "", "component-0 on pod-1-0")
    made = [
        without(window, mine, but=range(TICKS) if n < 27 else [TICKS - 1])
        if n >= appeared
        else without(window, mine)
        for n, window in enumerate(windows(31))
    ]
    ring = ring_of(made)
    assert ring.there[mine].since == made[appeared].start_ns // ring.tick_ns
    learned = typical_instances(ring, ring.at, SETTINGS, {mine: int(ring.at[-1]) + 1})
    groups = groups_of([one for one in learned if one.kind == INSTANCE], ring, SETTINGS)
    first = int(ring.at[-1])
    said = evidence_of(ring, first, first + 1, [*groups], 10.0, SETTINGS)
    told = {row for each in said.values() for one in each for row in one.rows.tolist()}
    assert (ring.codes[mine] in told) is says


def test_sums_are_taken_up_though_codes_are_more_than_series() -> None:
    name = Name(TIME, "a", "op", "a/op < -")
    kept = Kept(name=name, sums=(1.0, 0.0), starts=(1, 1), sizes=(0.0, 0.0), lasting=(0, 0))
    evidence = RunningEvidence()
    evidence.restore([kept], {name: 5})
    assert evidence.most[5] == 1.0


@pytest.mark.parametrize("rollouts", [0, 100])
def test_a_restart_with_a_part_of_the_history_goes_on_as_if_it_had_been_one_process(rollouts: int) -> None:
    settings = SETTINGS.model_copy(update={"baseline_ns": 6 * HOUR_NS, "season_days": 0})
    at, n = 130, 150
    made = windows(n, slow=(at - 3, n, 0.7), rollouts=rollouts)
    whole, states, series = watcher_of(settings=settings), list[State](), list[set[Name]]()
    for window in made:
        whole.decide(window)
        states.append(whole.state)
        series.append({*whole.detector.ring.codes})
    again = watcher_of(states[at - 1], settings=settings)
    first = at - again.detector.history_ns // WINDOW_NS
    assert first > 20
    for window in made[first:at]:
        again.learn(window)
    assert again.detector.ring.codes.keys() == series[at - 1]
    for window, state in zip(made[at:], states[at:], strict=True):
        again.decide(window)
        assert again.state == state


def ring_of(made: Iterable[WindowTicks]) -> Ring:
    """What a watch has of windows."""
    ring = watcher_of().detector.ring
    for window in made:
        ring.add_ticks(window)
    return ring


def without(window: WindowTicks, instance: Name, but: Sequence[int] = ()) -> WindowTicks:
    """A window that one instance has no visits in, but for some ticks."""
    mine = [n for n, name in enumerate(window.names) if name.of == instance.of]
    left = ~np.isin(window.rows["series"], mine) | np.isin(window.rows["tick"], [*but])
    kept = [n for n in range(len(window.names)) if but or n not in mine]
    rows = window.rows[left]
    rows["series"] = np.searchsorted(kept, rows["series"])
    return replace(window, names=tuple(window.names[n] for n in kept), rows=rows)
