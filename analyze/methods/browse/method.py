"""Browse a period, `flowdiff browse`: one sample in, what can be looked at out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from analyze.methods.browse.places import SitesAndHosts, places_section
from analyze.methods.browse.ranges import Ranges, ranges_section
from analyze.methods.browse.schedules import schedules_section
from analyze.methods.browse.sections import (
    ERRORS,
    HOSTS,
    PLACES,
    RANGES,
    SCHEDULES,
    SITES,
    TIMELINE,
    VARIANCE_CURVES,
)
from analyze.methods.browse.settings import BrowseSettings
from analyze.methods.browse.timeline import timeline_section
from analyze.methods.port import Method, Result, SampleCount
from analyze.population import Population
from analyze.profile.times import path_times
from analyze.report import wording
from analyze.report.limits import ReportLimits
from analyze.stats.moments import HIGH, LARGE, SampleMoments, c2_curve, category_moments
from schemas.report.browse import (
    BrowsePlacesSection,
    BrowseRangesSection,
    BrowseTimelineSection,
    BrowseVarianceSection,
    EntryTimeline,
    RootVariance,
)
from schemas.report.columns import arrow_columns, arrow_table, stored
from schemas.report.report import Verdict

_MOST_ROOTS: Final = 40


def c2_section(population: Population, moments: SampleMoments) -> BrowseVarianceSection:
    """The section."""
    c2 = moments.c2
    large = moments.count > LARGE
    last = len(population.samples) - 1
    roots: dict[str, list[int]] = {}
    for number in np.flatnonzero(large[last] & np.isfinite(c2[last])).tolist():
        roots.setdefault(population.categories[number].graph.root, []).append(number)
    rows = [
        RootVariance(
            root=root,
            requests=int(moments.count[last, numbers].sum()),
            categories=len(numbers),
            below_one=float((c2[last, numbers] < HIGH).mean()),
            largest=float(c2[last, numbers].max()),
        )
        for root, numbers in roots.items()
    ]
    rows.sort(key=lambda row: (-row.requests, row.root))
    return BrowseVarianceSection(
        curves=tuple(
            c2_curve(sample.name, c2[number][large[number]], moments.count[number][large[number]])
            for number, sample in enumerate(population.samples)
        ),
        roots=tuple(rows[:_MOST_ROOTS]),
        roots_total=len(rows),
    )


_CATEGORY_COLUMNS: Final = (
    stored("category", "key", "key after refinement"),
    stored("root", "name", "root type"),
    stored("low_ns", "count", "bin of response time: from"),
    stored("high_ns", "count", "to, not included"),
    stored("requests", "count", "recorded requests"),
    stored("weight", "number", "the same, weighted"),
    stored("failed", "number", "weight of those whose root failed"),
)


def _at(name: str, after: int = 0) -> Callable[[tuple[EntryTimeline, int]], Any]:
    """Give a value of an entry's part of the period, or of the one `after`."""
    return lambda part: getattr(part[0], name)[part[1] + after]


_TIMELINE_COLUMNS: Final = (
    stored("component", "name", "where requests come in", lambda part: part[0].component),
    stored("start_ns", "count", "part of the period: from", _at("edges_ns")),
    stored("end_ns", "count", "to, not included", _at("edges_ns", 1)),
    stored("arrivals", "count", "requests that began", _at("arrivals")),
    stored("failed", "count", "of those, failed", _at("failed")),
    stored("mean_in_flight", "number", "requests at work", _at("mean_in_flight")),
    stored("max_in_flight", "count", "at any instant", _at("max_in_flight")),
    stored("busy_share", "share", "of the time in which any was at work", _at("busy_share")),
    stored("longest_gap_us", "us", "without any, that ended here; 0: none", _at("longest_gap_us")),
    stored("median_us", "us", "response time", _at("median_us"), null=True),
    stored("p99_us", "us", "response time", _at("p99_us"), null=True),
)


