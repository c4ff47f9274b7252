"""What certainly began later than the change that a series alarmed for is an incident of its own."""

from __future__ import annotations

import numpy as np
import pytest
from oracles.robust_report import failing_products, slow_recommendations
from oracles.watched_series import MONDAY, WINDOW_NS, levels, windows

from analyze.watch.decide import CHANGED, Decision, Range
from analyze.watch.incidents import split_by_onset
from analyze.watch.settings import WatchSettings
from analyze.watch.watcher import State, Watcher
from schemas.report.findings import Finding, Instant, When

SLOW, FAILING = slow_recommendations(), failing_products()
BY = 1000


def began(finding: Finding, instant: tuple[int, int, int] | None) -> Finding:
    """Say when it began: low, at, high; None: from the start."""
    told = None if instant is None else Instant(low_ns=instant[0], at_ns=instant[1], high_ns=instant[2])
    return finding.model_copy(update={"when": When(began=told, ended=None)})


@pytest.mark.parametrize(
    ("first", "second", "later"),
    [
        (None, None, ""),
        (None, (BY, BY + 5, BY + 9), ""),
        (None, (BY + 1, BY + 5, BY + 9), "second"),
        ((BY + 1, BY + 5, BY + 9), None, "first"),
        # It may have begun with one that may have begun with the alarm's.
        ((BY - 9, BY + 5, BY + 20), (BY + 15, BY + 30, BY + 40), ""),
        ((BY - 9, BY + 5, BY + 20), (BY + 21, BY + 30, BY + 40), "second"),
        # All of it began later than the sum says.
        ((BY + 1, BY + 5, BY + 9), (BY + 50, BY + 60, BY + 70), ""),
    ],
)
def test_findings_are_split_where_their_intervals_are_apart(
    first: tuple[int, int, int] | None, second: tuple[int, int, int] | None, later: str
) -> None:
    both = {"first": began(SLOW, first), "second": began(FAILING, second)}
    with_it, behind = split_by_onset([*both.values()], BY)
    assert behind == [both[name] for name in both if name == later]
    assert with_it == [both[name] for name in both if name != later]


def test_what_began_later_is_an_incident_of_its_own_with_its_own_begin() -> None:
    learned, begin, delay = 600, 620, 2 * WINDOW_NS
    logs = levels(np.random.default_rng(5), 40, 630, rho=0.3, sd=0.05, season=0.0)
    logs[:4, begin:] += 12 * 0.05
    told = list[int]()

    def decide(_reference: object, problem: list[Range], _history: object, **_: object) -> Decision:
        told.append(problem[0][0] + delay)
        behind = began(FAILING, (told[-1] - 10, told[-1], told[-1] + 10))
        return Decision(CHANGED, "changed", (began(SLOW, None), behind))

    settings = WatchSettings(slot_ns=0, baseline_ns=576 * WINDOW_NS, season_days=14)
    watcher = Watcher(State(lake_id="x", tick_ns=WINDOW_NS, through_ns=MONDAY), settings, decide)
    events, points, candidates = [], [], 0
    for number, window in enumerate(windows(logs)):
        if number < learned:
            watcher.learn(window)
            continue
        decided = watcher.decide(window)
        events += decided.events
        points += decided.change_points
        candidates += 0 if decided.run is None else decided.run.candidates
    slow, failing = (event.incident for event in events if event.kind == "opened")
    assert (slow.component, failing.component) == ("recommendationservice", "productcatalogservice")
    assert (slow.headline, slow.also) == (SLOW.title, ())
    assert abs(slow.began_to_ns - MONDAY - begin * WINDOW_NS) <= WINDOW_NS
    assert (failing.began_from_ns, failing.began_to_ns) == (told[0] - 10, told[0] + 10)
    assert [(p.incident, p.onset_ns) for p in points[:2]] == [
        (slow.id, points[0].onset_ns),
        (failing.id, told[0]),
    ]
    # Of no number that the comparison measured.
    assert slow.id.rpartition("-")[2] == failing.id.rpartition("-")[2] != str(told[0] // 10**9)
    assert candidates == 1
