"""Levels and floors of the watch are settings that act: looks at a deployment, and what is critical."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from oracles.robust_report import failing_products, slow_recommendations
from oracles.watched_series import MONDAY, WEEK, WINDOW_NS, levels, windows

from analyze.watch.decide import CHANGED, NOT_SURE, Decision, Range
from analyze.watch.deployments import looked_at
from analyze.watch.incidents import Book
from analyze.watch.settings import WatchSettings
from analyze.watch.versions import Rollout
from analyze.watch.watcher import State, Watcher
from schemas.report.findings import Finding
from schemas.watch_tables import ChangePoint
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


SETTINGS = WatchSettings(slot_ns=0, baseline_ns=576 * WINDOW_NS, season_days=0)


def rare(finding: Finding, windows_long: float, *, q: bool = True, noise_p: bool = True) -> Finding:
    """Make a finding as rare as the level of a stretch of so many windows, by chance, or beyond noise."""
    chance = SETTINGS.level_share * windows_long / WEEK
    told = {"q": chance if q else 1e-12, "noise_p": chance if noise_p else 1e-12}
    surest = finding.evidence[0].model_copy(update=told)
    weaker = surest.model_copy(update={"q": 0.003, "noise_p": 0.003})
    return finding.model_copy(update={"evidence": (weaker, surest)})


def watched(logs: np.ndarray, found: Sequence[Finding]) -> tuple[Watcher, list[int], list[ChangePoint]]:
    """Watch made series of which every comparison says the same: the watcher, lengths that were asked for,
    in windows, and change points."""
    asked, points = list[int](), list[ChangePoint]()

    def decide(_reference: object, problem: list[Range], _history: object, **_: object) -> Decision:
        asked.append(sum(end - start for start, end in problem) // WINDOW_NS)
        return Decision(CHANGED, "changed", tuple(found))

    watcher = Watcher(State(lake_id="x", tick_ns=WINDOW_NS, through_ns=MONDAY), SETTINGS, decide)
    for number, window in enumerate(windows(logs)):
        if number < 600:
            watcher.learn(window)
        else:
            points += watcher.decide(window).change_points
    return watcher, asked, points


def stepped(last: int, series: int = 1) -> np.ndarray:
    """Make 20 series, of which some are higher from about window 620 to the last."""
    logs = levels(np.random.default_rng(5), 20, 680, sd=0.05, season=0.0)
    for row in range(series):
        logs[row, 620 + row % 4 : last] += 0.6 - 0.03 * row
    return logs


@pytest.mark.parametrize("last", [680, 624])
@pytest.mark.parametrize(("q", "noise_p"), [(True, False), (False, True)])
@pytest.mark.parametrize("needed", [3, 12])
def test_the_level_of_a_chosen_stretch_is_its_part_of_the_budget(
    needed: int, q: bool, noise_p: bool, last: int
) -> None:
    """A candidate is the oddest of all stretches as long: its finding must be as rare as one of these. What a
    comparison confirms is asked for again though its series has got used to it."""
    found = rare(SLOW, needed - 0.5, q=q, noise_p=noise_p)
    watcher, asked, points = watched(stepped(last), [found])
    assert [point.outcome for point in points] == [NOT_SURE] * (len(asked) - 1) + ["changed"]
    assert {point.headline for point in points} == {SLOW.title}
    assert asked[-1] >= needed > max([0, *asked[:-1]])
    assert all(one * 1.5 <= other for one, other in pairwise(asked))
    assert len(watcher.book.tracked) == 1


def test_series_that_rise_together_wait_for_one_comparison() -> None:
    _, asked, points = watched(stepped(680, series=12), [rare(SLOW, 20)])
    assert all(one < other for one, other in pairwise(asked))
    assert len(asked) <= 8
    assert sum(point.outcome == "changed" for point in points) == 1


def test_a_sure_finding_makes_no_other_one_sure() -> None:
    weak, sure = rare(SLOW, 500), rare(FAILING, 1)
    watcher, _, _ = watched(stepped(680), [weak, sure])
    assert [one.incident.headline for one in watcher.book.tracked] == [FAILING.title]
    assert all(SLOW.title not in one.places for one in watcher.book.tracked)


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