def browse_tables(
    population: Population, ranges: Ranges, places: SitesAndHosts, timeline: BrowseTimelineSection
) -> Mapping[str, pa.Table]:
    """All tables; rows in the order of the sections."""
    return {
        "browse_categories": _category_bins(population, ranges),
        "browse_sites": arrow_table(SITES, places.sites),
        "browse_hosts": arrow_table(HOSTS, places.hosts),
        "browse_errors": arrow_table(ERRORS, places.errors),
        "browse_timeline": _timeline(timeline),
    }


def _category_bins(population: Population, ranges: Ranges) -> pa.Table:
    bins = ranges.bins
    category, place = np.nonzero(bins.categories.n)
    graphs = [population.categories[number].graph for number in category.tolist()]
    return arrow_columns(
        _CATEGORY_COLUMNS,
        category=[graph.key for graph in graphs],
        root=[graph.root for graph in graphs],
        low_ns=bins.edges_ns[place],
        high_ns=bins.edges_ns[place + 1],
        requests=bins.categories.n[category, place],
        weight=bins.categories.weight[category, place],
        failed=bins.categories.failed[category, place],
    )


def _timeline(section: BrowseTimelineSection) -> pa.Table:
    """A row a watched part of the period, of each component at which requests come in."""
    parts = [
        (entry, place)
        for entry in section.entries
        for place in range(len(entry.arrivals))
        if entry.watched[place]
    ]
    return arrow_table(_TIMELINE_COLUMNS, parts)


_NAMED: Final = 3
"""Modes that the first sentence names."""


def analyse(
    population: Population, _history: Population | None, settings: BrowseSettings, limits: ReportLimits
) -> Result:
    """What a period looks like: response times, typical requests, time, places. Of two samples the second,
    with the first's curves beside it."""
    times = path_times(population)
    moments = category_moments(population.categories, len(population.samples))
    ranges = Ranges(population, times, settings)
    shown = ranges_section(population, times, moments, ranges, limits)
    timeline = timeline_section(population, ranges.sample, settings)
    places = SitesAndHosts(population, times, ranges)
    last = places_section(population, places)
    return Result(
        settings=settings,
        verdict=_verdict(shown, last),
        sections=(
            shown,
            schedules_section(population, times, moments, ranges, settings),
            timeline,
            last,
            c2_section(population, moments),
        ),
        tables=browse_tables(population, ranges, places, timeline),
    )


def _verdict(ranges: BrowseRangesSection, places: BrowsePlacesSection) -> Verdict:
    if not ranges.ranges:
        return Verdict(outcome="empty", text="No request.")
    peaks = [one for one in ranges.ranges if one.peak_us is not None]
    if not peaks:
        text = f"All requests take {wording.duration(ranges.ranges[0].mean_us)}."
    elif len(peaks) == 1:
        text = f"Response times have one hump, at {wording.duration(peaks[0].peak_us)}."
    else:
        largest = sorted(peaks, key=lambda one: -one.share)[:_NAMED]
        listed = ", ".join(
            f"{wording.duration(one.peak_us)} ({wording.percent(one.share)})" for one in largest
        )
        which = "" if len(largest) == len(peaks) else ", the largest"
        text = f"Response times have {len(peaks)} humps{which} at {listed}."
    if places.sites:
        top = places.sites[0]
        text += f" Most time is spent at {top.label}, {wording.percent(top.share_of_time)}."
    if places.failed_inside > 0:
        text += f" Something fails in {wording.percent(places.failed_inside)} of the requests."
    return Verdict(outcome="shown", text=text)


METHOD: Final = Method(
    name="browse",
    title="Browsing",
    settings=BrowseSettings,
    samples=SampleCount(1, 2),
    analyse=analyse,
    sections=(RANGES, SCHEDULES, TIMELINE, PLACES, VARIANCE_CURVES),
)
"""Found by the registry."""
