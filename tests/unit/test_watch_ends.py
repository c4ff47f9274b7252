"""What begins as an incident ends is of its end, and what rises with one asks for no comparison."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from oracles.robust_report import slow_recommendations
from oracles.watched_series import MONDAY, WINDOW_NS, levels, windows

from analyze.watch.candidates import Decided
from analyze.watch.decide import CHANGED, Decision, Range
from analyze.watch.incidents import Book
from analyze.watch.settings import WatchSettings
from analyze.watch.watcher import State, Watcher
from schemas.incidents import IncidentEvent, LaneName
from schemas.windows import NS_PER_DAY

SETTINGS = WatchSettings(slot_ns=0, baseline_ns=576 * WINDOW_NS, season_days=14)
LEARNED, BEGIN, END = 600, 620, 640
SD = 0.05


@dataclass
class Always:
    """A comparison that finds a change, at a place of its problem's own, on one of its hosts."""

    asked: list[int] = field(default_factory=list)
    """Ticks at which it was asked."""

    def __call__(self, reference: list[Range], problem: list[Range], *_: object, **__: object) -> Decision:
        self.asked.append((problem[-1][1] - MONDAY) // WINDOW_NS)
        found = slow_recommendations()
        component = "first" if len(self.asked) == 1 else f"other-{len(self.asked)}"
        site = found.site.model_copy(update={"component": component, "operation": "work"})
        on = found.factors[0].model_copy(update={"attribute": f"host of {component}", "value": "pod-1"})
        finding = found.model_copy(update={"site": site, "factors": (on,)})
        return Decision(CHANGED, "changed", (finding,))


def run(*shifts: tuple[range, int, int, float]) -> tuple[list[int], list[IncidentEvent]]:
    """Ticks at which was compared, and events; shifts: series, from, to, standard deviations."""
    logs = levels(np.random.default_rng(5), 40, 700, rho=0.3, sd=SD, season=0.0)
    for series, begin, end, by in shifts:
        logs[series.start : series.stop, begin:end] += by * SD
    always = Always()
    watcher = Watcher(State(lake_id="x", tick_ns=WINDOW_NS, through_ns=MONDAY), SETTINGS, always)
    events = []
    for number, window in enumerate(windows(logs)):
        if number < LEARNED:
            watcher.learn(window)
        else:
            events += watcher.decide(window).events
    return always.asked, events


def test_series_that_rise_together_ask_once() -> None:
    asked, events = run(*((range(2 * k, 2 * k + 2), BEGIN, END, 12.0 - k) for k in range(8)))
    assert len(asked) <= 2
    assert BEGIN < asked[0] <= BEGIN + 4
    assert [event.kind for event in events if event.incident.component == "first"] == ["opened", "resolved"]
    assert {event.incident.host for event in events} == {"pod-1"}


def test_what_begins_with_an_end_is_no_incident() -> None:
    """Caches are cold for some ticks: other series shift as the fault ends."""
    fault = (range(8), BEGIN, END, 12.0)
    asked, events = run(fault, (range(20, 24), END, END + 4, 9.0))
    assert [event.kind for event in events] == ["opened", "resolved"]
    assert max(asked) < END
    # What stays is found, a little later.
    asked, events = run(fault, (range(20, 24), END, END + 30, 9.0))
    assert [event.kind for event in events][:3] == ["opened", "resolved", "opened"]
    assert max(asked) <= END + 12


def test_what_took_long_to_be_found_is_not_over_while_it_goes_on() -> None:
    """Single values of a small change look calm, three in a row now and then."""
    end = 680
    _, events = run((range(4), BEGIN, end, 2.2))
    events = [event for event in events if event.incident.component == "first"]
    assert [event.kind for event in events] == ["opened", "resolved"]
    assert (events[1].at_ns - MONDAY) // WINDOW_NS > end


def test_a_long_history_is_no_more_memory_and_the_same_baseline() -> None:
    settings = WatchSettings(slot_ns=0, baseline_ns=100 * WINDOW_NS, season_days=1)
    logs = levels(np.random.default_rng(5), 10, 1_000, rho=0.3, sd=SD)

    def watcher_since(first: int) -> Watcher:
        made = Watcher(State(lake_id="x", tick_ns=WINDOW_NS, through_ns=MONDAY), settings, Always())
        for window in windows(logs[:, :999], first=first):
            made.learn(window)
        return made

    old, young = watcher_since(0), watcher_since(999 - 300)
    assert len(old.detector.ring.at) <= 1.5 * 100 + 24
    logs[:3, 999] += 10 * SD
    (last,) = windows(logs, first=999)
    for watcher in (old, young):
        watcher.decide(last)
    assert len(old.state.sums) >= 3
    assert old.state == young.state


def test_what_begins_behind_an_end_is_found_as_soon_as_ever() -> None:
    later = END + SETTINGS.recovery_ticks + 1
    asked, _ = run((range(8), BEGIN, END, 12.0), (range(20, 24), later, later + 30, 9.0))
    assert later < max(asked) <= later + 4


def test_what_a_person_accepted_is_in_the_state_that_is_committed() -> None:
    logs = levels(np.random.default_rng(5), 40, 700, rho=0.3, sd=SD, season=0.0)
    logs[:4, BEGIN:] += 20 * SD
    watcher = Watcher(State(lake_id="x", tick_ns=WINDOW_NS, through_ns=MONDAY), SETTINGS, Always())
    for number, window in enumerate(windows(logs[:, : BEGIN + 6])):
        (watcher.learn if number < LEARNED else watcher.decide)(window)
    (tracked,) = watcher.book.open
    assert watcher.accept(tracked.incident.id, BEGIN + 6) is not None
    watcher.collect(Decided.nothing())
    assert {name for name, _ in watcher.state.anew} == set(tracked.series)


@pytest.mark.parametrize(
    ("lane", "days", "opened"), [("fast", 6, 0), ("fast", 7, 1), ("daily", 27, 0), ("daily", 28, 1)]
)
def test_what_was_accepted_is_no_news_while_what_a_lane_compares_with_is_older(
    lane: LaneName, days: int, opened: int
) -> None:
    """The fast lane knows seven days, the daily comparison four weeks."""
    book = Book("x", NS_PER_DAY, WatchSettings(), [])
    found = Decision(CHANGED, "changed", (slow_recommendations(),))
    first = book.take(found, 10, 10, [])
    assert first is not None
    assert book.end(first.id, 10, "accepted") is not None
    again = book.take(found, 11 + days, 11 + days, [], lane=lane)
    assert (again is not None) is bool(opened)
