"""Tables of browsing, and the section `browse-variance`.

Sections with files of their own: `ranges`, `schedules`, `timeline`, `places`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa

from analyze.methods.browse.browse_run import BrowseRun
from analyze.stats.moments import HIGH, LARGE, c2_curve
from schemas.report.browse import (
    BrowseTimelineSection,
    BrowseVarianceSection,
    EntryTimeline,
    RootVariance,
)
from schemas.report.columns import arrow_columns, arrow_table, stored

_MOST_ROOTS: Final = 40


def c2_section(run: BrowseRun) -> BrowseVarianceSection:
    """Fill the section: curves of C² (squared coefficient of variation) of all samples, and large categories
    by root type."""
    population, moments, c2 = run.population, run.moments, run.moments.c2
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
    """Function that reads the column `name` of an entry's timeline, at an interval or `after` intervals
    later; its argument is (entry, index of the interval)."""
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


def browse_tables(run: BrowseRun, timeline: BrowseTimelineSection) -> dict[str, pa.Table]:
    """Make the tables of categories by bin, and of the timeline.

    (`places_of` makes the tables of call sites, hosts and errors.)
    """
    return {"browse_categories": _category_bins(run), "browse_timeline": _timeline(timeline)}


def _category_bins(run: BrowseRun) -> pa.Table:
    bins = run.bins
    category, place = np.nonzero(bins.categories.n)
    graphs = [run.population.categories[number].graph for number in category.tolist()]
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
    """Table with one row for each entry component and each observed interval of the period."""
    parts = [
        (entry, place)
        for entry in section.entries
        for place in range(len(entry.arrivals))
        if entry.watched[place]
    ]
    return arrow_table(_TIMELINE_COLUMNS, parts)
