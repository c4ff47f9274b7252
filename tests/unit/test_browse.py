"""Browsing on the papers' own examples (TR §6.2, Figures 7 and 8), and at its edges."""

from __future__ import annotations

import re
from dataclasses import replace
from io import StringIO
from typing import TypeVar

import numpy as np
import pytest
from oracles.populations import category, graph, population
from oracles.refined import Call
from oracles.refined import population as refined
from rich.console import Console

from analyze.compare import compare
from analyze.methods.browse.method import METHOD, analyse
from analyze.methods.browse.settings import BrowseSettings
from analyze.methods.browse.timeline import timeline_section
from analyze.methods.port import Chosen, Result
from analyze.population import Category, Population, Sample
from analyze.profile.samples import samples_of
from analyze.report.limits import ReportLimits
from analyze.report.page import render_html
from analyze.report.terminal import print_report
from analyze.stats.density import log_density, modes
from schemas.events import EventKind
from schemas.report.browse import (
    BrowsePlacesSection,
    BrowseRangesSection,
    BrowseSchedulesSection,
    BrowseTimelineSection,
    TrainSchedule,
)

SECOND_NS = 10**9
S = TypeVar("S")


def started(made: Category, every_ns: int) -> Category:
    return replace(made, start_ns=np.arange(made.n_requests, dtype=np.int64) * every_ns)


def create(rng: np.random.Generator, n: int, loops: int) -> Category:
    """A CREATE whose metadata server asks its storage node once an iteration, some ms each."""
    labels = ["nfs/CREATE_CALL", "mds/INSERT"]
    for _ in range(loops):
        labels += ["sn/READ", "sn/READ_REPLY", "mds/PAGE"]
    labels += ["nfs/CREATE_REPLY"]
    g = graph(labels)
    steps = rng.lognormal(0, 0.1, (n, len(labels) - 1)) * 50_000
    for edge in range(len(labels) - 1):
        if labels[edge] == "sn/READ":
            steps[:, edge] *= 60
    times = np.concatenate([np.zeros((n, 1)), steps.cumsum(axis=1)], axis=1).astype(np.int64)
    return started(category(g, times, np.zeros(n, np.int64)), SECOND_NS)


def one_period(*categories: Category) -> Population:
    return population(*categories, samples=(Sample("period", "", 0, 10**15),), statuses=("ok",))


def browsed(found: Population, **settings: object) -> Result:
    return analyse(samples_of(found), None, BrowseSettings.model_validate(settings), ReportLimits())


def section(result: Result, model: type[S]) -> S:
    return next(one for one in result.sections if isinstance(one, model))


def calls(schedule: TrainSchedule, source: str, target: str) -> int:
    names = [lane.component for lane in schedule.lanes]
    return sum((names[m.source], names[m.target]) == (source, target) for m in schedule.messages)


def test_slow_creates_are_found_and_their_loop_is_seen() -> None:
    """TR §6.2: expensive requests are CREATEs, in many categories that differ in the number of iterations;
    as a train schedule the loop between metadata server and storage node is plain (Figure 7)."""
    rng = np.random.default_rng(1)
    cheap = category(
        graph(("nfs/GETATTR_CALL", "nfs/GETATTR_REPLY")),
        np.stack([np.zeros(900), rng.lognormal(0, 0.2, 900) * 80_000], axis=1).astype(np.int64),
        np.zeros(900, np.int64),
    )
    slow = [create(rng, 4, loops) for loops in range(20, 26)]
    result = browsed(one_period(started(cheap, SECOND_NS), create(rng, 60, 1), *slow))
    ranges = section(result, BrowseRangesSection)
    tail = ranges.ranges[-1]
    assert tail.kind == "tail"
    assert ranges.roots[tail.roots[0].place].root == "nfs/CREATE_CALL"
    assert tail.roots[0].share_in == 1.0
    assert ranges.sites[tail.sites[0].place].label == "sn/READ -> sn/READ_REPLY"
    drawn = section(result, BrowseSchedulesSection).requests
    fast_one = next(one for one in drawn if one.requests == 60)
    slow_one = next(one for one in drawn if one.requests == 4)
    assert calls(fast_one.medoid, "mds", "sn") == calls(fast_one.medoid, "sn", "mds") == 1
    assert calls(slow_one.medoid, "mds", "sn") >= 20
    waited = {lane.component: lane.waited_us for lane in slow_one.medoid.lanes}
    assert waited["sn"] > 0.8 * slow_one.medoid.response_us
    assert len(ranges.ranges) == 4  # a hump each for GETATTR, fast and slow CREATEs; and the slow end


