"""Browse a period, `flowdiff browse`: one sample in, what can be looked at out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

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
from schemas.arrays import F8
from schemas.report.browse import (
    BrowsePlacesSection,
    BrowseRangesSection,
    BrowseTimelineSection,
    BrowseVarianceSection,
    RootVariance,
)
from schemas.report.columns import arrow_schema, arrow_table, stored
from schemas.report.report import Verdict

_MOST_ROOTS: Final = 40


def c2_section(population: Population, moments: SampleMoments) -> BrowseVarianceSection:
    """The section."""
    with np.errstate(invalid="ignore", divide="ignore"):
        c2: F8 = moments.variance_us2 / moments.mean_us**2
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
_TIMELINE_COLUMNS: Final = (
    stored("component", "name", "where requests come in"),
    stored("start_ns", "count", "part of the period: from"),
    stored("end_ns", "count", "to, not included"),
    stored("arrivals", "count", "requests that began"),
    stored("failed", "count", "of those, failed"),
    stored("mean_in_flight", "number", "requests at work"),
    stored("max_in_flight", "count", "at any instant"),
    stored("busy_share", "share", "of the time in which any was at work"),
    stored("longest_gap_us", "us", "without any, that ended here; 0: none"),
    stored("median_us", "us", "response time", null=True),
    stored("p99_us", "us", "response time", null=True),
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
    graphs = [one.graph for one in population.categories]
    return pa.table(
        [
            pa.array([graphs[number].key for number in category.tolist()], pa.string()),
            pa.array([graphs[number].root for number in category.tolist()], pa.string()),
            pa.array(bins.edges_ns[place]),
            pa.array(bins.edges_ns[place + 1]),
            pa.array(bins.categories.n[category, place]),
            pa.array(bins.categories.weight[category, place]),
            pa.array(bins.categories.failed[category, place]),
        ],
        schema=arrow_schema(_CATEGORY_COLUMNS),
    )


_BY_TIME = (
    "arrivals",
    "failed",
    "mean_in_flight",
    "max_in_flight",
    "busy_share",
    "longest_gap_us",
    "median_us",
    "p99_us",
)


def _timeline(section: BrowseTimelineSection) -> pa.Table:
    rows = [
        {
            "component": entry.component,
            "start_ns": entry.edges_ns[place],
            "end_ns": entry.edges_ns[place + 1],
            **{name: getattr(entry, name)[place] for name in _BY_TIME},
        }
        for entry in section.entries
        for place in range(len(entry.arrivals))
        if entry.watched[place]
    ]
    return pa.Table.from_pylist(rows, arrow_schema(_TIMELINE_COLUMNS))


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
