"""Instances are watched beside their siblings: one that changes is found, those that come and go are not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from oracles.robust_report import slow_recommendations
from oracles.watched_pods import pod_windows
from oracles.watched_series import MONDAY, WINDOW_NS

from analyze.watch.decide import CHANGED, UNCHANGED, Decision
from analyze.watch.series import INSTANCE, INSTANCES, TIME, Name, WindowTicks, rows_of
from analyze.watch.settings import WatchSettings
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


def watcher_of(state: State | None = None, *, confirmed: bool = False) -> Watcher:
    """A watch whose comparisons find nothing, or a change."""
    first = State(lake_id="x", tick_ns=WINDOW_NS // TICKS, through_ns=MONDAY, began_ns=MONDAY)
    found = (
        Decision(CHANGED, "changed", (slow_recommendations(),)) if confirmed else Decision(UNCHANGED, "no")
    )
    return Watcher(state or first, SETTINGS, lambda *_, **__: found)


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
    assert sum(name.kind in INSTANCES for name in watcher.ring.names) <= most
    assert len(watcher.ring.names) <= most + 1 + there


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
    watcher.decide_by = lambda *_, **__: Decision(UNCHANGED, "no")
    renamed = windows(SLOW[1] + 8, rollouts=SLOW[1], slow=(SLOW[0], SLOW[1] + 2, SLOW[2]))
    candidates(watcher, renamed[SLOW[1] :])
    assert watcher.book.open == []


def test_an_instance_is_gone_also_where_its_component_is_left_with_one() -> None:
    made = windows(5)
    ring = watcher_of().ring
    ring.add_ticks(made[0])
    site = Name(TIME, "component-0", "op", "component-0/op < -")
    for window in made[1 : 1 + SETTINGS.gone_windows]:
        only = rows_of(np.zeros(TICKS, np.int64), np.arange(TICKS), 9.0, np.full(TICKS, 9.0))
        ring.add_ticks(replace(window, names=(site,), rows=only))
    assert {name.component for name in ring.missed} == {"component-1"}
    assert {name.component for name in ring.codes if name.kind in INSTANCES} == {"component-1"}