def test_a_schedule_of_spans_has_waits_messages_and_work() -> None:
    """A waits for B by a client span; B asks C without one, which takes no recorded time."""
    c = Call("c/work", 40, 60, (), "h3", EventKind.SPAN_SERVER)
    b = Call("b/serve", 20, 80, (c,), "h2", EventKind.SPAN_SERVER)
    ask = Call("a/ask", 10, 90, (b,), "h1", EventKind.SPAN_CLIENT)
    found = refined([Call("a/page", 0, 100, (ask,), "h1", EventKind.SPAN_SERVER)] * 3)
    result = browsed(found.of_samples(0, 1))
    (one,) = section(result, BrowseSchedulesSection).requests
    schedule = one.medoid
    assert [(lane.component, lane.hosts) for lane in schedule.lanes] == [
        ("a", ("h1",)),
        ("b", ("h2",)),
        ("c", ("h3",)),
    ]
    bars = sorted((bar.lane, bar.start_us, bar.end_us) for bar in schedule.bars)
    assert bars == [(0, 0, 10), (0, 90, 100), (1, 20, 40), (1, 60, 80), (2, 40, 60)]
    lines = sorted((m.source, m.start_us, m.target, m.end_us) for m in schedule.messages)
    assert lines == [(0, 10, 1, 20), (1, 40, 2, 40), (1, 80, 0, 90), (2, 60, 1, 60)]
    assert schedule.message_us == 20
    assert [lane.waited_us for lane in schedule.lanes] == [20, 40, 20]
    assert one.mean.bars == schedule.bars  # all requests are alike


def test_pauses_of_the_client_are_gaps_and_not_response_times() -> None:
    """TR Figure 8: response times stay, requests come less often."""
    labels = ("nfs/READ_CALL", "nfs/READ_REPLY")
    n = 400
    made = category(graph(labels), np.tile([0, 2_000_000], (n, 1)), np.zeros(n, np.int64))
    start = np.concatenate([np.arange(200) * 3_000_000, 2 * SECOND_NS + np.arange(200) * 50_000_000])
    told = timeline_section(one_period(replace(made, start_ns=start)), 0, BrowseSettings(times=24))
    (entry,) = told.entries
    assert entry.most_in_flight == 1
    assert entry.gap_us is not None
    assert entry.gap_us[2] == pytest.approx((2 * SECOND_NS - 199 * 3_000_000 - 2_000_000) / 1e3)
    assert set(entry.median_us) == {2000.0, None}
    assert max(entry.arrivals[:2]) > 8 * max(entry.arrivals[8:])
    assert sum(entry.arrivals) == n
    # 2 ms of work each: what is at work is the rate times that (Little).
    assert entry.in_flight == pytest.approx(entry.rate_per_s * 0.002, rel=1e-2)
    assert {strip.kind for strip in entry.strips} == {"usual", "busiest", "longest-gap"}


def test_two_periods_of_which_one_has_pauses() -> None:
    """TR §6.7: gaps differ by test, response times do not; and the other way round for a slower service."""
    rng = np.random.default_rng(4)
    n = 300
    labels = ("nfs/READ_CALL", "nfs/READ_REPLY")

    def told(pause: float, slower: float) -> tuple[float | None, float | None]:
        us = rng.lognormal(7, 0.3, 2 * n) * np.repeat([1.0, slower], n)
        times = np.stack([np.zeros(2 * n), us * 1e3], axis=1).astype(np.int64)
        made = category(graph(labels), times, np.repeat([0, 1], n))
        apart = rng.exponential(8e6, 2 * n) * np.repeat([1.0, pause], n)
        start = np.concatenate([apart[:n].cumsum(), 10**12 + apart[n:].cumsum()]).astype(np.int64)
        samples = (Sample("reference", "", 0, 10**12), Sample("problem", "", 10**12, 2 * 10**12))
        found = population(replace(made, start_ns=start), samples=samples, statuses=("ok",))
        (entry,) = timeline_section(found, 1, BrowseSettings()).entries
        assert entry.before is not None
        assert entry.before.requests == n
        return entry.before.gaps_p, entry.before.times_p

    gaps, times = told(3.0, 1.0)
    assert gaps is not None and gaps < 0.01  # noqa: PT018
    assert times is not None and times > 0.05  # noqa: PT018
    gaps, times = told(1.0, 1.5)
    assert times is not None and times < 0.01  # noqa: PT018


def test_time_that_nobody_watched_is_no_gap() -> None:
    labels = ("nfs/READ_CALL", "nfs/READ_REPLY")
    made = category(graph(labels), np.tile([0, 2_000_000], (40, 1)), np.zeros(40, np.int64))
    start = np.concatenate([np.arange(20) * 10_000_000, 100 * SECOND_NS + np.arange(20) * 10_000_000])
    ranges = ((0, SECOND_NS), (100 * SECOND_NS, 101 * SECOND_NS))
    found = replace(
        one_period(replace(made, start_ns=start)), samples=(Sample("p", "", 0, 101 * SECOND_NS, "", ranges),)
    )
    (entry,) = timeline_section(found, 0, BrowseSettings()).entries
    assert entry.gap_us == pytest.approx((8000, 8000, 8000))
    assert entry.gaps == 38
    assert not all(entry.watched)


