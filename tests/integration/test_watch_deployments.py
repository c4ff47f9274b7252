"""Versions are noticed where they run, compared in the same windows, and their incidents end with them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from oracles.quiet_import import Quiet
from oracles.robust_report import slow_recommendations
from oracles.watched_shop import START_NS, write_minutes

from analyze.refine.settings import RefineSettings
from analyze.scope import LakePeriod, Lakes
from analyze.watch import deployments
from analyze.watch.decide import UNSURE, Decision, Range
from analyze.watch.deployments import looked_at, noticed
from analyze.watch.settings import WatchSettings
from analyze.watch.versions import Rollout, Versions
from analyze.watch.watching import LakeWatch, marked
from schemas.incidents import Incident, IncidentEvent
from schemas.periods import Period, parse_period
from schemas.windows import NS_PER_MINUTE, NS_PER_SECOND
from stitch.drivers.batch import import_into
from stitch.drivers.import_settings import ImportSettings

SETTINGS = WatchSettings(slot_ns=15 * NS_PER_SECOND)
KEY = "service.version"


def add(lake: Path, first: int, past: int, **how: Any) -> None:
    """Import minutes of the shop."""
    file = lake.parent / f"{first}.otlp.jsonl"
    write_minutes(file, first, past, **how)
    import_into(
        lake,
        [str(file)],
        ImportSettings(window_length_ns=NS_PER_MINUTE),
        owner="test",
        created_by="test",
        stdin=io.BytesIO(),
        progress=Quiet(),
    )


def watch(lake: Path, settings: WatchSettings = SETTINGS) -> list[IncidentEvent]:
    """Decide what was sealed since; what happened."""
    told = list[IncidentEvent]()
    one = LakeWatch(str(lake), settings, RefineSettings(), "test", "test")
    one.resume()
    for decided in one.poll():
        told += decided.events
    return told


def last(told: Sequence[IncidentEvent]) -> list[Incident]:
    """The incidents as they are."""
    return [*{event.incident_id: event.incident for event in told}.values()]


def rollouts_of(lake: Path) -> list[tuple[int, str, str]]:
    """(minute, component, version) of each deployment that its windows show."""
    state, found = Versions(), list[tuple[int, str, str]]()
    everything = Lakes(str(lake)).find(parse_period("all", now_ns=0))
    for minute, window in enumerate(everything.windows):
        (here,) = Lakes(str(lake)).listed([(Period(None, window.start_ns, window.end_ns), [window])])
        before = {(one.component, one.version, one.start_ns) for one in state.rollouts}
        state = noticed(state, here, KEY, gone_windows=3)
        found += [
            (minute, one.component, one.version)
            for one in state.rollouts
            if (one.component, one.version, one.start_ns) not in before
        ]
    return found


def test_what_runs_at_night_is_deployed_by_day(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows in which nobody calls a component say nothing of its version."""
    shop, job, later = ("shop", "v1"), ("job", "v1"), ("job", "v2")
    state = Versions()
    for minute, seen in enumerate([{shop, job}, *[{shop}] * 5, {shop, later}]):
        monkeypatch.setattr(deployments, "versions_in", lambda _here, _key, seen=seen: frozenset(seen))
        here = SimpleNamespace(windows=[SimpleNamespace(start_ns=minute * NS_PER_MINUTE)])
        state = noticed(state, cast(LakePeriod, here), KEY, gone_windows=3)
    assert [(one.component, one.version) for one in state.rollouts] == [later]


@pytest.mark.parametrize("found", [True, False])
def test_what_came_before_is_asked_only_where_the_same_windows_say_nothing(found: bool) -> None:
    asked: list[Sequence[Range]] = []

    def decide(reference: Sequence[Range], *_: object, **__: object) -> Decision:
        asked.append(reference)
        return Decision(UNSURE, "cannot-tell", (slow_recommendations(),) if found else ())

    rollout = Rollout(component="cart", version="v2", start_ns=5, windows=1)
    decision = looked_at(rollout, KEY, [(5, 6)], [(0, 5)], decide)
    assert asked == ([[(5, 6)]] if found else [[(5, 6)], [(0, 5)]])
    assert bool(decision.findings) is found


def test_a_version_is_new_where_its_component_did_not_have_it(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    add(lake, 0, 3, versions={1: "v2"}, released=["store"])
    add(lake, 3, 5, versions={0: "v2"}, released=["store", "cart"])  # of the cart it is new
    add(lake, 5, 7, versions={0: "v3"}, released=["shop", "cart"], share_of_new=1.0)  # of both at once
    add(lake, 7, 11, share_of_new=1.0)  # rolled back
    assert rollouts_of(lake) == [
        (1, "store", "v2"),
        (3, "cart", "v2"),
        (5, "cart", "v3"),
        (5, "shop", "v3"),
    ]
    add(lake, 11, 13, versions={0: "v3"}, released=["cart"])  # it was gone for three windows
    assert rollouts_of(lake)[4:] == [(11, "cart", "v3")]


@pytest.fixture
def deployed(tmp_path: Path) -> Path:
    """A lake whose watch knows twenty minutes of the version before."""
    lake = tmp_path / "lake"
    add(lake, 0, 20)
    assert watch(lake) == []
    return lake


def test_a_slow_version_is_found_among_the_others_until_it_is_gone(deployed: Path) -> None:
    add(deployed, 20, 30, versions={21: "v2"}, slow_version="v2", share_of_new=0.3)
    (incident,) = last(watch(deployed))
    assert (incident.lane, incident.version, incident.component) == ("deployment", "v2", "cart")
    assert incident.goes_on
    add(deployed, 30, 34)
    (incident,) = last(watch(deployed))
    assert incident.state == "resolved"


def test_a_slow_version_that_replaces_the_one_before_is_one_incident_that_names_it(deployed: Path) -> None:
    add(deployed, 20, 26, versions={21: "v2"}, slow_version="v2", share_of_new=1.0)
    told = watch(deployed)
    (incident,) = last(told)
    assert (incident.version, incident.component) == ("v2", "cart")
    assert len({event.id for event in told}) == len(told)
    add(deployed, 26, 40)  # rolled back: no look at what is gone
    assert [(event.kind, event.incident_id) for event in watch(deployed)][-1] == ("resolved", incident.id)


@pytest.mark.parametrize("versions", ["", KEY])
def test_what_a_person_marks_is_compared_before_with_after(deployed: Path, versions: str) -> None:
    marked(str(deployed), "larger carts", START_NS + 20 * NS_PER_MINUTE, "test", "test")
    add(deployed, 20, 24, slow=range(20, 24))
    (incident,) = last(watch(deployed, SETTINGS.model_copy(update={"versions": versions})))
    assert (incident.version, incident.component) == ("larger carts", "cart")
