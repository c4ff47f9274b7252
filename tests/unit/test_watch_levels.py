"""Levels and floors of the watch are settings that act: looks at a deployment, and what is critical."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from oracles.robust_report import failing_products, slow_recommendations
from oracles.watched_series import MONDAY, WEEK, WINDOW_NS, levels, windows
from scipy.special import ndtri

from analyze.watch.decide import CHANGED, Decision, Range
from analyze.watch.deployments import Rollout, looked_at
from analyze.watch.incidents import Book
from analyze.watch.settings import WatchSettings
from analyze.watch.watcher import State, Watcher
from schemas.windows import NS_PER_MINUTE

SLOW, FAILING = slow_recommendations(), failing_products()


@pytest.mark.parametrize("looks", [0, 1, 4])
def test_all_looks_at_a_deployment_share_the_level_of_one_comparison(looks: int) -> None:
    asked = 0.02
    rollout = Rollout(component="cart", version="v2", start_ns=0, windows=1 << looks, looks=looks)

    def found(q: float) -> Decision:
        decision = Decision(CHANGED, "changed", (SLOW.model_copy(update={"q": q}),), q=asked)
        return looked_at(rollout, "service.version", [(0, 1)], [], lambda *_, **__: decision)

    level = asked / 2 ** (looks + 1)
    assert found(level).code == CHANGED
    assert found(level * 1.01).findings == ()


@pytest.mark.parametrize("by_noise", [False, True])
@pytest.mark.parametrize("needed", [3, 12])
def test_the_level_of_a_chosen_stretch_is_its_part_of_the_budget(needed: int, by_noise: bool) -> None:
    """A candidate is the oddest of all stretches as long: its finding must be as rare as one of these, by
    chance and by what the system does by itself."""
    settings = WatchSettings(slot_ns=0, baseline_ns=576 * WINDOW_NS, season_days=0)
    logs = levels(np.random.default_rng(5), 20, 660, sd=0.05, season=0.0)
    logs[0, 620:] += 0.6
    asked = list[int]()

    def decide(_reference: object, problem: list[Range], _history: object, **_: object) -> Decision:
        asked.append(sum(end - start for start, end in problem) // WINDOW_NS)
        chance = settings.level_share * (needed - 0.5) / WEEK
        sure = {"q": 1e-12, "z": float(ndtri(chance / 2))} if by_noise else {"q": chance, "z": 40.0}
        evidence = tuple(one.model_copy(update=sure) for one in SLOW.evidence)
        return Decision(CHANGED, "changed", (SLOW.model_copy(update={"evidence": evidence}),))

    watcher = Watcher(State(lake_id="x", tick_ns=WINDOW_NS, through_ns=MONDAY), settings, decide)
    points = []
    for number, window in enumerate(windows(logs)):
        if number < 600:
            watcher.learn(window)
        else:
            points += watcher.decide(window).change_points
    assert [point.outcome for point in points] == ["cannot-tell"] * (len(asked) - 1) + ["changed"]
    assert asked[-1] >= needed > max([0, *asked[:-1]])
    assert len(watcher.book.tracked) == 1


@pytest.mark.parametrize(
    ("settings", "severity"),
    [({}, "critical"), ({"critical_slower": 1.01}, "warning"), ({"critical_slower": 1.0}, "critical")],
)
def test_what_adds_so_much_of_the_mean_is_critical(settings: dict[str, Any], severity: str) -> None:
    decision = Decision(CHANGED, "changed", (SLOW,), mean_us=SLOW.contribution_us)
    assert taken(decision, settings) == severity
    assert taken(replace(decision, mean_us=0.0), settings) == "warning"


@pytest.mark.parametrize(("over", "severity"), [(0.99, "critical"), (1.01, "warning")])
def test_what_fails_so_much_more_is_critical(over: float, severity: str) -> None:
    decision = Decision(CHANGED, "changed", (FAILING,))
    rise = FAILING.share1 - FAILING.share0
    assert taken(decision, {"critical_failing": rise * over}) == severity


def taken(decision: Decision, settings: dict[str, Any]) -> str:
    book = Book("lake", NS_PER_MINUTE, WatchSettings.model_validate(settings), ())
    incident = book.take(decision, 100, 103, ())
    assert incident is not None
    return incident.severity