def test_modes_of_two_humps_and_of_whole_milliseconds() -> None:
    rng = np.random.default_rng(2)
    us = np.concatenate([rng.lognormal(6, 0.2, 3000), rng.lognormal(9, 0.3, 1000)])
    found = log_density(us, np.ones(len(us)))
    assert found is not None
    assert [round(2**mode.at, -1) for mode in modes(found, 8)] == pytest.approx(
        [np.exp(6), np.exp(9)], rel=0.12
    )
    whole = np.ceil(rng.lognormal(2, 0.3, 4000)) * 1000  # 3 to 20 ms, by a clock of milliseconds
    stepped = log_density(whole, np.ones(len(whole)))
    assert stepped is not None
    assert stepped.rule == "resolution"
    assert len(modes(stepped, 8)) == 1


def test_chance_makes_no_mode() -> None:
    """Samples of one log-normal have one mode, whatever the bandwidth shows."""
    found = []
    for seed in range(60):
        us = np.random.default_rng(seed).lognormal(6, 0.4, 300)
        density = log_density(us, np.ones(len(us)))
        assert density is not None
        found.append(len(modes(density, 8)))
    assert found.count(1) >= 57


@pytest.mark.parametrize("n", [0, 1, 2])
def test_few_requests_or_none(n: int) -> None:
    made = category(graph(("a/x", "a/y")), np.tile([0, 5_000], (n, 1)), np.zeros(n, np.int64))
    result = browsed(one_period(made))
    ranges = section(result, BrowseRangesSection)
    assert ranges.curves == ()
    assert [one.n for one in ranges.ranges] == ([n] if n else [])
    assert len(section(result, BrowseTimelineSection).entries) == min(n, 1)
    places = section(result, BrowsePlacesSection)
    assert places.errors == ()
    assert [row.share_of_time for row in places.sites] == ([1.0] if n else [])
    assert result.verdict.outcome == ("shown" if n else "empty")


@pytest.mark.parametrize("ns", [[0, 0, 0], [0, 0, 10**6], [1, 10**13]])
def test_times_of_nothing_and_of_hours_are_drawn(ns: list[int]) -> None:
    """Densities, schedules and series of degenerate times: finite figures, and a page."""
    times = np.array([[0, x] for x in ns])
    found = one_period(category(graph(("a/x", "a/y")), times, np.zeros(len(ns), np.int64)))
    outcome = compare(found, [Chosen(METHOD, BrowseSettings())])
    page = render_html(outcome.report, outcome.views)
    assert "nan" not in page.split("<body>")[1].split("<script")[0].lower()
    assert not re.search(r"[\d.]+e[+-]\d+", page.split("<main>")[1].split("</main>")[0])


def test_two_samples_show_the_first_beside_the_last() -> None:
    rng = np.random.default_rng(3)
    times = np.stack([np.zeros(200), rng.lognormal(0, 0.3, 200) * 1e6], axis=1).astype(np.int64)
    made = category(graph(("a/x", "a/y")), times, np.repeat([0, 1], 100))
    found = population(made, samples=(Sample("reference", "", 0, 10**12), Sample("problem", "", 0, 10**12)))
    ranges = section(browsed(found), BrowseRangesSection)
    assert [curve.sample for curve in ranges.curves] == ["reference", "problem"]
    assert sum(ranges.n) == 100
    assert ranges.sample == "problem"


def test_a_typical_request_is_separated_from_the_mean_and_lifts_are_words() -> None:
    """The terminal once read `1.06 ms on average 1.01 ms: a 1.01 ms` and `lift ×2`."""
    rng = np.random.default_rng(4)
    parts = [
        np.stack([np.zeros(100), rng.lognormal(0, 0.1, 100) * us * 1e3], axis=1).astype(np.int64)
        for us in (1_000, 30_000)
    ]
    made = [
        category(graph(("a/x", point)), times, np.zeros(100, np.int64))
        for point, times in zip(("a/y", "a/z"), parts, strict=True)
    ]
    outcome = compare(one_period(*made), [Chosen(METHOD, BrowseSettings())])
    out = StringIO()
    print_report(outcome.report, outcome.views, Console(file=out, width=300, color_system=None))
    printed = out.getvalue().replace("\N{NO-BREAK SPACE}", " ")
    assert re.search(r"on average(; stands for [^\n]*)?; this one [\d.]+ m?s: a ", printed)
    assert "lift" not in printed
    assert "only here" in printed or "× as often as elsewhere" in printed
    assert "bandwidth" not in printed
    assert "peaks at" in printed
