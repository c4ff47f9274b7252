"""The daily and the weekly comparison over made weeks, by the calendar, with real comparisons."""

from __future__ import annotations

import io
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path

import pytest
from oracles.quiet_import import Quiet
from oracles.watched_shop import write_minutes

from analyze.refine.settings import RefineSettings
from analyze.watch.decide import UNCHANGED, Decision, Range
from analyze.watch.settings import WatchSettings
from analyze.watch.slow_lane import compared_day, compared_week, days_of, week_of
from analyze.watch.watching import LakeWatch
from schemas.incidents import IncidentEvent, LaneName
from schemas.windows import NS_PER_DAY
from stitch.drivers.batch import import_into
from stitch.drivers.import_settings import ImportSettings

QUARTER = NS_PER_DAY // 4
MONDAY_NS = int(datetime(2025, 11, 3, tzinfo=UTC).timestamp()) * 10**9
DAY_0 = MONDAY_NS // NS_PER_DAY
LEARNED, SMALL, DAYS = 15, (17, 19), 23
"""Days: the watch begins; the cart takes half as long again, a millisecond; the lake ends on a Tuesday."""


@pytest.mark.parametrize("day", [0, 3, 4, 20_000, DAY_0, DAY_0 + 6])
def test_weeks_begin_on_monday(day: int) -> None:
    days = days_of(week_of(day))
    assert day in days
    assert datetime.fromtimestamp(days[0] * 86_400, UTC).strftime("%A") == "Monday"
    assert week_of(days[-1] + 1) == week_of(day) + 1


class Asked:
    """A comparison that finds nothing, and what it was asked, in days."""

    def __init__(self) -> None:
        self.days: list[list[int]] = []

    def __call__(self, *ranges: list[Range], calendar_ns: int, **_: object) -> Decision:
        assert calendar_ns == NS_PER_DAY
        self.days = [
            [day for start, end in part for day in range(start // NS_PER_DAY, end // NS_PER_DAY)]
            for part in ranges
        ]
        return Decision(UNCHANGED, "unchanged")


def windows_since(first: int) -> object:
    """Windows of a day from a day on."""

    def of(start: int, end: int) -> list[Range]:
        return [(start, end)] if start >= first * NS_PER_DAY else []

    return of


def all_quiet(ranges: list[Range], *, small: Collection[LaneName] = ()) -> list[Range]:
    return list(ranges)


def test_a_day_is_compared_with_its_weekday_and_a_week_with_the_one_before() -> None:
    asked = Asked()
    assert compared_day(100, windows_since(70), all_quiet, asked) is not None
    assert asked.days[:2] == [[72, 79, 86, 93], [100]]
    assert asked.days[2] == [day for day in range(72, 100) if (100 - day) % 7]
    compared_day(100, windows_since(98), all_quiet, asked)  # no week is there yet
    assert asked.days == [[99], [100], [98]]
    assert compared_day(100, windows_since(100), all_quiet, asked) is None
    assert compared_week(109, windows_since(70), all_quiet, asked) is not None
    assert asked.days == [[*range(102, 109)], [*range(109, 116)], [*range(81, 102)]]
    assert compared_week(109, windows_since(109), all_quiet, asked) is None


def test_what_has_an_incident_is_looked_at_by_no_slower_lane() -> None:
    def quiet(ranges: list[Range], *, small: Collection[LaneName] = ()) -> list[Range]:
        loud = {93, 112} if "daily" in small else {112}
        return [one for one in ranges if one[0] // NS_PER_DAY not in loud]

    asked = Asked()
    compared_day(100, windows_since(70), quiet, asked)
    assert asked.days[0] == [72, 79, 86]
    compared_week(109, windows_since(70), quiet, asked)
    assert asked.days[1] == [109, 110, 111, 113, 114, 115]
    assert compared_day(112, windows_since(70), quiet, asked) is None


def test_what_a_week_reported_is_looked_at_again_against_the_last_quiet_week() -> None:
    """Else it could not be seen to end, and would hide what the next week does."""

    def quiet(ranges: list[Range], *, small: Collection[LaneName] = ()) -> list[Range]:
        return [one for one in ranges if "weekly" not in small or one[0] // NS_PER_DAY < 102]

    asked = Asked()
    assert compared_week(109, windows_since(70), quiet, asked) is not None
    assert asked.days == [[*range(95, 102)], [*range(109, 116)], [*range(81, 95)]]


def test_a_small_step_is_found_in_the_morning_and_is_one_incident(tmp_path: Path) -> None:
    lake, told = tmp_path / "lake", list[IncidentEvent]()
    small = range(SMALL[0] * 4, SMALL[1] * 4)
    for first, past in ((0, LEARNED), (LEARNED, DAYS)):
        file = tmp_path / f"{first}.otlp.jsonl"
        write_minutes(
            file, first * 4, past * 4, slow=small, start_ns=MONDAY_NS, minute_ns=QUARTER, extra_ms=1.0
        )
        import_into(
            str(lake),
            [str(file)],
            ImportSettings(window_length_ns=QUARTER),
            owner="test",
            created_by="test",
            stdin=io.BytesIO(),
            progress=Quiet(),
        )
        # The fast lane needs twenty windows, five days: this is the daily comparison's alone.
        settings = WatchSettings(slot_ns=0, cap_ticks=20)
        watch = LakeWatch(str(lake), settings, RefineSettings(), "test", "test")
        watch.resume()
        told += [event for decided in watch.poll() for event in decided.events]
    (opened, *_, over) = told
    incident = over.incident
    assert {event.incident_id for event in told} == {incident.id}  # the week says nothing of it again
    assert (opened.kind, incident.lane, incident.component) == ("opened", "daily", "cart")
    morning = MONDAY_NS + (SMALL[0] + 1) * NS_PER_DAY
    assert 0 <= opened.at_ns - morning <= 2 * QUARTER
    assert (incident.began_from_ns, incident.began_to_ns) == (morning - NS_PER_DAY, morning)
    assert (over.kind, incident.resolved_ns) == ("resolved", MONDAY_NS + SMALL[1] * NS_PER_DAY)
    assert watch._slow.weeks.tests == 1
